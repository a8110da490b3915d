"""Upsample: copies along either axis, serial and parallel."""

from headrace.ir import IntRange
from headrace.layers import StreamType
from headrace.layers.upsample import Upsample

INT3 = IntRange(-4, 3)


def upsample(shape: tuple[int, ...], factors: tuple[int, ...], simd: int, values: IntRange = INT3) -> Upsample:
    """Copies of the pixels of an image of *shape*."""
    return Upsample(StreamType(shape, values), factors, simd)


CASES = {
    "2x2": upsample((3, 4, 4), (2, 2), 2),
    "2x2_serial": upsample((3, 3, 3), (2, 2), 1),
    "2x2_pixels": upsample((4, 3, 3), (2, 2), 3),
    "rows": upsample((3, 4, 4), (3, 1), 2),
    "cols": upsample((3, 4, 4), (1, 3), 2),
    "uneven": upsample((2, 3, 2), (4, 3), 2),
    "one_pixel": upsample((1, 1, 4), (2, 3), 2),
    "one_col": upsample((4, 1, 1), (2, 1), 1),
    "nothing": upsample((2, 2, 2), (1, 1), 1),
    "1d": upsample((5, 4), (2,), 2),
    "bipolar": upsample((3, 3, 2), (2, 2), 2, IntRange(-1, 1, bipolar=True)),
}
