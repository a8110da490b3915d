"""Operators that work element by element: activations, tables, sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from headrace.ir import Shape
from headrace.ir.integer import Activation, IntAdd, IntAffine, IntClip, Lookup
from headrace.layers.base import divisors
from headrace.passes.layout import Layout, Order
from headrace.passes.placement.placed import OrderError, Placed, flat_rank, pick, place, wanted_axes

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
def _activation(op: Activation, layouts: Sequence[Layout], shape: Shape) -> Placed:
    (x,) = layouts
    frame, rows = flat_rank(x.frame), None
    if max(op.thresholds.shape[0], op.base.size, op.step.size) > 1:
        frame, rows = _channel_rows(x, op.axis, op.thresholds.shape[1])
    thresholds, base, step = (pick(c, rows) for c in (op.thresholds, op.base, op.step))
    physical = replace(op, thresholds=thresholds, base=base, step=step, axis=len(frame) - 1)
    return Placed(physical, (frame,), x.reframed(frame))


@place.register
def _lookup(op: Lookup, layouts: Sequence[Layout], shape: Shape) -> Placed:
    (x,) = layouts
    frame, rows = flat_rank(x.frame), None
    if op.table.shape[0] > 1:
        frame, rows = _channel_rows(x, op.axis, op.table.shape[1])
    return Placed(replace(op, table=pick(op.table, rows), axis=len(frame) - 1), (frame,), x.reframed(frame))


@place.register
def _affine(op: IntAffine, layouts: Sequence[Layout], shape: Shape) -> Placed:
    (x,) = layouts
    frame, rows = flat_rank(x.frame), None
    if max(op.factor.size, op.term.size) > 1:
        frame, rows = _channel_rows(x, op.axis, 2)
    factor, term = (pick(c, rows) for c in (op.factor, op.term))
    return Placed(replace(op, factor=factor, term=term, axis=len(frame) - 1), (frame,), x.reframed(frame))


@place.register
def _clip(op: IntClip, layouts: Sequence[Layout], shape: Shape) -> Placed:
    (x,) = layouts
    frame, rows = flat_rank(x.frame), None
    if max(op.lo.size, op.hi.size) > 1:
        frame, rows = _channel_rows(x, op.axis, 2)
    lo, hi = (pick(c, rows) for c in (op.lo, op.hi))
    return Placed(replace(op, lo=lo, hi=hi, axis=len(frame) - 1), (frame,), x.reframed(frame))


@place.register
def _add(op: IntAdd, layouts: Sequence[Layout], shape: Shape) -> Placed:
    x, y = layouts
    if not x.same_order(y):
        message = f"the operands arrive in different orders ({x}; {y})"
        raise OrderError(message, 0, y) if x.axes is None else OrderError(message, 1, x)
    frame = flat_rank(x.frame)
    return Placed(op, (frame, frame), x.reframed(frame))


@wanted_axes.register(Activation)
@wanted_axes.register(Lookup)
@wanted_axes.register(IntAffine)
@wanted_axes.register(IntClip)
def _wants_channels(op: Activation | Lookup | IntAffine | IntClip, rank: int) -> tuple[int, ...] | None:
    constants = (getattr(op, f.name) for f in fields(op))
    if all(c.shape[0] == 1 for c in constants if isinstance(c, np.ndarray)):
        return None
    return _axis_last(rank, op.axis)


def _axis_last(rank: int, axis: int) -> tuple[int, ...]:
    return (*(a for a in range(rank) if a != axis), axis)
