"""`simulate`: run a generated design on arrays, with cocotb or with the C++ driver."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace_sim import cocotb_engine, cpp_engine
from headrace_sim.cache import BuildCache
from headrace_sim.control import CHANNELS, ControlAnswers, ControlScript
from headrace_sim.coverage import Coverage
from headrace_sim.errors import ArrayError, ManifestError, SimulationError
from headrace_sim.glue import DEFAULT_OPTIMIZE
from headrace_sim.manifest import Manifest, Port, load
from headrace_sim.packing import Ints, check_values, pack
from headrace_sim.progress import Progress, watched
from headrace_sim.result import Raw, SimResult, check_outcome, make_result
from headrace_sim.stalls import StallSpec

ENGINES = ("cpp", "cocotb")
SIMULATORS = ("verilator", "icarus")
TAIL_CYCLES = 64  # cycles to watch for surplus words after the last expected one
RESET_CYCLES = 8
CYCLE_TIME = 10  # of a waveform, in its own unit


@dataclass(frozen=True)
class Job:
    """Everything an engine needs besides the manifest; the words lie in `folder`/input<i>.bin."""

    folder: Path
    frames: int
    seed: int
    stalls: dict[str, StallSpec]  # "input0", "output0", ...
    timeout_cycles: int
    pace: int
    trace: bool
    waves: Path | None
    optimize: str
    jobs: int
    engine: str
    simulator: str
    coverage: bool = False
    control: ControlScript = field(default_factory=ControlScript)
    progress: Progress | None = None
    tail_cycles: int = TAIL_CYCLES
    reset_cycles: int = RESET_CYCLES

    @property
    def wave_format(self) -> str:
        return "" if self.waves is None else self.waves.suffix[1:]


def simulate(
    design: Manifest | Path | str,
    inputs: Mapping[str, NDArray[np.integer]],
    *,
    engine: str = "cpp",
    simulator: str = "verilator",
    seed: int = 0,
    stall_in: float = 0.0,
    stall_out: float = 0.0,
    pace: int = 0,
    trace: bool = False,
    waves: Path | str | None = None,
    timeout_cycles: int | None = None,
    optimize: str = DEFAULT_OPTIMIZE,
    cache: BuildCache | Path | str | None = None,
    jobs: int | None = None,
    check: bool = True,
    coverage: bool = False,
    control: ControlScript | None = None,
    progress: Progress | None = None,
) -> SimResult:
    """Simulate `design` on `inputs` and return its outputs, its timing and, with `trace`, its inner streams.

    Args:
        design: a manifest, or the path of a design.json or of the folder that contains it.
        inputs: for every input (by tensor or port name) integers of shape (frames, frame_elements); trailing
            dimensions are flattened. Every input has the same number of frames, at least one.
        engine: "cpp" (fast) or "cocotb". Both make the same decisions in the same cycles.
        simulator: "verilator", or "icarus" (cocotb only).
        seed: of the random stalls and of the initial values of registers and memories.
        stall_in, stall_out: probability that an input offers nothing, or an output accepts nothing, in a cycle.
        pace: cycles in which at most one frame enters, its words evenly spread; 0: as fast as the design takes them.
        trace: also return the values of the manifest's internal streams, and check their protocol.
        waves: write a waveform to this file: `.vcd` or `.fst` (Icarus: `.fst`).
        timeout_cycles: report a deadlock after so many cycles without a transfer at the boundary.
        optimize: optimisation level of the C++ compiler: "0", "s", "1", "2", "3".
        cache: build cache, or its folder; default: HEADRACE_CACHE or the platform's cache folder.
        jobs: compiler processes at once; default: the CPUs, at most 4.
        check: raise on protocol violations; otherwise they are listed in the result if the run ended.
        coverage: also count which lines were run and which bits toggled (engine "cpp" only).
        control: accesses of the design's AXI4-Lite slave, whose answers are in the result; both sides stall there with
            the larger of the two probabilities.
        progress: told now and then, from another thread, how many whole frames have come out, after how many cycles;
            0 and 0 when the simulator is compiled and starts.

    Raises:
        ManifestError, ArrayError: the design or an array is not as described above.
        SimulatorNotFound, BuildError: the simulator is missing or refuses the design.
        ProtocolError, DeadlockError, SimulationError: the design misbehaves.
    """
    manifest = design if isinstance(design, Manifest) else load(design)
    if not manifest.sources:
        raise ManifestError(f"design {manifest.name} has no RTL; generate it with the backend 'rtl' or 'both'")
    _check_engine(engine, simulator, coverage)
    _check_numbers(stall_in, stall_out, pace)
    arrays = check_inputs(manifest, inputs)
    patience = max(10_000, 2 * pace, 10 * (manifest.interval_cycles + manifest.latency_cycles))
    build_cache = cache if isinstance(cache, BuildCache) else BuildCache(cache)
    with tempfile.TemporaryDirectory(prefix="headrace-sim-") as name:
        job = Job(
            folder=Path(name),
            frames=len(arrays[0]),
            seed=seed,
            stalls=_stalls(manifest, seed, stall_in, stall_out),
            timeout_cycles=patience if timeout_cycles is None else timeout_cycles,
            pace=pace,
            trace=trace,
            waves=_wave_path(waves, simulator),
            optimize=optimize,
            jobs=jobs or min(4, os.cpu_count() or 1),
            engine=engine,
            simulator=simulator,
            coverage=coverage,
            control=_script(manifest, control),
            progress=progress,
        )
        _fill_run_folder(job.folder, manifest, arrays)
        return _run(manifest, job, build_cache, check)


def _run(manifest: Manifest, job: Job, cache: BuildCache, check: bool) -> SimResult:
    """Build the simulator of `job`, run it in the job's folder and read what it left there."""
    module = cpp_engine if job.engine == "cpp" else cocotb_engine
    start = time.perf_counter()
    program, cached = module.build(manifest, job, cache)
    built = time.perf_counter()
    with watched(job.folder, job.progress):
        module.run(manifest, job, program)
    done = time.perf_counter()
    raw = Raw.read(job.folder, manifest, job.trace)
    seen = make_result(raw, any(stall.threshold for stall in job.stalls.values()))
    if check or raw.status["outcome"] != "done":
        try:
            check_outcome(raw, job.timeout_cycles, job.trace)
        except SimulationError as error:
            error.seen = seen
            raise
    return dataclasses.replace(
        seen,
        engine=job.engine,
        simulator=job.simulator,
        seconds=done - built,
        build_seconds=built - start,
        cached=cached,
        violations=raw.violations(),
        coverage=Coverage.read(job.folder / "coverage.dat", manifest.source_paths) if job.coverage else None,
        waves=job.waves,
        control=ControlAnswers.of(job.control, raw.status) if manifest.control else None,
    )


def edge_time(cycle: int) -> int:
    """The time of the rising edge that ends `cycle` in a waveform: in ps from the C++ driver, in ns from cocotb."""
    return (RESET_CYCLES + cycle) * CYCLE_TIME + CYCLE_TIME // 2


def check_inputs(manifest: Manifest, inputs: Mapping[str, NDArray[np.integer]]) -> list[Ints]:
    """The arrays of `inputs` in port order, checked and shaped (frames, frame_elements).

    Raises:
        ArrayError: a name, type, shape or value is not what the manifest says.
    """
    accepted = ", ".join(repr(port.tensor) for port in manifest.inputs)
    rest = dict(inputs)
    arrays = []
    for port in manifest.inputs:
        if port.tensor in rest:
            array = rest.pop(port.tensor)
        elif port.port in rest:
            array = rest.pop(port.port)
        else:
            raise ArrayError(f"no array for input {port.tensor!r}; the design's inputs are {accepted}")
        arrays.append(_check_array(np.asarray(array), port))
    if rest:
        raise ArrayError(f"the design has no input {next(iter(rest))!r}; its inputs are {accepted}")
    frames = {len(array) for array in arrays}
    if len(frames) != 1:
        raise ArrayError(f"the inputs have different numbers of frames: {sorted(frames)}")
    return arrays


def _check_array(array: NDArray[np.integer], port: Port) -> Ints:
    if array.dtype.kind not in "iu":
        raise ArrayError(f"array {port.tensor!r}: expected integers, got {array.dtype}")
    if array.ndim < 2 or len(array) == 0 or array[0].size != port.frame_elements:
        raise ArrayError(
            f"array {port.tensor!r}: expected shape (frames, {port.frame_elements}) with at least one frame, "
            f"got {array.shape}"
        )
    flat = array.reshape(len(array), -1)
    check_values(flat, port, port.tensor)
    return flat.astype(np.int64)


def _script(manifest: Manifest, given: ControlScript | None) -> ControlScript:
    """The accesses of the control interface, which must be there for any."""
    if given is not None and not manifest.control:
        raise SimulationError(f"design {manifest.name} has no control interface; simulate it without 'control'")
    script = given or ControlScript()
    script.check(manifest.control_address_bits)
    return script


def _check_engine(engine: str, simulator: str, coverage: bool) -> None:
    if engine not in ENGINES:
        raise SimulationError(f"engine {engine!r} is not one of {', '.join(ENGINES)}")
    if simulator not in SIMULATORS:
        raise SimulationError(f"simulator {simulator!r} is not one of {', '.join(SIMULATORS)}")
    if engine == "cpp" and simulator != "verilator":
        raise SimulationError(f"engine 'cpp' needs simulator 'verilator'; {simulator!r} runs with engine 'cocotb'")
    if coverage and engine != "cpp":
        raise SimulationError(f"coverage needs engine 'cpp'; {engine!r} does not measure it")


def _check_numbers(stall_in: float, stall_out: float, pace: int) -> None:
    if pace < 0:
        raise SimulationError(f"pace={pace} is negative; cycles a frame, or 0, are accepted")
    for name, value in (("stall_in", stall_in), ("stall_out", stall_out)):
        if not 0.0 <= value < 1.0:
            raise SimulationError(f"{name}={value} is outside 0 <= {name} < 1")


def _stalls(manifest: Manifest, seed: int, stall_in: float, stall_out: float) -> dict[str, StallSpec]:
    stalls = {}
    groups = [("input", len(manifest.inputs), stall_in), ("output", len(manifest.outputs), stall_out)]
    groups += [("control", len(CHANNELS), max(stall_in, stall_out))] if manifest.control else []
    for group, count, probability in groups:
        for index in range(count):
            name = f"{group}{index}"
            digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
            stalls[name] = StallSpec(int.from_bytes(digest, "little"), round(probability * 2**53))
    return stalls


def _wave_path(waves: Path | str | None, simulator: str) -> Path | None:
    if waves is None:
        return None
    path = Path(waves).resolve()
    accepted = (".fst",) if simulator == "icarus" else (".vcd", ".fst")
    if path.suffix not in accepted:
        raise SimulationError(f"waves={str(waves)!r}: {simulator} writes {' or '.join(accepted)} files")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _fill_run_folder(folder: Path, manifest: Manifest, arrays: list[Ints]) -> None:
    """Put the input words and the memory files, which the RTL opens by base name, into the run folder."""
    for index, (port, array) in enumerate(zip(manifest.inputs, arrays, strict=True)):
        pack(array, port).tofile(folder / f"input{index}.bin")
    for path in manifest.memory_paths:
        try:
            (folder / path.name).symlink_to(path.resolve())
        except OSError:  # no symbolic links here
            shutil.copy(path, folder / path.name)
