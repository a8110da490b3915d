"""The cocotb engine, host side: builds a simulator and starts it; bench.py is the in-simulator side."""

from __future__ import annotations

import importlib.metadata
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from headrace_sim import progress, verilate
from headrace_sim.cache import content_key
from headrace_sim.cpp_engine import check_log
from headrace_sim.errors import BuildError, SimulationError
from headrace_sim.glue import BuildOptions
from headrace_sim.toolchain import icarus

if TYPE_CHECKING:
    from cocotb_tools.runner import Runner

    from headrace_sim.cache import BuildCache
    from headrace_sim.manifest import Manifest
    from headrace_sim.simulation import Job

_LOG_CHARACTERS = 3000


def build(manifest: Manifest, job: Job, cache: BuildCache) -> tuple[Path, bool]:
    """The folder with the compiled simulator for `job`, and whether it was cached."""
    if job.simulator == "icarus":
        return _build_icarus(manifest, job, cache)
    options = BuildOptions(bench="cocotb", trace=job.trace, waves=job.wave_format, optimize=job.optimize)
    # cocotb's runner expects the executable under the name of the top module, as it is.
    program, cached = verilate.build(manifest, options, cache, job.jobs)
    return program.parent, cached


def _build_icarus(manifest: Manifest, job: Job, cache: BuildCache) -> tuple[Path, bool]:
    if manifest.models:
        raise BuildError(
            f"design {manifest.name} has layers that are C++, which Icarus cannot call; simulate it with Verilator"
        )
    _, version = icarus()
    waves = job.waves is not None
    parts: list[str | bytes] = [version, importlib.metadata.version("cocotb"), manifest.top, str(waves)]
    for path in manifest.source_paths:
        parts += [path.name, path.read_bytes()]

    def make(folder: Path) -> None:
        log = folder / "build.log"
        try:
            _runner("icarus").build(
                sources=list(manifest.source_paths),
                hdl_toplevel=manifest.top,
                build_dir=folder,
                timescale=("1ns", "1ps"),
                waves=waves,
                log_file=log,
            )
        except (RuntimeError, SystemExit) as error:
            raise BuildError(f"iverilog failed:\n{_tail(log)}") from error

    return cache.get(content_key(parts), make)


def _runner(simulator: str) -> Runner:
    """cocotb's own, without the command lines that it logs: pytest would show them beside a value that differs."""
    from cocotb_tools.runner import get_runner

    found = get_runner(simulator)
    found.log.setLevel(logging.WARNING)
    return found


def run(manifest: Manifest, job: Job, program: Path) -> None:
    """Run the bench in the simulator in folder `program`; it leaves the files that `Raw.read` reads.

    Raises:
        SimulationError: the simulator or the bench stopped before the outcome was written.
    """
    (job.folder / "job.json").write_text(_job_json(manifest, job))
    (job.folder / "design.json").write_text(manifest.to_json())
    log = job.folder / "run.log"
    arguments, plusargs = _simulator_arguments(job)
    failure: BaseException | None = None
    try:
        _runner(job.simulator).test(
            test_module="headrace_sim.bench",
            hdl_toplevel=manifest.top,
            hdl_toplevel_lang="verilog",
            build_dir=program,
            test_dir=job.folder,
            test_args=arguments,
            plusargs=plusargs,
            results_xml=str(job.folder / "results.xml"),
            seed=job.seed,
            extra_env={"COCOTB_LOG_LEVEL": "WARNING"},
            log_file=log,
            waves=job.waves is not None,
        )
    except (RuntimeError, SystemExit) as error:  # cocotb's runner leaves by SystemExit under pytest
        failure = error
    if not (job.folder / "status.json").is_file():
        raise SimulationError(f"design {manifest.name}: the cocotb bench failed:\n{_tail(log)}") from failure
    check_log(manifest, log.read_text(errors="replace"))


def _simulator_arguments(job: Job) -> tuple[list[str], list[str]]:
    if job.simulator == "icarus":
        return [], ([f"+dumpfile_path={job.waves}"] if job.waves is not None else [])
    arguments = ["+verilator+rand+reset+2", f"+verilator+seed+{job.seed % 2147483647 + 1}"]
    if job.waves is not None:
        arguments += ["--trace-file", str(job.waves)]
    return arguments, []


def _job_json(manifest: Manifest, job: Job) -> str:
    data = {
        "top": manifest.top,
        "frames": job.frames,
        "timeout_cycles": job.timeout_cycles,
        "tail_cycles": job.tail_cycles,
        "reset_cycles": job.reset_cycles,
        "pace": job.pace,
        "tell": progress.PERIOD,
        "trace": job.trace,
        "control": job.control.lines(),
        "stalls": {name: [spec.key, spec.threshold] for name, spec in job.stalls.items()},
    }
    return json.dumps(data)


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-_LOG_CHARACTERS:] if log.is_file() else "(no output)"
