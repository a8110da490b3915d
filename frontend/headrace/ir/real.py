"""Real tensors of the reference execution (mode ``float``): a float32 value that remembers its integers.

This is the exactness contract in executable form: elementwise steps are single correctly rounded float32
operations on ``value``; products of two tensors that are on integer grids run on the integers and are scaled once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.ir.grid import Grid
from headrace.ir.op import Array

Single = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Real:
    """A batch of real frames; ``grid`` is kept as long as the values are integers times a scale plus a bias.

    ``loose`` says that *value* may differ from that in the last bit: a sum is rounded branch by branch, its integers
    are not. Operators that accumulate read the integers, all others the value.
    """

    value: Array
    grid: Grid | None = None
    loose: bool = False

    def map(self, move: Callable[[Array], Array]) -> Real:
        """Apply one data movement to the value and to the grid."""
        return Real(move(self.value), None if self.grid is None else self.grid.map(move), self.loose)

    @property
    def tight_grid(self) -> Grid | None:
        """The grid, unless it is loose: for operators that choose among values."""
        return None if self.loose else self.grid


def as_real(x: object) -> Real:
    """*x* as :class:`Real`: arrays of integers are their own grid, floats have none."""
    if isinstance(x, Real):
        return x
    array = np.asarray(x)
    if array.dtype.kind in "iub":
        one = np.ones((1,) * (array.ndim - 1))
        return Real(array.astype(np.float32), Grid(array.astype(np.int64), one, np.zeros_like(one)))
    return Real(array.astype(np.float32, copy=False))


def single(x: object) -> Single:
    """*x* rounded once to float32, to infinity where it is too large."""
    with np.errstate(over="ignore"):
        return np.asarray(x, dtype=np.float32)
