"""Thresholds along a straight line: the number of thresholds reached as one multiplication, one addition and a shift.

Thresholds t_1 <= t_2 <= ... of one channel are on a line when integers m, b and s exist with
``#{k : x >= t_k} = clip(floor((m * x + b) / 2**s), 0, T)`` for every input x that can occur. As both sides are monotone
in x, that holds exactly when the line reaches k at t_k and has not reached it at t_k - 1::

    k * 2**s - m * t_k  <=  b  <=  k * 2**s - m * (t_k - 1) - 1      for every k

(of a threshold that is never reached only the upper bound, at the highest input; of one that always is only the lower
bound). For a given slope the best b is the
largest of the lower bounds; how far it lies above the smallest of the upper ones is a convex function of the slope,
which is minimised by ternary search. Nothing is approximated: a line is only returned when every bound holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np

from headrace.ir import IntRange
from headrace.layers.memory import Int

MAX_SHIFT = 36
"""Most bits that are shifted away."""

BLOCK_CONSTANTS = 2**15
"""Thresholds that are looked at together: what stays in the cache; rows that are on no line are found in the first."""

T = TypeVar("T")

_SUM_BITS = 61  # all products and sums stay within
_UNBOUND = np.int64(1 << 62)  # more than any of them


@dataclass(frozen=True, eq=False)
class Line:
    """``clip((factor[c] * x + term[c]) >> shift, 0, T)`` counts the thresholds of channel c that x reaches.

    Attributes:
        factor, term: one a row of thresholds.
    """

    factor: Int
    term: Int
    shift: int

    def count(self, x: Int, most: int) -> Int:
        """The number of thresholds reached: *x* ``(rows, n)``, *most* thresholds a row."""
        counted: Int = np.clip((self.factor[:, None] * x + self.term[:, None]) >> self.shift, 0, most)
        return counted


def fit_line(cuts: Int, x: IntRange) -> Line | None:
    """The line with the fewest bits through thresholds ``cuts + 1``; None when there is none for some row.

    Args:
        cuts: ``(rows, T)``, ascending, as of :class:`headrace.layers.thresholding.Comparisons`.
        x: range of the inputs.
    """
    return _fit(np.ascontiguousarray(cuts, np.int64).tobytes(), cuts.shape, x.lo, x.hi)


@lru_cache(maxsize=256)
def _fit(cuts: bytes, shape: tuple[int, int], lo: int, hi: int) -> Line | None:
    thresholds = np.ascontiguousarray(np.frombuffer(cuts, np.int64).reshape(shape).T) + 1
    fine = min(_SUM_BITS - max(-lo, hi + 1).bit_length() - (shape[1] + 1).bit_length(), MAX_SHIFT)
    if fine < 1:
        return None
    rows = max(1, BLOCK_CONSTANTS // shape[1])
    blocks = [_Bounds(thresholds[:, first : first + rows], lo, hi, fine) for first in range(0, shape[0], rows)]
    slopes = _of_all(block.slopes() for block in blocks)
    if slopes is None:
        return None
    for shift in range(fine + 1):
        factors = _of_all(block.smallest_factor(*s, shift) for block, s in zip(blocks, slopes, strict=True))
        if factors is not None:
            terms = [block.lowest_term(factor, shift) for block, factor in zip(blocks, factors, strict=True)]
            return Line(np.concatenate(factors), np.concatenate(terms), shift)
    return None


def _of_all(found: Iterable[T | None]) -> list[T] | None:
    """What is found for every block, up to the first that has none; then None."""
    result = []
    for one in found:
        if one is None:
            return None
        result.append(one)
    return result


@dataclass(frozen=True, eq=False)
class _Bounds:
    """What a line must keep to: thresholds ``(T, rows)`` from *lo* (always reached) to *hi* + 1 (never).

    Slopes are searched for in units of ``2**-fine``.
    """

    thresholds: Int
    lo: int
    hi: int
    fine: int

    @property
    def counts(self) -> Int:
        """1 .. T, ``(T, 1)``."""
        return np.arange(1, len(self.thresholds) + 1)[:, None]

    def lowest_term(self, factor: Int, shift: int) -> Int:
        """Per row: the smallest b with which every threshold is reached in time."""
        bound = (self.counts << shift) - factor * self.thresholds
        lowest: Int = np.where(self.thresholds <= self.hi, bound, -_UNBOUND).max(axis=0)
        return np.where(lowest == -_UNBOUND, -factor * self.hi, lowest)

    def highest_term(self, factor: Int, shift: int) -> Int:
        """Per row: the largest b with which none is reached too early; :data:`_UNBOUND` when all are always reached."""
        last = np.minimum(self.thresholds - 1, self.hi)
        bound = (self.counts << shift) - factor * last - 1
        return np.where(self.thresholds > self.lo, bound, _UNBOUND).min(axis=0)  # type: ignore[no-any-return]

    def excess(self, factor: Int, shift: int) -> Int:
        """Per row: by how much the bounds contradict each other; a convex function of the factor."""
        lowest, highest = self.lowest_term(factor, shift), self.highest_term(factor, shift)
        return np.where(highest == _UNBOUND, 0, lowest - highest)

    def slopes(self) -> tuple[Int, Int] | None:
        """Per row: the lowest and the highest slope that keep all bounds, in the finest units; None when some row has
        none."""
        most, rows = self.thresholds.shape
        low = np.zeros(rows, np.int64)
        high = np.full(rows, most + 1, np.int64) << self.fine
        left, right = low.copy(), high.copy()
        while np.any(left < right):
            middle = (left + right) // 2
            here = self.excess(middle, self.fine)
            falls = (left < right) & (here > self.excess(middle + 1, self.fine))
            left, right = np.where(falls, middle + 1, left), np.where(falls, right, middle)
            kept = here <= 0  # any slope that keeps the bounds will do, and one is found
            left, right = np.where(kept, middle, left), np.where(kept, middle, right)
        inside = self.excess(left, self.fine) <= 0
        if not inside.all():
            return None
        return self._edge(low, left), self._edge(high, left)

    def _edge(self, outside: Int, inside: Int) -> Int:
        """Per row: the slope nearest to *outside* that keeps all bounds, as *inside* does."""
        while np.any(np.abs(outside - inside) > 1):
            middle = (outside + inside) // 2
            good = self.excess(middle, self.fine) <= 0
            inside, outside = np.where(good, middle, inside), np.where(good, outside, middle)
        kept: Int = np.where(self.excess(outside, self.fine) <= 0, outside, inside)
        return kept

    def smallest_factor(self, low: Int, high: Int, shift: int) -> Int | None:
        """Factors at *shift* that keep all bounds, the first in the range of slopes; None when some row has none."""
        scale = 1 << (self.fine - shift)
        first, last = -(-low // scale), high // scale
        found = np.where(first <= last, first, -1)
        for step in range(4):
            bad = (found >= 0) & (self.excess(np.maximum(found, 0), shift) > 0)
            if not bad.any():
                break
            found = np.where(bad, np.where(first + step + 1 <= last, first + step + 1, -1), found)
        if np.any(found < 0) or np.any(self.excess(found, shift) > 0):
            return None
        return found
