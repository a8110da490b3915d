"""Pytest plugin: the fixture `rtl_sim` simulates a design with the options of the command line.

    def test_layer(rtl_sim):
        result = rtl_sim(manifest, {"x": x}, expected={"y": y}, stall_in=0.3)

Keyword arguments are those of `headrace_sim.simulate` and take precedence over the options. With `expected`, the first
value that differs fails the test. With `--rtl-artifacts FOLDER`, a simulation that fails leaves there what a person
needs to look into it: the report, the vectors, and a waveform of the same run. Nothing is imported before the fixture
is used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import pytest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headrace_sim.cache import BuildCache
    from headrace_sim.control import ControlScript
    from headrace_sim.coverage import Coverage
    from headrace_sim.errors import SimError
    from headrace_sim.manifest import Manifest
    from headrace_sim.result import SimResult

    Arrays = Mapping[str, NDArray[np.integer]]

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
    coverage: bool
    control: ControlScript | None


@dataclass(frozen=True)
class RtlSim:
    """Calls `headrace_sim.simulate` with defaults; skips (or fails) where the simulator is not installed."""

    defaults: SimulateOptions
    require: bool
    test: str = ""
    wave_stem: Path | None = None
    artifacts: Path | None = None
    covered: list[Coverage] = field(default_factory=list)

    def __call__(
        self,
        design: Manifest | Path | str,
        inputs: Arrays,
        expected: Arrays | None = None,
        **options: Unpack[SimulateOptions],
    ) -> SimResult:
        """The result of the simulation, which equals `expected` (by output or stream) where that is given."""
        __tracebackhide__ = True
        from headrace_sim.compare import first_mismatch
        from headrace_sim.errors import ArrayError, BuildError, ManifestError, SimError, SimulatorNotFound
        from headrace_sim.manifest import Manifest, load
        from headrace_sim.simulation import simulate

        manifest = design if isinstance(design, Manifest) else load(design)
        chosen = self._options(options)
        if expected is not None and not set(expected) <= {n for p in manifest.outputs for n in (p.tensor, p.port)}:
            chosen.setdefault("trace", True)
        failed: SimError | None = None
        try:
            result = simulate(manifest, inputs, **chosen)
        except SimError as error:
            failed = error
        if isinstance(failed, SimulatorNotFound):
            if self.require:
                pytest.fail(f"--require-sim: {failed}", pytrace=False)
            pytest.skip(str(failed))
        if failed is not None:  # raised anew: the frames inside the simulator say nothing to who wrote the test
            if not isinstance(failed, ArrayError | ManifestError):
                kept = self._keep(manifest, inputs, expected, chosen, str(failed), not isinstance(failed, BuildError))
                for note in (self._difference(failed, expected, manifest), kept):
                    if note:
                        failed.add_note(note)
            raise failed.with_traceback(None)
        if result.coverage is not None:
            self.covered.append(result.coverage)
        mismatch = first_mismatch(result, expected, manifest) if expected is not None else None
        if mismatch is not None:
            kept = self._keep(manifest, inputs, expected, chosen, str(mismatch))
            pytest.fail("\n".join(filter(None, [f"design {manifest.name}: {mismatch}", kept])), pytrace=False)
        return result

    def _difference(self, failed: SimError, expected: Arrays | None, manifest: Manifest) -> str:
        """The first wrong value that a run brought before it went wrong otherwise."""
        from headrace_sim.errors import SimulationError
        from headrace_sim.failure import mismatch_seen

        seen = failed.seen if isinstance(failed, SimulationError) else None
        mismatch = None if seen is None or expected is None else mismatch_seen(seen, expected, manifest)
        return "" if mismatch is None else f"first difference: {mismatch}"

    def _options(self, options: SimulateOptions) -> SimulateOptions:
        chosen: SimulateOptions = {**self.defaults, **options}
        if chosen.get("engine") != "cpp" and "coverage" not in options:
            chosen.pop("coverage", None)
        if self.wave_stem is not None and "waves" not in chosen:
            chosen["waves"] = self.wave_stem.with_suffix(_wave_suffix(chosen))
        return chosen

    def _keep(
        self,
        manifest: Manifest,
        inputs: Arrays,
        expected: Arrays | None,
        chosen: SimulateOptions,
        finding: str,
        waveform: bool = True,
    ) -> str:
        """Leave report, vectors and waveform of a failed run in the folder of artifacts; says where."""
        if self.artifacts is None:
            return ""
        from headrace_sim.failure import Failure

        return Failure(self.test, manifest, inputs, expected or {}, {**chosen}, finding).keep(self.artifacts, waveform)


def _wave_suffix(options: SimulateOptions) -> str:
    return ".fst" if options.get("simulator") == "icarus" else ".vcd"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("headrace", "RTL simulation of Headrace designs")
    group.addoption(
        "--rtl-simulator",
        choices=sorted(ENGINE_OF),
        default="cpp",
        help="cpp: C++ driver on Verilator (default); verilator, icarus: cocotb on that simulator",
    )
    group.addoption("--rtl-waves", metavar="FOLDER", help="write a waveform per test into FOLDER")
    group.addoption(
        "--rtl-artifacts", metavar="FOLDER", help="keep report, vectors and waveform of failed simulations in FOLDER"
    )
    group.addoption("--rtl-coverage", metavar="FOLDER", help="write line and toggle coverage (lcov) into FOLDER")
    group.addoption("--rtl-seed", type=int, default=0, metavar="N", help="seed of stalls and initial values")
    group.addoption("--rtl-stalls", type=float, default=0.0, metavar="P", help="probability of a stall on every port")
    group.addoption("--require-sim", action="store_true", help="fail instead of skipping where a simulator is missing")


def _place(config: pytest.Config, option: str, node: str) -> Path | None:
    folder: str | None = config.getoption(option)
    return Path(folder) / re.sub(r"\W+", "_", node).strip("_") if folder else None


COVERED = pytest.StashKey[list["Coverage"]]()


@pytest.fixture
def rtl_sim(request: pytest.FixtureRequest) -> RtlSim:
    """Simulate a design: `rtl_sim(manifest, inputs, expected=None, **options) -> SimResult`."""
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
    if config.getoption("--rtl-coverage"):
        defaults["coverage"] = True
    return RtlSim(
        defaults,
        config.getoption("--require-sim"),
        request.node.nodeid,
        _place(config, "--rtl-waves", request.node.nodeid),
        _place(config, "--rtl-artifacts", request.node.nodeid),
        config.stash.setdefault(COVERED, []),
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the coverage of all simulations of this process."""
    config = session.config
    parts, wanted = config.stash.get(COVERED, []), config.getoption("--rtl-coverage")
    if not (parts and wanted):
        return
    from headrace_sim.coverage import Coverage

    worker = getattr(config, "workerinput", {}).get("workerid", "main")
    folder = Path(wanted)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"coverage_{worker}.info").write_text(Coverage.merged(parts).lcov(), encoding="utf-8")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One line about the coverage of this process."""
    parts, wanted = config.stash.get(COVERED, []), config.getoption("--rtl-coverage")
    if parts and wanted:
        from headrace_sim.coverage import Coverage

        total = Coverage.merged(parts)
        terminalreporter.write_line(f"RTL coverage: {total}; {wanted}")
