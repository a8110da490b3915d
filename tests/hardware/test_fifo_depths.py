"""FIFO depths in simulated RTL: enough for the rate of the slowest layer, and not one word more than that takes."""

from __future__ import annotations

import pytest
from fifo_depths import bits, measured_depths, simulated, with_depths

from headrace.ir import Graph
from headrace.ir.integer import IntAdd
from headrace.layers.duplicate_streams import DuplicateStreams
from headrace.layers.fifo import FIFO
from headrace.passes.hardware_design import HardwareDesign
from headrace.passes.to_hardware import to_hardware
from headrace.schedule import schedule
from headrace.schedule.streams import layers
from headrace_sim import DeadlockError

from .cores import INT4, Core, random_frames
from .simulated import Settings
from .test_convolutional import NETWORKS

pytestmark = pytest.mark.sim


def residual_block(size: int, channels: int, kernel: int, depth: int) -> Graph:
    """A join of nothing at all with *depth* convolutions, which wait for rows of the image."""
    core = Core(3)
    x = core.activation(core.conv(core.input((channels, size, size), INT4), channels, (1, 1), "stem"), name="stem_act")
    y = x
    for k in range(depth):
        y = core.activation(core.conv(y, channels, (kernel, kernel), f"conv{k}", pad=kernel // 2), name=f"act{k}")
    y = core.conv(y, channels, (kernel, kernel), "last", pad=kernel // 2)
    core.output(core.activation(core.graph.add(IntAdd((3, 1)), (x, y), "join"), name="out"))
    return core.graph


def bypass(graph: Graph) -> tuple[str, int]:
    """The deepest FIFO behind a fork, and its depth."""
    found = layers(graph)
    forked = {
        node: layer.depth
        for node, layer in found.items()
        if isinstance(layer, FIFO) and isinstance(found.get(graph.sources(node)[0].node), DuplicateStreams)
    }
    return max(forked.items(), key=lambda item: item[1])


def interval(design: HardwareDesign, core: Graph, node: str, less: int) -> float | None:
    """Cycles a frame with *less* words in the FIFO *node*; None when it deadlocks."""
    graph = with_depths(design.graph, lambda name, fifo: fifo.depth - less * (name == node))
    try:
        result, _ = simulated(design.with_graph(graph), random_frames(core, 14))
    except DeadlockError:
        return None
    return result.interval["y"]


@pytest.mark.parametrize(("size", "channels", "kernel", "depth"), [(8, 1, 3, 2), (7, 1, 5, 1)])
def test_one_word_less_beside_a_long_branch_stalls(size: int, channels: int, kernel: int, depth: int) -> None:
    core = residual_block(size, channels, kernel, depth)
    design = schedule(to_hardware(core), Settings(target_fps=200e6 / size**2))
    node, words = bypass(design.graph)
    assert words > size * (kernel // 2) * (depth + 1)
    assert interval(design, core, node, 0) == size**2
    slower = interval(design, core, node, 1)
    assert slower is None or slower > size**2


def test_a_shallow_fifo_beside_a_long_branch_deadlocks() -> None:
    core = residual_block(6, 1, 5, 1)
    design = schedule(to_hardware(core), Settings(target_fps=200e6 / 36))
    node, words = bypass(design.graph)
    assert interval(design, core, node, words - 2) is None


@pytest.mark.parametrize("network", ["residual", "separable"])
def test_no_more_bits_than_the_largest_occupancy(network: str) -> None:
    """What users of other tools measure: deep FIFOs, frames at the rate of the slowest layer, most words held."""
    core = NETWORKS[network]
    design = schedule(to_hardware(core), Settings())
    found = layers(design.graph)
    slowest = max(layer.cycles for layer in found.values())
    measured = measured_depths(design, random_frames(core, 6), slowest)
    computed = {node: layer.depth for node, layer in found.items() if isinstance(layer, FIFO) and node in measured}
    assert len(measured) > 10
    assert bits(design, computed) <= bits(design, measured)
