"""C simulation of the HLS project of one model: time to compile it, images a second on one thread, exact outputs.

    python benchmarks/hls_csim.py                     # a 2-bit network of the shape of TFC: 784-64-64-64-10
    python benchmarks/hls_csim.py MODEL.onnx --frames 50000 --peer OTHER/bin/python

Times are CPU seconds of the compiler and of the compiled program, reading and writing of its files included. Where
hls4ml is installed (for this interpreter, or that of ``--peer``), the C++ that it makes of the same file is compiled
and run on the same frames in the same run; its outputs are compared with those of the model too.
Exit status 1 when Headrace misses its targets.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from headrace.build import Design, load
from headrace.codegen.design import generate
from headrace_sim import BuildCache, CsimOptions, csim
from headrace_sim import load as load_manifest
from headrace_sim.c_simulation import build as compile_csim

COMPILE_SECONDS = 15.0
IMAGES_A_SECOND = 20_000.0
SHAPE = (784, 64, 64, 64, 10)


@dataclass(frozen=True)
class Figures:
    """What was measured of one tool."""

    tool: str
    compile_seconds: float
    images_a_second: float
    exact: float

    def __str__(self) -> str:
        rate = f"{self.images_a_second:>12,.0f} images/s"
        return f"{self.tool:10} {self.compile_seconds:6.1f} s to compile {rate} {100 * self.exact:6.1f} % outputs exact"


def child_seconds() -> float:
    """CPU time of the processes that this one has started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(clock: Callable[[], float], work: Callable[[], object]) -> float:
    """Seconds that *work* takes by *clock*."""
    start = clock()
    work()
    return clock() - start


def measure_headrace(design: Design, x: NDArray[np.float32], expected: NDArray[np.float32], folder: Path) -> Figures:
    """Generate, compile and run; the host's first and last steps are not timed, as they are the same for every mode."""
    generate(design.hardware, backend="hls").write(folder)
    cache, options = BuildCache(folder / "cache"), CsimOptions()
    compiling = timed(child_seconds, lambda: compile_csim(load_manifest(folder), options, cache))
    feeds = design.hardware.pack_frames(design.core_feeds({design.source.inputs[0]: x}))
    running = timed(child_seconds, lambda: csim(folder, feeds, options=options, cache=cache))
    got = design.run({design.source.inputs[0]: x}, "hls")[design.source.outputs[0]]
    return Figures("headrace", compiling, len(x) / running, float((got == expected).mean()))


def measure_hls4ml(
    python: str, model: Path, x: NDArray[np.float32], expected: NDArray[np.float32], folder: Path
) -> Figures | None:
    """The same with hls4ml, or None where it is missing or does not convert the model."""
    if subprocess.run([python, "-c", "import hls4ml, qonnx"], capture_output=True, check=False).returncode != 0:
        print(f"hls4ml     not installed for {python}, or qonnx, through which it reads the model, is not")
        return None
    frames = folder.with_suffix(".npz")
    np.savez(frames, x=x, expected=expected)
    command = [python, str(Path(__file__).with_name("hls4ml_csim.py")), str(model), str(frames), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    if "error" in found:
        print(f"hls4ml     does not convert the model: {found['error']}")
        return None
    return Figures("hls4ml", found["compile"], found["rate"], found["exact"])


def standard_model(folder: Path) -> Path:
    """The 2-bit network of the tests."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from models import quantized_mlp

    path = folder / "tfc.onnx"
    onnx.save(quantized_mlp(SHAPE, 2, seed=1, argmax=False), str(path))
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", nargs="?", type=Path, help="a QONNX file with one input and one output")
    parser.add_argument("--frames", type=int, default=20_000)
    parser.add_argument("--peer", default=sys.executable, help="the Python interpreter that has hls4ml")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = arguments.model or standard_model(folder)
        design = load(path)
        shape = design.source.types(design.source.input_node(design.source.inputs[0]))[0].shape
        x = np.random.default_rng(0).normal(size=(arguments.frames, *shape)).astype(np.float32)
        expected = design.run({design.source.inputs[0]: x}, "float")[design.source.outputs[0]]
        ours = measure_headrace(design, x, expected, folder / "headrace")
        print(ours)
        theirs = measure_hls4ml(arguments.peer, path, x, expected, folder / "hls4ml")
        if theirs:
            print(theirs)
            print(
                f"headrace   {theirs.compile_seconds / ours.compile_seconds:.1f} times as fast to compile, "
                f"{ours.images_a_second / theirs.images_a_second:.0f} times as many images a second"
            )
    missed = ours.compile_seconds > COMPILE_SECONDS or ours.images_a_second < IMAGES_A_SECOND or ours.exact < 1
    print(
        "targets", "missed" if missed else "met", f"({COMPILE_SECONDS:.0f} s, {IMAGES_A_SECOND:,.0f} images/s, exact)"
    )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
