"""How far a simulation is: told by both benches while they run, and never more than there is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headrace_sim.progress import LOOK_CYCLES, Teller, watched
from headrace_sim.pytest_plugin import RtlSim

from . import designs


def test_what_a_bench_says_is_told(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with watched(tmp_path, lambda *told: seen.append(told)):
        teller = Teller(tmp_path, 0.0)
        teller.look(lambda: 3, LOOK_CYCLES + 1)  # no time to look
        assert list(tmp_path.iterdir()) == []
        teller.look(lambda: 3, 2 * LOOK_CYCLES)
    assert seen == [(0, 0), (3, 2 * LOOK_CYCLES)]
    with watched(tmp_path, None):
        teller.look(lambda: 4, 3 * LOOK_CYCLES)
    assert len(seen) == 2


def test_a_bench_that_says_nothing(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with watched(tmp_path, lambda *told: seen.append(told)):
        Teller(tmp_path, 3600.0).look(lambda: 3, LOOK_CYCLES)
    assert seen == [(0, 0)]


def test_both_benches_tell(
    tmp_path: Path, rtl_sim: RtlSim, engine: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames that are out and cycles, both rising; the outputs are those of a run that tells nothing."""
    manifest = designs.dot_product(tmp_path, [3, 1, 2, 4])
    x = np.arange(1200).reshape(300, 4) % 100
    silent = rtl_sim(manifest, {"x": x}, **engine)
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr("headrace_sim.progress.PERIOD", 0.0)
    told = rtl_sim(manifest, {"x": x}, progress=lambda *what: seen.append(what), **engine)
    np.testing.assert_array_equal(told.outputs["dot"], silent.outputs["dot"])
    assert told.cycles == silent.cycles
    assert seen == sorted(set(seen))
    assert seen[-1][1] == told.cycles // LOOK_CYCLES * LOOK_CYCLES
    assert all(abs(frames - cycles / 4) <= 2 for frames, cycles in seen)
