"""Operators that read images pixel by pixel: convolution, pools, padding and resampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headrace.ir import Op, Shape
from headrace.ir.integer import IntConv, IntPad, IntPool, IntSelect, IntUpsample, IntZeroInsert
from headrace.passes.layout import Layout, Order
from headrace.passes.placement.placed import MAX_RANK, OrderError, Placed, pick, place, wanted_axes


def _image(x: Layout) -> tuple[Shape, Order | None]:
    """Read *x*, semantic ``(C, *size)``, pixel by pixel in raster order.

    Returns:
        the physical frame ``(*size, C)`` and the order of the channels in each pixel (None when ascending).

    Raises:
        OrderError: when the pixels come in another order, or their channels differ in theirs.
    """
    channels, size = x.shape[0], x.shape[1:]
    frame = (*size, channels)
    if x.follows((*range(1, len(x.shape)), 0)):
        return frame, None
    pixels = math.prod(size)
    table = x.order.reshape(pixels, channels)
    channel, pixel = table // pixels, table % pixels
    if (pixel != np.arange(pixels)[:, None]).any() or (channel != channel[:1]).any():
        raise OrderError(
            f"an image must arrive pixel by pixel, the channels of each together, but the stream carries {x}",
            0,
            Layout.channels_last(x.shape),
        )
    return frame, channel[0]


@place.register
def _conv(op: IntConv, layouts: Sequence[Layout], shape: Shape) -> Placed:
    frame, channels = _image(layouts[0])
    if channels is None:
        return Placed(op, (frame,), Layout.channels_last(shape))
    outputs, per_group = op.weights.shape[:2]
    blocks = channels.reshape(op.groups, per_group)
    group = blocks[:, 0] // per_group
    if (blocks // per_group != group[:, None]).any():
        message = f"the channels of each of {op.groups} groups must arrive together"
        raise OrderError(message, 0, Layout.channels_last(layouts[0].shape))
    produced = (group[:, None] * (outputs // op.groups) + np.arange(outputs // op.groups)).ravel()
    taps = np.repeat(blocks % per_group, outputs // op.groups, axis=0)  # order of the inputs, per output
    weights = op.weights[produced[:, None], taps]
    op = replace(op, weights=np.ascontiguousarray(weights), ranges=op.ranges[:, produced])
    return Placed(op, (frame,), Layout.channels_last(shape, produced))


@place.register(IntPool)
@place.register(IntUpsample)
def _pool(op: Op, layouts: Sequence[Layout], shape: Shape) -> Placed:
    frame, channels = _image(layouts[0])
    return Placed(op, (frame,), Layout.channels_last(shape, channels))


@place.register
def _pad(op: IntPad, layouts: Sequence[Layout], shape: Shape) -> Placed:
    (x,) = layouts
    if x.axes is not None and len(x.shape) <= MAX_RANK and (op.fill.size == 1 or x.axes[-1] == 0):
        frame = tuple(x.shape[a] for a in x.axes)
        return Placed(replace(op, pads=tuple(op.pads[a] for a in x.axes)), (frame,), Layout.by_axes(shape, x.axes))
    frame, channels = _image(x)
    if channels is not None and op.pads[0] != (0, 0):
        message = f"channels cannot be padded while they arrive in another order (the stream carries {x})"
        raise OrderError(message, 0, Layout.channels_last(x.shape))
    physical = replace(op, pads=(*op.pads[1:], op.pads[0]), fill=pick(op.fill, channels))
    return Placed(physical, (frame,), Layout.channels_last(shape, channels))


@place.register
def _select(op: IntSelect, layouts: Sequence[Layout], shape: Shape) -> Placed:
    frame, channels = _image(layouts[0])
    if channels is not None:
        tap, channel = np.divmod(op.index, channels.size)
        moved = tap * channels.size + np.argsort(channels)[channel]
        op = replace(op, index=np.where(op.index < 0, -1, moved))
    return Placed(op, (frame,), Layout.channels_last(shape))


@place.register
def _zero_insert(op: IntZeroInsert, layouts: Sequence[Layout], shape: Shape) -> Placed:
    frame, channels = _image(layouts[0])
    return Placed(replace(op, fill=pick(op.fill, channels)), (frame,), Layout.channels_last(shape, channels))


@wanted_axes.register(IntConv)
@wanted_axes.register(IntPool)
@wanted_axes.register(IntSelect)
@wanted_axes.register(IntUpsample)
@wanted_axes.register(IntPad)
@wanted_axes.register(IntZeroInsert)
def _wants_image(op: Op, rank: int) -> tuple[int, ...]:
    return (*range(1, rank), 0)
