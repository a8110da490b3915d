"""Thresholds on straight lines: the number of thresholds reached by a multiplication and an addition in float32.

Every step of :func:`count_along` (to float32, the product, the sum, the clip, the cut to an integer) never falls where
the integer rises, in rounded arithmetic too. So it counts right everywhere when it does at every threshold and one
below. That is run, by the same steps; where it does not hold there is no line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.ir.exact import narrowest
from headrace.ir.op import Array

Int = NDArray[np.int64]

HALVINGS = 56
"""Steps in the search for a slope: below the precision of float32."""


@dataclass(frozen=True, eq=False)
class Straight:
    """Lines through thresholds, for :func:`count_along`.

    Attributes:
        constants: slopes, offsets and how many thresholds are ever reached, ``(3, channels)``.
        most: thresholds of a channel.
    """

    constants: NDArray[np.float32]
    most: int

    @property
    def kind(self) -> np.dtype[np.generic]:
        """Type of the counts."""
        return narrowest(self.most)


def count_along(x: Array, line: Straight, constants: Array, total: Array, count: Array) -> None:
    """Write into *count* how many thresholds integers *x* ``(..., C)`` reach.

    Args:
        line: lines that go through them.
        constants: those of the line, as they broadcast against *x*.
        total: float32 of the shape of *x*, overwritten.
    """
    slope, offset, reached = constants
    total[...] = x
    np.multiply(total, slope, out=total)
    np.add(total, offset, out=total)
    np.clip(total, np.float32(0), np.float32(line.most), out=total)
    count[...] = total
    if (line.constants[2] < line.most).any():
        np.minimum(count, reached.astype(count.dtype), out=count)


def straight_line(thresholds: Int, beyond: int | None = None) -> Straight | None:
    """Lines that count ascending *thresholds* ``(C, T)``, for every channel; None when one has none.

    Args:
        beyond: integers from here on do not occur, so that thresholds there are never reached; None for none.
    """
    columns = np.ascontiguousarray(thresholds.T)
    reached = np.ones(columns.shape, np.bool_) if beyond is None else columns < beyond
    slope = _best_slope(columns, reached).astype(np.float32)
    lower, upper = _bounds(slope.astype(np.float64), columns, reached)
    with np.errstate(invalid="ignore"):
        middle = np.nan_to_num((lower.max(axis=0) + upper.min(axis=0)) / 2)  # any will do where none is reached
    constants = np.stack([slope, middle.astype(np.float32), reached.sum(axis=0).astype(np.float32)])
    line = Straight(constants, len(columns))
    levels = np.arange(1, len(columns) + 1)[:, None]
    at, below = (np.empty(columns.shape, line.kind) for _ in range(2))
    for x, count in ((columns, at), (columns - 1, below)):
        count_along(x, line, constants, np.empty(columns.shape, np.float32), count)
    return line if np.all(((at >= levels) & (below < levels)) | ~reached) else None


def _bounds(slope: Array, columns: Int, reached: Array) -> tuple[Array, Array]:
    """Per threshold: the least offset with which it is reached in time, and the least with which it is too early."""
    levels = np.arange(1.0, len(columns) + 1)[:, None]
    lower = levels - slope * columns
    return np.where(reached, lower, -np.inf), np.where(reached, lower + slope, np.inf)


def _best_slope(columns: Int, reached: Array) -> Array:
    """Per channel: the slope that leaves the offset most room, which is a concave function of it."""
    channel = np.arange(columns.shape[1])
    low, high = np.zeros(columns.shape[1]), np.full(columns.shape[1], len(columns) + 1.0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        lower, upper = _bounds(middle, columns, reached)
        k, j = lower.argmax(axis=0), upper.argmin(axis=0)
        grows = columns[k, channel] > columns[j, channel] - 1  # the room, upper - lower, with the slope
        low, high = np.where(grows, middle, low), np.where(grows, high, middle)
    found: Array = (low + high) / 2
    return found
