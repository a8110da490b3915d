"""Random networks: the hardware graph equals the integer graph before and after scheduling, and so does the RTL."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headrace.codegen.design import generate
from headrace.passes.to_hardware import to_hardware
from headrace.schedule import schedule
from headrace.schedule.streams import layers

from .cores import random_frames
from .random_networks import random_network
from .simulated import Settings, check_rtl


@pytest.mark.parametrize("seed", range(60))
def test_graphs(seed: int) -> None:
    core = random_network(seed)
    feeds = random_frames(core, 3)
    expected = core.run(feeds)
    design = to_hardware(core)
    scheduled = schedule(design, Settings())
    for stage in (design, scheduled):
        got = stage.run(feeds)
        assert all(np.array_equal(got[name], expected[name]) for name in expected)
    assert len(generate(scheduled).files) > len(layers(scheduled.graph))


@pytest.mark.sim
@pytest.mark.parametrize("seed", range(3))
def test_rtl(tmp_path: Path, seed: int) -> None:
    core = random_network(seed)
    check_rtl(core, random_frames(core, 8), tmp_path / "free")
    check_rtl(core, random_frames(core, 4), tmp_path / "stalled", stall_in=0.4, stall_out=0.3)


@pytest.mark.sim
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_rtl_of_many(tmp_path: Path, seed: int) -> None:
    core = random_network(seed)
    settings = Settings(target_fps=200e6 / 200) if seed % 2 else Settings()
    check_rtl(core, random_frames(core, 8), tmp_path / "d", settings)
