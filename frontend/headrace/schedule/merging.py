"""Layers that take over the layer after them: one module does what two would."""

from __future__ import annotations

from dataclasses import replace

from headrace.ir import Op
from headrace.ir.integer import Reshape
from headrace.layers.base import Layer
from headrace.passes.hardware_design import HardwareDesign
from headrace.schedule.streams import links, rebuild


def merge_layers(design: HardwareDesign) -> HardwareDesign:
    """The folded *design* with every layer merged into the one before it that offers to take it over.

    What is left of a merged layer is a wire of its name. Only streams whose two ends move words of one width are looked
    at; values between merged layers exist no more, so that they have no place either.
    """
    graph = design.graph
    replaced: dict[str, Op] = {}
    merged: set[str] = set()
    for link in links(graph):
        source, target = link.source.node, link.target.node
        first, after = (replaced.get(node, graph.op(node)) for node in (source, target))
        if link.via or not isinstance(first, Layer) or not isinstance(after, Layer) or len(after.inputs) != 1:
            continue
        if len(first.outputs) != 1 or first.outputs[0].elements != after.inputs[0].elements:
            continue
        both = first.absorb(after)
        if both is not None and both.outputs == after.outputs:
            replaced[source], replaced[target] = both, Reshape(after.outputs[0].shape)
            merged.add(source)
    if not merged:
        return design
    places = {node: place for node, place in design.places.items() if place.value.node not in merged}
    return replace(design, graph=rebuild(graph, replaced), places=places)
