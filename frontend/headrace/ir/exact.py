"""Exact integer products at floating-point speed.

BLAS has no integer kernels, but a float GEMM is exact while every partial sum fits the significand. The bound
is computed from the operands' ranges, never assumed: float32 below 2^24, float64 below 2^53, int64 otherwise; well
below those, several frames share a float (:mod:`headrace.ir.digits`).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import UnsupportedError
from headrace.ir.digits import Digits, carrier, fewest_numbers
from headrace.ir.op import Array
from headrace.ir.types import IntRange

Int = NDArray[np.int64]


def product_bound(weights: Int, lo: Int | int, hi: Int | int) -> int:
    """Largest ``|partial sum|`` of ``x @ weights`` in any order of summation.

    Args:
        weights: integers ``(K, ...)``; the sum runs over axis 0.
        lo: smallest value of ``x``, one for all or one per row of *weights*.
        hi: largest value.

    Raises:
        UnsupportedError: when a sum could reach 2^62; twice that is more than any stage of the compiler carries.
    """
    magnitude = np.broadcast_to(
        np.maximum(np.abs(np.asarray(lo, np.float64)), np.abs(np.asarray(hi, np.float64))), weights.shape[:1]
    )
    sums = np.tensordot(magnitude, np.abs(weights.astype(np.float64)), axes=(0, 0))
    bound = float(np.max(sums, initial=0.0))
    if bound >= 2.0**62:
        raise UnsupportedError("an accumulator could reach 2^62; narrower weights or activations are needed")
    return int(np.ceil(bound * (1 + 1e-9)))


def narrowest(bound: int) -> np.dtype[Any]:
    """The integer type in which results of at most *bound* in magnitude are handed on."""
    return next((np.dtype(f"i{n}") for n in (1, 2, 4) if bound < 2 ** (8 * n - 1)), np.dtype(np.int64))


def extent(x: Array) -> tuple[int, int]:
    """Smallest and largest of an array of integers and 0."""
    return int(x.min(initial=0)), int(x.max(initial=0))


def largest(x: Array) -> int:
    """Largest magnitude in an array of integers."""
    lo, hi = extent(x)
    return max(-lo, hi)


WORTH_PACKING = 2**20
"""Multiplications of a product below which packing frames into one float costs more than it saves."""


BLOCK_BYTES = 2**20
"""Memory for what one step of a product hands to the next: it stays in the cache meanwhile."""


class Columns:
    """Constant integer weights ``(..., K, M)``, ready for products with data.

    Args:
        weights: each sum runs over axis -2.
    """

    def __init__(self, weights: Int) -> None:
        self.weights = weights
        self._kept: dict[np.dtype[Any], Array] = {}

    @cached_property
    def _sums(self) -> tuple[Int, Int]:
        """Sums of the positive weights and of the magnitudes of the negative ones, for each output."""
        up = np.maximum(self.weights, 0)
        return up.sum(axis=-2), (up - self.weights).sum(axis=-2)

    def bound(self, x: Array) -> int:
        """No number of *x* and no partial sum of its product, in any order of summation, is larger in magnitude."""
        lo, hi = extent(x)
        up, down = self._sums
        reach = max(-lo, hi)
        coarse = int((up + down).max(initial=0)) * reach
        if coarse >= 2**62:
            return coarse
        above, below = hi * up - lo * down, hi * down - lo * up
        return max(int(above.max(initial=0)), int(below.max(initial=0)), reach)

    def digits(self, bound: int, frames: int, products: int) -> Digits:
        """How *frames* frames are multiplied, when *products* multiplications of integers are to be done."""
        return fewest_numbers(bound, frames) if products >= WORTH_PACKING else Digits(carrier(bound))

    def of_type(self, kind: np.dtype[Any]) -> Array:
        """The weights as *kind*; the conversion is kept."""
        if kind not in self._kept:
            self._kept[kind] = self.weights.astype(kind)
        return self._kept[kind]

    def product(self, x: Array, bound: int | None = None) -> Array:
        """``x @ weights`` for integers ``x`` ``(N, ..., K)`` and weights ``(K, M)``, exact.

        Args:
            bound: :meth:`bound` of *x*, or a smaller one that the caller knows.

        Raises:
            ModelError: when a sum could pass 2^63.
        """
        bound = self.bound(x) if bound is None else bound
        digits = self.digits(bound, len(x), x.size * self.weights.shape[-1])
        numbers = np.empty((digits.numbers(len(x)), *x.shape[1:]), digits.kind)
        digits.pack(x, 0, numbers)
        result = np.empty((*x.shape[:-1], self.weights.shape[-1]), narrowest(bound))
        weights = self.of_type(digits.kind)
        block = max(1, BLOCK_BYTES // max(math.prod(result.shape[1:]) * digits.kind.itemsize, 1))
        for first in range(0, len(numbers), block):
            digits.unpack(numbers[first : first + block] @ weights, first, result)
        return result


def any_weights_range(weights: IntRange, lo: Int, hi: Int) -> tuple[int, int]:
    """Smallest and largest ``x @ w`` of any column of integers in *weights*, some of them left out, ``lo <= x <= hi``.

    Args:
        weights: range of each weight.
        lo, hi: bounds of ``x``, ``(K,)``.

    Raises:
        UnsupportedError: when it could reach 2^62.
    """
    product_bound(np.full(lo.shape, max(-weights.lo, weights.hi)), lo, hi)  # refuses what int64 cannot hold
    corners = np.stack([bound * w for bound in (lo, hi) for w in (weights.lo, weights.hi)])
    low, high = np.minimum(corners.min(axis=0), 0), np.maximum(corners.max(axis=0), 0)
    return int(low.sum()), int(high.sum())


def accumulator_range(weights: Int, lo: Int | int, hi: Int | int) -> tuple[Int, Int]:
    """Smallest and largest ``x @ weights`` per column for ``lo <= x <= hi``: reachable, so minimal.

    Args:
        weights: integers ``(K, M)``.
        lo, hi: bounds of ``x``, scalar or ``(K,)``.
    """
    low = np.broadcast_to(np.asarray(lo, np.int64), weights.shape[:1])
    high = np.broadcast_to(np.asarray(hi, np.int64), weights.shape[:1])
    product_bound(weights, low, high)  # refuses what int64 cannot hold
    up, down = np.maximum(weights, 0), np.minimum(weights, 0)
    return low @ up + high @ down, high @ up + low @ down
