"""Pad and Gather: constants around and between pixels, channels in another order."""

import numpy as np

from headrace.ir import IntRange
from headrace.layers import StreamType
from headrace.layers.gather import Gather
from headrace.layers.pad import Pad

INT3 = IntRange(-4, 3)
BIPOLAR = IntRange(-1, 1, bipolar=True)


def pad(
    simd: int,
    shape: tuple[int, ...],
    pads: tuple[tuple[int, int], ...],
    steps: tuple[int, ...] = (1, 1, 1),
    fill: tuple[int, ...] = (0,),
    values: IntRange = INT3,
) -> Pad:
    """Constants *fill* around and between the pixels of a frame."""
    return Pad(StreamType(shape, values), pads, steps, np.array(fill), simd)


def gather(simd: int, channels: int, *indices: int, values: IntRange = INT3) -> Gather:
    """Channels of six pixels in another order."""
    return Gather(StreamType((2, 3, channels), values), indices, simd)


SHUFFLE = tuple(np.arange(12).reshape(3, 4).T.ravel().tolist())
TRANSPOSED = tuple(np.arange(60).reshape(3, 4, 5).transpose(2, 0, 1).ravel().tolist())

CASES = {
    "pad": pad(2, (3, 4, 4), ((1, 2), (2, 1), (0, 0)), fill=(-3,)),
    "pad_begin": pad(1, (3, 3, 2), ((2, 0), (1, 0), (0, 0))),
    "pad_end": pad(2, (3, 3, 2), ((0, 2), (0, 1), (0, 0))),
    "pad_channels": pad(2, (2, 3, 4), ((0, 0), (0, 0), (2, 4)), fill=(1,)),
    "pad_everything": pad(1, (2, 2, 3), ((1, 1), (1, 1), (1, 1)), fill=(2,)),
    "pad_per_channel": pad(2, (3, 3, 4), ((1, 1), (1, 1), (0, 0)), fill=(1, -2, 3, 0)),
    "pad_wider": pad(2, (3, 3, 2), ((1, 1), (1, 1), (0, 0)), fill=(-100,)),
    "pad_nothing": pad(2, (3, 3, 2), ((0, 0), (0, 0), (0, 0))),
    "pad_bipolar": pad(2, (3, 3, 2), ((1, 1), (1, 1), (0, 0)), values=BIPOLAR),
    "pad_bipolar_by_one": pad(2, (3, 3, 2), ((1, 1), (1, 1), (0, 0)), fill=(-1,), values=BIPOLAR),
    "pad_inside_the_range": pad(2, (3, 3, 2), ((1, 1), (1, 1), (0, 0)), fill=(3,), values=IntRange(2, 4)),
    "pad_by_minus_one": pad(2, (3, 3, 2), ((1, 1), (1, 1), (0, 0)), fill=(-1,), values=IntRange(-5, -3)),
    "pad_1d": pad(2, (5, 2), ((2, 3), (0, 0)), (1, 1), (1,)),
    "pad_vector": pad(1, (3,), ((2, 1),), (1,), (1,)),
    "spread": pad(2, (3, 4, 4), ((0, 0), (0, 0), (0, 0)), (2, 2, 1)),
    "spread_and_pad": pad(1, (3, 3, 2), ((1, 2), (2, 1), (0, 0)), (3, 2, 1), (-1,)),
    "spread_one_pixel": pad(1, (1, 1, 2), ((0, 0), (0, 0), (0, 0)), (2, 2, 1)),
    "shuffle": gather(1, 12, *SHUFFLE),
    "shuffle_pixels": gather(12, 12, *SHUFFLE),
    "shuffle_blocks": gather(2, 8, 6, 7, 0, 1, 4, 5, 2, 3),
    "permuted": gather(1, 6, 3, 0, 5, 1, 2, 4),
    "reversed": gather(1, 5, 4, 3, 2, 1, 0),
    "repeated": gather(1, 3, 0, 0, 2, 2, 1, 1, 0),
    "picked": gather(1, 9, 7, 2),
    "picked_first": gather(1, 9, 0),
    "picked_pixels": gather(9, 9, 7, 2, 2),
    "same": gather(2, 4, 0, 1, 2, 3),
    "transposed_frame": Gather(StreamType((60,), INT3), TRANSPOSED),
    "bipolar": gather(1, 4, 2, 3, 0, 1, values=BIPOLAR),
}
