"""FIFOs: as deep as the schedule of the whole graph needs them, so that the slowest layer never waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.ir import Graph
from headrace.layers.base import Layer, StreamType
from headrace.layers.fifo import FIFO
from headrace.schedule.inserting import insert_layers
from headrace.schedule.steady import LINK_LATENCY, steady_flows
from headrace.schedule.streams import Link, boundary_stream, layers, links, target_stream

SHALLOWEST = 2
"""Words of a FIFO that only cuts the combinational paths between two layers."""

ROUNDS = 6
"""Most times that a schedule is made; the last time, every FIFO is taken to be slow."""

HOPEFUL = 1.25
"""A schedule that needs so many times the bits of the best is not pursued."""

Depths = dict[Link, int]


@dataclass
class _Attempt:
    """A schedule in one pace: the links that it takes to be slow, and the depths that it needs.

    It holds when no FIFO is slower than was assumed.
    """

    even: bool
    latency: dict[Link, int] = field(default_factory=dict)
    depths: Depths = field(default_factory=dict)

    def holds(self, streams: Mapping[Link, StreamType]) -> bool:
        """Whether the schedule holds; if not, the FIFOs that were taken to be faster than they are will be slow."""
        actual = {link: FIFO(streams[link], depth).latency for link, depth in self.depths.items()}
        slow = {link: cycles for link, cycles in actual.items() if cycles > self.latency.get(link, 1)}
        self.latency |= slow
        return not slow


def fifo_depths(graph: Graph) -> Depths:
    """Words that each link of *graph* must hold.

    Of the two paces of :class:`~headrace.schedule.steady.Walk`, both of which give schedules that are proven to be
    reached, the one that needs fewer bits is taken. A word passes a shallow FIFO faster than a deep one, and how long
    it takes decides how deep the FIFOs beside it must be: schedules are made again with the FIFOs that became deep.
    """
    streams = {link: boundary_stream(graph, link) for link in links(graph)}
    best: Depths = {}
    fewest: int | None = None
    attempts = [_Attempt(True), _Attempt(False)]
    for left in reversed(range(ROUNDS)):
        if left == 0:
            attempts = [replace(a, latency=dict.fromkeys(streams, LINK_LATENCY)) for a in attempts]
        _attempt(graph, attempts, streams)
        open_ = []
        needed = [sum(d * streams[link].word_bits for link, d in a.depths.items()) for a in attempts]
        for attempt, bits in zip(attempts, needed, strict=True):
            if not attempt.holds(streams):
                if bits <= HOPEFUL * min(needed) and (fewest is None or bits < fewest):
                    open_.append(attempt)
            elif fewest is None or bits < fewest:
                best, fewest = attempt.depths, bits
        attempts = open_
        if not attempts:
            break
    return best


def _attempt(graph: Graph, attempts: Sequence[_Attempt], streams: Mapping[Link, StreamType]) -> None:
    """Make the schedules of *attempts*, side by side, and note the depths that they need."""
    for attempt in attempts:
        attempt.depths = dict.fromkeys(streams, SHALLOWEST)
    for number, link, flow in steady_flows(graph, [(a.even, a.latency) for a in attempts]):
        attempts[number].depths[link] = max(flow.occupancy(), SHALLOWEST)


def insert_fifos(graph: Graph) -> Graph:
    """*graph* with a FIFO on every link, and the depths that :func:`fifo_depths` computes."""
    depths = fifo_depths(graph)

    def wanted(link: Link) -> tuple[Layer, ...]:
        stream = target_stream(graph, link) or boundary_stream(graph, link)
        return (FIFO(stream, depths[link]),)

    return insert_layers(graph, wanted)


def fifos(graph: Graph) -> dict[str, FIFO]:
    """The FIFOs of *graph* by node, in topological order."""
    return {node: layer for node, layer in layers(graph).items() if isinstance(layer, FIFO)}
