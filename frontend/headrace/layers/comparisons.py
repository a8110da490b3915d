"""Thresholds as comparisons: cleaned of what has no effect, and those in arithmetic progression as rounding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.adder_graph import Rounding
from headrace.ir import IntRange
from headrace.layers.memory import Int


@dataclass(frozen=True)
class Comparisons:
    """``y = base[c] + step[c] * #{k : x > cuts[c, k]}`` on the codes of x, cleaned of everything that has no effect.

    ``cuts`` are the thresholds less one, ``(rows, T)``, ascending: ``x >= t`` is ``x > t - 1``, and while a threshold
    that is never reached may be one more than x can be, its cut always fits the width of x. One row serves all
    channels. ``step`` is never 0.
    """

    cuts: Int
    base: Int
    step: Int
    range: IntRange

    @property
    def rows(self) -> int:
        """Channels told apart, 1 when all are alike."""
        return int(self.cuts.shape[0])


def comparisons(thresholds: Int, base: Int, step: Int, x: IntRange, keep: bool = False) -> Comparisons:
    """Normalise an activation's thresholds for inputs of range *x*: the same function for every such input.

    Bipolar inputs are compared as their codes 0 and 1. Thresholds at or below the lowest input go into the base (with
    *keep* they become the lowest input), those above the highest become one more than it, columns that no channel
    reaches are dropped (all but one).
    """
    rows = max(thresholds.shape[0], base.size, step.size)
    cuts = np.broadcast_to(thresholds, (rows, thresholds.shape[1])).astype(np.int64)
    base, step = np.broadcast_to(base, rows).astype(np.int64), np.broadcast_to(step, rows).astype(np.int64)
    if x.bipolar:
        cuts = (cuts + 2) // 2  # -1 + 2 code >= t  <=>  code >= ceil((t + 1) / 2)
        x = IntRange(0, 1)
    cuts = np.maximum(cuts, x.lo)
    always = (cuts <= x.lo) & (not keep)
    base = base + step * always.sum(axis=1)
    idle = (step == 0)[:, np.newaxis] | always
    cuts = np.sort(np.where(idle, x.hi + 1, np.minimum(cuts, x.hi + 1)), axis=1)
    reached = cuts <= x.hi
    cuts = cuts[:, : max(int(reached.sum(axis=1).max(initial=0)), 1)]
    if cuts.shape[1] == 0:
        cuts = np.full((rows, 1), x.hi + 1, np.int64)
    moving = reached.any(axis=1)
    step = np.where(moving, step, step[moving][0] if moving.any() else 1)
    if all(np.all(values == values[:1]) for values in (cuts, base, step)):
        cuts, base, step = cuts[:1], base[:1], step[:1]
    return Comparisons(cuts - 1, base, step, x)


def staircase(thresholds: Int, base: Int, step: Int, x: IntRange, y: IntRange) -> tuple[Int, Rounding] | None:
    """Thresholds in arithmetic progression as ``base + clip((x + bias[c]) >> shift, 0, 2**bits - 1)``; None for others.

    All channels have steps of one width, a power of two; which of them x reaches may differ. Checked on both sides of
    every threshold that x reaches, of the function and of its new form, so that both are equal for every x.
    """
    levels = 1 << y.bits
    if x.bipolar or y.bipolar or y.hi - y.lo != levels - 1 or np.any(step != 1):
        return None
    reached = [np.unique(row[(row > x.lo) & (row <= x.hi)]) for row in thresholds]
    gaps = {int(gap) for row in reached for gap in np.diff(row)}
    widths = gaps or {1 << k for k in range(x.count.bit_length() + 1)}  # one step a channel may be of any width
    if len(gaps) > 1 or any(width & (width - 1) for width in widths):
        return None

    rows = max(thresholds.shape[0], base.size)
    channels = list(
        zip(np.broadcast_to(thresholds, (rows, thresholds.shape[1])), np.broadcast_to(base, rows), strict=True)
    )
    for width in sorted(widths):
        found = [_row_bias(row, int(start) - y.lo, width, levels, x) for row, start in channels]
        if None not in found:
            return np.array(found, np.int64), Rounding(width.bit_length() - 1, y.bits, y.lo)
    return None


def _row_bias(row: Int, start: int, width: int, levels: int, x: IntRange) -> int | None:
    """The bias of one channel, ``start + #{k : x >= row[k]} == clip((x + bias) // width, 0, levels - 1)``."""
    ordered = np.sort(row)
    reached = ordered[(ordered > x.lo) & (ordered <= x.hi)]
    lowest = start + int((ordered <= x.lo).sum())
    if reached.size or lowest <= 0:
        bias = (lowest + 1) * width - int(reached[0] if reached.size else x.hi + 1)
    else:
        bias = lowest * width - x.lo
    edges = np.concatenate([reached, np.arange(1, levels) * width - bias, [x.lo, x.hi]])
    points = np.clip(np.concatenate([edges - 1, edges]), x.lo, x.hi)
    counted = start + np.searchsorted(ordered, points, side="right")
    return bias if np.array_equal(np.clip((points + bias) // width, 0, levels - 1), counted) else None
