"""Copying a graph with some of its nodes replaced."""

from __future__ import annotations

from collections.abc import Callable

from headrace.ir import Graph, Op, Output, Value

Rewritten = tuple[Op, tuple[Value, ...]]
"""An operator, and the tensors of the original graph that it reads."""


def single_reader(graph: Graph, value: Value) -> bool:
    """Whether exactly one node reads *value*, and it is no graph output."""
    readers = graph.consumers(value)
    return len(readers) == 1 and not isinstance(graph.op(readers[0][0]), Output)


def rewrite(graph: Graph, change: Callable[[str], Rewritten | Value | None]) -> Graph:
    """*graph* with nodes replaced, without those that nothing reads any more.

    Args:
        graph: left as it is.
        change: for a node, what to put in its place under its name, or the tensor that its readers read instead; None
            leaves it.
    """
    changed = {node: found for node in graph if (found := change(node)) is not None}
    if not changed:
        return graph
    copy = Graph(graph.name, graph.file)
    copy.constant_outputs = dict(graph.constant_outputs)
    public = {graph.input_node(n): n for n in graph.inputs} | {graph.output_node(n): n for n in graph.outputs}
    here: dict[Value, Value] = {}
    for node in graph:
        found = changed.get(node, (graph.op(node), graph.sources(node)))
        if isinstance(found, Value):
            here[Value(node)] = here[found]
            continue
        op, sources = found
        value = copy.add(op, [here[v] for v in sources], public.get(node, node))
        here |= {Value(node, port): Value(value.node, port) for port in range(len(graph.types(node)))}
    return copy.live()
