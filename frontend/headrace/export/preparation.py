"""From a model to an export copy: quantizers become constants, weights become their quantized values.

The copy is run once on the example input, which tells the scale, zero point and bit width of every quantizer
(including those that depend on a layer's input, as bias scales do). Then every quantizer is replaced by a module that
emits the operators of the format; the rest of the model stays as it is.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from headrace.core.float_quant import FloatFormat
from headrace.core.functional import integer_range
from headrace.core.quant import BinaryQuant, RescalingIntQuant, TernaryQuant, TruncIntQuant
from headrace.core.scaling import ParameterFromRuntimeStatsScaling
from headrace.export.errors import ExportError
from headrace.nn import exact
from headrace.nn.elementwise import STANDARD
from headrace.nn.finalize import CanonicalArithmetic, Finalized
from headrace.nn.quant_embedding import QuantEmbedding
from headrace.nn.quant_layer import QuantLayer, QuantWeightBiasInputOutputLayer
from headrace.nn.recurrent_cells import GateParams, GateWeight
from headrace.proxy import (
    ActQuantProxyFromInjector,
    BiasQuantProxyFromInjector,
    DynamicActQuantProxyFromInjector,
    TruncQuantProxyFromInjector,
    WeightQuantProxyFromInjector,
)
from headrace.proxy.quant_proxy import QuantProxyFromInjector
from headrace.quant_tensor import FloatQuantTensor, IntQuantTensor

_MODE_DEPENDENT = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)


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


def check_ready(model: nn.Module) -> None:
    """Raise if *model* would compute something else in evaluation than it does now.

    A layer in training mode is no problem by itself (a fresh quantized layer exports as it is); one whose result
    depends on the mode is.

    Raises:
        ExportError: naming the module.
    """
    for name, module in model.named_modules():
        collecting = isinstance(module, ParameterFromRuntimeStatsScaling) and module.is_initialized
        if module.training and (isinstance(module, _MODE_DEPENDENT) or (collecting and module.is_collecting)):
            raise ExportError(
                f"{name or 'the model'} ({type(module).__name__}) is in training mode, where it computes something "
                "else than it would after export: call model.eval() first"
            )


def _proxies(model: nn.Module) -> Iterator[tuple[str, QuantProxyFromInjector]]:
    for name, module in model.named_modules():
        if isinstance(module, QuantProxyFromInjector):
            yield name, module


@dataclass
class _Recording:
    """What quantizers returned, and what layers and truncating quantizers got, when the model ran on the example."""

    quantized: dict[nn.Module, IntQuantTensor | FloatQuantTensor]
    inputs: dict[nn.Module, IntQuantTensor | None]
    parameters: dict[int, IntQuantTensor | FloatQuantTensor]
    """By the identity of the parameter, as several may share a quantizer."""


def _record(model: nn.Module, args: tuple[Any, ...]) -> _Recording:
    """Run *model* on *args* and note the last quant tensor of each quantizer and the input of each layer."""
    recording = _Recording({}, {}, {})
    names = {proxy: name for name, proxy in _proxies(model)}
    layers = [m for m in model.modules() if isinstance(m, QuantWeightBiasInputOutputLayer)]

    def remember(proxy: nn.Module, inputs: Any, out: Any) -> None:
        if not isinstance(out, IntQuantTensor | FloatQuantTensor):
            return
        before = recording.quantized.get(proxy)
        dynamic = isinstance(proxy, DynamicActQuantProxyFromInjector)
        if before is not None and not dynamic and not torch.equal(before.scale, out.scale):
            name = names[proxy]  # type: ignore[index]
            raise ExportError(f"{name}: its scale depends on the input, which this format cannot express")
        recording.quantized[proxy] = out
        if isinstance(inputs[0], nn.Parameter):
            recording.parameters[id(inputs[0])] = out
        if isinstance(proxy, TruncQuantProxyFromInjector):
            recording.inputs[proxy] = inputs[0]

    def remember_input(layer: nn.Module, inputs: Any) -> None:
        recording.inputs[layer] = exact.quantized(inputs[0])

    handles = [proxy.register_forward_hook(remember) for proxy in names]
    handles += [layer.register_forward_pre_hook(remember_input) for layer in layers]
    try:
        with torch.inference_mode(False), torch.no_grad(), CanonicalArithmetic():
            model(*args)
    finally:
        for handle in handles:
            handle.remove()
    return recording


class _NoCache:
    """Stands in for the weight cache of a layer that is being traced."""

    @staticmethod
    def weight(layer: Any) -> Tensor:
        out: Tensor = layer.weight_quant(layer.weight)
        return out


@dataclass(frozen=True)
class LayerPlan:
    """A layer whose input and weight are quantized, for formats that have integer operators.

    Args:
        name: path of the layer.
        layer: the layer, with integer weight and (if quantized) bias.
        input, weight, bias, output: the quantizers; *input* is the one that the values come from, wherever it is;
            *bias* and *output* are ``None`` where nothing is quantized.
        quantizes_input: whether the layer itself quantizes its input.
    """

    name: str
    layer: Any
    input: Quantizer
    weight: Quantizer
    bias: Quantizer | None
    output: Quantizer | None
    quantizes_input: bool


def prepare(
    model: nn.Module,
    args: tuple[Any, ...],
    make: Callable[[Quantizer], nn.Module],
    flavour: str,
    integer_parameters: bool = False,
    make_layer: Callable[[LayerPlan], nn.Module] | None = None,
) -> nn.Module:
    """A copy of *model* in evaluation mode with every quantizer replaced by ``make(quantizer)``.

    Args:
        model: stays as it is.
        args: example inputs.
        make: builds the module that emits the operators of the format.
        flavour: name of the format, for messages.
        integer_parameters: weights and biases become their integers instead of their quantized values.
        make_layer: builds the module for a layer with quantized input and weight, instead of its quantizers.

    Raises:
        ExportError: see :func:`check_ready`; or a quantizer that the format cannot express.
    """
    check_ready(model)
    source = model.model if isinstance(model, Finalized) else model
    prepared = copy.deepcopy(source).eval()
    _warn_uncollected(prepared)
    recording = _record(prepared, args)
    quantizers = {proxy: _describe(proxy, name, recording, flavour) for name, proxy in _proxies(prepared)}
    replaced: dict[nn.Module, nn.Module] = {}
    for name, module in prepared.named_modules():
        if isinstance(module, QuantLayer):
            module.return_quant_tensor = False
        if isinstance(module, QuantWeightBiasInputOutputLayer | QuantEmbedding | GateWeight | GateParams):
            _freeze_parameters(module, recording, integer_parameters)
            module._weight_cache = _NoCache()  # type: ignore[assignment]
        if type(module) in STANDARD:
            replaced[module] = STANDARD[type(module)](module)
        if isinstance(module, QuantWeightBiasInputOutputLayer):
            plan = _plan(name, module, quantizers, recording) if make_layer else None
            if plan is not None and make_layer is not None:
                replaced[module] = make_layer(plan)
    for proxy, quantizer in quantizers.items():
        replaced[proxy] = PassThrough(_anatomy(proxy)[0]) if quantizer is None else make(quantizer)
    for module in list(prepared.modules()):
        for child_name, child in list(module._modules.items()):  # a child may have several names
            if child in replaced:
                setattr(module, child_name, replaced[child])
    prepared = replaced.get(prepared, prepared)
    for parameter in prepared.parameters():
        parameter.requires_grad_(False)
    return prepared.eval()


def _plan(
    name: str, layer: Any, quantizers: dict[QuantProxyFromInjector, Quantizer | None], recording: _Recording
) -> LayerPlan | None:
    own_input = quantizers[layer.input_quant]
    weight = quantizers[layer.weight_quant]
    incoming = recording.inputs.get(layer)
    if weight is None or (own_input is None and incoming is None):
        return None
    if own_input is None and incoming is not None:
        own_input = Quantizer(
            name=f"{name}.input" if name else "input",
            role="act",
            kind="int",
            scale=incoming.scale.detach().clone(),
            zero_point=incoming.zero_point.detach().clone(),
            bit_width=round(float(incoming.bit_width)),
            signed=incoming.signed,
            narrow=False,
            rounding="ROUND",
        )
        quantizes_input = False
    else:
        quantizes_input = True
    bias, output = quantizers[layer.bias_quant], quantizers[layer.output_quant]
    return LayerPlan(
        name or type(layer).__name__, layer, cast(Quantizer, own_input), weight, bias, output, quantizes_input
    )


def _warn_uncollected(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if isinstance(module, ParameterFromRuntimeStatsScaling) and not module.is_initialized:
            warnings.warn(
                f"{name} has collected no statistics: its initial scale is exported. Run the model in training mode "
                "or calibrate it first",
                stacklevel=4,
            )


def _freeze_parameters(layer: Any, recording: _Recording, integers: bool) -> None:
    """Weight and bias as quantized, so that quantizing them again gives the same integers whatever the rounding."""
    for name in ("weight", "bias"):
        quantized = recording.parameters.get(id(layer._parameters.get(name)))
        if quantized is not None:
            frozen = quantized.value.detach().clone()
            if integers and isinstance(quantized, IntQuantTensor):
                n = torch.round(frozen.double() / quantized.scale.double() + quantized.zero_point.double())
                dtype = (
                    torch.int32 if float(quantized.bit_width) > 8 else torch.int8 if quantized.signed else torch.uint8
                )
                frozen = n.to(dtype)
            layer._parameters[name] = nn.Parameter(frozen, requires_grad=False)


def _describe(proxy: QuantProxyFromInjector, name: str, recording: _Recording, flavour: str) -> Quantizer | None:
    """What *proxy* does, ``None`` if it does not quantize."""
    activation, tensor_quant, role = _anatomy(proxy)
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


def _anatomy(proxy: QuantProxyFromInjector) -> tuple[nn.Module | None, Any, str]:
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
        return _minifloat(tensor_quant, seen.format, name, flavour)
    bits = float(seen.bit_width)
    common = {"bit_width": round(bits), "signed": seen.signed, "narrow": bool(proxy.is_narrow_range)}
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


class PassThrough(nn.Module):
    """Stands where nothing is quantized; takes what a quantizer takes."""

    def __init__(self, activation: nn.Module | None = None) -> None:
        super().__init__()
        self.activation = activation or nn.Identity()

    @property
    def is_quant_enabled(self) -> bool:
        """As quantizers have it."""
        return False

    def forward(self, x: Tensor, input: Any = None, weight: Any = None) -> Tensor:
        out: Tensor = self.activation(x)
        return out


__all__ = ["PassThrough", "Quantizer", "check_ready", "prepare"]
