"""Every arithmetic that MVAU and VVAU have, each forced: unrolled and folded; with constants and without.

One row of weights is all at the lower end of their range, one all at the upper.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from headrace.ir import IntRange
from headrace.ir.exact import any_weights_range
from headrace.layers import Layer, StreamType
from headrace.layers.mvau import MVAU
from headrace.layers.vvau import VVAU

RNG = np.random.default_rng(13)
BIPOLAR = IntRange(-1, 1, bipolar=True)
TERNARY = IntRange(-1, 1)
OPERANDS = {
    "bits": (BIPOLAR, BIPOLAR),
    "signs": (IntRange(-2, 1), BIPOLAR),
    "ternary": (IntRange(0, 7), TERNARY),
    "factors": (TERNARY, IntRange(-4, 3)),
    "bipolar_inputs": (BIPOLAR, IntRange(-2, 1)),
    "numbers": (IntRange(0, 7), IntRange(-8, 7)),
    "never_positive": (IntRange(-8, 0), IntRange(-8, 0)),
}
DENSE = {"unrolled": (4, 6), "folded": (2, 3)}
DEPTHWISE = {"unrolled": (2, 9), "folded": (1, 3)}


def weights(w: IntRange, *shape: int) -> NDArray[np.int64]:
    """Weights *shape* = (rows, ...)."""
    drawn = RNG.choice([-1, 1], shape) if w.bipolar else RNG.integers(w.lo, w.hi, shape, endpoint=True)
    drawn[0], drawn[1] = w.lo, w.hi
    return drawn


def dense(x: IntRange, w: IntRange, pe: int, simd: int) -> MVAU:
    """6 inputs, 4 rows of weights."""
    y = IntRange(*any_weights_range(w, np.full(6, x.lo), np.full(6, x.hi)))
    return MVAU(weights(w, 4, 6).T, StreamType((6,), x), y, pe, simd)


def depthwise(x: IntRange, w: IntRange, pe: int, simd: int) -> VVAU:
    """3x3 windows of 2 channels, two kernels each; padded unless that would make numbers of bits."""
    y = IntRange(*any_weights_range(w, np.full(9, x.lo), np.full(9, x.hi)))
    one, pad = (1, 1), int(not x.bipolar)
    kernels = weights(w, 4, 9).reshape(2, 2, 9)
    return VVAU(kernels, StreamType((4, 5, 2), x), y, (3, 3), one, one, ((pad, pad), (pad, pad)), pe, simd)


def layers() -> Iterator[tuple[str, MVAU | VVAU]]:
    """By operands and folding, in the style ``auto``."""
    for operands, (x, w) in OPERANDS.items():
        for make, foldings in ((dense, DENSE), (depthwise, DEPTHWISE)):
            for folding, (pe, simd) in foldings.items():
                name = f"{make.__name__}_{operands}_{folding}"
                layer = make(x, w, pe, simd)
                yield name, layer
                if folding == "folded":
                    yield f"{name}_writable", replace(layer, writable=w)


CASES: dict[str, Layer] = {
    f"{name}_{style}": replace(layer, style=style) for name, layer in layers() for style in layer.legal_styles
}
