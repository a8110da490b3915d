"""How many thresholds of its channel each integer reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headrace.ir.exact import narrowest
from headrace.ir.op import Array
from headrace.ir.straight import Straight, count_along, straight_line

Int = NDArray[np.int64]

FEW_THRESHOLDS = 16
"""Up to this many thresholds, comparing with each beats a search."""

STRAIGHT_THRESHOLDS = 8
"""From this many thresholds on, a line through them beats comparing with each."""

STRAIGHT_COMPARISONS = 2**18
"""Comparisons of integers and thresholds from which on a line is looked for."""

COMPARED_ELEMENTS = 2**16
"""Elements that are compared with every threshold before the next ones are: what stays in the cache meanwhile."""

LINE = 2**12
"""Elements that numpy compares in one go: thresholds are repeated for that many."""


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Ascending thresholds ``(C or 1, T)``; what is found out about them for counting is kept."""

    values: Int

    @cached_property
    def _top(self) -> int:
        return int(self.values.max())

    @cached_property
    def _line(self) -> Straight | None:
        return straight_line(self.values)

    @cached_property
    def _line_below_top(self) -> Straight | None:
        """The line for integers below all thresholds at the top, which stand for those that are never reached."""
        return straight_line(self.values, self._top)

    def count(self, x: Array) -> Array:
        """``#{k : x[..., c] >= thresholds[c, k]}`` for integers ``x``."""
        total = self.values.shape[1]
        if total >= STRAIGHT_THRESHOLDS and x.size * total >= STRAIGHT_COMPARISONS:
            line = self._line or (self._line_below_top if int(x.max()) < self._top else None)
            if line is not None:
                return _count_straight(x, line)
        return count_thresholds(x, self.values)


def count_thresholds(x: Array, thresholds: Int) -> Array:
    """``#{k : x[..., c] >= thresholds[c, k]}`` for integers ``x`` and ascending thresholds ``(C or 1, T)``."""
    channels, total = thresholds.shape
    if total <= FEW_THRESHOLDS:
        return _count_each(x, thresholds)
    if channels == 1:
        return np.searchsorted(thresholds[0], x, side="right")
    result = np.empty(x.shape, np.int64)
    for channel in range(channels):
        result[..., channel] = np.searchsorted(thresholds[channel], x[..., channel], side="right")
    return result


def _count_straight(x: Array, line: Straight) -> Array:
    """:meth:`Thresholds.count` along a line."""
    count = _result(x, line.kind)

    def step(x: Array, constants: Array, count: Array) -> None:
        total = np.empty(x[: _block(x)].shape, np.float32)
        for part, counted in _blocks(x, count):
            count_along(part, line, constants, total[: len(part)], counted)

    _by_lines(x, line.constants, count, step)
    return count


def _count_each(x: Array, thresholds: Int) -> Array:
    """:func:`count_thresholds` by comparing with each."""
    count = _result(x, np.dtype(np.int8))
    count[...] = 0
    if not x.size or not thresholds.size:
        return count
    limits = np.iinfo(x.dtype)
    if thresholds.max() > limits.max:  # a threshold that is never reached is no number of x's type
        x = x.astype(np.promote_types(x.dtype, narrowest(int(thresholds.max()))))
    _by_lines(x, np.maximum(thresholds, limits.min).astype(x.dtype).T, count, _compare)
    return count


def _compare(x: Array, rows: Array, count: Array) -> None:
    """Count in *count* the *rows* that *x* reaches; each broadcasts against the last axis of *x*."""
    for part, counted in _blocks(x, count):
        for row in rows:
            counted += (part >= row).view(np.int8)


def _result(x: Array, kind: np.dtype[np.generic]) -> Array:
    return np.empty(x.shape, kind) if x.flags.c_contiguous else np.empty_like(x, kind)


def _by_lines(x: Array, constants: Array, count: Array, step: Callable[[Array, Array, Array], None]) -> None:
    """Let *step* write *count* for *x*; *constants* ``(n, C or 1)`` are repeated, so that what is done is long."""
    channels = constants.shape[1]
    if channels == 1 or not x.flags.c_contiguous:
        step(x, constants, count)
        return
    repeats = max(1, min(LINE // channels, x.size // channels))
    line = repeats * channels
    repeated = np.tile(constants, (1, repeats))
    whole = x.size // line * line
    flat, counted = x.reshape(-1), count.reshape(-1)
    step(flat[:whole].reshape(-1, line), repeated, counted[:whole].reshape(-1, line))
    step(flat[None, whole:], repeated[:, : x.size - whole], counted[None, whole:])


def _block(x: Array) -> int:
    """Rows of *x* that are worked on before the next ones are."""
    return max(1, COMPARED_ELEMENTS // max(x[:1].size, 1))


def _blocks(x: Array, count: Array) -> Iterator[tuple[Array, Array]]:
    block = _block(x)
    for first in range(0, len(x), block):
        yield x[first : first + block], count[first : first + block]
