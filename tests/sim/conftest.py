"""Shared by the simulation tests: the engines, and a check that all of them agree."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from headrace_sim import Manifest, SimResult, toolchain
from headrace_sim.pytest_plugin import RtlSim

ENGINES = {
    "cpp": {"engine": "cpp"},
    "cocotb": {"engine": "cocotb"},
    "icarus": {"engine": "cocotb", "simulator": "icarus"},
}

Agree = Callable[..., SimResult]


@pytest.fixture(
    params=[
        "cpp",
        "cocotb",
        pytest.param("icarus", marks=pytest.mark.skipif(not shutil.which("iverilog"), reason="no iverilog")),
    ]
)
def engine(request: pytest.FixtureRequest) -> dict[str, str]:
    """Keyword arguments of `simulate` that choose one way to run a design."""
    return ENGINES[request.param]


@pytest.fixture
def forgotten_tools() -> Iterator[None]:
    """No tool that was found before the test is known in it, nor one of the test after it."""
    finders = (toolchain.verilator, toolchain.cxx_compiler, toolchain.icarus)
    for finder in finders:
        finder.cache_clear()
    yield
    for finder in finders:
        finder.cache_clear()


@pytest.fixture
def agree(rtl_sim: RtlSim) -> Agree:
    """Run a design on every engine; values and the cycle of every transfer must be equal."""

    def run(manifest: Manifest, inputs: dict[str, np.ndarray], **options: object) -> SimResult:
        engines = [name for name in ENGINES if name != "icarus" or shutil.which("iverilog")]
        results = [rtl_sim(manifest, inputs, **ENGINES[name], **options) for name in engines]
        for other in results[1:]:
            assert other.cycles == results[0].cycles
            assert other.interval == results[0].interval
            for mine, theirs in (
                (results[0].outputs, other.outputs),
                (results[0].streams, other.streams),
                (results[0].time_stamps, other.time_stamps),
            ):
                assert mine.keys() == theirs.keys()
                for name in mine:
                    np.testing.assert_array_equal(mine[name], theirs[name])
        return results[0]

    return run
