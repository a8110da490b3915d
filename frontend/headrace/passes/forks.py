"""A stream has one reader: a value that several read passes through a layer that copies it."""

from __future__ import annotations

from headrace.ir import Graph, Shape, Value
from headrace.ir.integer import Reshape
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
            frame = _widest(graph, Value(node, port))
            stream = StreamType(frame, type_.int_range)
            name = fresh_name(f"{node}_fork", graph, result)
            fork = result.add(DuplicateStreams(stream, copies=readers), (framed(result, value, frame, graph),), name)
            copied = (Value(fork.node, k) for k in range(readers))
            copies[Value(node, port)] = [framed(result, copy, type_.shape, graph) for copy in copied]
    return result


def _widest(graph: Graph, value: Value) -> Shape:
    """The frame with the longest last axis in which *value* is made or read: as many elements fit a word."""
    readers = (graph.op(node) for node, _ in graph.consumers(value))
    frames = [graph.type(value).shape, *(op.shape for op in readers if isinstance(op, Reshape))]
    return max(frames, key=lambda frame: frame[-1])


def framed(graph: Graph, value: Value, frame: Shape, source: Graph) -> Value:
    """*value* of *graph* seen in frames of shape *frame*; *source* has the nodes whose names are still to come."""
    if graph.type(value).shape == frame:
        return value
    return graph.add(Reshape(frame), (value,), fresh_name(f"{value.node}_frame", graph, source))


def fresh_name(name: str, *graphs: Graph) -> str:
    """*name*, or *name* with the smallest number that no node of *graphs* has."""
    candidate, number = name, 0
    while any(candidate in graph for graph in graphs):
        number += 1
        candidate = f"{name}_{number}"
    return candidate
