"""Replacement of float layers by quantized ones of the same parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

import headrace.nn as qnn
from headrace.errors import HeadraceError
from headrace.graph.config import QuantizeConfig

_CONVOLUTIONS: dict[type[nn.Module], Any] = {
    nn.Conv1d: qnn.QuantConv1d,
    nn.Conv2d: qnn.QuantConv2d,
    nn.Conv3d: qnn.QuantConv3d,
}
_TRANSPOSED: dict[type[nn.Module], Any] = {
    nn.ConvTranspose1d: qnn.QuantConvTranspose1d,
    nn.ConvTranspose2d: qnn.QuantConvTranspose2d,
    nn.ConvTranspose3d: qnn.QuantConvTranspose3d,
}
LINEAR: frozenset[type[nn.Module]] = frozenset({nn.Linear, *_CONVOLUTIONS, *_TRANSPOSED})
"""Float layers that have a quantized form."""


class NothingToQuantizeError(HeadraceError):
    """A model without any layer that could be quantized."""


def quantized_layer(layer: Any, config: QuantizeConfig, **options: Any) -> nn.Module:
    """The quantized form of *layer*, with the same parameters.

    Args:
        layer: a module whose class is in :data:`LINEAR`.
        config: bit widths.
        options: further keyword arguments of the quantized layer.
    """
    kind = type(layer)
    options = {**config.layer_options(layer.bias is not None), **options}
    new: Any
    if kind is nn.Linear:
        new = qnn.QuantLinear(layer.in_features, layer.out_features, layer.bias is not None, **options)
    else:
        names = ("stride", "padding", "dilation", "groups", "padding_mode")
        geometry = {name: getattr(layer, name) for name in names}
        made = _CONVOLUTIONS.get(kind)
        if made is None:
            made, geometry["output_padding"] = _TRANSPOSED[kind], layer.output_padding
        new = made(
            layer.in_channels, layer.out_channels, layer.kernel_size, bias=layer.bias is not None, **geometry, **options
        )
    new.weight = layer.weight
    if layer.bias is not None:
        new.bias = layer.bias
    new.to(layer.weight.device)
    new.train(layer.training)
    quantized: nn.Module = new
    return quantized


def quantize_(
    model: nn.Module,
    config: QuantizeConfig | None = None,
    chosen: Callable[[str, nn.Module], bool] = lambda name, module: True,
) -> nn.Module:
    """Replace the layers of *model* in place, each on its own: weights, and inputs unless activations stay float.

    Unlike :func:`headrace.graph.quantize.quantize` this needs no graph, so any Python may run between the layers; batch
    norms stay, and branches that are added do not share a scale.

    Args:
        model: a float model; its parameters stay the same objects.
        config: bit widths.
        chosen: which of the layers, by name and module.

    Returns:
        *model*.

    Raises:
        NothingToQuantizeError: no layer was replaced.
    """
    config = config or QuantizeConfig()
    replaced = 0
    for parent_name, parent in list(model.named_modules()):
        for name, child in list(parent.named_children()):
            full_name = f"{parent_name}.{name}" if parent_name else name
            if type(child) in LINEAR and chosen(full_name, child):
                setattr(parent, name, quantized_layer(child, config, **config.input_options()))
                replaced += 1
    if not replaced:
        kinds = ", ".join(sorted(kind.__name__ for kind in LINEAR))
        raise NothingToQuantizeError(f"{type(model).__name__} holds no layer to quantize; looked for: {kinds}")
    return model


__all__ = ["LINEAR", "NothingToQuantizeError", "quantize_", "quantized_layer"]
