"""Fully unrolled networks: one pipeline without FIFOs inside, a frame a cycle, exact under stalls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import headrace_sim
from headrace.codegen.design import generate
from headrace.codegen.plan import write_plan
from headrace.ir import Graph, IntRange
from headrace.layers.fifo import FIFO
from headrace.passes.hardware_design import HardwareDesign
from headrace.passes.to_hardware import to_hardware
from headrace.schedule.fifos import fifos
from headrace.schedule.passing import READY_REACH
from headrace.schedule.scheduling import Goal, connect, fold_for_rate
from headrace.schedule.streams import layers

from .cores import Core, random_frames

UINT4 = IntRange(0, 15)


def network(sizes: tuple[int, ...], rounded: bool) -> Graph:
    """Dense layers; their activations are taken over when they round, and layers of their own when they do not."""
    core = Core(4)
    x = core.input(sizes[:1], UINT4)
    for k, size in enumerate(sizes[1:]):
        x = core.matmul(x, size, f"fc{k}")
        x = core.activation(x, name=f"act{k}") if not rounded else core.rounding(x, 2, UINT4, f"act{k}")
    core.output(core.matmul(x, 3, "last"))
    return core.graph


def unrolled(core: Graph) -> HardwareDesign:
    return connect(fold_for_rate(to_hardware(core), Goal(unroll=True)))


def depths(design: HardwareDesign) -> list[int]:
    return [fifo.depth for fifo in fifos(design.graph).values()]


def test_pipelines_are_wired_to_each_other_and_ready_is_cut_now_and_then() -> None:
    assert depths(unrolled(network((6, 5, 4), True))) == []
    assert depths(unrolled(network((6, 5, 4), False))) == []
    long = unrolled(network((4,) * (READY_REACH + 1), True))
    assert sum(not isinstance(layer, FIFO) for layer in layers(long.graph).values()) == READY_REACH + 1
    assert depths(long) == [1]


@pytest.mark.sim
@pytest.mark.parametrize("rounded", [True, False])
def test_a_frame_a_cycle_exact_and_as_late_as_predicted(tmp_path: Path, rounded: bool) -> None:
    core = network((6, 5, 5, 4, 4, 4), rounded)
    design = unrolled(core)
    plan = generate(design, "unrolled")
    write_plan(plan, tmp_path / "design")
    feeds = random_frames(core, 60)
    expected = core.run(feeds)["y"]
    free = headrace_sim.simulate(tmp_path / "design", design.pack_frames(feeds))
    assert np.array_equal(design.unpack_frames(free.outputs)["y"], expected)
    assert free.interval == {"y": 1.0}
    assert free.first_frame_latency == plan.latency
    for seed, (stall_in, stall_out) in enumerate([(0.0, 0.5), (0.5, 0.0), (0.4, 0.4)]):
        stalled = headrace_sim.simulate(
            tmp_path / "design", design.pack_frames(feeds), stall_in=stall_in, stall_out=stall_out, seed=seed
        )
        assert np.array_equal(design.unpack_frames(stalled.outputs)["y"], expected)


@pytest.mark.sim
def test_no_stage_runs_empty_under_a_slow_reader(tmp_path: Path) -> None:
    """So a result is there whenever the reader is ready: stalls cost their own cycles, no more."""
    core = network((6, 5, 4), True)
    design = unrolled(core)
    plan = generate(design, "unrolled")
    write_plan(plan, tmp_path / "design")
    feeds = random_frames(core, 200)
    result = headrace_sim.simulate(tmp_path / "design", design.pack_frames(feeds), stall_out=0.5, seed=1)
    sent, received = result.time_stamps["x"].ravel(), result.time_stamps["y"].ravel()
    inside = np.arange(len(sent)) - np.searchsorted(np.sort(received), sent)
    assert (inside[plan.latency :] >= plan.latency).all()
