"""Weights of linear layers by channel, whatever the order of their dimensions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
LAYERS = (nn.Linear, *CONVOLUTIONS, *TRANSPOSED)


def _grouped(layer: Any) -> Tensor:
    """A view of the weight, ``(groups, outputs a group, inputs a group, taps)``."""
    weight: Tensor = layer.weight
    if isinstance(layer, nn.Linear):
        return weight.view(1, *weight.shape, 1)
    shape = layer.groups, weight.shape[0] // layer.groups, weight.shape[1], -1
    grouped = weight.reshape(shape)
    return grouped.transpose(1, 2) if isinstance(layer, TRANSPOSED) else grouped


def output_channels(layer: Any) -> int:
    """Channels that the layer computes."""
    return int(layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels)


def input_channels(layer: Any) -> int:
    """Channels that the layer reads."""
    return int(layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels)


def by_output_channel(layer: Any) -> Tensor:
    """The weight as ``(output channels, rest)``."""
    return _grouped(layer).flatten(0, 1).flatten(1)


def by_input_channel(layer: Any) -> Tensor:
    """The weight as ``(input channels, rest)``."""
    return _grouped(layer).transpose(1, 2).flatten(0, 1).flatten(1)


def _set(layer: Any, grouped: Tensor) -> None:
    if isinstance(layer, TRANSPOSED):
        grouped = grouped.transpose(1, 2)
    layer.weight.copy_(grouped.reshape(layer.weight.shape))


@torch.no_grad()
def scale_outputs(layer: Any, factor: Tensor) -> None:
    """Multiply every output channel of *layer*, bias included, in place."""
    grouped = _grouped(layer)
    _set(layer, grouped * factor.view(grouped.shape[0], -1, 1, 1))
    if layer.bias is not None:
        layer.bias.mul_(factor)


@torch.no_grad()
def scale_inputs(layer: Any, factor: Tensor) -> None:
    """Multiply what *layer* does with every input channel, in place."""
    grouped = _grouped(layer)
    _set(layer, grouped * factor.view(grouped.shape[0], 1, -1, 1))


@torch.no_grad()
def response(layer: Any, constant: Tensor) -> Tensor:
    """What *layer* without bias makes of inputs that are *constant* in each channel, where nothing is padded."""
    grouped = _grouped(layer)
    return (grouped.sum(3) * constant.view(grouped.shape[0], 1, -1)).sum(2).reshape(-1)


__all__ = [
    "CONVOLUTIONS",
    "LAYERS",
    "TRANSPOSED",
    "by_input_channel",
    "by_output_channel",
    "input_channels",
    "output_channels",
    "response",
    "scale_inputs",
    "scale_outputs",
]
