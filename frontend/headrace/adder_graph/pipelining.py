"""Where registers stand in an adder graph: few adders between two of them, and as few bits kept as can be found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from headrace.adder_graph.graph import CONSTANT, AdderGraph

ADDERS_A_STAGE = 3
"""Adders between two registers by default."""


@dataclass(frozen=True)
class Pipeline:
    """A graph cut into stages: node n is computed in stage ``stage[n]``, inputs arrive in stage 0, and what leaves a
    stage is kept in registers.

    ``stages`` is the latency: outputs are kept after the last one.
    """

    graph: AdderGraph
    stage: tuple[int, ...]
    stages: int

    @cached_property
    def last_use(self) -> tuple[int, ...]:
        """The stage in which every node is read last; outputs are read in the last stage."""
        last = list(self.stage)
        for j, adder in enumerate(self.graph.adders):
            for node in adder.nodes:
                last[node] = max(last[node], self.stage[self.graph.inputs + j])
        for output in self.graph.outputs:
            if output.node != CONSTANT:
                last[output.node] = self.stages - 1
        return tuple(last)

    @cached_property
    def register_bits(self) -> int:
        """Flip-flops, those of the outputs included; a bit that only early stages read is kept no longer."""
        graph, rounding = self.graph, self.graph.rounding
        kept = {(node, bit): self.stage[node] for node, width in enumerate(graph.width) for bit in range(width)}
        for j, adder in enumerate(graph.adders, graph.inputs):
            kept |= {wire: max(kept[wire], self.stage[j]) for wire in adder.reads(graph.width)}
        for output in graph.outputs:
            bits = range(graph.width[output.node]) if output.node != CONSTANT else ()
            kept |= {(output.node, bit): self.stages - 1 for bit in bits if output.shift + bit < graph.bits}
        own = len(graph.outputs) * (rounding.bits if rounding is not None else graph.bits)
        return own + sum(last - self.stage[node] for (node, _), last in kept.items())


def least_stages(graph: AdderGraph, adders: int = ADDERS_A_STAGE) -> int:
    """Stages of at most so many *adders* in a row, of which rounding is one."""
    levels = max(graph.depth, default=0) + (graph.rounding is not None)
    return max(-(-levels // adders), 1)


def pipeline(graph: AdderGraph, adders: int = ADDERS_A_STAGE, sweeps: int = 6) -> Pipeline:
    """*graph* with at most so many *adders* between two registers.

    Rounding counts as an adder. Every node may be computed between the last of its operands and the first of its
    readers; it is moved to where it and its operands are kept for the fewest bits and cycles, until nothing moves.
    """
    stages = least_stages(graph, adders)
    search = _Search(graph, adders, stages)
    for _ in range(sweeps):
        if not search.sweep():
            break
    return Pipeline(graph, tuple(search.stage(n) for n in range(graph.nodes)), stages)


class _Search:
    """Levels of all nodes: 0 for inputs, 1 to ``adders`` in the first stage, and so on."""

    def __init__(self, graph: AdderGraph, adders: int, stages: int) -> None:
        self.graph, self.adders, self.stages = graph, adders, stages
        self.end = stages * adders - (graph.rounding is not None)
        self.operands: list[list[int]] = [[] for _ in range(graph.nodes)]
        self.readers: list[list[int]] = [[] for _ in range(graph.nodes)]
        for j, adder in enumerate(graph.adders, graph.inputs):
            for node in set(adder.nodes):
                self.operands[j].append(node)
                self.readers[node].append(j)
        self.final = {o.node for o in graph.outputs}
        self.level = list(graph.depth)
        latest = [self.end] * graph.nodes
        for j in range(graph.nodes - 1, -1, -1):
            for node in self.operands[j]:
                latest[node] = min(latest[node], latest[j] - 1)
        for j in range(graph.inputs, graph.nodes):
            self.level[j] = latest[j]

    def stage(self, node: int) -> int:
        return max(self.level[node] - 1, 0) // self.adders

    def sweep(self) -> bool:
        """Move every node once, readers first and then operands first; whether anything moved."""
        inner = range(self.graph.inputs, self.graph.nodes)
        return any([self._move(n) for n in reversed(inner)] + [self._move(n) for n in inner])

    def _move(self, node: int) -> bool:
        earliest = 1 + max((self.level[o] for o in self.operands[node]), default=0)
        latest = min((self.level[r] - 1 for r in self.readers[node]), default=self.end)
        if earliest >= latest:
            return False
        before = self.level[node]
        best = (self._kept(node), 0, before)
        for stage in range((earliest - 1) // self.adders, (latest - 1) // self.adders + 1):
            level = min(max(earliest, stage * self.adders + 1), latest)
            self.level[node] = level
            best = min(best, (self._kept(node), 1, level))
        self.level[node] = best[2]
        return best[2] != before

    def _kept(self, node: int) -> int:
        """Bits kept because of *node* and its operands."""
        return sum(self._bits(n) for n in (node, *self.operands[node]))

    def _bits(self, node: int) -> int:
        last = self.stages - 1 if node in self.final else max(map(self.stage, self.readers[node]), default=0)
        return self.graph.width[node] * max(last - self.stage(node), 0)
