"""Export to QCDQ: QuantizeLinear, Clip and DequantizeLinear of standard ONNX.

* Weights and biases are integer constants followed by ``Clip`` (where the format is narrower than its data type) and
  ``DequantizeLinear``.
* Activations are ``QuantizeLinear``, ``Clip``, ``DequantizeLinear``. Rounding other than to nearest is made explicit:
  ``Floor(x / scale + zero_point)`` is quantized at scale 1.
* Dynamic quantization is ``DynamicQuantizeLinear``, ``DequantizeLinear``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import onnx
import torch
from torch import Tensor, nn

from headrace.export.description import Quantizer
from headrace.export.errors import ExportError
from headrace.export.narrow import store_narrow
from headrace.export.preparation import prepare
from headrace.export.tracing import example_arguments, trace
from headrace.export.writing import write

DEFAULT_OPSET = 13
MIN_OPSET = 13

_EXPLICIT_ROUNDING: dict[str, Callable[[Tensor], Tensor]] = {
    "FLOOR": torch.floor,
    "CEIL": torch.ceil,
    "DOWN": lambda x: torch.sign(x) * torch.floor(torch.abs(x)),
}


def standard(op: str, inputs: Sequence[Tensor], dtype: torch.dtype, shape: Any, **attributes: int) -> Tensor:
    """A node of a standard operator with given result."""
    return torch.onnx.ops.symbolic(op, inputs, attrs=dict(attributes), dtype=dtype, shape=shape)


def channel_axis(scale: Tensor) -> int:
    """The dimension along which *scale* varies; 0 for a scalar."""
    return next((i for i, size in enumerate(scale.shape) if size != 1), 0)


class _Dequantized(nn.Module):
    """The part that weights and activations share: ``Clip``, ``DequantizeLinear``."""

    scale: Tensor
    zero_point: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, quantizer: Quantizer) -> None:
        super().__init__()
        self.is_quant_enabled = True
        self.quantized_dtype = quantizer.storage_dtype()
        self.axis = channel_axis(quantizer.scale)
        per_tensor = quantizer.scale.numel() == 1 and quantizer.zero_point.numel() == 1
        shape = () if per_tensor else (max(quantizer.scale.numel(), quantizer.zero_point.numel()),)
        self.register_buffer("scale", quantizer.scale.reshape(-1).expand(shape or (1,)).reshape(shape).clone())
        zero_point = quantizer.zero_point.reshape(-1).expand(shape or (1,)).reshape(shape)
        self.register_buffer("zero_point", torch.round(zero_point).to(self.quantized_dtype))
        low, high = quantizer.range()
        limits = torch.iinfo(self.quantized_dtype)
        self.clips = self.quantized_dtype != torch.int32 and (low > limits.min or high < limits.max)
        if self.clips:
            self.register_buffer("low", torch.tensor(low, dtype=self.quantized_dtype))
            self.register_buffer("high", torch.tensor(high, dtype=self.quantized_dtype))

    def _axis(self) -> dict[str, int]:
        return {"axis": self.axis} if self.scale.dim() else {}

    def clipped(self, q: Tensor) -> Tensor:
        """*q* within the integer range."""
        return standard("Clip", [q, self.low, self.high], q.dtype, q.shape) if self.clips else q

    def dequantized(self, q: Tensor) -> Tensor:
        """The real values of *q*."""
        inputs = [q, self.scale] if self.quantized_dtype == torch.int32 else [q, self.scale, self.zero_point]
        return standard("DequantizeLinear", inputs, torch.float32, q.shape, **self._axis())


class _QcdqParameter(_Dequantized):
    """A weight or bias, stored as integers."""

    def forward(self, x: Tensor, input: Any = None, weight: Any = None) -> Tensor:
        return self.dequantized(self.clipped(x))


class QcdqActivation(_Dequantized):
    """An activation."""

    def __init__(self, quantizer: Quantizer) -> None:
        super().__init__(quantizer)
        self.activation = quantizer.activation or nn.Identity()
        self.rounding = _EXPLICIT_ROUNDING.get(quantizer.rounding)
        if self.rounding is not None:
            shape = quantizer.scale.shape
            self.register_buffer("divisor", quantizer.scale.reshape(shape))
            self.register_buffer("offset", quantizer.zero_point)
            self.register_buffer("one", torch.tensor(1.0))
            self.register_buffer("no_offset", torch.tensor(0, dtype=self.quantized_dtype))

    def quantized(self, x: Tensor) -> Tensor:
        """Integers, clipped."""
        if self.rounding is None:
            inputs = [x, self.scale, self.zero_point]
            q = standard("QuantizeLinear", inputs, self.quantized_dtype, x.shape, **self._axis())
        else:
            shifted = self.rounding(x / self.divisor + self.offset)  # type: ignore[operator]
            inputs = [shifted, self.one, self.no_offset]  # type: ignore[list-item]
            q = standard("QuantizeLinear", inputs, self.quantized_dtype, x.shape)
        return self.clipped(q)

    def forward(self, x: Tensor, input: Any = None, weight: Any = None) -> Tensor:
        return self.dequantized(self.quantized(self.activation(x)))


class _DynamicActivation(nn.Module):
    """``DynamicQuantizeLinear``, ``DequantizeLinear``."""

    def __init__(self, quantizer: Quantizer) -> None:
        super().__init__()
        self.is_quant_enabled = True
        self.activation = quantizer.activation or nn.Identity()

    def forward(self, x: Tensor, input: Any = None, weight: Any = None) -> Tensor:
        y = self.activation(x)
        q, scale, zero_point = torch.onnx.ops.symbolic_multi_out(
            "DynamicQuantizeLinear",
            (y,),
            attrs={},
            dtypes=(torch.uint8, torch.float32, torch.uint8),
            shapes=(y.shape, (), ()),
        )
        return standard("DequantizeLinear", [q, scale, zero_point], torch.float32, y.shape)


def make_activation(quantizer: Quantizer, flavour: str) -> nn.Module:
    """The module for an activation quantizer.

    Raises:
        ExportError: binary, ternary with a threshold, or more than 8 bits.
    """
    if quantizer.kind in ("binary", "ternary"):
        raise ExportError(f"{quantizer.name}: {quantizer.kind} activations have no {flavour} equivalent; use QONNX")
    if quantizer.bit_width > 8:
        raise ExportError(
            f"{quantizer.name}: {quantizer.bit_width}-bit activations have no {flavour} equivalent (at most 8 bits)"
        )
    return QcdqActivation(quantizer)


def make_qcdq(quantizer: Quantizer) -> nn.Module:
    """The module for any quantizer."""
    if quantizer.kind == "dynamic":
        return _make_dynamic(quantizer)
    return make_activation(quantizer, "QCDQ") if quantizer.role == "act" else _QcdqParameter(quantizer)


def _make_dynamic(quantizer: Quantizer) -> nn.Module:
    expected = (8, False, False, "ROUND", 1)
    found = (quantizer.bit_width, quantizer.signed, quantizer.narrow, quantizer.rounding, quantizer.scale.numel())
    if found != expected:
        raise ExportError(
            f"{quantizer.name}: DynamicQuantizeLinear is 8-bit unsigned, per tensor, rounding to nearest; use "
            "ShiftedUint8DynamicActPerTensorFloat as it is"
        )
    return _DynamicActivation(quantizer)


def export_onnx_qcdq(
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
    """Export *module* to standard ONNX with QuantizeLinear, Clip and DequantizeLinear.

    Args and errors as for :func:`headrace.export.export_qonnx`; *opset_version* is at least 13, and activations have
    at most 8 bits. Weights that fit are stored in four bits from opset 21 on, in two from opset 25 on, else in eight.

    Returns:
        The model as written.
    """
    check_opset(opset_version)
    example = example_arguments(args, input_t, input_shape)
    prepared = prepare(module, example, make_qcdq, "QCDQ", integer_parameters=True)
    model = trace(prepared, example, opset_version, input_names, output_names, dynamic_batch)
    store_narrow(model, opset_version)
    write(model, export_path, external_data)
    return model


def check_opset(opset_version: int) -> None:
    """Raise for an opset that has no per-channel QuantizeLinear."""
    if opset_version < MIN_OPSET:
        raise ExportError(f"opset_version={opset_version}: quantized ONNX needs 13 or above")
