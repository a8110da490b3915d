"""FINN's greedy rule for folding (``SetFolding``): layer by layer, each value raised until the layer is fast enough.

The values of a layer start at their smallest and are raised through the legal ones, one value after the other. In a
matrix product, whose PEs share the words that they read, SIMD comes first and stops where a PE would read more than
:data:`WEIGHT_BITS` of weights a cycle; in every other layer PE comes first. Source: Xilinx FINN,
``transformation/fpgadataflow/set_folding.py``.

The rule knows no neighbours, no resources and no width converters. What it gives is a bound: the solver never takes
more (:mod:`headrace.schedule.folding`).
"""

from __future__ import annotations

from headrace.ir import Graph
from headrace.layers.base import Layer
from headrace.schedule.choices import extreme
from headrace.schedule.streams import layers, rebuild

WEIGHT_BITS = 36
"""FINN's default of ``mvau_wwidth_max``."""


def greedy_folding(graph: Graph, target: int) -> Graph:
    """*graph* folded by the rule for *target* cycles a frame.

    Where a layer cannot meet it, a second pass relaxes the target of all others to what that layer takes, as FINN's
    does by default.
    """
    folded = _folded(graph, target)
    slowest = max((layer.cycles for layer in layers(folded).values()), default=target)
    return _folded(graph, slowest) if slowest > target else folded


def _folded(graph: Graph, target: int) -> Graph:
    return rebuild(graph, {node: greedy_layer(layer, target) for node, layer in layers(graph).items()})


def greedy_layer(layer: Layer, target: int, widest: int = WEIGHT_BITS) -> Layer:
    """*layer* as the rule folds it: as slow as it still meets *target* cycles a frame, or as fast as the rule gets it.

    Args:
        layer: in any folding.
        target: cycles a frame.
        widest: most bits of weights that a PE of a matrix product reads a cycle.
    """
    layer = extreme(layer, min)
    first = "SIMD" if _shares_words(layer) else "PE"
    for name in sorted(layer.folding_choices, key=lambda name: name != first):
        for value in layer.folding_choices[name]:
            wider = layer.with_folding(**{name: value})
            if name == first == "SIMD" and value > 1 and wider.weight_bits_a_pe > widest:
                break
            layer = wider
            if layer.cycles <= target:
                return layer
    return layer


def _shares_words(layer: Layer) -> bool:
    """Whether all PEs of *layer*, which has weights, read the same words."""
    choices = layer.folding_choices
    if not layer.weight_bits_a_pe or not {"PE", "SIMD"} <= set(choices):
        return False
    most = layer.with_folding(PE=choices["PE"][-1])
    return [stream.elements for stream in most.inputs] == [stream.elements for stream in layer.inputs]
