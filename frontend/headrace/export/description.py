"""What an exporter needs to know of a quantizer, read off the quantizer and what it returned on example inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headrace.core.float_quant import FloatFormat
from headrace.core.functional import integer_range
from headrace.core.quant import (
    BinaryQuant,
    PrescaledRestrictIntQuantWithInputBitWidth,
    RescalingIntQuant,
    TernaryQuant,
    TruncIntQuant,
)
from headrace.export.errors import ExportError
from headrace.export.recording import Recording
from headrace.nn.elementwise import STANDARD
from headrace.proxy import (
    ActQuantProxyFromInjector,
    BiasQuantProxyFromInjector,
    DynamicActQuantProxyFromInjector,
    GroupwiseActQuantProxyFromInjector,
    WeightQuantProxyFromInjector,
)
from headrace.proxy.quant_proxy import QuantProxyFromInjector
from headrace.quant_tensor import FloatQuantTensor, IntQuantTensor


@dataclass(frozen=True)
class Quantizer:
    """What an exporter needs to know of a quantizer.

    Args:
        name: path of the quantizer in the model.
        role: ``"weight"``, ``"bias"`` or ``"act"``.
        kind: ``"int"``, ``"binary"``, ``"ternary"``, ``"dynamic"``, ``"trunc"`` or ``"float"``.
        scale, zero_point: constants, broadcastable to the quantized tensor.
        bit_width: number of bits.
        signed, narrow: integer format.
        rounding: QONNX rounding mode.
        threshold: ternary only, relative to the scale.
        activation: module to run first, or ``None``.
        truncated: what a ``"trunc"`` quantizer gets.
        minifloat: format of a ``"float"`` quantizer.
    """

    name: str
    role: str
    kind: str
    scale: Tensor
    zero_point: Tensor
    bit_width: int
    signed: bool
    narrow: bool
    rounding: str
    threshold: float = 0.0
    activation: nn.Module | None = None
    truncated: IntQuantTensor | None = None
    minifloat: FloatFormat | None = None

    def range(self) -> tuple[int, int]:
        """Smallest and largest integer."""
        if self.kind == "binary":
            return -1, 1
        return integer_range(self.bit_width, self.signed, self.narrow)

    def storage_dtype(self) -> torch.dtype:
        """The smallest data type of ONNX's DequantizeLinear that holds the integers."""
        if self.bit_width > 8:
            return torch.int32
        return torch.int8 if self.signed else torch.uint8


def describe(proxy: QuantProxyFromInjector, name: str, recording: Recording, flavour: str) -> Quantizer | None:
    """What *proxy* does, ``None`` if it does not quantize."""
    activation, tensor_quant, role = anatomy(proxy)
    seen = recording.quantized.get(proxy)
    if seen is None or tensor_quant is None or not proxy.is_quant_enabled:
        return None
    quantizer = Quantizer(
        name=name,
        role=role,
        **_integer_format(tensor_quant, proxy, seen, name, role, flavour),
        scale=seen.scale.detach().clone().to(torch.float32),
        zero_point=seen.zero_point.detach().clone().to(torch.float32),
        activation=activation,
        truncated=recording.inputs.get(proxy),
        minifloat=seen.format if isinstance(seen, FloatQuantTensor) else None,
    )
    scale = quantizer.scale
    if not bool(torch.isfinite(scale).all()) or bool((scale <= 0).any()):
        raise ExportError(f"{name}: its scale must be positive and finite, got {scale.flatten()[:4].tolist()}")
    if role != "act" and isinstance(seen, IntQuantTensor):
        _check_reproduced(quantizer, seen)
    return quantizer


def anatomy(proxy: QuantProxyFromInjector) -> tuple[nn.Module | None, Any, str]:
    """Activation, tensor quantizer and role of *proxy*."""
    if isinstance(proxy, ActQuantProxyFromInjector):
        fused = proxy.fused_activation_quant_proxy
        if fused is None:
            return None, None, "act"
        activation = fused.activation_impl
        standard = STANDARD.get(type(activation))
        return activation if standard is None else standard(activation), fused.tensor_quant, "act"
    if isinstance(proxy, WeightQuantProxyFromInjector):
        return None, proxy.tensor_quant, "weight"
    if isinstance(proxy, BiasQuantProxyFromInjector):
        return None, proxy.tensor_quant, "bias"
    return None, proxy.tensor_quant, "act"


def _integer_format(
    tensor_quant: Any,
    proxy: QuantProxyFromInjector,
    seen: IntQuantTensor | FloatQuantTensor,
    name: str,
    role: str,
    flavour: str,
) -> dict[str, Any]:
    if isinstance(seen, FloatQuantTensor):
        if isinstance(proxy, DynamicActQuantProxyFromInjector):
            raise ExportError(f"{name}: {flavour} has no minifloat quantizer whose scale depends on the input")
        return _minifloat(tensor_quant, seen.format, name, flavour)
    bits = float(seen.bit_width)
    common = {"bit_width": round(bits), "signed": seen.signed, "narrow": bool(proxy.is_narrow_range)}
    if isinstance(proxy, GroupwiseActQuantProxyFromInjector):
        raise ExportError(f"{name}: {flavour} has no operator with a scale for every group of each input")
    if isinstance(proxy, DynamicActQuantProxyFromInjector):
        if flavour != "QCDQ":
            raise ExportError(f"{name}: {flavour} is a static format, it cannot hold a dynamic quantizer; use QCDQ")
        return {**common, "kind": "dynamic", "rounding": proxy.rounding_mode or ""}
    if isinstance(tensor_quant, BinaryQuant):
        return {**common, "kind": "binary", "rounding": "ROUND"}
    if isinstance(tensor_quant, TernaryQuant):
        threshold = float(tensor_quant.threshold)
        return {
            **common,
            "kind": "ternary",
            "narrow": True,
            "signed": True,
            "rounding": "ROUND",
            "threshold": threshold,
        }
    if isinstance(tensor_quant, PrescaledRestrictIntQuantWithInputBitWidth):
        return {**common, "kind": "int", "rounding": "ROUND"}
    if isinstance(tensor_quant, TruncIntQuant):
        return {**common, "kind": "trunc", "rounding": _trunc_rounding(tensor_quant, seen, name, flavour)}
    if role != "act":  # already quantized: any rounding keeps it
        return {**common, "kind": "int", "rounding": "ROUND"}
    if not isinstance(tensor_quant, RescalingIntQuant) or proxy.rounding_mode is None:
        rounding = getattr(getattr(tensor_quant, "int_quant", None), "float_to_int_impl", tensor_quant)
        raise ExportError(f"{name}: {type(rounding).__name__} has no {flavour} equivalent")
    return {**common, "kind": "int", "rounding": proxy.rounding_mode}


def _minifloat(tensor_quant: Any, float_format: FloatFormat, name: str, flavour: str) -> dict[str, Any]:
    """The fields of a quantizer to a minifloat.

    Raises:
        ExportError: a format without minifloats, or a rounding that FloatQuant does not have.
    """
    if flavour != "QONNX":
        raise ExportError(f"{name}: {flavour} has no minifloat quantizer; use QONNX (FloatQuant)")
    rounding = getattr(type(tensor_quant.float_to_int_impl), "qonnx_mode", None)
    if rounding is None:
        raise ExportError(f"{name}: {type(tensor_quant.float_to_int_impl).__name__} has no QONNX equivalent")
    if not float_format.signed:
        raise ExportError(f"{name}: QONNX's FloatQuant is signed")
    bits = float_format.bit_width
    return {"kind": "float", "bit_width": bits, "signed": True, "narrow": False, "rounding": str(rounding)}


def _trunc_rounding(tensor_quant: TruncIntQuant, seen: IntQuantTensor, name: str, flavour: str) -> str:
    """The rounding of a truncation.

    Raises:
        ExportError: a format without Trunc, a rounding that Trunc does not have, or a zero point.
    """
    if flavour != "QONNX":
        raise ExportError(f"{name}: {flavour} has no operator that truncates integers (Trunc); use QONNX")
    rounding = getattr(type(tensor_quant.float_to_int_impl), "qonnx_mode", None)
    if rounding is None:
        raise ExportError(f"{name}: {type(tensor_quant.float_to_int_impl).__name__} has no QONNX equivalent")
    if bool((seen.zero_point != 0).any()):
        raise ExportError(f"{name}: it truncates integers with a zero point, which Trunc does not shift exactly")
    return str(rounding)


def _check_reproduced(quantizer: Quantizer, seen: IntQuantTensor) -> None:
    """Quantizing the exported value again must give the value itself."""
    value, scale, zero_point = seen.value.detach(), quantizer.scale, quantizer.zero_point
    if quantizer.kind == "binary":
        again = torch.where(value >= 0, 1.0, -1.0) * scale
    else:
        half = 2.0 ** (quantizer.bit_width - 1)
        high = half - 1 if quantizer.signed else 2 * half - 1 - quantizer.narrow
        low = (1 - half if quantizer.narrow else -half) if quantizer.signed else 0.0
        again = (torch.round(value / scale + zero_point).clamp(low, high) - zero_point) * scale
    if not torch.equal(again, value):
        raise ExportError(
            f"{quantizer.name}: its values are not {quantizer.bit_width}-bit integers at the scale it reports"
        )


__all__ = ["Quantizer", "anatomy", "describe"]
