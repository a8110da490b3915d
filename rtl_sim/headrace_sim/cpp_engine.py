"""The fast engine: the verilated model linked to the generic C++ driver (cpp/driver.cpp)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace_sim import progress, verilate
from headrace_sim.control import CHANNELS
from headrace_sim.errors import SimulationError
from headrace_sim.glue import BuildOptions
from headrace_sim.manifest import channel_groups
from headrace_sim.processes import run as run_program

if TYPE_CHECKING:
    from headrace_sim.cache import BuildCache
    from headrace_sim.manifest import Manifest
    from headrace_sim.simulation import Job

_LOG_CHARACTERS = 3000


def build(manifest: Manifest, job: Job, cache: BuildCache) -> tuple[Path, bool]:
    """The simulator executable for `job`, and whether it was cached."""
    options = BuildOptions("cpp", job.trace, job.wave_format, job.optimize, job.coverage)
    return verilate.build(manifest, options, cache, job.jobs)


def run(manifest: Manifest, job: Job, program: Path) -> None:
    """Run `program` in the job's folder; it leaves the files that `Raw.read` reads.

    Raises:
        SimulationError: the simulator stopped by itself, as it does for $fatal or a missing memory file.
    """
    (job.folder / "job.txt").write_text(job_text(manifest, job))
    # Random initial values for whatever the design does not reset; the seed must not be 0.
    command = [str(program), "+verilator+rand+reset+2", f"+verilator+seed+{job.seed % 2147483647 + 1}"]
    done = run_program(command, job.folder)
    if done.returncode != 0 or not (job.folder / "status.json").is_file():
        raise SimulationError(
            f"design {manifest.name}: the simulator stopped with exit status {done.returncode}:\n"
            f"{done.stdout[-_LOG_CHARACTERS:]}"
        )
    check_log(manifest, done.stdout)


def check_log(manifest: Manifest, log: str) -> None:
    """Raise SimulationError if a memory file was missing or short: simulators go on with unknown contents."""
    for line in log.splitlines():
        if "$readmem" in line:
            raise SimulationError(f"design {manifest.name}: {line.strip()}")


def job_text(manifest: Manifest, job: Job) -> str:
    """The job.txt that the driver reads: one `key value...` a line."""
    lines = [
        f"frames {job.frames}",  # before the streams, whose word counts depend on it
        f"timeout {job.timeout_cycles}",
        f"tail {job.tail_cycles}",
        f"reset {job.reset_cycles}",
        f"pace {job.pace}",
        f"tell {round(1000 * progress.PERIOD)}",
    ]
    for group, specs in channel_groups(manifest, job.trace).items():
        for index, spec in enumerate(specs):
            stall = job.stalls.get(f"{group}{index}")
            key, threshold = (stall.key, stall.threshold) if stall else (0, 0)
            lines.append(f"{group} {spec.words_per_frame} {key} {threshold}")
    for index in range(len(CHANNELS) if manifest.control else 0):
        stall = job.stalls[f"control{index}"]
        lines.append(f"control {stall.key} {stall.threshold}")
    lines += [f"access {line}" for line in job.control.lines()]
    if job.waves is not None:
        lines.append(f"wave {job.waves}")
    return "\n".join(lines) + "\n"
