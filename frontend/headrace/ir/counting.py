"""How many thresholds of its channel each integer reaches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.ir.exact import narrowest
from headrace.ir.op import Array

Int = NDArray[np.int64]

FEW_THRESHOLDS = 16
"""Up to this many thresholds, comparing with each beats a search."""

COMPARED_ELEMENTS = 2**16
"""Elements that are compared with every threshold before the next ones are: what stays in the cache meanwhile."""

LINE = 2**12
"""Elements that numpy compares in one go: thresholds are repeated for that many."""


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


def _count_each(x: Array, thresholds: Int) -> Array:
    """:func:`count_thresholds` by comparing with each."""
    count = np.zeros(x.shape, np.int8) if x.flags.c_contiguous else np.zeros_like(x, np.int8)
    if not x.size or not thresholds.size:
        return count
    limits = np.iinfo(x.dtype)
    if thresholds.max() > limits.max:  # a threshold that is never reached is no number of x's type
        x = x.astype(np.promote_types(x.dtype, narrowest(int(thresholds.max()))))
    rows = np.maximum(thresholds, limits.min).astype(x.dtype)
    channels = rows.shape[0]
    if channels > 1 and x.flags.c_contiguous:
        repeats = max(1, min(LINE // channels, x.size // channels))
        line = repeats * channels
        rows = np.tile(rows.T, (1, repeats))
        whole = x.size // line * line
        flat, counted = x.reshape(-1), count.reshape(-1)
        _compare(flat[:whole].reshape(-1, line), rows, counted[:whole].reshape(-1, line))
        _compare(flat[None, whole:], rows[:, : x.size - whole], counted[None, whole:])
    else:
        _compare(x, rows.T, count)
    return count


def _compare(x: Array, rows: Array, count: Array) -> None:
    """Count in *count* the *rows* that *x* reaches; each broadcasts against the last axis of *x*."""
    block = max(1, COMPARED_ELEMENTS // max(x[:1].size, 1))
    for first in range(0, len(x), block):
        part, counted = x[first : first + block], count[first : first + block]
        for row in rows:
            counted += (part >= row).view(np.int8)
