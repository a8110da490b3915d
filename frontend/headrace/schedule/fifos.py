"""FIFOs: as deep as the schedule of the whole graph needs them, so that the slowest layer never waits."""

from __future__ import annotations

from headrace.ir import Graph
from headrace.layers.base import Layer
from headrace.layers.fifo import FIFO
from headrace.schedule.inserting import insert_layers
from headrace.schedule.streams import Link, boundary_stream, layers, links, target_stream
from headrace.schedule.tokens import programmes, steady_schedule

SHALLOWEST = 2
"""Words of a FIFO that only cuts the combinational paths between two layers."""

MARGIN = 2
"""Words more than the schedule holds: those in the output register and on the way through the FIFO."""


def fifo_depths(graph: Graph) -> dict[Link, int]:
    """Words that each link of *graph* must hold.

    Of the two schedules of :func:`~headrace.schedule.tokens.steady_schedule`, both of which are proven to be reached,
    the one that needs fewer bits is taken.
    """
    edges = links(graph)
    best: dict[Link, int] = {}
    fewest: int | None = None
    known = programmes(graph)
    for even in (True, False):
        plan = steady_schedule(graph, even, known)
        depths = {link: _depth(plan.occupancy(link)) for link in edges}
        bits = sum(depth * boundary_stream(graph, link).word_bits for link, depth in depths.items())
        if fewest is None or bits < fewest:
            best, fewest = depths, bits
    return best


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


def _depth(occupancy: int) -> int:
    return SHALLOWEST if occupancy <= 1 else occupancy + MARGIN
