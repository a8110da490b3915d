"""What the quantizers of a model return on example inputs, and what its layers get."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headrace.export.errors import ExportError
from headrace.nn import exact
from headrace.nn.finalize import CanonicalArithmetic
from headrace.nn.quant_layer import QuantWeightBiasInputOutputLayer
from headrace.proxy import DynamicActQuantProxyFromInjector, TruncQuantProxyFromInjector
from headrace.proxy.quant_proxy import QuantProxyFromInjector
from headrace.quant_tensor import FloatQuantTensor, IntQuantTensor


def proxies(model: nn.Module) -> Iterator[tuple[str, QuantProxyFromInjector]]:
    for name, module in model.named_modules():
        if isinstance(module, QuantProxyFromInjector):
            yield name, module


@dataclass
class Recording:
    """What quantizers returned, and what layers and truncating quantizers got, when the model ran on the example."""

    quantized: dict[nn.Module, IntQuantTensor | FloatQuantTensor]
    inputs: dict[nn.Module, IntQuantTensor | None]
    parameters: dict[int, IntQuantTensor | FloatQuantTensor]
    """By the identity of the parameter, as several may share a quantizer."""


def record(model: nn.Module, args: tuple[Any, ...]) -> Recording:
    """Run *model* on *args* and note the last quant tensor of each quantizer and the input of each layer."""
    recording = Recording({}, {}, {})
    names = {proxy: name for name, proxy in proxies(model)}
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


__all__ = ["Recording", "proxies", "record"]
