"""From a model to an export copy: quantizers become constants, weights become their quantized values.

The copy is run once on the example input, which tells the scale, zero point and bit width of every quantizer
(including those that depend on a layer's input, as bias scales do). Then every quantizer is replaced by a module that
emits the operators of the format; the rest of the model stays as it is.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from headrace.core.scaling import ParameterFromRuntimeStatsScaling
from headrace.export.description import Quantizer, anatomy, describe
from headrace.export.errors import ExportError
from headrace.export.recording import Recording, proxies, record
from headrace.nn.elementwise import STANDARD
from headrace.nn.finalize import Finalized
from headrace.nn.quant_embedding import QuantEmbedding
from headrace.nn.quant_layer import QuantLayer, QuantWeightBiasInputOutputLayer
from headrace.nn.recurrent_cells import GateParams, GateWeight
from headrace.proxy.quant_proxy import QuantProxyFromInjector
from headrace.quant_tensor import IntQuantTensor

_MODE_DEPENDENT = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)


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


class _NoCache:
    """Stands in for the weight cache of a layer that is being traced."""

    @staticmethod
    def weight(layer: Any, input: Any = None) -> Tensor:
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
    recording = record(prepared, args)
    quantizers = {proxy: describe(proxy, name, recording, flavour) for name, proxy in proxies(prepared)}
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
        replaced[proxy] = PassThrough(anatomy(proxy)[0]) if quantizer is None else make(quantizer)
    for module in list(prepared.modules()):
        for child_name, child in list(module._modules.items()):  # a child may have several names
            if child in replaced:
                setattr(module, child_name, replaced[child])
    prepared = replaced.get(prepared, prepared)
    for parameter in prepared.parameters():
        parameter.requires_grad_(False)
    return prepared.eval()


def _plan(
    name: str, layer: Any, quantizers: dict[QuantProxyFromInjector, Quantizer | None], recording: Recording
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


def _freeze_parameters(layer: Any, recording: Recording, integers: bool) -> None:
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


__all__ = ["LayerPlan", "PassThrough", "check_ready", "prepare"]
