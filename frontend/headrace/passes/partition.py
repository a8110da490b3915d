"""Split an integer graph: what the host computes before, what the hardware computes, what the host computes after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from headrace.errors import UnsupportedError
from headrace.ir import Graph, Op, Output, Value
from headrace.ir import integer as integer_ops

_CORE = tuple(op for op in vars(integer_ops).values() if isinstance(op, type) and issubclass(op, Op) and op is not Op)
_MOVEMENT = (integer_ops.Reshape, integer_ops.Transpose)


@dataclass(frozen=True, eq=False)
class Partition:
    """The three parts; ``head`` and ``tail`` may be empty of operators.

    A tensor that crosses has one name on both sides, and no two have the same: ``core``'s inputs are named as outputs
    of ``head``, ``tail``'s inputs as outputs of ``core`` or of ``head``. A model input that is handed through keeps its
    name.
    """

    head: Graph
    core: Graph
    tail: Graph


def partition(graph: Graph, blockers: Sequence[str] = ()) -> Partition:
    """Cut *graph* at its Codes and ToReal operators.

    Raises:
        UnsupportedError: when the hardware part is empty, or would have to wait for the host in the middle. Lists all
            *blockers*.
    """
    core = {node for node in graph if _is_core(graph, node)}
    if not any(not isinstance(graph.op(node), _MOVEMENT) for node in core):
        raise UnsupportedError(_message("no part of the model can become hardware", blockers), file=graph.file)
    after: set[str] = set()
    for node in core:
        after |= nx.descendants(graph.nx, node)
    before: set[str] = set()
    for node in core:
        before |= nx.ancestors(graph.nx, node)
    middle = sorted((before & after) - core)
    if middle:
        where = ", ".join(f"'{n}'" for n in middle[:3])
        raise UnsupportedError(
            _message(f"hardware would have to wait for the host in the middle of the network, at {where}", blockers),
            file=graph.file,
        )
    head = {n for n in graph if n not in core and n not in after}
    tail = {n for n in graph if n in after and n not in core}
    head = _without_outputs(graph, head)
    tail |= {n for n in graph if isinstance(graph.op(n), Output)}
    from_head, from_core = _read_by(graph, head, core | tail), _read_by(graph, core, tail)
    names = _crossing_names(graph, (*from_head, *from_core))
    last = _part(graph, tail, "tail", (), names)
    last.constant_outputs = dict(graph.constant_outputs)
    return Partition(_part(graph, head, "head", from_head, names), _part(graph, core, "core", from_core, names), last)


def _is_core(graph: Graph, node: str) -> bool:
    op = graph.op(node)
    return isinstance(op, _CORE) and all(graph.type(v).is_integer for v in graph.sources(node))


def _message(problem: str, blockers: Sequence[str]) -> str:
    if not blockers:
        return f"{problem}: it has no quantizer followed by an operator on integers"
    return f"{problem}; it is kept on the host by: " + "; ".join(dict.fromkeys(blockers))


def _without_outputs(graph: Graph, nodes: set[str]) -> set[str]:
    return {n for n in nodes if not isinstance(graph.op(n), Output)}


def _read_by(graph: Graph, part: set[str], readers: set[str]) -> tuple[Value, ...]:
    """Tensors of *part* that nodes of *readers* read, in graph order."""
    found: dict[Value, None] = {}
    for node in graph:
        if node in readers:
            for value in graph.sources(node):
                if value.node in part:
                    found[value] = None
    return tuple(found)


def _crossing_names(graph: Graph, values: Iterable[Value]) -> dict[Value, str]:
    """A name for each tensor that crosses between parts: its node's, made different from all others."""
    names = {Value(graph.input_node(name)): name for name in graph.inputs}
    taken = set(names.values())
    for value in values:
        if value not in names:
            wanted = value.node if value.port == 0 else f"{value.node}.{value.port}"
            name, number = wanted, 0
            while name in taken:
                number += 1
                name = f"{wanted}_{number}"
            names[value] = name
            taken.add(name)
    return names


def _part(graph: Graph, nodes: set[str], name: str, results: Iterable[Value], names: Mapping[Value, str]) -> Graph:
    """The subgraph of *nodes*, fed by Input nodes where it reads from outside, with *results* as outputs."""
    part = Graph(f"{graph.name}_{name}" if graph.name else name, graph.file)
    here: dict[Value, Value] = {}
    public = {graph.input_node(n): n for n in graph.inputs} | {graph.output_node(n): n for n in graph.outputs}

    def fetch(value: Value) -> Value:
        if value not in here:
            here[value] = part.input(names[value], graph.type(value))
        return here[value]

    for node in graph:
        if node not in nodes:
            continue
        op = graph.op(node)
        sources = [fetch(v) for v in graph.sources(node)]
        first = part.add(op, sources, public.get(node, node))
        for port in range(len(graph.types(node))):
            here[Value(node, port)] = Value(first.node, port)
    for value in results:
        part.output(names[value], here[value])
    return part
