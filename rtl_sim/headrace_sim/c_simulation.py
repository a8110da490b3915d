"""C simulation of a design's C++ for high-level synthesis: compiled once with any C++17 compiler, run on arrays."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace_sim.cache import BuildCache, content_key
from headrace_sim.errors import DeadlockError, ManifestError, SimulationError
from headrace_sim.manifest import Manifest, Port, load
from headrace_sim.packing import Bytes, Ints, pack, unpack
from headrace_sim.processes import run
from headrace_sim.simulation import check_inputs
from headrace_sim.toolchain import cxx_compiler
from headrace_sim.verilate import run_tool

STREAM_ERROR_STATUS = 3
"""Exit status with which the simulated ``hls::stream`` stops a program that would hang or lose words."""

_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_VALUES = np.zeros(256, np.uint8)
_VALUES[_DIGITS] = np.arange(16)


@dataclass(frozen=True)
class CsimOptions:
    """How the C++ is compiled.

    Attributes:
        trace: keep the words of every internal stream.
        sanitize: with the address and undefined-behaviour sanitizers.
        dataflow: run the functions side by side, clock cycle by clock cycle, with streams that hold as many words as in
            hardware; counts the cycles.
        bit_accurate: compute in integers of exactly the synthesised widths instead of built-in ones.
        optimize: level of the C++ compiler.
        flags: further options of the compiler.
    """

    trace: bool = False
    dataflow: bool = False
    sanitize: bool = False
    bit_accurate: bool = False
    optimize: str = "3"
    flags: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """For the command line of the compiler."""
        checks = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all") if self.sanitize else ()
        chosen = {"TRACE": self.trace, "DATAFLOW": self.dataflow, "BIT_ACCURATE": self.bit_accurate}
        macros = [f"HEADRACE_{name}" for name, on in chosen.items() if on]
        return ("-std=c++17", f"-O{self.optimize}", *checks, *(f"-D{name}" for name in macros), *self.flags)


@dataclass(frozen=True, eq=False)
class CsimResult:
    """Values of a C simulation, which knows a clock only as a dataflow simulation."""

    outputs: dict[str, Ints]  # tensor -> (frames, frame_elements)
    streams: dict[str, Ints] = field(default_factory=dict)  # traced stream -> (frames, frame_elements)
    seconds: float = 0.0  # wall-clock time of the run alone
    build_seconds: float = 0.0
    cached: bool = False
    cycles: int | None = None  # of a dataflow simulation, until the last word: pipelines have one stage in it
    iterations: dict[str, int] = field(default_factory=dict)  # of each function's loop, in a dataflow simulation


def csim(
    design: Manifest | Path | str,
    inputs: Mapping[str, NDArray[np.integer]],
    *,
    options: CsimOptions = CsimOptions(),
    cache: BuildCache | Path | str | None = None,
) -> CsimResult:
    """Compile the C++ of `design` and run it on `inputs`.

    Args:
        design: a manifest, or the path of a design.json or of the folder that contains it.
        inputs: as for :func:`headrace_sim.simulate`.
        options: how to compile.
        cache: build cache, or its folder; default: HEADRACE_CACHE or the platform's cache folder.

    Raises:
        ManifestError, ArrayError: the design has no C++, or an array does not fit.
        SimulatorNotFound, BuildError: there is no C++ compiler, or it refuses the sources.
        DeadlockError: a function reads a word that no other writes, words are left over, or, in a dataflow simulation,
            functions wait for each other.
        SimulationError: the program ended otherwise before every output was complete.
    """
    manifest = design if isinstance(design, Manifest) else load(design)
    arrays = check_inputs(manifest, inputs)
    build_cache = cache if isinstance(cache, BuildCache) else BuildCache(cache)
    start = time.perf_counter()
    program, cached = build(manifest, options, build_cache)
    built = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="headrace-csim-") as name:
        folder = Path(name)
        for k, (port, array) in enumerate(zip(manifest.inputs, arrays, strict=True)):
            (folder / f"input{k}.hex").write_bytes(to_hex(pack(array, port)))
        log = _run(manifest, program, folder)
        done = time.perf_counter()
        outputs = {port.tensor: _output(folder / f"output{k}.hex", port) for k, port in enumerate(manifest.outputs)}
        streams = _streams(manifest, folder) if options.trace else {}
    iterations = {name: int(count) for name, count in re.findall(r"^(\w+): (\d+) iterations$", log, re.MULTILINE)}
    cycles = [int(count) for count in re.findall(r"^(\d+) cycles$", log, re.MULTILINE)]
    return CsimResult(outputs, streams, done - built, built - start, cached, cycles[0] if cycles else None, iterations)


def build(manifest: Manifest, options: CsimOptions, cache: BuildCache) -> tuple[Path, bool]:
    """Executable of the test bench of `manifest`, and whether it came from the cache."""
    if not manifest.hls:
        raise ManifestError(f"design {manifest.name} has no C++; generate it with the backend 'hls' or 'both'")
    compiler, version = cxx_compiler()
    paths = [manifest.root / name for name in manifest.hls]
    arguments = [*options.arguments, *_include_flags(manifest)]
    contents = [part for path in paths for part in (path.name, path.read_bytes())]
    sources = [str(path) for path in paths if path.suffix == ".cpp"]

    def make(folder: Path) -> None:
        run_tool([str(compiler), *arguments, "-o", str(folder / "testbench"), *sources], folder)

    key = content_key(["csim", version, *options.arguments, *contents])
    folder, cached = cache.get(key, make)
    return folder / "testbench", cached


def _include_flags(manifest: Manifest) -> Sequence[str]:
    """The folders of the types for simulation; everything else is included relative to the file that wants it."""
    folders = {(manifest.root / name).parent for name in manifest.hls if name.endswith(".h")}
    return [f"-I{folder}" for folder in sorted(folders)]


def _run(manifest: Manifest, program: Path, folder: Path) -> str:
    """Run the program and return what it said."""
    done = run([str(program)], folder, apart=True)
    if done.returncode == STREAM_ERROR_STATUS:
        raise DeadlockError(f"design {manifest.name}: C simulation: {done.stderr.strip()}")
    if done.returncode != 0:
        log = (done.stdout + done.stderr)[-3000:]
        raise SimulationError(f"design {manifest.name}: C simulation ended with status {done.returncode}:\n{log}")
    return done.stdout


def _output(path: Path, port: Port) -> Ints:
    return unpack(from_hex(path.read_bytes(), port.word_bytes), port)


def _streams(manifest: Manifest, folder: Path) -> dict[str, Ints]:
    """Traced streams; those that differ only by a FIFO share the words of one ``hls::stream``."""
    streams = {}
    for stream in manifest.streams:
        path = folder / f"{stream.hls}.trace"
        if path.is_file():
            streams[stream.name] = np.fromfile(path, dtype="<i8").reshape(-1, stream.frame_elements)
    return streams


def to_hex(words: Bytes) -> bytes:
    """Words ``(count, bytes)``, little endian, as one hexadecimal number a line."""
    big = words[:, ::-1]
    text = np.empty((len(words), 2 * words.shape[1] + 1), np.uint8)
    text[:, 0:-1:2] = _DIGITS[big >> 4]
    text[:, 1:-1:2] = _DIGITS[big & 15]
    text[:, -1] = ord("\n")
    return text.tobytes()


def from_hex(text: bytes, word_bytes: int) -> Bytes:
    """The inverse of :func:`to_hex` for words of `word_bytes` bytes."""
    lines = np.frombuffer(text, np.uint8).reshape(-1, 2 * word_bytes + 1)[:, :-1]
    digits = _VALUES[lines]
    return np.ascontiguousarray((digits[:, 0::2] << 4 | digits[:, 1::2])[:, ::-1])
