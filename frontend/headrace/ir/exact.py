"""Exact integer products at floating-point speed.

BLAS has no integer kernels, but a float GEMM is exact while every partial sum fits the significand. The bound
is computed from the operands' ranges, never assumed: float32 below 2^24, float64 below 2^53, int64 otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ModelError, UnsupportedError
from headrace.ir.op import Array

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


def carrier(bound: int) -> np.dtype[np.float32] | np.dtype[np.float64] | np.dtype[np.int64]:
    """The fastest number type in which sums of at most *bound* are exact.

    Raises:
        ModelError: when there is none.
    """
    if bound >= 2**63:
        raise ModelError("an accumulator could reach 2^63; narrower weights or activations are needed")
    if bound < 2**24:
        return np.dtype(np.float32)
    if bound < 2**53:
        return np.dtype(np.float64)
    return np.dtype(np.int64)


def narrowest(bound: int) -> np.dtype[np.int32] | np.dtype[np.int64]:
    """The integer type in which results of at most *bound* are handed on."""
    return np.dtype(np.int32) if bound < 2**31 else np.dtype(np.int64)


def matmul(x: Array, weights: Array, bound: int) -> Array:
    """``x @ weights`` on integers, exact; ``x`` is ``(..., K)`` and ``weights`` ``(K, M)``.

    Args:
        weights: integers, in the :func:`carrier` type of *bound* when the caller has kept them so.
        bound: largest ``|partial sum|``.
    """
    kind = carrier(bound)
    product: Array = (x.astype(kind, copy=False) @ weights.astype(kind, copy=False)).astype(narrowest(bound))
    return product


COLUMN_BYTES = 2**21
"""Memory for the windows of one block of frames: what stays in the cache between gathering and multiplying."""


def convolve(
    x: Array,
    columns: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    out: Sequence[int],
    bound: int,
) -> Array:
    """Dense convolution of padded images, exact.

    Args:
        x: integers ``(N, *padded size, C)``, channels last, in the :func:`carrier` type of *bound*.
        columns: weights ``(prod(kernel) * C, O)``, rows ordered (kernel position, channel), same type.
        kernel, strides, dilations: one entry per spatial axis.
        out: spatial output shape.
        bound: largest ``|partial sum|``.

    Returns:
        ``(N, *out, O)``.
    """
    frames, channels = x.shape[0], x.shape[-1]
    pixels, depth = math.prod(out), columns.shape[0]
    result = np.empty((frames, *out, columns.shape[1]), narrowest(bound))
    if depth == channels and all(s == 1 for s in strides):  # 1 x 1: the image is its own window
        result[...] = x @ columns
        return result
    block = max(1, COLUMN_BYTES // max(pixels * depth * x.itemsize, 1))
    taps = list(np.ndindex(*kernel))
    gathered = np.empty((block, *out, len(taps), channels), x.dtype)
    for first in range(0, frames, block):
        part = x[first : first + block]
        window = gathered[: part.shape[0]]
        for k, tap in enumerate(taps):
            window[..., k, :] = part[(slice(None), *strided(tap, strides, dilations, out))]
        product = window.reshape(-1, depth) @ columns
        result[first : first + block] = product.reshape(part.shape[0], *out, -1)
    return result


def strided(
    tap: Sequence[int], strides: Sequence[int], dilations: Sequence[int], out: Sequence[int]
) -> tuple[slice, ...]:
    """The pixels that one kernel position reads, for all windows."""
    return tuple(
        slice(t * d, t * d + (n - 1) * s + 1, s) for t, s, d, n in zip(tap, strides, dilations, out, strict=True)
    )


def reduce_windows(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    out: Sequence[int],
    combine: np.ufunc,
) -> Array:
    """*combine* (maximum or add) over every window of padded images ``(N, C, *size)``, one kernel position a time."""
    result: Array | None = None
    for tap in np.ndindex(*kernel):
        part = x[(slice(None), slice(None), *strided(tap, strides, dilations, out))]
        result = part.copy() if result is None else combine(result, part, out=result)
    assert result is not None
    return result


FEW_THRESHOLDS = 16
"""Up to this many thresholds, comparing with each beats a search."""


COMPARED_ELEMENTS = 2**16
"""Elements that are compared with every threshold before the next ones are: what stays in the cache meanwhile."""


def _count_each(x: Array, thresholds: Int) -> Array:
    """:func:`count_thresholds` by comparing with each."""
    limits = np.iinfo(x.dtype)
    columns = [(np.clip(c, limits.min, limits.max).astype(x.dtype), c <= limits.max) for c in thresholds.T]
    count = np.zeros_like(x, dtype=np.int8)
    block = max(1, COMPARED_ELEMENTS // max(x[:1].size, 1))
    for first in range(0, len(x), block):
        part, counted = x[first : first + block], count[first : first + block]
        for column, representable in columns:
            reached = part >= column
            if not representable.all():  # never reached, and no number of x's type
                reached &= representable
            counted += reached
    return count


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
