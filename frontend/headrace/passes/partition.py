"""Split an integer graph: what the host computes before, what the hardware computes, what the host computes after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

    ``core``'s inputs are named as outputs of ``head`` (or as model inputs that are integers already); ``tail``'s
    inputs are named as outputs of ``core``, of ``head``, or as model inputs.
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
        names = ", ".join(f"'{n}'" for n in middle[:3])
        raise UnsupportedError(
            _message(f"hardware would have to wait for the host in the middle of the network, at {names}", blockers),
            file=graph.file,
        )
    head = {n for n in graph if n not in core and n not in after}
    tail = {n for n in graph if n in after and n not in core}
    head = _without_outputs(graph, head)
    tail |= {n for n in graph if isinstance(graph.op(n), Output)}
    return Partition(
        _part(graph, head, "head", _read_by(graph, head, core | tail)),
        _part(graph, core, "core", _read_by(graph, core, tail)),
        _part(graph, tail, "tail", ()),
    )


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


def boundary_name(value: Value) -> str:
    """Name of a tensor that crosses between parts."""
    return value.node if value.port == 0 else f"{value.node}.{value.port}"


def _part(graph: Graph, nodes: set[str], name: str, results: Iterable[Value]) -> Graph:
    """The subgraph of *nodes*, fed by Input nodes where it reads from outside, with *results* as outputs."""
    part = Graph(f"{graph.name}_{name}" if graph.name else name, graph.file)
    here: dict[Value, Value] = {}
    public = {graph.input_node(n): n for n in graph.inputs} | {graph.output_node(n): n for n in graph.outputs}

    def fetch(value: Value) -> Value:
        if value not in here:
            here[value] = part.input(public.get(value.node, boundary_name(value)), graph.type(value))
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
        part.output(boundary_name(value), here[value])
    return part
