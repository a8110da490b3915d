"""What a folded graph will do: cycles by layer, the slowest, frames a second, latency."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.ir import Graph
from headrace.layers.base import Resources
from headrace.schedule.folding_keys import INSERTED, PIXELS
from headrace.schedule.steady import first_frame
from headrace.schedule.streams import layers, within_memory


@dataclass(frozen=True)
class LayerPerformance:
    """One layer.

    Attributes:
        name, kind: of the layer.
        folding: ``PE``, ``SIMD``, ``M``.
        cycles: a frame takes.
        latency: cycles from its first word in to its first word out, when words come as it takes them.
        done: cycles from the first word of a frame into the empty design to its last word out of this layer.
        resources: estimated.
    """

    name: str
    kind: str
    folding: dict[str, int]
    cycles: int
    latency: int
    done: int
    resources: Resources


@dataclass(frozen=True)
class Performance:
    """Of a whole design.

    Attributes:
        layers: in topological order.
        interval: cycles between frames in steady state, which the slowest layer sets.
        bottleneck: name of that layer; the first, when several are as slow, a FIFO or width converter after others.
        latency: cycles from the first word of a frame into the empty design to its last word out.
        resources: sum over the layers and the control interface, estimated.
        control: of the control interface alone, its counters included; nothing in a design without one.
    """

    layers: tuple[LayerPerformance, ...]
    interval: int
    bottleneck: str
    latency: int
    resources: Resources
    control: Resources = field(default_factory=Resources)

    def fps(self, clock_mhz: float) -> float:
        """Frames a second."""
        return clock_mhz * 1e6 / self.interval

    def latency_us(self, clock_mhz: float) -> float:
        """Latency in microseconds."""
        return self.latency / clock_mhz


def performance(graph: Graph, counters: bool = False, pixels: Mapping[str, int] | None = None) -> Performance:
    """The expected performance of *graph*, a folded hardware graph with or without FIFOs.

    Args:
        graph: layers.
        counters: whether the design counts what happens on its streams.
        pixels: how many pixels a layer makes at once, by name, where it is more than one.
    """
    at_once = {name: {PIXELS: m} for name, m in (pixels or {}).items()}
    frame = first_frame(graph)
    rows = []
    for name, layer in layers(graph).items():
        folding = at_once.get(name, {}) | layer.folding
        with within_memory(name, layer):
            row = (folding, layer.cycles, layer.latency, frame.done[name], layer.counted_resources())
        rows.append(LayerPerformance(name, layer.kind, *row))
    slowest = max(rows, key=lambda row: (row.cycles, row.kind not in INSERTED))
    control = control_resources(graph, counters)
    total = sum((row.resources for row in rows), control)
    return Performance(tuple(rows), slowest.cycles, slowest.name, frame.latency, total, control)


SLAVE = Resources(lut=130.0, ff=185.0)
"""Estimate of the AXI4-Lite slave and its registers, as yosys maps them for 7-series devices."""


def control_resources(graph: Graph, counters: bool) -> Resources:
    """Estimate of the control interface: the slave, a comparison and a word to choose from for each layer that has
    something to write, and the counters, three of 32 bits for each stream and three of 64."""
    found = layers(graph).values()
    writable = sum(bool(layer.parameters) for layer in found)
    if not writable and not counters:
        return Resources()
    total = SLAVE + Resources(lut=20.0 * writable)
    if counters:
        ends = len(graph.inputs) + len(graph.outputs)
        bits = 64.0 * 3 + 32.0 * (3 * (len(graph.inputs) + sum(len(layer.outputs) for layer in found)) + ends)
        total += Resources(lut=0.8 * bits, ff=bits + 32)
    return total
