"""Cross-layer equalization: channels of consecutive layers get ranges of the same size (Nagel et al., 2019).

For ``second(relu(first(x)))`` and any ``s > 0`` a channel, ``first / s`` and ``second * s`` compute the same. With
``s = sqrt(range(first) / range(second))`` both have the same range, which one scale for all channels then fits.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from headrace.graph.fold import module_of

_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_HOMOGENEOUS = (nn.ReLU, nn.Dropout, nn.Identity, nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool2d)
_FUNCTIONS = (torch.relu, F.relu, F.max_pool2d, F.avg_pool2d)


def _pairs(traced: fx.GraphModule) -> list[tuple[Any, Any]]:
    """Layers that follow each other with nothing between but functions with ``f(s * x) = s * f(x)``."""
    found = []
    calls = [str(node.target) for node in traced.graph.nodes if node.op == "call_module"]
    for node in traced.graph.nodes:
        first = module_of(traced, node)
        if not isinstance(first, _LAYERS):
            continue
        at = node
        while len(at.users) == 1:
            at = next(iter(at.users))
            module = module_of(traced, at)
            if isinstance(module, _LAYERS):
                once = calls.count(str(node.target)) == calls.count(str(at.target)) == 1
                if once and _input_channels(module) == first.weight.shape[0]:
                    found.append((first, module))
                break
            passes = isinstance(module, _HOMOGENEOUS) or (at.op == "call_function" and at.target in _FUNCTIONS)
            if not passes and not (at.op == "call_method" and at.target == "relu"):
                break
    return found


def _input_channels(layer: Any) -> int:
    return int(layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels)


def _by_input_channel(layer: Any) -> Tensor:
    """The weight as ``(input channels, rest)``."""
    weight: Tensor = layer.weight
    groups = 1 if isinstance(layer, nn.Linear) else layer.groups
    per_group = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
    return per_group.transpose(1, 2).reshape(groups * weight.shape[1], -1)


def _scale_input_channels(layer: Any, factor: Tensor) -> None:
    weight = layer.weight
    groups = 1 if isinstance(layer, nn.Linear) else layer.groups
    grouped = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
    layer.weight.copy_((grouped * factor.view(groups, 1, -1, 1)).reshape(weight.shape))


def equalize(traced: fx.GraphModule, iterations: int = 10) -> int:
    """Equalize all pairs of consecutive layers of *traced*, in place; the function it computes stays the same.

    Args:
        traced: a float graph module, batch norms folded.
        iterations: passes over all pairs (a layer in the middle belongs to two).

    Returns:
        The number of pairs.
    """
    pairs = _pairs(traced)
    with torch.no_grad():
        for _ in range(iterations):
            for first, second in pairs:
                out_range = first.weight.reshape(first.weight.shape[0], -1).abs().amax(1)
                in_range = _by_input_channel(second).abs().amax(1)
                s = torch.sqrt(out_range / in_range)
                s = torch.where(torch.isfinite(s) & (s > 0), s, torch.ones_like(s))
                first.weight.div_(s.view(-1, *[1] * (first.weight.dim() - 1)))
                if first.bias is not None:
                    first.bias.div_(s)
                _scale_input_channels(second, s)
    return len(pairs)


__all__ = ["equalize"]
