"""Scaled-integer analysis: one abstract interpretation that turns a source graph into an integer graph.

Every tensor is either *scaled* (an integer tensor, and the recorded steps that read it as real numbers) or
*floating* (left to the host). Operators lower themselves (``SourceOp.lower``); this pass walks the graph, hands each
the annotations of its operands, and keeps the reasons for everything that could not become integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.ir import Graph, Value
from headrace.ir.integer import Activation, Lookup
from headrace.ir.scaled import Floating, Joined, Scaled, Writable
from headrace.passes.analysis import Analysis
from headrace.passes.blocker import Blocker
from headrace.passes.forward_slices import forward_slices
from headrace.passes.merge_activations import merge_activations
from headrace.passes.merge_padding import merge_padding
from headrace.passes.partition import Partition, partition

SIMPLIFICATIONS = (forward_slices, merge_padding, merge_activations)
"""Passes over the integer graph, in order."""


@dataclass(frozen=True, eq=False)
class IntegerModel:
    """The integer form of a model.

    Attributes:
        graph: the whole of it, model inputs to model outputs, executable.
        annotations: what the analysis knows of source tensors that have an integer tensor in *graph*, or a real one.
        joins: of those that have none, because what reads them reads a function of several integer tensors.
        blockers: what stays on the host although integers reached it, and why.
        disagreements: per node of *graph*, how many reachable integers float32 and exact real arithmetic map to
            different codes: where an executor of higher precision differs. One that lets rounding errors add up may
            also differ where both meet a tie.
    """

    graph: Graph
    annotations: Mapping[Value, Scaled | Floating] = field(default_factory=dict)
    joins: Mapping[Value, Joined] = field(default_factory=dict)
    blockers: tuple[Blocker, ...] = ()

    @property
    def disagreements(self) -> dict[str, int]:
        """Count per activation node; see the class."""
        ops = ((node, self.graph.op(node)) for node in self.graph)
        return {node: op.disagreements for node, op in ops if isinstance(op, Activation | Lookup)}

    def partition(self) -> Partition:
        """Split into host head, hardware core and host tail.

        Raises:
            UnsupportedError: when that is impossible; lists every blocker.
        """
        return partition(self.graph, [str(b) for b in self.blockers])

    @property
    def head(self) -> Graph:
        """The host part before the hardware."""
        return self.partition().head

    @property
    def core(self) -> Graph:
        """The hardware part."""
        return self.partition().core

    @property
    def tail(self) -> Graph:
        """The host part after the hardware."""
        return self.partition().tail


def to_integer(source: Graph, asked: Mapping[str, Writable] | None = None) -> IntegerModel:
    """Lower *source* to integers.

    Args:
        source: the model.
        asked: by node of the integer graph, constants that are to be replaceable at run time: what follows them is
            analysed for any that may take their place.

    Raises:
        FoldingError: when some of these cannot be; names the node, and what can.
        ModelError: when an operator's parameters are invalid for the values that reach it.
    """
    analysis = Analysis(source, asked)
    for node in source:
        analysis.visit(node)
    graph = analysis.target.live()
    for simplify in SIMPLIFICATIONS:
        graph = simplify(graph)
    found = {v: x for v, x in analysis.env.items() if not isinstance(x, Joined) and x.value.node in graph}
    joins = {v: x for v, x in analysis.env.items() if isinstance(x, Joined)}
    return IntegerModel(graph, found, joins, tuple(analysis.blockers))


__all__ = ["Blocker", "IntegerModel", "to_integer"]
