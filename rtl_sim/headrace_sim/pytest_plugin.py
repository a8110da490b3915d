"""Pytest plugin: the fixture `rtl_sim` simulates a design with the options of the command line.

    def test_layer(rtl_sim):
        result = rtl_sim(manifest, {"x": x}, stall_in=0.3)

Keyword arguments are those of `headrace_sim.simulate` and take precedence over the options. Nothing is imported
before the fixture is used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import pytest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headrace_sim.cache import BuildCache
    from headrace_sim.manifest import Manifest
    from headrace_sim.result import SimResult

ENGINE_OF = {
    "cpp": ("cpp", "verilator"),
    "verilator": ("cocotb", "verilator"),
    "icarus": ("cocotb", "icarus"),
}


class SimulateOptions(TypedDict, total=False):
    """Keyword arguments of `headrace_sim.simulate`."""

    engine: str
    simulator: str
    seed: int
    stall_in: float
    stall_out: float
    trace: bool
    waves: Path | str | None
    timeout_cycles: int | None
    optimize: str
    cache: BuildCache | Path | str | None
    jobs: int | None
    check: bool


@dataclass(frozen=True)
class RtlSim:
    """Calls `headrace_sim.simulate` with defaults; skips (or fails) where the simulator is not installed."""

    defaults: SimulateOptions
    require: bool
    wave_stem: Path | None = None

    def __call__(
        self,
        design: Manifest | Path | str,
        inputs: Mapping[str, NDArray[np.integer]],
        **options: Unpack[SimulateOptions],
    ) -> SimResult:
        from headrace_sim.errors import SimulatorNotFound
        from headrace_sim.simulation import simulate

        chosen: SimulateOptions = {**self.defaults, **options}
        if self.wave_stem is not None and "waves" not in chosen:
            suffix = ".fst" if chosen.get("simulator") == "icarus" else ".vcd"
            chosen["waves"] = self.wave_stem.with_suffix(suffix)
        try:
            return simulate(design, inputs, **chosen)
        except SimulatorNotFound as error:
            if self.require:
                pytest.fail(f"--require-sim: {error}", pytrace=False)
            pytest.skip(str(error))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("headrace", "RTL simulation of Headrace designs")
    group.addoption(
        "--rtl-simulator",
        choices=sorted(ENGINE_OF),
        default="cpp",
        help="cpp: C++ driver on Verilator (default); verilator, icarus: cocotb on that simulator",
    )
    group.addoption("--rtl-waves", metavar="FOLDER", help="write a waveform per test into FOLDER")
    group.addoption("--rtl-seed", type=int, default=0, metavar="N", help="seed of stalls and initial values")
    group.addoption("--rtl-stalls", type=float, default=0.0, metavar="P", help="probability of a stall on every port")
    group.addoption("--require-sim", action="store_true", help="fail instead of skipping where a simulator is missing")


@pytest.fixture
def rtl_sim(request: pytest.FixtureRequest) -> RtlSim:
    """Simulate a design: `rtl_sim(manifest, inputs, **options) -> SimResult`."""
    config = request.config
    engine, simulator = ENGINE_OF[config.getoption("--rtl-simulator")]
    stalls: float = config.getoption("--rtl-stalls")
    defaults: SimulateOptions = {
        "engine": engine,
        "simulator": simulator,
        "seed": config.getoption("--rtl-seed"),
        "stall_in": stalls,
        "stall_out": stalls,
    }
    folder: str | None = config.getoption("--rtl-waves")
    stem = Path(folder) / re.sub(r"\W+", "_", request.node.nodeid).strip("_") if folder else None
    return RtlSim(defaults, config.getoption("--require-sim"), stem)
