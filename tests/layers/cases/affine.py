"""Affine: shared and per-channel constants, and the rounding of float32."""

import numpy as np

from headrace.ir import IntRange
from headrace.ir.per_channel import IntAffine
from headrace.layers import StreamType
from headrace.layers.affine import Affine

INT8 = IntRange(-128, 127)
WIDE = IntRange(-(2**20), 2**20)
BIPOLAR = IntRange(-1, 1, bipolar=True)


def affine(
    pe: int, x: IntRange, factor: tuple[int, ...], term: tuple[int, ...], significand: bool = False, channels: int = 4
) -> Affine:
    """A layer on five pixels whose output range is exactly what can be reached."""
    factors, terms = np.array(factor), np.array(term)
    ends = np.array([[x.lo], [x.hi]]) * np.ones((1, channels), np.int64)
    (y,) = IntAffine(factors, terms, x, 0, significand).execute(ends)
    output = IntRange(int(y.min()), int(y.max()))
    return Affine(StreamType((5, channels), x), factors, terms, output, significand, pe)


CASES = {
    "shared": affine(2, INT8, (3,), (-7,)),
    "per_channel": affine(2, INT8, (3, -1, 0, 20), (5, 0, -100, 1000)),
    "term_per_channel": affine(1, INT8, (-2,), (5, 0, -100, 1000)),
    "factor_per_channel": affine(4, INT8, (3, -1, 0, 20), (1,)),
    "zero_point": affine(2, IntRange(0, 255), (1,), (-128,)),
    "bipolar": affine(2, BIPOLAR, (5, -5, 1, 2), (0, 1, 2, 3)),
    "constant": affine(2, INT8, (0,), (9,)),
    "narrower": affine(2, IntRange(1000, 1003), (1,), (-1000,)),
    "not_rounded": affine(2, INT8, (3,), (-7,), significand=True),
    "sum_rounded": affine(2, INT8, (12345,), (2**27 + 1, 3, -(2**26) - 1, 2**30), significand=True),
    "both_rounded": affine(2, WIDE, (12345, -999, 3, 77777), (2**27 + 1, 3, -(2**26) - 1, 2**30), significand=True),
    "both_rounded_serial": affine(1, WIDE, (4097,), (1,), significand=True),
}
