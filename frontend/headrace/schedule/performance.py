"""What a folded graph will do: cycles by layer, the slowest, frames a second, latency."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.ir import Graph
from headrace.layers.base import Resources
from headrace.schedule.folding_file import INSERTED
from headrace.schedule.steady import first_frame_latency
from headrace.schedule.streams import layers


@dataclass(frozen=True)
class LayerPerformance:
    """One layer: cycles a frame, and estimated resources."""

    name: str
    kind: str
    folding: dict[str, int]
    cycles: int
    resources: Resources


@dataclass(frozen=True)
class Performance:
    """Of a whole design.

    Attributes:
        layers: in topological order.
        interval: cycles between frames in steady state, which the slowest layer sets.
        bottleneck: name of that layer; the first, when several are as slow, a FIFO or width converter after others.
        latency: cycles from the first word of a frame into the empty design to its last word out, estimated.
        resources: sum over the layers, estimated.
    """

    layers: tuple[LayerPerformance, ...]
    interval: int
    bottleneck: str
    latency: int
    resources: Resources

    def fps(self, clock_mhz: float) -> float:
        """Frames a second."""
        return clock_mhz * 1e6 / self.interval

    def latency_us(self, clock_mhz: float) -> float:
        """Latency in microseconds."""
        return self.latency / clock_mhz


def performance(graph: Graph) -> Performance:
    """The expected performance of *graph*, a folded hardware graph with or without FIFOs."""
    rows = tuple(
        LayerPerformance(name, layer.kind, layer.folding, layer.cycles, layer.resources())
        for name, layer in layers(graph).items()
    )
    slowest = max(rows, key=lambda row: (row.cycles, row.kind not in INSERTED))
    total = sum((row.resources for row in rows), Resources())
    return Performance(rows, slowest.cycles, slowest.name, first_frame_latency(graph), total)
