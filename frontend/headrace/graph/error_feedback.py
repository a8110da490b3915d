"""What GPTQ and GPFQ share: layers as matrices, one after the other, and weights written back on their grid."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from headrace.core.scaling import StatsFromParameterScaling
from headrace.errors import HeadraceError
from headrace.graph.calibrate import quantization_disabled
from headrace.inject.enum import ScalingImplType
from headrace.nn.geometry import ConvGeometry, ConvTransposeGeometry, LinearGeometry
from headrace.nn.quant_layer import QuantWeightBiasInputOutputLayer
from headrace.quant_tensor import IntQuantTensor, unpack_quant_tensor


class WeightSearchError(HeadraceError):
    """A model or data that weights cannot be searched with."""


def searched_layers(model: nn.Module) -> list[tuple[str, Any]]:
    """Linear and (transposed) convolutional layers with a quantized weight.

    Raises:
        WeightSearchError: there are none.
    """
    kinds = (LinearGeometry, ConvGeometry, ConvTransposeGeometry)
    layers = [(n, m) for n, m in model.named_modules() if isinstance(m, QuantWeightBiasInputOutputLayer)]
    found = [
        (n, layer) for n, layer in layers if isinstance(layer.geometry, kinds) and layer.weight_quant.is_quant_enabled
    ]
    if not found:
        raise WeightSearchError(f"{type(model).__name__} holds no QuantLinear or QuantConv with a quantized weight")
    return found


def rows_of_input(layer: Any, x: Tensor) -> Tensor:
    """The inputs of the dot products of *layer*, ``(groups, samples, terms)``."""
    geometry, kernel = layer.geometry, tuple(layer.weight.shape[2:])
    if isinstance(geometry, LinearGeometry):
        return x.reshape(1, -1, x.shape[-1])
    if isinstance(geometry, ConvTransposeGeometry):
        x, geometry = geometry.spread(x), geometry.as_convolution(kernel)
    columns: Tensor = geometry.columns(x, kernel)[0]
    return columns.transpose(0, 1).reshape(geometry.groups, -1, columns.shape[-1])


def grouped_weight(layer: Any) -> Tensor:
    """The weight in float64, ``(groups, outputs a group, terms)``."""
    groups = getattr(layer, "groups", 1)
    weight: Tensor = layer.weight.detach().double()
    if isinstance(layer.geometry, ConvTransposeGeometry):
        weight = layer.geometry.turned(weight)
    return weight.reshape(groups, weight.shape[0] // groups, -1)


class InputRecorder:
    """The inputs that one layer sees in forward passes of a model."""

    def __init__(self, model: nn.Module, batches: list[Any]) -> None:
        self._model, self._batches = model, batches

    def rows(self, layer: nn.Module) -> Iterator[Tensor]:
        """:func:`rows_of_input` in float64, one item a call of the layer."""
        seen: list[Tensor] = []

        def record(module: Any, inputs: tuple[Any, ...]) -> None:
            quantized = module.input_quant(inputs[0])
            seen.append(rows_of_input(module, unpack_quant_tensor(quantized).detach()).double())

        for batch in self._batches:
            handle = layer.register_forward_pre_hook(record)
            try:
                with torch.no_grad():
                    self._model(*batch if isinstance(batch, tuple) else (batch,))
            finally:
                handle.remove()
            yield from seen
            seen.clear()


def float_copy_inputs(model: nn.Module, batches: list[Any]) -> tuple[nn.Module, FloatRecorder]:
    """A copy of *model* and what its layers see when nothing is quantized."""
    reference = copy.deepcopy(model)
    return reference, FloatRecorder(reference, batches)


class FloatRecorder(InputRecorder):
    """:class:`InputRecorder` without quantization."""

    def rows(self, layer: nn.Module) -> Iterator[Tensor]:
        with quantization_disabled(self._model):
            yield from super().rows(layer)


def checked_batches(batches: Iterable[Any]) -> list[Any]:
    """*batches* as a list.

    Raises:
        WeightSearchError: there are none.
    """
    found = list(batches)
    if not found:
        raise WeightSearchError("no batches: give at least one input of the model")
    return found


class WeightGrid:
    """The integers that a layer's weight may have, at a scale that stays.

    The scale of most weight quantizers follows the largest weight; a search changes weights, so the scale becomes a
    learned parameter that starts where it is.
    """

    def __init__(self, name: str, layer: Any) -> None:
        quantized = layer.quant_weight()
        geometry = layer.geometry
        scale = None
        if isinstance(quantized, IntQuantTensor):
            scale = geometry.weight_scale_per_output(quantized.scale.detach(), layer.weight)
        if scale is None:
            raise WeightSearchError(
                f"{name}: weights can be searched at one integer scale a tensor or a channel; this quantizer has none"
            )
        self._layer = layer
        groups = getattr(layer, "groups", 1)
        bits, proxy = int(quantized.bit_width), layer.weight_quant
        self.high = 2 ** (bits - 1) - 1 if quantized.signed else 2**bits - 1
        self.low = -self.high - (not proxy.is_narrow_range) if quantized.signed else 0
        self._exact_scale = quantized.scale.detach()
        rows = geometry.output_channels(layer.weight)
        zero_point = geometry.weight_scale_per_output(quantized.zero_point.detach(), layer.weight)
        self.scale: Tensor = scale.double().expand(rows).reshape(groups, -1)
        self.zero_point: Tensor = zero_point.double().expand(rows).reshape(groups, -1)

    def nearest(self, column: Tensor) -> Tensor:
        """Weights ``(groups, outputs)`` to the nearest ones on the grid."""
        q = torch.round(column / self.scale + self.zero_point).clamp(self.low, self.high)
        return (q - self.zero_point) * self.scale

    def write(self, weight: Tensor) -> None:
        """Store *weight*, ``(groups, outputs, terms)`` on the grid, and hold the scale."""
        layer = self._layer
        scale = self._exact_scale
        with torch.no_grad():
            geometry = layer.geometry
            if isinstance(geometry, ConvTransposeGeometry):
                outputs, kernel = weight.shape[0] * weight.shape[1], layer.weight.shape[2:]
                weight = geometry.turned_back(weight.reshape(outputs, -1, *kernel))
            layer.weight.copy_(weight.reshape(layer.weight.shape))
            proxy = layer.weight_quant
            scaling = getattr(proxy.tensor_quant, "scaling_impl", None)
            if isinstance(scaling, StatsFromParameterScaling):
                training = proxy.training
                learned = {"scaling_impl_type": ScalingImplType.PARAMETER_FROM_STATS}
                proxy.quant_injector = proxy.quant_injector.let(**learned)
                proxy.init_tensor_quant()
                quantizer = proxy.tensor_quant
                held = quantizer.scaling_impl
                threshold = quantizer.int_scaling_impl(quantizer.msb_clamp_bit_width_impl())
                stored = held.restrict_scaling.restrict_value_impl.inverse(scale * threshold)
                held.value.copy_(stored)
                held.init_done = True
                proxy.train(training)
        layer.train(layer.training)  # the cached weight is not this one


__all__ = [
    "InputRecorder",
    "WeightGrid",
    "WeightSearchError",
    "checked_batches",
    "float_copy_inputs",
    "grouped_weight",
    "rows_of_input",
    "searched_layers",
]
