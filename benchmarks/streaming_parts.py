"""Streaming parts and folded layers against FINN's RTL library: the same jobs, synthesised and simulated in this run.

    python benchmarks/streaming_parts.py [NAME ...] [--no-simulation] [--family xcup]

Each job is one layer, synthesised by yosys with ``synth_xilinx -family xcup -flatten`` and run in Verilator without
stalls, outputs compared with the layer's specification. Cycles are counted from the first word accepted to the last
word delivered. FINN's figures were measured with the same yosys 0.70 command and a Verilator bench on its own RTL; they
are constants here, as that library needs patches before any of these tools reads it. The ratio is LUTs and flip-flops
here by those of FINN; memory in look-up tables that can be written is shown beside both and not part of it. The weights
of a layer are constants here and counted; FINN's memory and streamer for them are not.

Exit status 1 when a ratio is above 0.8, a run takes more cycles than FINN's, or frames do not follow without a bubble.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headrace.codegen.design import generate
from headrace.ir import Graph, IntRange
from headrace.layers import Layer, StreamType
from headrace.layers.fifo import FIFO
from headrace.layers.mvau import MVAU
from headrace.layers.pad import Pad
from headrace.layers.swg import SWG
from headrace.layers.thresholding import Thresholding
from headrace.layers.width_converter import StreamingDataWidthConverter
from headrace.passes.hardware_design import HardwareDesign, Port
from headrace.passes.layout import Layout
from headrace.synth import FAMILIES, Settings, synthesise, unit_of_layer
from headrace_sim import simulate
from headrace_sim.cache import default_folder

REQUIRED = 0.8
PADDING = ((0, 0), (0, 0))


@dataclass(frozen=True)
class Job:
    """A layer, the frames that FINN's cycles are of, and FINN's figures."""

    layer: Callable[[], Layer]
    frames: int
    lut: int
    ff: int
    cycles: int | None
    dsp: int = 0
    also: str = ""


def unsigned(bits: int) -> IntRange:
    return IntRange(0, (1 << bits) - 1)


def thresholding() -> Layer:
    """64 channels, 16-bit accumulators to 4 bits, different thresholds in every channel."""
    rng = np.random.default_rng(1)
    cuts = np.sort(rng.integers(-30000, 30000, (64, 15)), axis=1)
    stream = StreamType((64,), IntRange(-(1 << 15), (1 << 15) - 1))
    return Thresholding(cuts, np.zeros(1, np.int64), np.ones(1, np.int64), stream, unsigned(4), 8)


def mvu(bits: int) -> Layer:
    """64 x 64, weights over their whole signed range."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    weights = np.random.default_rng(bits).integers(low, high, (64, 64), endpoint=True)
    weights[0, 0], weights[0, 1] = low, high
    bound = np.abs(weights).sum(axis=0).max() * ((1 << bits) - 1)
    return MVAU(weights, StreamType((64,), unsigned(bits)), IntRange(-int(bound), int(bound)), 8, 8)


def window(size: int, channels: int, simd: int) -> Layer:
    """3 x 3 windows of a square image of 4 bits."""
    return SWG((size, size, channels), unsigned(4), (3, 3), (1, 1), (1, 1), PADDING, simd)


def pad() -> Layer:
    """A ring of zeros around 14 x 14 x 32."""
    stream = StreamType((14, 14, 32), unsigned(4))
    return Pad(stream, ((1, 1), (1, 1), (0, 0)), (1, 1, 1), np.zeros(1, np.int64), 8)


def converter(wide_in: int, wide_out: int) -> Layer:
    """Words of a byte or four."""
    return StreamingDataWidthConverter(StreamType((64,), unsigned(8), wide_in), wide_out)


def fifo() -> Layer:
    """32 words of 32 bits."""
    return FIFO(StreamType((64,), unsigned(32)), 32)


JOBS = {
    "thresholding 16b->4b, 64 channels, PE 8": Job(thresholding, 16, 953, 1896, 138),
    "MVU 64x64 PE 8 SIMD 8 w4a4": Job(
        lambda: mvu(4), 16, 1531, 2411, 1035, 16, "weight memory counted here, not in FINN's (919 LUT, 3456 FF)"
    ),
    "MVU 64x64 PE 8 SIMD 8 w2a2": Job(
        lambda: mvu(2), 16, 1436, 2241, 1035, 8, "weight memory counted here, not in FINN's (919 LUT, 3456 FF)"
    ),
    "SWG 3x3 on 16x16x32, SIMD 8": Job(lambda: window(16, 32, 8), 1, 245, 113, 7162, also="FINN: 15 LUTRAM cells"),
    "SWG 3x3 on 16x16x8, parallel window": Job(lambda: window(16, 8, 72), 1, 84, 404, 257),
    "padding 14x14x32, SIMD 8": Job(pad, 1, 80, 122, 1024),
    "width converter 32->8": Job(lambda: converter(4, 1), 1, 40, 53, None),
    "width converter 8->32": Job(lambda: converter(1, 4), 1, 19, 44, None),
    "FIFO 32 x 32 bits": Job(fifo, 1, 533, 1040, None),
}


def design_of(layer: Layer) -> HardwareDesign:
    """A design of this layer alone."""
    graph = Graph("part")
    (stream_in,), (stream_out,) = layer.inputs, layer.outputs
    x = graph.input("x", stream_in.tensor)
    y = graph.output("y", graph.add(layer, (x,), "part"))
    ports = [
        Port(name, node.node, Layout.row_major(stream.shape), stream.range)
        for name, node, stream in (("x", x, stream_in), ("y", y, stream_out))
    ]
    return HardwareDesign(graph, (ports[0],), (ports[1],), {})


def run_cycles(layer: Layer, frames: int) -> tuple[int, bool]:
    """Cycles of *frames* frames in Verilator, and whether many follow each other without a bubble."""
    (stream,) = layer.inputs
    rng = np.random.default_rng(0)
    feeds = rng.integers(stream.range.lo, stream.range.hi, (max(frames, 8), *stream.shape), endpoint=True)
    with tempfile.TemporaryDirectory() as scratch:
        generate(design_of(layer), "part").write(Path(scratch))
        result = simulate(Path(scratch), {"x": feeds.reshape(len(feeds), -1)})
    (expected,) = layer.execute(feeds)
    if not np.array_equal(result.outputs["y"], expected.reshape(len(feeds), -1)):
        raise SystemExit(f"{layer.kind}: the simulated values are not those of its specification")
    first, last = result.time_stamps["x"][0, 0], result.time_stamps["y"][frames - 1, -1]
    return int(last) - int(first), result.interval["y"] == layer.cycles


def compare(name: str, job: Job, family: str, simulated: bool) -> bool:
    """Print one line; whether everything that is required holds."""
    layer = job.layer()
    settings = Settings(cache=default_folder() / "synthesis")
    found = synthesise([unit_of_layer(layer)], FAMILIES[family], settings)
    if found.failed:
        raise SystemExit(found.failed[0].error)
    used = found.total
    cycles, whole = run_cycles(layer, job.frames) if simulated else (0, True)
    ratio = (used.lut + used.ff) / (job.lut + job.ff)
    good = ratio <= REQUIRED and whole and (job.cycles is None or cycles <= job.cycles)
    memory = f"+{used.lutram + used.srl} RAM/SRL" if used.lutram + used.srl else ""
    memory += f" +{used.brams} BRAM" if used.brams else ""
    print(
        f"{name:40} {used.lut:5} LUT {used.ff:5} FF {used.dsp:3} DSP {memory:16} FINN {job.lut:5} LUT {job.ff:5} FF "
        f"{job.dsp:3} DSP  ratio {ratio:5.2f}  cycles {cycles:6} (FINN {job.cycles or '-'})"
        f"{'' if whole else '  BUBBLES'}{'' if good else '  MISSED'}  {job.also}",
        flush=True,
    )
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of the names of the jobs to run; all when there is none")
    parser.add_argument("--no-simulation", action="store_true", help="synthesise only")
    parser.add_argument("--family", default="xcup")
    options = parser.parse_args()
    chosen = {n: j for n, j in JOBS.items() if not options.names or any(part in n for part in options.names)}
    missed = sum(not compare(n, job, options.family, not options.no_simulation) for n, job in chosen.items())
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
