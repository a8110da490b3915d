"""Operators that only move elements: most of them move nothing, only the bookkeeping changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headrace.ir import Shape
from headrace.ir.integer import Concat, Gather, Reshape, Slice, Transpose
from headrace.layers.base import divisors
from headrace.passes.layout import Layout, Order
from headrace.passes.placement.placed import MAX_RANK, OrderError, Placed, flat_rank, place, wanted_axes


@place.register
def _reshape(op: Reshape, layouts: Sequence[Layout], shape: Shape) -> Placed:
    return Placed(None, (layouts[0].frame,), layouts[0].reshaped(shape))


@place.register
def _transpose(op: Transpose, layouts: Sequence[Layout], shape: Shape) -> Placed:
    return Placed(None, (layouts[0].frame,), layouts[0].transposed(op.perm))


@wanted_axes.register
def _wants_rows(op: Reshape, rank: int) -> tuple[int, ...]:
    return tuple(range(rank))


def _splits(x: Layout) -> list[tuple[Shape, int]]:
    """Ways to see the frame as rows: ``(row axes, elements a row)``, shortest rows first."""
    frames = [flat_rank(x.frame)]
    if x.axes is not None:
        frames.append(tuple(x.shape[a] for a in x.axes))
    found: dict[int, Shape] = {}
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
        wanted = next((x.axes for x in layouts if x.axes is not None), tuple(range(len(shape))))
        odd = next(k for k, x in enumerate(layouts) if x.axes is None or not x.follows(wanted))
        message = f"the joined tensors arrive in different orders ({'; '.join(str(x) for x in layouts)})"
        raise OrderError(message, odd, Layout.by_axes(layouts[odd].shape, wanted))
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


# -- choosing elements ----------------------------------------------------------------------------------------------


@place.register
def _slice(op: Slice, layouts: Sequence[Layout], shape: Shape) -> Placed:
    size = layouts[0].shape[op.axis]
    return _chosen(layouts[0], op.axis, range(*slice(op.start, op.stop, op.step).indices(size)), shape)


@place.register
def _gather(op: Gather, layouts: Sequence[Layout], shape: Shape) -> Placed:
    return _chosen(layouts[0], op.axis, op.indices, shape)


def _chosen(x: Layout, axis: int, indices: Sequence[int], shape: Shape) -> Placed:
    """The elements *indices* along *axis* of *x*, with as little hardware as that takes."""
    source = np.take(np.arange(x.size).reshape(x.shape), indices, axis=axis).ravel()
    if len(set(indices)) < len(indices):
        axes = x.axes if x.axes is not None else tuple(range(len(shape)))
        return _gathered(x, source, Layout.by_axes(shape, axes))
    new_index = np.full(x.size, -1, np.int64)
    new_index[source] = np.arange(source.size)
    moved = new_index[x.order]
    kept = moved >= 0
    if kept.all():  # everything is there, if in another order
        return Placed(None, (x.frame,), Layout.by_order(shape, x.frame, moved))
    for rows, length in _splits(x):
        places = np.flatnonzero(kept[:length])
        steps = np.unique(np.diff(places))
        if places.size and steps.size <= 1 and (kept.reshape(-1, length) == kept[:length]).all():
            cut = Slice(len(rows), int(places[0]), int(places[-1]) + 1, int(steps[0]) if steps.size else 1)
            return Placed(cut, ((*rows, length),), Layout.by_order(shape, (*rows, places.size), moved[kept]))
    return _gathered(x, source, Layout.by_order(shape, (source.size,), moved[kept]))


def reordered(x: Layout, wanted: Layout) -> Placed:
    """The tensor *x* in another order: what makes a stream readable that arrives in the wrong one."""
    return _gathered(x, np.arange(x.size), wanted)


def _gathered(x: Layout, source: Order, result: Layout) -> Placed:
    """A stream that carries, in the order of *result*, element ``source[k]`` of *x* as its element k.

    The buffer holds rows of the stream: the shortest ones within which all elements move alike.
    """
    position = np.empty(x.size, np.int64)
    position[x.order] = np.arange(x.size)
    taken = position[source[result.order]]
    for length in divisors(x.size):
        count, rest = divmod(taken.size * length, x.size)
        if rest == 0 and (taken.reshape(-1, count) == taken[:count] + _starts(x.size, length)).all():
            break
    rows: Shape = (x.size // length,) if length < x.size else ()
    op = Gather(len(rows), tuple(taken[:count].tolist()))
    return Placed(op, ((*rows, length),), result.reframed((*rows, count)))


def _starts(size: int, length: int) -> Order:
    return np.arange(0, size, length, dtype=np.int64)[:, None]
