"""VVAU: depthwise convolutions with one or more kernels a channel, serial and parallel, every arithmetic."""

from math import prod

import numpy as np
from numpy.typing import NDArray

from headrace.ir import IntRange
from headrace.layers import StreamType
from headrace.layers.vvau import VVAU

RNG = np.random.default_rng(4)
INT4 = IntRange(-8, 7)
BIPOLAR = IntRange(-1, 1, bipolar=True)
SAME = ((1, 1), (1, 1))
NONE = ((0, 0), (0, 0))


def vvau(
    shape: tuple[int, ...],
    x: IntRange,
    values: tuple[int, ...],
    pe: int,
    simd: int,
    kernels: int = 1,
    kernel: tuple[int, ...] = (3, 3),
    strides: tuple[int, ...] = (1, 1),
    dilations: tuple[int, ...] = (1, 1),
    pads: tuple[tuple[int, int], ...] = SAME,
    style: str = "auto",
) -> VVAU:
    """A layer with weights drawn from *values*, whose output range is exactly what can be reached."""
    weights: NDArray[np.int64] = RNG.choice(np.array(values), (shape[-1], kernels, prod(kernel)))
    ends = np.stack([weights * x.lo, weights * x.hi])
    if any(p for pair in pads for p in pair):
        ends = np.concatenate([ends, np.zeros_like(ends[:1])])
    output = IntRange(int(ends.min(axis=0).sum(axis=2).min()), int(ends.max(axis=0).sum(axis=2).max()))
    return VVAU(weights, StreamType(shape, x), output, kernel, strides, dilations, pads, pe, simd, style)


INT4_WEIGHTS = tuple(range(-8, 8))

CASES = {
    "3x3": vvau((5, 6, 4), INT4, INT4_WEIGHTS, 2, 1),
    "3x3_serial": vvau((5, 6, 3), INT4, INT4_WEIGHTS, 1, 1),
    "3x3_row": vvau((5, 6, 4), INT4, INT4_WEIGHTS, 2, 3),
    "3x3_window": vvau((5, 6, 4), INT4, INT4_WEIGHTS, 2, 9),
    "3x3_unrolled": vvau((5, 6, 3), INT4, INT4_WEIGHTS, 3, 9),
    "3x3_valid": vvau((6, 5, 4), INT4, INT4_WEIGHTS, 4, 1, pads=NONE),
    "two_kernels": vvau((5, 4, 4), INT4, INT4_WEIGHTS, 2, 1, kernels=2),
    "three_kernels_window": vvau((4, 4, 2), INT4, INT4_WEIGHTS, 1, 9, kernels=3),
    "stride_2": vvau((7, 7, 2), INT4, INT4_WEIGHTS, 2, 1, strides=(2, 2)),
    "stride_2_window": vvau((8, 6, 4), INT4, INT4_WEIGHTS, 2, 9, strides=(2, 2)),
    "dilation": vvau((6, 7, 2), INT4, INT4_WEIGHTS, 2, 3, dilations=(2, 2), pads=((2, 2), (2, 2))),
    "uneven": vvau((5, 6, 2), INT4, INT4_WEIGHTS, 1, 1, kernel=(2, 4), strides=(1, 2), pads=((1, 0), (2, 1))),
    "1x1": vvau((3, 3, 4), INT4, INT4_WEIGHTS, 2, 1, kernel=(1, 1), pads=NONE),
    "1d": vvau((9, 4), INT4, INT4_WEIGHTS, 2, 1, kernel=(5,), strides=(1,), dilations=(1,), pads=((2, 2),)),
    "1d_window": vvau((9, 4), INT4, INT4_WEIGHTS, 2, 5, kernel=(5,), strides=(1,), dilations=(1,), pads=((2, 2),)),
    "whole_image": vvau((3, 3, 4), INT4, INT4_WEIGHTS, 2, 1, pads=NONE),
    "uint8_int8": vvau((4, 4, 2), IntRange(0, 255), tuple(range(-128, 128)), 2, 3),
    "ternary": vvau((5, 5, 4), INT4, (-1, 0, 1), 2, 3),
    "bipolar_weights": vvau((5, 5, 4), IntRange(0, 3), (-1, 1), 2, 9),
    "bipolar_inputs": vvau((4, 5, 4), BIPOLAR, INT4_WEIGHTS, 2, 1, pads=NONE),
    "bipolar_inputs_same": vvau((4, 5, 4), BIPOLAR, INT4_WEIGHTS, 4, 3),
    "bipolar_both": vvau((4, 5, 4), BIPOLAR, (-1, 1), 2, 9, pads=NONE),
    "bipolar_both_same": vvau((4, 5, 4), BIPOLAR, (-1, 1), 2, 1),
    "no_zero": vvau((4, 4, 2), IntRange(2, 5), (1, 2, 3), 2, 9),
    **{
        f"{style}_{x.type_name}_{len(values)}_values_{kernels}x{simd}".lower(): vvau(
            (4, 5, 2), x, values, 2, simd, kernels, style=style, pads=pads
        )
        for x, values, styles, pads in (
            (IntRange(0, 7), tuple(range(-4, 4)), ("pairs", "table", "multiply"), SAME),
            (INT4, INT4_WEIGHTS, ("pairs", "table", "packed", "multiply"), NONE),
            (IntRange(-32, 31), tuple(range(-32, 32)), ("packed", "pairs"), SAME),
            (IntRange(0, 7), (-1, 0, 1), ("select", "pairs"), SAME),
            (IntRange(0, 3), (-1, 1), ("and", "select"), SAME),
            (IntRange(0, 1), (-1, 1), ("and",), NONE),
            (BIPOLAR, (-1, 1), ("xnor",), NONE),
            (BIPOLAR, (-1, 1), ("select",), SAME),
            (BIPOLAR, (-1, 0, 1), ("table", "pairs", "select"), SAME),
        )
        for style in styles
        for kernels, simd in ((1, 3), (3, 9))
        if kernels > 1 or style not in ("and", "packed")
    },
    "big_image": vvau((3, 200, 4), IntRange(0, 15), INT4_WEIGHTS, 4, 3),
    "zero_weights": vvau((3, 3, 2), INT4, (0,), 2, 1),
}
