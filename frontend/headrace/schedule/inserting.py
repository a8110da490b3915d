"""Putting layers into streams: a graph rebuilt with something on each of its links."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.ir import Graph, Input, Value
from headrace.ir.integer import Reshape
from headrace.layers.base import Layer
from headrace.passes.forks import framed, fresh_name
from headrace.schedule.streams import Link, links


def insert_layers(graph: Graph, wanted: Callable[[Link], Sequence[Layer]]) -> Graph:
    """*graph* with the layers that *wanted* gives for each link, in their order, between its ends.

    Every layer has one input and one output. Streams are seen in other frames, by Reshape nodes, where the ends differ.
    """
    edges = {(link.target.node, link.target.port): link for link in links(graph)}
    result = Graph(graph.name, graph.file)
    moved: dict[Value, Value] = {}
    for node in graph:
        op = graph.op(node)
        if isinstance(op, Reshape):
            continue
        inputs = []
        for port, source in enumerate(graph.sources(node)):
            link = edges[node, port]
            value = moved[link.source]
            for layer in wanted(link):
                name = fresh_name(f"{link.source.node}_{layer.kind.lower()}", graph, result)
                value = result.add(layer, (framed(result, value, layer.inputs[0].shape, graph),), name)
            inputs.append(framed(result, value, graph.type(source).shape, graph))
        first = result.add(op, () if isinstance(op, Input) else inputs, node)
        for port in range(len(graph.types(node))):
            moved[Value(node, port)] = Value(first.node, port)
    return result
