"""What is joined and cut again: a slice of a concatenation reads the part that it lies in."""

from __future__ import annotations

from headrace.ir import Graph, Value
from headrace.ir.integer import Concat, Slice
from headrace.passes.rewriting import Rewritten, rewrite


def forward_slices(graph: Graph) -> Graph:
    """*graph* with every :class:`Slice` that lies in one operand of a :class:`Concat` reading that operand."""

    def forwarded(node: str) -> Rewritten | Value | None:
        cut = graph.op(node)
        if not isinstance(cut, Slice) or cut.step != 1:
            return None
        (source,) = graph.sources(node)
        joined = graph.op(source.node)
        if not isinstance(joined, Concat) or joined.axis != cut.axis:
            return None
        first = 0
        for part in graph.sources(source.node):
            size = graph.type(part).shape[cut.axis]
            if first <= cut.start and cut.stop <= first + size:
                whole = (cut.start, cut.stop) == (first, first + size)
                return part if whole else (Slice(cut.axis, cut.start - first, cut.stop - first), (part,))
            first += size
        return None

    return rewrite(graph, forwarded)
