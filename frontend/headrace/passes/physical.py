"""How each integer operator reads its streams as they come: the operator in physical order.

One rule per operator. A rule gets the layouts of the operands and returns the operator with its constants permuted to
stream order, the frames in which it reads, and the layout of the result. It refuses an order it cannot read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np

from headrace.errors import UnsupportedError
from headrace.ir import Op, Shape
from headrace.ir.integer import (
    Activation,
    Concat,
    Gather,
    IntAdd,
    IntConv,
    IntMatMul,
    IntMaxPool,
    IntPad,
    IntSumPool,
    IntTopK,
    IntUpsample,
    IntZeroInsert,
    Lookup,
    Reshape,
    Slice,
    Transpose,
)
from headrace.layers.base import divisors
from headrace.passes.layout import Layout, Order

MAX_EXPANDED = 1 << 20
"""Most table entries that an activation may take when its channels have to be told apart position by position."""

MAX_RANK = 3
"""Most axes of a physical frame: ``(H, W, C)``."""


@dataclass(frozen=True, eq=False)
class Placed:
    """An operator in physical order.

    Attributes:
        op: what to lower, or None when only the bookkeeping changes and the stream passes through.
        frames: physical frame per operand.
        layout: of the result.
    """

    op: Op | None
    frames: tuple[Shape, ...]
    layout: Layout


@singledispatch
def place(op: Op, layouts: Sequence[Layout], shape: Shape) -> Placed:
    """*op* as it reads operands of the given *layouts*; *shape* is its semantic result.

    Raises:
        UnsupportedError: when the operator cannot read an operand in the order in which it arrives.
    """
    raise UnsupportedError(f"{type(op).__name__} has no rule for the order of its stream")


# -- nothing but bookkeeping ----------------------------------------------------------------------------------------


@place.register
def _reshape(op: Reshape, layouts: Sequence[Layout], shape: Shape) -> Placed:
    return Placed(None, (layouts[0].frame,), layouts[0].reshaped(shape))


@place.register
def _transpose(op: Transpose, layouts: Sequence[Layout], shape: Shape) -> Placed:
    return Placed(None, (layouts[0].frame,), layouts[0].transposed(op.perm))


# -- vectors --------------------------------------------------------------------------------------------------------


def _vectors(x: Layout) -> tuple[Shape, Layout, Order | None]:
    """Read *x* as vectors along its last axis.

    Returns:
        the physical frame, the layout of the leading axes alone, and the order of the elements inside each
        vector (None when it is ascending).

    Raises:
        UnsupportedError: when the vectors do not follow each other, or differ in their inner order.
    """
    length, lead = x.shape[-1], x.shape[:-1]
    count = math.prod(lead)
    last = len(x.shape) - 1
    axes = x.significant_axes
    if axes is not None and (length == 1 or (axes and axes[-1] == last)):
        rest = tuple(a for a in x.axes or () if a != last)
        return _vector_frame(x, length), Layout(lead, (max(count, 1),), rest), None
    table = x.order.reshape(count, length)
    vector, inner = table // length, table % length
    if (vector != vector[:, :1]).any() or (inner != inner[:1]).any():
        raise UnsupportedError(
            f"vectors of {length} along the last axis of frames {list(x.shape)} arrive interleaved (the stream carries "
            f"{x}); a Transpose before this node would need a buffer, which has no hardware layer yet"
        )
    outer = Layout.by_order(lead, (count,), vector[:, 0])
    return _vector_frame(x, length), outer, None if (inner[0] == np.arange(length)).all() else inner[0]


def _vector_frame(x: Layout, length: int) -> Shape:
    if x.frame[-1] == length and len(x.frame) <= MAX_RANK:
        return x.frame
    count = x.size // length
    return (count, length) if count > 1 else (length,)


def _with_last(outer: Layout, frame: Shape, length: int) -> Layout:
    """Layout of vectors of *length* ascending elements, which follow each other as *outer* says."""
    shape, physical = (*outer.shape, length), (*frame[:-1], length)
    if outer.axes is not None:
        return Layout(shape, physical, (*outer.axes, len(outer.shape)))
    order = outer.order[:, None] * length + np.arange(length)
    return Layout(shape, physical, None, order.ravel())


@place.register
def _matmul(op: IntMatMul, layouts: Sequence[Layout], shape: Shape) -> Placed:
    frame, outer, inner = _vectors(layouts[0])
    if inner is not None:
        op = replace(op, weights=np.ascontiguousarray(op.weights[inner]))
    return Placed(op, (frame,), _with_last(outer, frame, shape[-1]))


@place.register
def _topk(op: IntTopK, layouts: Sequence[Layout], shape: Shape) -> Placed:
    frame, outer, inner = _vectors(layouts[0])
    if inner is not None:
        raise UnsupportedError(
            f"the values to be ranked arrive in another order than their indices (the stream carries {layouts[0]}); "
            "remove the Transpose or Flatten of an image before this node"
        )
    return Placed(op, (frame,), _with_last(outer, frame, op.k))


# -- images ---------------------------------------------------------------------------------------------------------


def _image(x: Layout) -> tuple[Shape, Order | None]:
    """Read *x*, semantic ``(C, *size)``, pixel by pixel in raster order.

    Returns:
        the physical frame ``(*size, C)`` and the order of the channels in each pixel (None when ascending).

    Raises:
        UnsupportedError: when the pixels come in another order, or their channels differ in theirs.
    """
    channels, size = x.shape[0], x.shape[1:]
    frame = (*size, channels)
    if x.follows((*range(1, len(x.shape)), 0)):
        return frame, None
    pixels = math.prod(size)
    table = x.order.reshape(pixels, channels)
    channel, pixel = table // pixels, table % pixels
    if (pixel != np.arange(pixels)[:, None]).any() or (channel != channel[:1]).any():
        raise UnsupportedError(
            f"an image of {channels} channels must arrive pixel by pixel with its channels together, but the stream "
            f"carries {x}; that needs a buffer, which has no hardware layer yet"
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
        raise UnsupportedError(
            f"the channels of each of the {op.groups} groups must arrive together; a channel shuffle between them "
            "has no hardware layer yet"
        )
    produced = (group[:, None] * (outputs // op.groups) + np.arange(outputs // op.groups)).ravel()
    taps = np.repeat(blocks % per_group, outputs // op.groups, axis=0)  # order of the inputs, per output
    weights = op.weights[produced[:, None], taps]
    op = replace(op, weights=np.ascontiguousarray(weights), ranges=op.ranges[:, produced])
    return Placed(op, (frame,), Layout.channels_last(shape, produced))


@place.register(IntMaxPool)
@place.register(IntSumPool)
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
        raise UnsupportedError(f"channels cannot be padded while they arrive in another order (the stream carries {x})")
    physical = replace(op, pads=(*op.pads[1:], op.pads[0]), fill=_pick(op.fill, channels))
    return Placed(physical, (frame,), Layout.channels_last(shape, channels))


@place.register
def _zero_insert(op: IntZeroInsert, layouts: Sequence[Layout], shape: Shape) -> Placed:
    frame, channels = _image(layouts[0])
    return Placed(replace(op, fill=_pick(op.fill, channels)), (frame,), Layout.channels_last(shape, channels))


@place.register
def _gather(op: Gather, layouts: Sequence[Layout], shape: Shape) -> Placed:
    (x,) = layouts
    if sorted(op.indices) == list(range(x.shape[op.axis])):  # a permutation moves nothing
        source = np.take(np.arange(x.size).reshape(x.shape), op.indices, axis=op.axis).ravel()
        new_index = np.empty(x.size, np.int64)
        new_index[source] = np.arange(x.size)
        return Placed(None, (x.frame,), Layout.by_order(shape, x.frame, new_index[x.order]))
    if op.axis != 0:
        raise UnsupportedError(f"elements can be repeated or left out along the channels, not along axis {op.axis}")
    frame, channels = _image(x)
    position = np.arange(x.shape[0]) if channels is None else np.argsort(channels)
    indices = tuple(int(k) for k in position[list(op.indices)])
    return Placed(Gather(len(frame) - 1, indices), (frame,), Layout.channels_last(shape))


# -- element by element ---------------------------------------------------------------------------------------------


def _channel_rows(x: Layout, axis: int, entries: int) -> tuple[Shape, Order | None]:
    """Frame and, per position of its last axis, the index along the semantic *axis* (None when ascending).

    Where positions of the frame's last axis do not stand for one channel each, the shortest period is taken.

    Raises:
        UnsupportedError: when *entries* constants per channel would have to be repeated too often.
    """
    axes = x.significant_axes
    if axes is not None and axes and axes[-1] == axis and x.frame[-1] == x.shape[axis]:
        return _flat_rank(x.frame), None
    inner = math.prod(x.shape[axis + 1 :])
    channel = x.order // inner % x.shape[axis]
    period = x.frame[-1]
    if (channel.reshape(-1, period) != channel[:period]).any():
        period = next(p for p in divisors(x.size) if (channel.reshape(-1, p) == channel[:p]).all())
        if period * entries > MAX_EXPANDED:
            raise UnsupportedError(
                f"constants along axis {axis} of frames {list(x.shape)} would have to be repeated {period} times for "
                f"the order in which the stream carries them ({x})"
            )
    frame = x.frame if period == x.frame[-1] else (x.size // period, period) if period < x.size else (period,)
    rows = channel[:period]
    return _flat_rank(frame), None if np.array_equal(rows, np.arange(x.shape[axis])) else rows


def _flat_rank(frame: Shape) -> Shape:
    """*frame* with at most :data:`MAX_RANK` axes."""
    return frame if len(frame) <= MAX_RANK else (math.prod(frame[:-1]), frame[-1])


def _pick(constants: Order, rows: Order | None) -> Order:
    return constants if rows is None or constants.shape[0] == 1 else np.ascontiguousarray(constants[rows])


@place.register
def _activation(op: Activation, layouts: Sequence[Layout], shape: Shape) -> Placed:
    (x,) = layouts
    frame, rows = _flat_rank(x.frame), None
    if max(op.thresholds.shape[0], op.base.size, op.step.size) > 1:
        frame, rows = _channel_rows(x, op.axis, op.thresholds.shape[1])
    thresholds, base, step = (_pick(c, rows) for c in (op.thresholds, op.base, op.step))
    physical = replace(op, thresholds=thresholds, base=base, step=step, axis=len(frame) - 1)
    return Placed(physical, (frame,), x.reframed(frame))


@place.register
def _lookup(op: Lookup, layouts: Sequence[Layout], shape: Shape) -> Placed:
    (x,) = layouts
    frame, rows = _flat_rank(x.frame), None
    if op.table.shape[0] > 1:
        frame, rows = _channel_rows(x, op.axis, op.table.shape[1])
    return Placed(replace(op, table=_pick(op.table, rows), axis=len(frame) - 1), (frame,), x.reframed(frame))


@place.register
def _add(op: IntAdd, layouts: Sequence[Layout], shape: Shape) -> Placed:
    x, y = layouts
    if not x.same_order(y):
        raise UnsupportedError(
            f"the two operands arrive in different orders ({x}; {y}); bringing them into one needs a buffer, which has "
            "no hardware layer yet"
        )
    frame = _flat_rank(x.frame)
    return Placed(op, (frame, frame), x.reframed(frame))


# -- joining and cutting --------------------------------------------------------------------------------------------


def _splits(x: Layout) -> list[tuple[Shape, int]]:
    """Ways to see the frame as rows: ``(row axes, elements a row)``, shortest rows first."""
    frames = [_flat_rank(x.frame)]
    if x.axes is not None:
        frames.append(tuple(x.shape[a] for a in x.axes))
    found = {}
    for frame in frames:
        for p in range(len(frame)):
            rows = frame[:p] if p < MAX_RANK else (math.prod(frame[:p]),)
            found.setdefault(math.prod(frame[p:]), rows)
    return [(found[length], length) for length in sorted(found)]


def _common_rows(layouts: Sequence[Layout], axis: int, shape: Shape) -> Shape | None:
    """Axes of the rows of which each holds, operand after operand, what is joined along *axis*."""
    for axes in (x.axes for x in layouts if x.axes is not None):
        if all(x.axes is not None and x.follows(axes) for x in layouts):
            return tuple(shape[a] for a in axes[: axes.index(axis)] if shape[a] > 1)
    leading = {x.frame[:-1] for x in layouts}
    return leading.pop() if len(leading) == 1 else None


@place.register
def _concat(op: Concat, layouts: Sequence[Layout], shape: Shape) -> Placed:
    axis = op.axis
    rows = _common_rows(layouts, axis, shape)
    if rows is None:
        raise UnsupportedError(
            f"the joined tensors arrive in different orders ({'; '.join(str(x) for x in layouts)}); bringing them into "
            "one needs a buffer, which has no hardware layer yet"
        )
    rows = rows if len(rows) < MAX_RANK else (math.prod(rows),)
    frames = tuple((*rows, x.size // math.prod(rows)) for x in layouts)
    index = np.arange(math.prod(shape)).reshape(shape)
    starts = np.cumsum([0, *(x.shape[axis] for x in layouts)])
    parts = []
    for x, frame, start in zip(layouts, frames, starts, strict=False):
        mine = np.take(index, range(start, start + x.shape[axis]), axis=axis).ravel()
        parts.append(mine[x.order].reshape(frame))
    order = np.concatenate(parts, axis=-1)
    layout = Layout.by_order(shape, order.shape, order.ravel())
    return Placed(replace(op, axis=len(rows)), frames, layout)


@place.register
def _slice(op: Slice, layouts: Sequence[Layout], shape: Shape) -> Placed:
    (x,) = layouts
    index = np.arange(x.size).reshape(x.shape)
    kept = np.take(index, range(*slice(op.start, op.stop, op.step).indices(x.shape[op.axis])), axis=op.axis).ravel()
    new_index = np.full(x.size, -1, np.int64)
    new_index[kept] = np.arange(kept.size)
    moved = new_index[x.order]
    if kept.size == x.size:  # everything, perhaps backwards
        return Placed(None, (x.frame,), Layout.by_order(shape, x.frame, moved))
    for rows, length in _splits(x):
        mask = (moved >= 0).reshape(-1, length)
        places = np.flatnonzero(mask[0])
        steps = np.unique(np.diff(places))
        if (mask == mask[0]).all() and places.size and steps.size <= 1:
            step = int(steps[0]) if steps.size else 1
            cut = Slice(len(rows), int(places[0]), int(places[-1]) + 1, step)
            layout = Layout.by_order(shape, (*rows, places.size), moved[moved >= 0])
            return Placed(cut, ((*rows, length),), layout)
    raise UnsupportedError(f"the slice takes elements scattered over the stream ({x}), which has no hardware layer")


# -- graph inputs ---------------------------------------------------------------------------------------------------


@singledispatch
def wanted_axes(op: Op, rank: int) -> tuple[int, ...] | None:
    """Order of the axes in which *op* wants an operand of *rank* axes; None when any will do."""
    return None


@wanted_axes.register(IntConv)
@wanted_axes.register(IntMaxPool)
@wanted_axes.register(IntSumPool)
@wanted_axes.register(IntUpsample)
@wanted_axes.register(IntPad)
@wanted_axes.register(IntZeroInsert)
def _wants_image(op: Op, rank: int) -> tuple[int, ...] | None:
    return (*range(1, rank), 0)


@wanted_axes.register(IntMatMul)
@wanted_axes.register(IntTopK)
@wanted_axes.register(Reshape)
def _wants_rows(op: Op, rank: int) -> tuple[int, ...] | None:
    return tuple(range(rank))


@wanted_axes.register(Activation)
@wanted_axes.register(Lookup)
def _wants_channels(op: Activation | Lookup, rank: int) -> tuple[int, ...] | None:
    constants = op.thresholds if isinstance(op, Activation) else op.table
    if constants.shape[0] == 1:
        return None
    return (*(a for a in range(rank) if a != op.axis), op.axis)
