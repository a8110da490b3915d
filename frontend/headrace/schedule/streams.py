"""The hardware graph seen as layers that stream into each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.errors import ModelError
from headrace.ir import Graph, Input, Op, Value
from headrace.ir.integer import Reshape
from headrace.layers.base import Layer, StreamType


@dataclass(frozen=True)
class Link:
    """A stream from one layer (or graph input) to another (or graph output).

    Attributes:
        source: layer or Input that writes, and its port.
        target: layer or Output that reads, and its port.
        via: the Reshape nodes between them, which are wires.
    """

    source: Value
    target: Value
    via: tuple[str, ...] = ()


def layers(graph: Graph) -> dict[str, Layer]:
    """The layers of *graph* by name, in topological order."""
    found = {node: graph.op(node) for node in graph}
    return {node: op for node, op in found.items() if isinstance(op, Layer)}


@contextmanager
def within_memory(node: str, layer: Layer) -> Iterator[None]:
    """A place where times of all words of a frame of *layer* are held.

    Raises:
        ModelError: when there is not enough memory for them.
    """
    try:
        yield
    except MemoryError as error:
        words = max(stream.words for stream in (*layer.inputs, *layer.outputs))
        raise ModelError(
            f"there is not enough memory for the times of the {words:,} words of a frame; "
            "smaller frames, or more elements a word (PE, SIMD), need less",
            node=f"'{node}' ({layer.kind})",
        ) from error


def links(graph: Graph) -> tuple[Link, ...]:
    """All streams of *graph* in topological order of their readers.

    Raises:
        ValueError: when a stream has more than one reader.
    """
    result = []
    for node in graph:
        if isinstance(graph.op(node), (Input, Reshape)):
            continue
        for port, value in enumerate(graph.sources(node)):
            via: list[str] = []
            while isinstance(graph.op(value.node), Reshape):
                _check_single(graph, value)
                via.insert(0, value.node)
                (value,) = graph.sources(value.node)
            _check_single(graph, value)
            result.append(Link(value, Value(node, port), tuple(via)))
    return tuple(result)


def _check_single(graph: Graph, value: Value) -> None:
    if len(graph.consumers(value)) != 1:
        raise ValueError(f"stream {value} has {len(graph.consumers(value))} readers; a stream has one")


def source_stream(graph: Graph, link: Link) -> StreamType | None:
    """The stream as it is written; None for a graph input, which is written as its reader wants it."""
    op = graph.op(link.source.node)
    return op.outputs[link.source.port] if isinstance(op, Layer) else None


def target_stream(graph: Graph, link: Link) -> StreamType | None:
    """The stream as it is read; None for a graph output, which takes it as it is written."""
    op = graph.op(link.target.node)
    return op.inputs[link.target.port] if isinstance(op, Layer) else None


def boundary_stream(graph: Graph, link: Link) -> StreamType:
    """The stream of a link that begins at a graph input or ends at a graph output, in words as the layer has them."""
    inner = source_stream(graph, link) or target_stream(graph, link)
    if inner is not None:
        return inner
    type_ = graph.type(link.source)  # from an input straight to an output
    return StreamType(type_.shape, type_.int_range)


def rebuild(graph: Graph, replaced: Mapping[str, Op]) -> Graph:
    """*graph* with other operators at some nodes; names and connections stay."""
    result = Graph(graph.name, graph.file)
    for node in graph:
        result.add(replaced.get(node, graph.op(node)), graph.sources(node), node)
    return result
