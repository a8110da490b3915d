"""Consecutive integer functions become one: the composition of two exact integer functions is an exact one.

QuantizeLinear, Clip and DequantizeLinear of a QCDQ file, zero points and rescalings all end up in the thresholds before
or after them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from headrace.ir import Graph, IntRange, Op, Value
from headrace.ir.integer import Activation, IntAffine, IntClip, Lookup
from headrace.passes.rewriting import rewrite, single_reader

Int = NDArray[np.int64]

TABLE, SMALL_TABLE = 2**20, 2**12
"""Most entries of a composed table, when one of the two was a table of that length anyway, and when not."""

MANY_THRESHOLDS = 255
"""Steps of different height are repeated thresholds: up to this many are better than two operators."""

Function = Activation | Lookup | IntAffine | IntClip
"""Elementwise functions of one integer, per channel."""


def merge_activations(graph: Graph) -> Graph:
    """*graph* with chains of elementwise integer functions merged, where each is read by the next alone."""
    found: dict[str, tuple[Function, Value]] = {}
    for node in graph:
        op = graph.op(node)
        if not isinstance(op, Function):
            continue
        (source,) = graph.sources(node)
        before = graph.op(source.node)
        if not isinstance(before, Function) or not single_reader(graph, source):
            continue
        first, start = found.get(source.node, (before, graph.sources(source.node)[0]))
        both = compose(first, op, graph.type(start).int_range)
        if both is not None:
            found[node] = (both, start)

    def merged(node: str) -> tuple[Op, tuple[Value, ...]] | None:
        return (found[node][0], (found[node][1],)) if node in found else None

    return rewrite(graph, merged)


def compose(first: Function, second: Function, reach: IntRange) -> Function | None:
    """``second(first(x))`` as one operator for integers *x* in *reach*; None when there is no cheap one."""
    axis = _common_axis(first, second)
    if axis is None or (isinstance(first, Activation) and first.writable):
        return None
    if isinstance(second, Activation) and second.writable:
        both = compose(first, replace(second, writable=False), reach)
        return replace(both, writable=True) if isinstance(both, Activation) else None
    if isinstance(first, Activation):
        return _after_levels(first, second, axis, reach)
    if isinstance(first, Lookup):  # entries that are never asked for may hold anything
        table = np.clip(first.table, first.output.lo, first.output.hi)
        return _as_table(second, table, first.lo, axis, _disagreements(first, second))
    if isinstance(second, Activation):
        return _before_thresholds(first, second, axis, reach)
    if isinstance(first, IntAffine) and isinstance(second, IntAffine):
        if first.significand or second.significand:
            return None
        term = first.term * second.factor + second.term
        return IntAffine(first.factor * second.factor, term, second.output, axis)
    if isinstance(second, Lookup) and reach.count * _rows(first, second) <= SMALL_TABLE:
        # Some channels do not reach all of the range; what they would give there may be outside second's.
        table = np.clip(_run(first, _rows(first), _span(reach)), first.output.lo, first.output.hi)
        return _as_table(second, table, reach.lo, axis, _disagreements(second))
    return None


def _rows(*ops: Function) -> int:
    """Number of channels that the constants of *ops* tell apart."""
    return max(op.channels for op in ops)


def _common_axis(*ops: Function) -> int | None:
    """The axis along which the constants of all *ops* vary; None when they vary along different ones."""
    axes = {op.axis for op in ops if _rows(op) > 1}
    return None if len(axes) > 1 else axes.pop() if axes else 0


def _disagreements(*ops: Function) -> int:
    return sum(op.disagreements for op in ops if isinstance(op, Activation | Lookup))


def _span(reach: IntRange) -> Int:
    return np.arange(reach.lo, reach.hi + 1)[None]


def _run(op: Function, rows: int, x: Int) -> Int:
    """*op* on integers ``(rows or 1, n)``, one row per channel."""
    wide = np.broadcast_to(x, (rows, x.shape[1]))
    return np.asarray(replace(op, axis=0).execute(wide[None])[0][0], np.int64)


def _as_table(second: Function, table: Int, lo: int, axis: int, disagreements: int) -> Lookup | None:
    """*second* of every entry of *table*."""
    rows = max(_rows(second), table.shape[0])
    if rows * table.shape[1] > TABLE:
        return None
    return Lookup(np.ascontiguousarray(_run(second, rows, table)), lo, second.output, axis, disagreements)


def _after_levels(first: Activation, second: Function, axis: int, reach: IntRange) -> Activation | None:
    """*second* of the few values that come out of *first*, where that is monotone again."""
    rows = _rows(first, second)
    thresholds = np.broadcast_to(first.thresholds, (rows, first.thresholds.shape[1]))
    levels = first.base.reshape(-1, 1) + first.step.reshape(-1, 1) * np.arange(thresholds.shape[1] + 1)
    values = _run(second, rows, np.clip(levels, first.output.lo, first.output.hi))
    jumps = np.diff(values, axis=1)
    if not np.all(np.all(jumps >= 0, axis=1) | np.all(jumps <= 0, axis=1)):
        return None
    unit = int(np.gcd.reduce(np.abs(jumps), axis=None)) or 1
    counts = np.abs(jumps) // unit
    total = int(counts.sum(axis=1).max(initial=0))
    if total > max(thresholds.shape[1], MANY_THRESHOLDS):
        return None
    kept = np.full((rows, total), reach.hi + 1, np.int64)
    for row, times in enumerate(counts):
        found = np.repeat(thresholds[row], times)
        kept[row, : found.size] = found
    step = np.where(np.any(jumps < 0, axis=1), -unit, unit)
    return Activation(kept, values[:, 0].copy(), step, second.output, axis, _disagreements(first, second))


def _before_thresholds(first: IntAffine | IntClip, second: Activation, axis: int, reach: IntRange) -> Activation:
    """Thresholds of *second* on the integers before *first*, by bisection: *first* never falls, or never rises."""
    rows = _rows(first, second)
    thresholds = np.broadcast_to(second.thresholds, (rows, second.thresholds.shape[1]))
    ends = _run(first, rows, np.array([[reach.lo, reach.hi]]))
    falls = (ends[:, 1] < ends[:, 0])[:, None]
    below = np.full(thresholds.shape, reach.lo - 1)
    above = np.full(thresholds.shape, reach.hi + 1)
    while np.any(active := above - below > 1):
        middle = below + (above - below) // 2
        reached = (_run(first, rows, np.clip(middle, reach.lo, reach.hi)) >= thresholds) ^ falls
        above, below = np.where(active & reached, middle, above), np.where(active & ~reached, middle, below)
    always = (above <= reach.lo).sum(axis=1)
    moved = np.sort(np.where(above <= reach.lo, reach.hi + 1, above), axis=1)
    step = np.where(falls[:, 0], -1, 1) * np.broadcast_to(second.step, (rows,))
    counted = np.where(falls[:, 0], thresholds.shape[1] - always, always)
    base = second.base + np.broadcast_to(second.step, (rows,)) * counted
    return Activation(moved, base, step, second.output, axis, second.disagreements)
