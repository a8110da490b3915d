"""Calibration and bias correction: post-training quantization by forward passes over a little data.

::

    with torch.no_grad(), calibration_mode(model):
        for images, _ in loader:
            model(images)
    with torch.no_grad(), bias_correction_mode(model):
        for images, _ in loader:
            model(images)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from headrace.core.scaling import ParameterFromRuntimeStatsScaling
from headrace.core.zero_point import ParameterFromRuntimeZeroPoint
from headrace.nn.quant_layer import QuantLayer, QuantWeightBiasInputOutputLayer
from headrace.proxy import ActQuantProxyFromInjector
from headrace.proxy.parameter_quant import _ParameterQuantProxy
from headrace.quant_tensor import unpack_quant_tensor

__all__ = ["bias_correction_mode", "calibration_mode", "finalize_collect_stats", "quantization_disabled"]


def finalize_collect_stats(module: nn.Module) -> None:
    """Turn collected statistics into learned parameters, for *module* alone (use with ``model.apply``)."""
    if isinstance(module, ParameterFromRuntimeStatsScaling) and module.counter > 0:
        module.init_scale()
    if isinstance(module, ParameterFromRuntimeZeroPoint) and module.counter > 0:
        module.init_zp()


@contextlib.contextmanager
def _attributes_restored(*settings: tuple[Any, str, Any]) -> Iterator[None]:
    """Attributes set to values, and back."""
    before = [(item, name, getattr(item, name)) for item, name, _ in settings]
    try:
        for item, name, new in settings:
            setattr(item, name, new)
        yield
    finally:
        for item, name, old in reversed(before):
            setattr(item, name, old)


@contextlib.contextmanager
def quantization_disabled(model: nn.Module) -> Iterator[None]:
    """Every layer of *model* computes with unquantized weights, biases and activations."""
    settings: list[tuple[Any, str, Any]] = []
    for module in model.modules():
        if isinstance(module, ActQuantProxyFromInjector | _ParameterQuantProxy):
            settings.append((module, "disable_quant", True))
        if isinstance(module, QuantLayer):
            settings.append((module, "return_quant_tensor", False))
    with _attributes_restored(*settings):
        yield


@contextlib.contextmanager
def calibration_mode(model: nn.Module, enabled: bool = True) -> Iterator[nn.Module]:
    """Collect the statistics of activations while everything computes unquantized.

    At the end the statistics become the scales and zero points, and quantization is on again. Modules other than
    activation quantizers keep their mode, so put the model in evaluation mode if it has batch norms or dropout.

    Args:
        model: a model with activation quantizers that start from statistics.
        enabled: ``False`` makes this a context that does nothing.
    """
    if not enabled:
        yield model
        return
    settings: list[tuple[Any, str, Any]] = []
    collecting: list[tuple[nn.Module, bool]] = []
    for module in model.modules():
        if isinstance(module, ActQuantProxyFromInjector):
            settings.append((module, "observe_only", True))
            collecting += [(part, part.training) for part in module.modules()]
        elif isinstance(module, _ParameterQuantProxy):
            settings.append((module, "disable_quant", True))
        elif isinstance(module, QuantLayer):
            settings.append((module, "return_quant_tensor", False))
    try:
        for part, _ in collecting:
            part.training = True
        with _attributes_restored(*settings):
            yield model
    finally:
        for part, training in collecting:
            part.training = training
        model.apply(finalize_collect_stats)


class _BiasCorrection:
    """Mean difference of unquantized and quantized output, a value an output channel (Nagel et al., 2019)."""

    def __init__(self) -> None:
        self._sums: dict[QuantWeightBiasInputOutputLayer, Tensor] = {}
        self._counts: dict[QuantWeightBiasInputOutputLayer, int] = {}
        self._inside = False

    def hook(self, layer: nn.Module, inputs: tuple[Any, ...], out: Any) -> None:
        """Forward hook of the layers to correct."""
        if self._inside or not isinstance(layer, QuantWeightBiasInputOutputLayer):
            return
        self._inside = True
        try:
            with quantization_disabled(layer):
                reference = layer(*unpack_quant_tensor(inputs))
        finally:
            self._inside = False
        error = unpack_quant_tensor(reference).detach() - unpack_quant_tensor(out).detach()
        channel = layer.geometry.channel_shape(error).index(-1)
        mean = error.transpose(0, channel).reshape(error.shape[channel], -1).mean(1)
        self._sums[layer] = self._sums.get(layer, torch.zeros_like(mean)) + mean
        self._counts[layer] = self._counts.get(layer, 0) + 1

    def apply(self) -> None:
        """Add the mean differences to the biases."""
        for layer, total in self._sums.items():
            correction = total / self._counts[layer]
            if layer.bias is None:
                layer.register_parameter("bias", nn.Parameter(correction.to(layer.weight.dtype)))
            else:
                layer.bias.data.add_(correction)


@contextlib.contextmanager
def bias_correction_mode(model: nn.Module, enabled: bool = True) -> Iterator[nn.Module]:
    """Measure the mean error that quantization makes at every layer; at the end, subtract it in the biases.

    Args:
        model: a calibrated model.
        enabled: ``False`` makes this a context that does nothing.
    """
    if not enabled:
        yield model
        return
    correction = _BiasCorrection()
    layers = [m for m in model.modules() if isinstance(m, QuantWeightBiasInputOutputLayer)]
    handles = [layer.register_forward_hook(correction.hook) for layer in layers]
    try:
        yield model
    finally:
        for handle in handles:
            handle.remove()
    correction.apply()
