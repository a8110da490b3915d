"""Cross-layer equalization: channels of consecutive layers get ranges of the same size (Nagel et al., 2019).

For ``second(relu(first(x)))`` and any ``s > 0`` a channel, ``first / s`` and ``second * s`` compute the same. With
``s = sqrt(range(first) / range(second))`` both have the same range, which one scale for all channels then fits. A ReLU
that saturates is scaled with its channels: its bound becomes one a channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

from headrace.graph.activations import SaturatingReLU, activation_of, largest_value
from headrace.graph.channels import (
    LAYERS,
    by_input_channel,
    by_output_channel,
    input_channels,
    output_channels,
    scale_inputs,
    scale_outputs,
)
from headrace.graph.fold import module_of

_HOMOGENEOUS = (
    nn.ReLU,
    nn.LeakyReLU,
    nn.PReLU,
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Identity,
    nn.MaxPool1d,
    nn.MaxPool2d,
    nn.MaxPool3d,
    nn.AvgPool1d,
    nn.AvgPool2d,
    nn.AvgPool3d,
    nn.AdaptiveAvgPool1d,
    nn.AdaptiveAvgPool2d,
)
_FUNCTIONS = (torch.relu, F.relu, F.leaky_relu, F.max_pool2d, F.avg_pool2d, F.adaptive_avg_pool2d, F.dropout)


@dataclass
class _Pair:
    """Two layers that follow each other, and the ReLUs that saturate between them."""

    first: Any
    second: Any
    saturating: list[fx.Node]


def _pairs(traced: fx.GraphModule) -> list[_Pair]:
    """Layers with nothing between but functions with ``f(s * x) = s * f(x)``, or whose bound can be scaled."""
    found = []
    calls = [str(node.target) for node in traced.graph.nodes if node.op == "call_module"]
    for node in traced.graph.nodes:
        first = module_of(traced, node)
        if not isinstance(first, LAYERS):
            continue
        at = node
        saturating: list[fx.Node] = []
        while len(at.users) == 1:
            at = next(iter(at.users))
            module = module_of(traced, at)
            if isinstance(module, LAYERS):
                once = calls.count(str(node.target)) == calls.count(str(at.target)) == 1
                if once and input_channels(module) == output_channels(first):
                    found.append(_Pair(first, module, saturating))
                break
            if largest_value(activation_of(traced, at)) is not None:
                saturating.append(at)
            elif not (isinstance(module, _HOMOGENEOUS) or at.target in (*_FUNCTIONS, "relu")):
                break
    return found


def _bound_by_channel(traced: fx.GraphModule, node: fx.Node, first: Any) -> SaturatingReLU:
    """*node* becomes a call of a ReLU with a bound a channel of *first*."""
    largest = largest_value(activation_of(traced, node))
    spatial = 0 if isinstance(first, nn.Linear) else first.weight.dim() - 2
    bound = first.weight.new_full((output_channels(first), *[1] * spatial), float(largest or 0.0))
    relu, count = SaturatingReLU(bound.detach()), 0
    while hasattr(traced, name := f"saturating_relu_{count}"):
        count += 1
    traced.add_submodule(name, relu)
    with traced.graph.inserting_before(node):
        new = traced.graph.call_module(name, (node.args[0],))
    node.replace_all_uses_with(new)
    traced.graph.erase_node(node)
    return relu


def equalize(traced: fx.GraphModule, iterations: int = 10) -> int:
    """Equalize all pairs of consecutive layers of *traced*, in place; the function it computes stays the same.

    Args:
        traced: a float graph module, batch norms folded.
        iterations: passes over all pairs (a layer in the middle belongs to two).

    Returns:
        The number of pairs.
    """
    pairs = _pairs(traced) if iterations else []
    bounds = [[_bound_by_channel(traced, node, pair.first) for node in pair.saturating] for pair in pairs]
    with torch.no_grad():
        for _ in range(iterations):
            for pair, relus in zip(pairs, bounds, strict=True):
                out_range = by_output_channel(pair.first).abs().amax(1)
                in_range = by_input_channel(pair.second).abs().amax(1)
                s = torch.sqrt(out_range / in_range)
                s = torch.where(torch.isfinite(s) & (s > 0), s, torch.ones_like(s))
                scale_outputs(pair.first, 1.0 / s)
                scale_inputs(pair.second, s)
                for relu in relus:
                    relu.bound.div_(s.view(relu.bound.shape))
    traced.delete_all_unused_submodules()
    traced.recompile()
    return len(pairs)


__all__ = ["equalize"]
