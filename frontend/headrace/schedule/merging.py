"""Layers that take over the layer after them: one module does what two would."""

from __future__ import annotations

from dataclasses import replace

from headrace.ir import Op, Value
from headrace.ir.integer import Reshape
from headrace.layers.base import Layer
from headrace.passes.hardware_design import HardwareDesign
from headrace.schedule.streams import links, rebuild


def merge_layers(design: HardwareDesign) -> HardwareDesign:
    """The folded *design* with every layer merged into the one before it that offers to take it over.

    The merged layer has the name of the first; what is left of the second is a wire of its name. Only streams whose two
    ends move words of one width are looked at. The values between the two exist no more, so that they have no place.
    """
    graph = design.graph
    replaced: dict[str, Op] = {}
    merged: dict[str, str] = {}  # the layer that took another over, by the other
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
            merged[target] = source
    if not merged:
        return design
    gone = set(merged.values())
    places = {
        node: replace(place, value=Value(merged.get(place.value.node, place.value.node), place.value.port))
        for node, place in design.places.items()
        if place.value.node not in gone
    }
    return replace(design, graph=rebuild(graph, replaced), places=places)
