"""Operators that read vectors: products and rankings along the last axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headrace.ir import Shape
from headrace.ir.integer import IntMatMul, IntTopK
from headrace.passes.layout import Layout, Order
from headrace.passes.placement.placed import MAX_RANK, OrderError, Placed, place, wanted_axes


def _vectors(x: Layout) -> tuple[Shape, Layout, Order | None]:
    """Read *x* as vectors along its last axis.

    Returns:
        the physical frame, the layout of the leading axes alone, and the order of the elements inside each
        vector (None when it is ascending).

    Raises:
        OrderError: when the vectors do not follow each other, or differ in their inner order.
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
        message = f"vectors of {length} along the last axis arrive interleaved (the stream carries {x})"
        raise OrderError(message, 0, Layout.row_major(x.shape))
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
        message = f"values to be ranked arrive in another order than their indices (the stream carries {layouts[0]})"
        raise OrderError(message, 0, Layout.row_major(layouts[0].shape))
    return Placed(op, (frame,), _with_last(outer, frame, op.k))


@wanted_axes.register(IntMatMul)
@wanted_axes.register(IntTopK)
def _wants_rows(op: IntMatMul | IntTopK, rank: int) -> tuple[int, ...]:
    return tuple(range(rank))
