"""Concat and Slice: turns and whole pixels, mixed encodings, strides."""

from headrace.ir import IntRange
from headrace.layers import StreamType
from headrace.layers.concat import Concat
from headrace.layers.slice import Slice

INT3 = IntRange(-4, 3)
UINT2 = IntRange(0, 3)
BIPOLAR = IntRange(-1, 1, bipolar=True)


def concat(simd: int, *parts: tuple[int, IntRange]) -> Concat:
    """Five pixels, joined from parts of so many channels."""
    return Concat(tuple(StreamType((5, channels), values) for channels, values in parts), simd)


def cut(simd: int, channels: int, start: int, stop: int, step: int = 1, values: IntRange = INT3) -> Slice:
    """Some channels of five pixels."""
    return Slice(StreamType((5, channels), values), start, stop, step, simd)


CASES = {
    "concat_two": concat(2, (4, INT3), (6, INT3)),
    "concat_serial": concat(1, (3, INT3), (2, INT3)),
    "concat_pixels": concat(5, (3, INT3), (2, INT3)),
    "concat_equal_words": concat(4, (4, INT3), (4, INT3)),
    "concat_three_encodings": concat(2, (2, INT3), (4, UINT2), (2, BIPOLAR)),
    "concat_three_encodings_pixels": concat(8, (2, INT3), (4, UINT2), (2, BIPOLAR)),
    "concat_bipolar": concat(2, (2, BIPOLAR), (4, BIPOLAR)),
    "concat_bipolar_signed": concat(3, (3, BIPOLAR), (3, IntRange(-1, 0))),
    "concat_one": concat(2, (4, UINT2)),
    "concat_five": concat(1, *[(1, UINT2)] * 5),
    "concat_unsigned_widths": concat(2, (2, IntRange(0, 1)), (2, IntRange(0, 200))),
    "slice_first": cut(2, 8, 0, 4),
    "slice_middle": cut(2, 8, 2, 6),
    "slice_last": cut(4, 8, 4, 8),
    "slice_serial": cut(1, 7, 2, 5),
    "slice_one": cut(1, 5, 3, 4),
    "slice_step": cut(1, 9, 1, 8, 3),
    "slice_pixels": cut(7, 7, 2, 5),
    "slice_pixels_step": cut(9, 9, 1, 8, 3),
    "slice_everything": cut(2, 4, 0, 4),
    "slice_bipolar": cut(3, 9, 3, 9, values=BIPOLAR),
}
