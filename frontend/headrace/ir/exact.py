"""Exact integer products at floating-point speed.

BLAS has no integer kernels, but a float GEMM is exact while every partial sum fits the significand. The bound
is computed from the operands' ranges, never assumed: float32 below 2^24, float64 below 2^53, int64 otherwise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ModelError
from headrace.ir.op import Array

Int = NDArray[np.int64]


def product_bound(weights: Int, lo: Int | int, hi: Int | int) -> int:
    """Largest ``|partial sum|`` of ``x @ weights`` in any order of summation.

    Args:
        weights: integers ``(K, ...)``; the sum runs over axis 0.
        lo: smallest value of ``x``, one for all or one per row of *weights*.
        hi: largest value.

    Raises:
        ModelError: when a sum could pass 2^63, which no stage of the compiler carries.
    """
    magnitude = np.broadcast_to(
        np.maximum(np.abs(np.asarray(lo, np.float64)), np.abs(np.asarray(hi, np.float64))), weights.shape[:1]
    )
    sums = np.tensordot(magnitude, np.abs(weights.astype(np.float64)), axes=(0, 0))
    bound = float(np.max(sums, initial=0.0))
    if bound >= 2.0**62:
        raise ModelError("an accumulator could reach 2^62; narrower weights or activations are needed")
    return int(np.ceil(bound * (1 + 1e-9)))


def carrier(bound: int) -> np.dtype[np.float32] | np.dtype[np.float64] | np.dtype[np.int64]:
    """The fastest number type in which sums of at most *bound* are exact."""
    if bound < 2**24:
        return np.dtype(np.float32)
    if bound < 2**53:
        return np.dtype(np.float64)
    return np.dtype(np.int64)


def matmul(x: Array, weights: Int, bound: int) -> Int:
    """``x @ weights`` on integers, exact; ``x`` is ``(..., K)`` and ``weights`` ``(K, M)``."""
    kind = carrier(bound)
    product: Int = (x.astype(kind) @ weights.astype(kind)).astype(np.int64)
    return product


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
