"""A stream has one reader: a value that several read passes through a layer that copies it."""

from __future__ import annotations

from headrace.ir import Graph, Value
from headrace.layers.base import StreamType
from headrace.layers.duplicate_streams import DuplicateStreams


def duplicate_forks(graph: Graph) -> Graph:
    """*graph* with a DuplicateStreams behind every value that has several readers (graph outputs count)."""
    result = Graph(graph.name, graph.file)
    copies: dict[Value, list[Value]] = {}
    for node in graph:
        inputs = [copies[value].pop(0) for value in graph.sources(node)]
        first = result.add(graph.op(node), inputs, node)
        for port, type_ in enumerate(graph.types(node)):
            value = Value(first.node, port)
            readers = len(graph.consumers(Value(node, port)))
            if readers < 2:
                copies[Value(node, port)] = [value]
                continue
            stream = StreamType(type_.shape, type_.int_range)
            name = fresh_name(f"{node}_fork", graph, result)
            fork = result.add(DuplicateStreams(stream, copies=readers), (value,), name)
            copies[Value(node, port)] = [Value(fork.node, k) for k in range(readers)]
    return result


def fresh_name(name: str, *graphs: Graph) -> str:
    """*name*, or *name* with the smallest number that no node of *graphs* has."""
    candidate, number = name, 0
    while any(candidate in graph for graph in graphs):
        number += 1
        candidate = f"{name}_{number}"
    return candidate
