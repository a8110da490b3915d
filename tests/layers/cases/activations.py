"""Thresholding in both styles and Lookup."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.ir import IntRange
from headrace.layers import StreamType
from headrace.layers.base import Layer
from headrace.layers.lookup import Lookup
from headrace.layers.thresholding import Thresholding

RNG = np.random.default_rng(3)
BIPOLAR = IntRange(-1, 1, bipolar=True)
WIDE = IntRange(-100, 90)


def thresholding(
    channels: int,
    thresholds: NDArray[np.int64],
    pe: int,
    x: IntRange = WIDE,
    base: Sequence[int] = (0,),
    step: Sequence[int] = (1,),
    output: IntRange | None = None,
    lead: tuple[int, ...] = (),
) -> Thresholding:
    """An activation whose output range is what its thresholds, bases and steps allow."""
    rows = max(thresholds.shape[0], len(base), len(step))
    t = np.broadcast_to(np.sort(thresholds, axis=1), (rows, thresholds.shape[1]))
    b, s = np.resize(np.array(base), rows), np.resize(np.array(step), rows)
    ends = np.concatenate([b, b + s * thresholds.shape[1]])
    return Thresholding(
        t, b, s, StreamType((*lead, channels), x), output or IntRange(int(ends.min()), int(ends.max())), pe
    )


def random(rows: int, steps: int, x: IntRange = WIDE) -> NDArray[np.int64]:
    """Thresholds anywhere from the lowest to one past the highest input: some always, some never reached."""
    return RNG.integers(x.lo, x.hi + 1, (rows, steps), endpoint=True)


NEVER = np.array([[20, 91], [91, 91], [-99, 90], [5, 5]])

FUNCTIONS = {
    "folded": thresholding(12, random(12, 3), 3),
    "unrolled": thresholding(6, random(6, 3), 6),
    "one_lane": thresholding(6, random(6, 7), 1),
    "shared": thresholding(6, random(1, 15), 2),
    "shared_signed_output": thresholding(6, random(1, 7), 3, base=(-4,)),
    "many": thresholding(4, random(4, 31), 2),
    "five": thresholding(4, random(4, 5), 2),
    "two_bits_in": thresholding(4, random(4, 3, IntRange(0, 3)), 2, IntRange(0, 3)),
    "full_scale": thresholding(4, random(4, 3, IntRange(-8, 7)), 4, IntRange(-8, 7)),
    "full_scale_unsigned": thresholding(4, random(4, 2, IntRange(0, 255)), 1, IntRange(0, 255)),
    "never": thresholding(4, NEVER, 2),
    "constant": thresholding(4, np.full((4, 2), 91), 2, base=(3,)),
    "bases": thresholding(6, random(6, 3), 2, base=(-5, 0, 5)),
    "descending": thresholding(6, random(6, 3), 2, step=(-1,)),
    "both_ways": thresholding(6, random(6, 3), 2, base=(0, 3), step=(1, -1)),
    "both_ways_unrolled": thresholding(6, random(6, 3), 6, base=(0, 3), step=(1, -1)),
    "steps_of_two": thresholding(6, random(6, 3), 2, base=(1,), step=(2,)),
    "any_steps": thresholding(6, random(6, 3), 2, base=(1, 2), step=(1, -2, 3)),
    "bipolar_out": thresholding(12, random(12, 1), 4, base=(-1,), step=(2,), output=BIPOLAR),
    "bipolar_out_both_ways": thresholding(12, random(12, 1), 4, base=(-1, 1), step=(2, -2), output=BIPOLAR),
    "bipolar_in": thresholding(4, np.array([[0, 1], [1, 2], [-1, 2], [2, 2]]), 2, BIPOLAR),
    "single_threshold": thresholding(1, random(1, 1), 1),
    "no_threshold": thresholding(2, random(1, 0), 1, base=(5,)),
    "image": thresholding(6, random(6, 3), 2, lead=(2, 3)),
    "wide_input": thresholding(4, random(4, 3, IntRange(-(2**40), 2**40)), 2, IntRange(-(2**40), 2**40)),
}


def on_a_line(channels: int, steps: int, x: IntRange = WIDE, spread: float = 1.3) -> NDArray[np.int64]:
    """Thresholds of a quantizer with another scale and offset in every channel."""
    scale = (x.count - 1) / (steps + 1) * RNG.uniform(1 / spread, spread, (channels, 1))
    start = x.lo + scale * RNG.uniform(-0.3, 1.5, (channels, 1))
    return np.minimum(np.ceil(start + scale * np.arange(steps)), x.hi + 1).astype(np.int64)


FUNCTIONS |= {
    "line_folded": thresholding(12, on_a_line(12, 7), 3),
    "line_unrolled": thresholding(6, on_a_line(6, 7), 6),
    "line_shared": thresholding(6, on_a_line(1, 15), 2),
    "line_unsigned": thresholding(6, on_a_line(6, 15, IntRange(0, 255)), 2, IntRange(0, 255)),
    "line_wide": thresholding(4, on_a_line(4, 255, IntRange(-30000, 32000)), 2, IntRange(-30000, 32000)),
    "line_bases": thresholding(6, on_a_line(6, 3), 2, base=(-5, 0, 5)),
    "line_both_ways": thresholding(6, on_a_line(6, 3), 2, base=(0, 3), step=(1, -1)),
    "line_one_of_a_kind": thresholding(4, np.array([[-20, 0, 20], [91, 91, 91], [-99, -99, 40], [5, 5, 5]]), 1),
}


def lookup(channels: int, rows: int, x: IntRange, output: IntRange, pe: int, lead: tuple[int, ...] = ()) -> Lookup:
    """A random table."""
    table = RNG.integers(output.lo, output.hi, (rows, x.count), endpoint=True)
    if output.bipolar:
        table = np.where(table >= 0, 1, -1)
    return Lookup(table, StreamType((*lead, channels), x), output, pe)


TABLES = {
    "lookup_folded": lookup(6, 6, IntRange(-10, 12), IntRange(-4, 3), 2),
    "lookup_shared": lookup(6, 1, IntRange(-8, 7), IntRange(0, 15), 3),
    "lookup_unrolled": lookup(3, 3, IntRange(0, 9), IntRange(-100, 100), 3, (2, 2)),
    "lookup_bipolar_in": lookup(4, 4, BIPOLAR, IntRange(-4, 3), 2),
    "lookup_bipolar_out": lookup(4, 4, IntRange(-3, 3), BIPOLAR, 1),
}

CASES: dict[str, Layer] = {
    **{
        f"{name}_{style}": Thresholding(f.thresholds, f.base, f.step, f.stream, f.output, f.pe, style)
        for name, f in FUNCTIONS.items()
        for style in f.legal_styles
    },
    **TABLES,
}
