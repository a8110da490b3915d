"""Clip: shared and per-channel bounds, bounds that never take effect, every encoding."""

import numpy as np

from headrace.ir import IntRange
from headrace.ir.per_channel import IntClip
from headrace.layers import StreamType
from headrace.layers.clip import Clip

INT8 = IntRange(-128, 127)


def clip(pe: int, x: IntRange, lo: tuple[int, ...], hi: tuple[int, ...], channels: int = 4) -> Clip:
    """A layer on five pixels whose output range is exactly what can be reached."""
    low, high = np.array(lo), np.array(hi)
    ends = np.array([[x.lo], [x.hi]]) * np.ones((1, channels), np.int64)
    (y,) = IntClip(low, high, x, 0).execute(ends)
    return Clip(StreamType((5, channels), x), low, high, IntRange(int(y.min()), int(y.max())), pe)


CASES = {
    "shared": clip(2, INT8, (-7,), (8,)),
    "per_channel": clip(2, INT8, (-3, -100, 0, 20), (5, 0, 100, 21)),
    "low_per_channel": clip(1, INT8, (-3, -100, 0, 20), (50,)),
    "high_per_channel": clip(4, INT8, (-9,), (5, 0, 100, 21)),
    "unsigned": clip(2, IntRange(0, 255), (3,), (200,)),
    "idle": clip(1, INT8, (-(2**31),), (2**31 - 1,)),
    "above_zero": clip(4, INT8, (0,), (2**31 - 1,)),
    "wide": clip(1, IntRange(-(2**40), 2**40), (-(2**31),), (2**31 - 1,)),
    "constant": clip(2, INT8, (5,), (5,)),
    "bipolar": clip(2, IntRange(-1, 1, bipolar=True), (0,), (1,)),
}
