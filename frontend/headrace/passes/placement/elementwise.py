"""Operators that work element by element: activations, tables, sums."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from headrace.ir import Shape
from headrace.ir.integer import IntAdd, PerChannel
from headrace.layers.base import divisors
from headrace.passes.layout import Layout, Order
from headrace.passes.placement.placed import OrderError, Placed, flat_rank, pick, place, wanted_axes, widest_frame

MAX_EXPANDED = 1 << 20
"""Most table entries that an activation may take when its channels have to be told apart position by position."""


def _channel_rows(x: Layout, axis: int, entries: int) -> tuple[Shape, Order | None]:
    """Frame and, per position of its last axis, the index along the semantic *axis* (None when ascending).

    Where positions of the frame's last axis do not stand for one channel each, the shortest period is taken.

    Raises:
        OrderError: when *entries* constants per channel would have to be repeated too often.
    """
    axes = x.significant_axes
    if axes is not None and axes and axes[-1] == axis and x.frame[-1] == x.shape[axis]:
        return flat_rank(x.frame), None
    inner = math.prod(x.shape[axis + 1 :])
    channel = x.order // inner % x.shape[axis]
    period = x.frame[-1]
    if (channel.reshape(-1, period) != channel[:period]).any():
        period = next(p for p in divisors(x.size) if (channel.reshape(-1, p) == channel[:p]).all())
        if period * entries > MAX_EXPANDED:
            message = (
                f"constants along axis {axis} would have to be repeated {period} times for the order in which the "
                f"stream carries {x}"
            )
            raise OrderError(message, 0, Layout.by_axes(x.shape, _axis_last(len(x.shape), axis)))
    frame = x.frame if period == x.frame[-1] else (x.size // period, period) if period < x.size else (period,)
    rows = channel[:period]
    return flat_rank(frame), None if np.array_equal(rows, np.arange(x.shape[axis])) else rows


@place.register
def _per_channel(op: PerChannel, layouts: Sequence[Layout], shape: Shape) -> Placed:
    (x,) = layouts
    frame, rows = widest_frame(x), None
    if op.channels > 1:
        frame, rows = _channel_rows(x, op.axis, sum(c[0].size for c in op.constants.values()))
    return Placed(op.with_constants(lambda c: pick(c, rows), len(frame) - 1), (frame,), x.reframed(frame))


@place.register
def _add(op: IntAdd, layouts: Sequence[Layout], shape: Shape) -> Placed:
    x, y = layouts
    if not x.same_order(y):
        message = f"the operands arrive in different orders ({x}; {y})"
        raise OrderError(message, 0, y) if x.axes is None else OrderError(message, 1, x)
    frame = max(widest_frame(x), widest_frame(y), key=lambda f: f[-1])
    return Placed(op, (frame, frame), x.reframed(frame))


@wanted_axes.register
def _wants_channels(op: PerChannel, rank: int) -> tuple[int, ...] | None:
    return _axis_last(rank, op.axis) if op.channels > 1 else None


def _axis_last(rank: int, axis: int) -> tuple[int, ...]:
    return (*(a for a in range(rank) if a != axis), axis)
