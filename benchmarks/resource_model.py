"""The layers' resource estimates against synthesis, over a sweep of sizes, widths, foldings and styles.

    python benchmarks/resource_model.py [KIND ...] [--family xc7] [--limit N] [--held-out]

Every point is a layer, synthesised by yosys alone (results are kept by content, so that a second run takes seconds).
Look-up tables (memory included) and flip-flops are compared with ``Layer.counted_resources()``; DSPs and block RAMs
must be equal. The constants of the models were fitted to the points marked ``fit``; the others, drawn with another
seed, were held out. The error of a point is that of its LUTs and flip-flops together.

Exit status 1 when over the points held out the median error is above 10 % or the worst above 30 %.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from resource_points import ROWS, signed, unsigned

from headrace.ir import IntRange
from headrace.ir.exact import accumulator_range
from headrace.layers import Layer, StreamType
from headrace.layers.fifo import FIFO
from headrace.layers.mvau import MVAU
from headrace.layers.swg import SWG
from headrace.layers.thresholding import Thresholding
from headrace.layers.vvau import VVAU
from headrace.layers.width_converter import StreamingDataWidthConverter
from headrace.synth import FAMILIES, Settings, synthesise, unit_of_layer
from headrace_sim.cache import default_folder

MEDIAN, WORST = 0.10, 0.30
BIPOLAR = IntRange(-1, 1, bipolar=True)
ONES = np.ones(1, np.int64)


class Point(NamedTuple):
    """One layer of the sweep."""

    name: str
    layer: Layer
    held_out: bool


def mvau(mw: int, mh: int, pe: int, simd: int, x: IntRange, w: IntRange, seed: int) -> MVAU:
    rng = np.random.default_rng(seed)
    weights = rng.choice([-1, 1], (mw, mh)) if w.bipolar else rng.integers(w.lo, w.hi, (mw, mh), endpoint=True)
    if not w.bipolar:
        weights[0, 0], weights[-1, -1] = w.lo, w.hi
    low, high = accumulator_range(weights, x.lo, x.hi)
    return MVAU(weights, StreamType((mw,), x), IntRange(int(low.min()), int(high.max())), pe, simd)


def thresholding(channels: int, bits: int, out: int, pe: int, style: str, seed: int) -> Thresholding:
    x = signed(bits)
    cuts = np.sort(np.random.default_rng(seed).integers(x.lo + 1, x.hi, (channels, (1 << out) - 1)), axis=1)
    return Thresholding(cuts, 0 * ONES, ONES, StreamType((channels,), x), unsigned(out), pe, style)


def vvau(size: int, channels: int, pe: int, simd: int, x: int, w: int, seed: int) -> VVAU:
    r = signed(w)
    weights = np.random.default_rng(seed).integers(r.lo, r.hi, (channels, 1, 9), endpoint=True)
    weights[0, 0, :2] = r.lo, r.hi
    reach = int(np.abs(weights).sum(axis=2).max()) * ((1 << x) - 1)
    stream = StreamType((size, size, channels), unsigned(x))
    return VVAU(weights, stream, IntRange(-reach, reach), (3, 3), (1, 1), (1, 1), ((1, 1), (1, 1)), pe, simd)


def swg(size: int, channels: int, bits: int, pad: int, simd: int) -> SWG:
    pads = ((pad, pad), (pad, pad))
    return SWG((size, size, channels), unsigned(bits), (3, 3), (1, 1), (1, 1), pads, simd)


MVAUS = {
    "xnor": (BIPOLAR, BIPOLAR),
    "and": (unsigned(2), BIPOLAR),
    "ternary": (unsigned(4), IntRange(-1, 1)),
    "w2a2": (unsigned(2), signed(2)),
    "w4a4": (unsigned(4), signed(4)),
    "w3a5": (unsigned(5), signed(3)),
    "w8a8": (unsigned(8), signed(8)),
}


class Sweep(NamedTuple):
    """Shapes of one kind of layer, as in ``resource_points.Row``."""

    fit: list[tuple[int, ...]]
    held_out: list[tuple[int, ...]]

    def each(self) -> Iterator[tuple[int, tuple[int, ...], bool]]:
        """Seed, shape and whether the shape is held out."""
        yield from ((seed, shape, seed >= len(self.fit)) for seed, shape in enumerate(self.fit + self.held_out))


MVAU_SHAPES = {
    "xnor": Sweep([(64, 64, 4, 16), (128, 32, 2, 64), (96, 24, 4, 24), (256, 32, 8, 16)], [(144, 40, 5, 36)]),
    "and": Sweep([(64, 64, 4, 8), (128, 32, 8, 16), (64, 32, 2, 32), (96, 24, 4, 12)], [(80, 48, 6, 10)]),
    "ternary": Sweep([(64, 64, 4, 8), (128, 32, 8, 16), (64, 32, 2, 32), (96, 24, 6, 12)], [(80, 48, 3, 20)]),
    "w2a2": Sweep([(64, 64, 8, 8), (64, 32, 4, 16), (48, 24, 6, 6), (98, 32, 4, 14)], [(72, 40, 5, 12)]),
    "w4a4": Sweep([(64, 64, 4, 4), (64, 32, 2, 16), (48, 24, 6, 6)], [(72, 40, 5, 8)]),
    "w3a5": Sweep([(64, 64, 4, 4), (64, 32, 2, 16), (48, 24, 6, 6)], [(72, 40, 4, 9)]),
    "w8a8": Sweep([(64, 32, 2, 4), (64, 64, 4, 4), (48, 24, 6, 2)], [(40, 20, 2, 5)]),
}
UNROLLED = [  # inputs, outputs, of what; none of the constants of their estimate was fitted
    *((16, 8, "w4a4"), (8, 24, "ternary"), (24, 12, "w3a5"), (20, 16, "and"), (6, 6, "w8a8"), (40, 10, "ternary")),
    *((32, 32, "w2a2"), (48, 5, "and"), (12, 20, "w4a4")),
]
THRESHOLDS = Sweep(
    [
        *((64, 16, 2, 1), (64, 16, 2, 8), (32, 12, 2, 16), (64, 16, 4, 1), (64, 16, 4, 4), (32, 12, 4, 4)),
        *((16, 20, 3, 2), (48, 10, 1, 6), (64, 14, 5, 4), (64, 16, 8, 1)),
    ],
    [(40, 13, 2, 5), (48, 15, 3, 3), (24, 11, 4, 6)],
)
WIDTHS = Sweep([(1, 4), (8, 1), (2, 16), (16, 2), (6, 4), (4, 6), (1, 16), (12, 3)], [(1, 12), (8, 6), (24, 4)])
WINDOWS = Sweep(
    [(16, 32, 4, 0, 8), (14, 16, 2, 1, 8), (8, 8, 4, 1, 8), (12, 8, 4, 1, 72), (16, 8, 4, 0, 72)],
    [(10, 24, 5, 1, 6), (18, 12, 3, 0, 4), (14, 4, 6, 1, 36)],
)
KERNELS = Sweep(
    [(8, 8, 2, 1, 4, 4), (8, 16, 4, 3, 4, 3), (10, 8, 2, 9, 4, 4), (12, 16, 4, 1, 3, 3)],
    [(9, 12, 3, 1, 5, 4), (14, 24, 6, 3, 2, 2), (11, 6, 2, 9, 3, 5)],
)
QUEUES = Sweep(
    [(2, 32), (4, 16), (17, 24), (32, 32), (100, 20), (64, 48), (256, 36), (33, 64)],
    [(3, 50), (24, 40), (80, 9), (400, 18)],
)


def points() -> Iterator[Point]:
    """The sweep; of every family of layers some are held out."""
    for name, (x, w) in MVAUS.items():
        for seed, shape, held_out in MVAU_SHAPES[name].each():
            mw, mh, pe, simd = shape
            yield Point(f"MVAU {name} {shape}", mvau(mw, mh, pe, simd, x, w, seed), held_out)
    for seed, (mw, mh, name) in enumerate(UNROLLED):
        layer = replace(mvau(mw, mh, mh, mw, *MVAUS[name], seed), style="graph")
        yield Point(f"MVAU unrolled {name} {mw, mh}", layer, True)
    for seed, shape, held_out in THRESHOLDS.each():
        channels, bits, out, pe = shape
        for style in ("parallel", "search"):
            if style == "search" or out < 5:
                layer = thresholding(channels, bits, out, pe, style, seed)
                yield Point(f"Thresholding {style} {shape}", layer, held_out)
    for _, (depth, bits), held_out in QUEUES.each():
        yield Point(f"FIFO {depth} x {bits}", FIFO(StreamType((64,), unsigned(bits)), depth), held_out)
    for _, (a, b), held_out in WIDTHS.each():
        stream = StreamType((48,), unsigned(6), a)
        yield Point(f"DWC {a} to {b}", StreamingDataWidthConverter(stream, b), held_out)
    for _, shape, held_out in WINDOWS.each():
        yield Point(f"SWG {shape}", swg(*shape), held_out)
    for seed, shape, held_out in KERNELS.each():
        size, channels, pe, simd, bits, of_weights = shape
        yield Point(f"VVAU {shape}", vvau(size, channels, pe, simd, bits, of_weights, seed), held_out)
    for row in ROWS:
        for held_out, shapes in ((False, row.fit), (True, row.held_out)):
            for shape in shapes:
                yield Point(f"{row.name} {shape}", row.make(*shape), held_out)


def measure(point: Point, family: str) -> float | None:
    """Print one line; the error of the point, or None when it cannot be synthesised."""
    found = synthesise([unit_of_layer(point.layer)], FAMILIES[family], Settings(cache=default_folder() / "synthesis"))
    if found.failed:
        print(found.failed[0].error)
        return None
    used, guess = found.total, point.layer.counted_resources()
    error = (guess.lut + guess.ff) / max(used.luts + used.ff, 1) - 1
    blocks = "" if (used.dsp, used.bram18) == (guess.dsp, guess.bram18) else "  BLOCKS DIFFER"
    print(
        f"{'held out' if point.held_out else 'fit':8} {point.name:38} LUT {guess.lut:7.0f} / {used.luts:5} "
        f"({guess.lut / max(used.luts, 1) - 1:+5.0%})  FF {guess.ff:6.0f} / {used.ff:5} "
        f"({guess.ff / max(used.ff, 1) - 1:+5.0%})  DSP {guess.dsp:.0f} / {used.dsp}  "
        f"BRAM {guess.bram18:.0f} / {used.bram18}  error {error:+5.0%}{blocks}",
        flush=True,
    )
    return error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help="parts of the names of the points to run; all when there is none")
    parser.add_argument("--family", default="xc7")
    parser.add_argument(
        "--limit", type=int, default=10**9, help="points with more LUTs estimated than this are left out"
    )
    parser.add_argument("--held-out", action="store_true", help="only points that were held out from fitting")
    options = parser.parse_args()
    errors: dict[bool, list[float]] = {False: [], True: []}
    for point in points():
        wanted = not options.kinds or any(kind in point.name for kind in options.kinds)
        wanted &= point.held_out or not options.held_out
        if wanted and point.layer.resources().lut <= options.limit:
            error = measure(point, options.family)
            if error is not None:
                errors[point.held_out].append(abs(error))
    for held_out, values in errors.items():
        if values:
            print(
                f"{'held out' if held_out else 'fit'}: {len(values)} points, median error {np.median(values):.1%}, "
                f"worst {max(values):.1%}"
            )
    held = errors[True]
    return 1 if held and (np.median(held) > MEDIAN or max(held) > WORST) else 0


if __name__ == "__main__":
    sys.exit(main())
