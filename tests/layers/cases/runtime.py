"""Layers whose constants can be written at run time, with those that they are configured with."""

import numpy as np
from numpy.typing import NDArray

from headrace.ir import IntRange
from headrace.ir.exact import any_weights_range
from headrace.layers import Layer, StreamType
from headrace.layers.mvau import MVAU
from headrace.layers.runtime_thresholding import RuntimeThresholding
from headrace.layers.vvau import VVAU

RNG = np.random.default_rng(11)
BIPOLAR = IntRange(-1, 1, bipolar=True)
INT4, INT8, UINT4 = IntRange(-8, 7), IntRange(-128, 127), IntRange(0, 15)
SAME = ((1, 1), (1, 1))


def drawn(w: IntRange, *shape: int) -> NDArray[np.int64]:
    """Weights of a range."""
    return RNG.choice([-1, 1], shape) if w.bipolar else RNG.integers(w.lo, w.hi, shape, endpoint=True)


def reach(x: IntRange, w: IntRange, terms: int) -> IntRange:
    """Results whatever the weights are."""
    return IntRange(*any_weights_range(w, np.full(terms, x.lo), np.full(terms, x.hi)))


def mvau(x: IntRange, w: IntRange, mw: int, mh: int, pe: int, simd: int, style: str = "auto") -> MVAU:
    return MVAU(drawn(w, mw, mh), StreamType((mw,), x), reach(x, w, mw), pe, simd, style, writable=w)


def vvau(x: IntRange, w: IntRange, pe: int, simd: int, kernels: int = 1) -> VVAU:
    weights = drawn(w, 4, kernels, 9)
    shape, one = (5, 4, 4), (1, 1)
    stream = StreamType(shape, x)
    return VVAU(weights, stream, reach(x, w, 9), (3, 3), one, one, SAME, pe, simd, writable=w)


def thresholding(x: IntRange, y: IntRange, channels: int, pe: int, style: str, ordered: bool = True) -> Layer:
    steps = 1 if y.bipolar else y.hi - y.lo
    cuts = RNG.integers(x.lo, x.hi + 1, (channels, steps), endpoint=True)
    cuts[0], cuts[-1] = x.lo, x.hi + 1  # always reached, and never
    cuts = np.sort(cuts, axis=1) if ordered else cuts
    falling = RNG.integers(0, 2, channels)
    return RuntimeThresholding(cuts, falling, StreamType((3, channels), x), y, pe, style)


CASES: dict[str, Layer] = {
    "mvau": mvau(INT4, INT4, 12, 6, 3, 4),
    "mvau_wide_words": mvau(INT8, INT8, 12, 6, 3, 6),
    "mvau_one_vector_a_cycle": mvau(UINT4, INT4, 5, 3, 3, 5),
    "mvau_one_word": mvau(UINT4, IntRange(0, 3), 1, 1, 1, 1),
    "mvau_odd_depth": mvau(INT4, INT4, 15, 5, 1, 3),
    "mvau_xnor": mvau(BIPOLAR, BIPOLAR, 48, 8, 4, 16),
    "mvau_bipolar_weights": mvau(UINT4, BIPOLAR, 24, 6, 3, 6),
    "mvau_one_row": mvau(INT4, INT8, 8, 1, 1, 2),
    "vvau": vvau(INT4, INT4, 2, 1),
    "vvau_row": vvau(UINT4, INT8, 2, 3, kernels=2),
    "vvau_window": vvau(INT4, INT4, 4, 9),
    "vvau_bipolar": vvau(IntRange(0, 3), BIPOLAR, 1, 9),
    **{
        f"thresholding_{name}_{style}": thresholding(x, y, channels, pe, style, ordered)
        for style in ("parallel", "search")
        for name, x, y, channels, pe, ordered in (
            ("uint4", IntRange(-105, 105), UINT4, 6, 3, True),
            ("int4", INT8, INT4, 6, 2, True),
            ("narrow", INT8, IntRange(-7, 7), 5, 1, True),
            ("bipolar", INT8, BIPOLAR, 4, 2, True),
            ("from_bipolar", BIPOLAR, IntRange(0, 1), 4, 2, True),
            ("unsigned", UINT4, IntRange(0, 3), 4, 4, True),
            ("one_level", UINT4, IntRange(0, 1), 3, 1, True),
            ("out_of_order", INT8, IntRange(0, 7), 6, 3, False),
            ("three", INT8, IntRange(2, 4), 3, 3, True),
        )
    },
}
