"""Export to QONNX: standard ONNX operators plus ``Quant``, ``BipolarQuant`` and ``Trunc`` of its own domain.

* An integer quantizer is one ``Quant`` node; a binary one is one ``BipolarQuant`` node.
* A ternary quantizer with a threshold ``t`` has no node of its own. With ``T = fl32(t * scale)`` and ``T+`` the next
  float after it, it is ``(BipolarQuant(x - T+) + BipolarQuant(x + T)) * scale`` where both scales are 1/2: the first is
  +1/2 exactly where ``x > T``, the second is -1/2 exactly where ``x < -T``.
* A truncation is one ``Trunc`` node of version 2 (input scale and bit width, output scale and bit width).
* A minifloat quantizer is one ``FloatQuant`` node.
* Weights and biases are written as their quantized values, on which ``Quant`` with ``ROUND`` is the identity, whatever
  rounding made them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import onnx
import torch
from torch import Tensor, nn

from headrace.core.float_quant import FloatFormat
from headrace.export.description import Quantizer
from headrace.export.preparation import prepare
from headrace.export.tracing import example_arguments, trace
from headrace.export.writing import write
from headrace.quant_tensor import IntQuantTensor

DOMAIN = "qonnx.custom_op.general"
DEFAULT_OPSET = 18


def _symbolic(op: str, inputs: Sequence[Tensor], attributes: dict[str, Any], version: int = 1) -> Tensor:
    x = inputs[0]
    name = f"{DOMAIN}::{op}"
    return torch.onnx.ops.symbolic(name, inputs, attrs=attributes, dtype=x.dtype, shape=x.shape, version=version)


class _QonnxQuant(nn.Module):
    """``Quant``."""

    def __init__(self, quantizer: Quantizer) -> None:
        super().__init__()
        self.activation = quantizer.activation or nn.Identity()
        self.register_buffer("scale", quantizer.scale)
        self.register_buffer("zero_point", quantizer.zero_point)
        self.register_buffer("bit_width", torch.tensor(float(quantizer.bit_width)))
        self.attributes = {
            "signed": int(quantizer.signed),
            "narrow": int(quantizer.narrow),
            "rounding_mode": quantizer.rounding,
        }
        self.is_quant_enabled = True

    def forward(self, x: Tensor, input: Any = None, weight: Any = None) -> Tensor:
        inputs = [self.activation(x), self.scale, self.zero_point, self.bit_width]
        return _symbolic("Quant", inputs, self.attributes)


class _QonnxBipolarQuant(nn.Module):
    """``BipolarQuant``."""

    scale: Tensor

    def __init__(self, quantizer: Quantizer) -> None:
        super().__init__()
        self.activation = quantizer.activation or nn.Identity()
        self.register_buffer("scale", quantizer.scale)
        self.is_quant_enabled = True

    def forward(self, x: Tensor, input: Any = None, weight: Any = None) -> Tensor:
        return _symbolic("BipolarQuant", [self.activation(x), self.scale], {})


class _QonnxTernaryQuant(nn.Module):
    """The ternary expression of the module's documentation."""

    scale: Tensor
    above: Tensor
    below: Tensor
    unit: Tensor

    def __init__(self, quantizer: Quantizer) -> None:
        super().__init__()
        self.activation = quantizer.activation or nn.Identity()
        threshold = quantizer.threshold * quantizer.scale
        self.register_buffer("scale", quantizer.scale)
        self.register_buffer("above", torch.nextafter(threshold, torch.tensor(float("inf"))))
        self.register_buffer("below", threshold)
        self.register_buffer("unit", torch.tensor(0.5))
        self.is_quant_enabled = True

    def forward(self, x: Tensor, input: Any = None, weight: Any = None) -> Tensor:
        y: Tensor = self.activation(x)
        positive = _symbolic("BipolarQuant", [y - self.above, self.unit], {})
        negative = _symbolic("BipolarQuant", [y + self.below, self.unit], {})
        return (positive + negative) * self.scale


class _QonnxTrunc(nn.Module):
    """``Trunc`` in its second version, which scales and clamps its result."""

    scale: Tensor
    zero_point: Tensor
    input_bit_width: Tensor
    output_scale: Tensor
    output_bit_width: Tensor

    def __init__(self, quantizer: Quantizer, source: IntQuantTensor) -> None:
        super().__init__()
        self.register_buffer("scale", source.scale.detach().to(torch.float32))
        self.register_buffer("zero_point", quantizer.zero_point)
        self.register_buffer("input_bit_width", source.bit_width.detach().to(torch.float32))
        self.register_buffer("output_scale", quantizer.scale)
        self.register_buffer("output_bit_width", torch.tensor(float(quantizer.bit_width)))
        self.attributes = {
            "rounding_mode": quantizer.rounding,
            "narrow": int(quantizer.narrow),
            "signed": int(quantizer.signed),
        }

    def forward(self, x: Tensor) -> Tensor:
        inputs = [x, self.scale, self.zero_point, self.input_bit_width, self.output_scale, self.output_bit_width]
        return _symbolic("Trunc", inputs, self.attributes, version=2)


class _QonnxFloatQuant(nn.Module):
    """``FloatQuant``."""

    scale: Tensor
    exponent_bit_width: Tensor
    mantissa_bit_width: Tensor
    exponent_bias: Tensor
    max_val: Tensor

    def __init__(self, quantizer: Quantizer, minifloat: FloatFormat) -> None:
        super().__init__()
        self.activation = quantizer.activation or nn.Identity()
        self.register_buffer("scale", quantizer.scale)
        self.register_buffer("exponent_bit_width", torch.tensor(float(minifloat.exponent_bit_width)))
        self.register_buffer("mantissa_bit_width", torch.tensor(float(minifloat.mantissa_bit_width)))
        self.register_buffer("exponent_bias", torch.tensor(float(minifloat.exponent_bias)))
        self.register_buffer("max_val", torch.tensor(minifloat.largest))
        self.attributes = {
            "has_inf": int(minifloat.inf_values is not None),
            "has_nan": int(minifloat.nan_values is not None),
            "has_subnormal": 1,
            "saturation": int(minifloat.saturating),
            "rounding_mode": quantizer.rounding,
        }
        self.is_quant_enabled = True

    def forward(self, x: Tensor, input: Any = None, weight: Any = None) -> Tensor:
        inputs = [self.activation(x), self.scale, self.exponent_bit_width, self.mantissa_bit_width]
        return _symbolic("FloatQuant", [*inputs, self.exponent_bias, self.max_val], self.attributes)


def _make(quantizer: Quantizer) -> nn.Module:
    if quantizer.minifloat is not None:
        return _QonnxFloatQuant(quantizer, quantizer.minifloat)
    if quantizer.truncated is not None:
        return _QonnxTrunc(quantizer, quantizer.truncated)
    if quantizer.kind == "binary":
        return _QonnxBipolarQuant(quantizer)
    if quantizer.kind == "ternary" and quantizer.role == "act":
        return _QonnxTernaryQuant(quantizer)
    return _QonnxQuant(quantizer)


def export_qonnx(
    module: nn.Module,
    args: Any = None,
    export_path: str | os.PathLike[str] | None = None,
    input_shape: tuple[int, ...] | None = None,
    input_t: Any = None,
    *,
    opset_version: int = DEFAULT_OPSET,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_batch: bool = False,
    external_data: bool = False,
) -> onnx.ModelProto:
    """Export *module* to QONNX.

    Args:
        module: a model in evaluation mode (or :func:`headrace.finalize` of one); it is not changed.
        args: an example input tensor, or a tuple of them.
        export_path: where to write the file; ``None`` writes none.
        input_shape: shape of a random example input, instead of *args*.
        input_t: the same as *args*.
        opset_version: version of the standard ONNX operators.
        input_names, output_names: names in the file; by default those of the arguments of ``forward``, and
            ``output``.
        dynamic_batch: make dimension 0 of all inputs symbolic (``batch``) where the model allows it. Off by default,
            as the executor and the clean-up passes of the qonnx package need the batch size of the example.
        external_data: write weights to a second file ``<name>.data`` (needed above 2 GB).

    Returns:
        The model as written.

    Raises:
        ExportError: a module whose result depends on training mode is in training mode; a quantizer that QONNX
            cannot express; an operation that torch cannot export.
    """
    example = example_arguments(args, input_t, input_shape)
    prepared = prepare(module, example, _make, "QONNX")
    model = trace(prepared, example, opset_version, input_names, output_names, dynamic_batch)
    write(model, export_path, external_data)
    return model
