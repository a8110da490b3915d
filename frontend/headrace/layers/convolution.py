"""How a convolution becomes layers: a sliding window generator and a product, or the product alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.ir import IntRange
from headrace.ir.integer import IntConv
from headrace.layers.base import Layer, StreamType, lowers
from headrace.layers.mvau import MVAU
from headrace.layers.swg import SWG, unread
from headrace.layers.vvau import VVAU

Int = NDArray[np.int64]


@lowers(IntConv)
def lower_convolution(op: IntConv, stream: StreamType) -> Sequence[Layer]:
    """Dense convolutions are SWG and MVAU, pointwise ones an MVAU over the pixels, depthwise ones a VVAU.

    Other grouped convolutions run as dense ones whose weights outside the groups are 0: exact, at the cost of
    computing with these zeros.
    """
    output = IntRange(int(op.ranges[0].min()), int(op.ranges[1].max()))
    channels = stream.shape[-1]
    if op.groups == channels > 1:
        weights = op.weights.reshape(channels, op.weights.shape[0] // channels, -1)
        return (VVAU(weights, stream, output, op.kernel, op.strides, op.dilations, op.pads, writable=op.writable),)
    weights = window_weights(op)
    if set(op.kernel) == {1} and set(op.strides) == {1} and not any(p for pair in op.pads for p in pair):
        return (MVAU(weights, stream, output, writable=op.writable),)
    used = weights.any(axis=1).reshape(*op.kernel, channels)
    crop = unread(used) if op.scattered else (0, 0)
    swg = SWG(stream.shape, stream.range, op.kernel, op.strides, op.dilations, op.pads).cropped_to(crop)
    weights = np.ascontiguousarray(weights[swg.kept])
    return (swg, MVAU(weights, swg.outputs[0], output, writable=op.writable))


def window_weights(op: IntConv) -> Int:
    """Weights ``(kernel * C, O)`` for windows in the order (tap, channel); 0 between channels of different groups."""
    out, per_group, *kernel = op.weights.shape
    dense = np.zeros((out, per_group * op.groups, *kernel), np.int64)
    members = out // op.groups
    for group in range(op.groups):
        rows = slice(group * members, (group + 1) * members)
        dense[rows, group * per_group : (group + 1) * per_group] = op.weights[rows]
    taps_first = np.moveaxis(dense, (0, 1), (-1, -2))  # (*kernel, C, O)
    return np.ascontiguousarray(taps_first.reshape(-1, out))
