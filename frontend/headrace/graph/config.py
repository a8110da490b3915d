"""What post-training quantization shall make of a float model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.inject import ExtendedInjector
from headrace.inject.errors import QuantizerTypeError, QuantizerValueError
from headrace.quant import (
    Int8ActPerTensorFloat,
    Int8WeightPerChannelFloat,
    Int8WeightPerTensorFloat,
    IntBias,
    Uint8ActPerTensorFloat,
    Uint8ActPerTensorFloatMaxInit,
)

MAX_BITS = 32


@dataclass(frozen=True, kw_only=True)
class QuantizeConfig:
    """Bit widths and granularity for :func:`quantize` and :func:`quantize_`.

    Args:
        weight_bit_width: bits of weights.
        act_bit_width: bits of activations; ``None`` leaves them in floating point.
        input_bit_width: bits of the inputs of the model; ``None`` for *act_bit_width*.
        bias_bit_width: bits of biases, at the scale of the accumulator; ``None`` leaves them in floating point.
        weight_per_channel: a scale an output channel instead of one for all.
        equalize_iterations: passes of cross-layer equalization in :func:`quantize`; 0 for none.

    Raises:
        QuantizerTypeError: a bit width that is no integer.
        QuantizerValueError: a bit width out of range, or a quantized bias without quantized activations.
    """

    weight_bit_width: int = 8
    act_bit_width: int | None = 8
    input_bit_width: int | None = None
    bias_bit_width: int | None = None
    weight_per_channel: bool = True
    equalize_iterations: int = 10

    def __post_init__(self) -> None:
        for name, least in (
            ("weight_bit_width", 2),
            ("act_bit_width", 1),
            ("input_bit_width", 1),
            ("bias_bit_width", 2),
        ):
            given = getattr(self, name)
            if given is None and name != "weight_bit_width":
                continue
            if not isinstance(given, int) or isinstance(given, bool):
                raise QuantizerTypeError(f"{name} must be an integer, got {given!r}")
            if not least <= given <= MAX_BITS:
                raise QuantizerValueError(f"{name} must be from {least} to {MAX_BITS}, got {given}")
        if self.bias_bit_width is not None and self.act_bit_width is None:
            raise QuantizerValueError("bias_bit_width needs quantized activations: give act_bit_width as well")
        if self.equalize_iterations < 0:
            raise QuantizerValueError(f"equalize_iterations must be at least 0, got {self.equalize_iterations}")

    def layer_options(self, has_bias: bool) -> dict[str, Any]:
        """Keyword arguments of a layer with weights."""
        quantizer = Int8WeightPerChannelFloat if self.weight_per_channel else Int8WeightPerTensorFloat
        options: dict[str, Any] = {"weight_quant": quantizer, "weight_bit_width": self.weight_bit_width}
        if self.bias_bit_width is not None and has_bias:
            options |= {"bias_quant": IntBias, "bias_bit_width": self.bias_bit_width}
        return options

    def input_options(self) -> dict[str, Any]:
        """Keyword arguments of a layer that quantizes its own input."""
        if self.act_bit_width is None:
            return {}
        return {"input_quant": Int8ActPerTensorFloat, "input_bit_width": self.act_bit_width}

    @property
    def unsigned(self) -> type[ExtendedInjector]:
        """Quantizer of activations that are never negative."""
        return Uint8ActPerTensorFloat

    def relu_options(self, largest: float | None) -> dict[str, Any]:
        """Keyword arguments of a quantized ReLU; *largest* for one that saturates (ReLU6)."""
        if largest is None:
            return {"act_quant": Uint8ActPerTensorFloat, "bit_width": self.act_bit_width}
        return {"act_quant": Uint8ActPerTensorFloatMaxInit, "bit_width": self.act_bit_width, "max_val": largest}


__all__ = ["QuantizeConfig"]
