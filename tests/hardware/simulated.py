"""Running generated designs in the simulator and comparing every stream with the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import headrace_sim
from headrace.codegen.design import generate
from headrace.codegen.plan import write_plan
from headrace.ir import Array, Graph
from headrace.passes.hardware_design import HardwareDesign
from headrace.passes.to_hardware import to_hardware
from headrace.schedule import schedule
from headrace.schedule.streams import layers


@dataclass(frozen=True)
class Settings:
    """What :func:`headrace.schedule.schedule` asks of a build's configuration."""

    target_fps: float | None = None
    clock_mhz: float = 200.0
    folding: Mapping[str, Mapping[str, Any]] | None = None


def check_rtl(
    core: Graph,
    feeds: Mapping[str, Array],
    folder: Path,
    settings: Settings = Settings(),
    name: str = "design",
    pixels: Mapping[str, int] | None = None,
    **stalls: float,
) -> HardwareDesign:
    """Generate *core*, simulate it, and compare all its streams and outputs with the graphs.

    Without stalls, a design must also keep its rate: the interval is at most 2 % over the slowest layer's cycles; and
    the latency is what the model says, or up to 10 % less.
    """
    design = schedule(to_hardware(core, pixels), settings)
    plan = generate(design, name)
    write_plan(plan, folder)
    packed = design.pack_frames(feeds)
    result = headrace_sim.simulate(folder, packed, trace=True, **stalls)
    if not any(stalls.values()):
        late = result.first_frame_latency
        assert late <= plan.latency <= 1.1 * late, f"the first frame took {late} cycles, expected {plan.latency}"
    streams = {p.node: packed[p.name].reshape(-1, *p.layout.frame) for p in design.inputs}
    values: dict[str, tuple[Array, ...]] = {}
    design.graph.run(streams, observe=lambda node, arrays: values.update({node: arrays}))
    for (node, port), stream in plan.streams.items():
        expected = values[node][port].reshape(len(values[node][port]), -1)
        got = result.streams[stream]
        assert len(got) == len(expected), f"{node}: {len(got)} of {len(expected)} frames"
        assert np.array_equal(got, expected), f"{node} differs"
    expected_outputs = core.run(feeds)
    outputs = design.unpack_frames(result.outputs)
    for port in design.outputs:
        assert np.array_equal(outputs[port.name], expected_outputs[port.name])
    for port in design.outputs:
        bound, measured = slowest(design.graph, port.node), result.interval[port.name]
        assert measured is None or measured <= bound * 1.02, f"{measured} cycles a frame, bound {bound}"
    return design


def slowest(graph: Graph, node: str) -> int:
    """Cycles of the slowest layer among those that are connected to *node*."""
    (part,) = (part for part in nx.weakly_connected_components(graph.nx) if node in part)
    return max(layer.cycles for name, layer in layers(graph).items() if name in part)
