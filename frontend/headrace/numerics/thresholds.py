"""Multi-thresholds: the integer activation of a dataflow layer."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.errors import InputError
from headrace.numerics.integers import FLOAT64_EXACT, RealArray, real_array, to_int64

_COMPARE_ALL = 24
"""Up to so many thresholds, comparing with each is faster than a binary search."""


def multithreshold(
    x: ArrayLike,
    thresholds: ArrayLike,
    out_scale: float = 1,
    out_bias: float = 0,
    channels_last: bool = False,
) -> RealArray:
    """``out_scale * count + out_bias``, where count is the number of thresholds of its channel that x reaches.

    A threshold t is reached when ``x >= t``, decided exactly (integers are compared as integers). Thresholds need
    not be sorted or distinct; NaN reaches none and is reached by none.

    Args:
        x: [N, C, ...], or [N, ..., C] with *channels_last*.
        thresholds: [C, T], or [1, T] for all channels.

    Returns:
        The shape of *x*. Of its float type when x is float (one rounded multiplication and one rounded addition, as
        QONNX does); int64 when x, *out_scale* and *out_bias* are integers, else float64.

    Raises:
        InputError: when the channels do not match, or x and thresholds mix floats with integers past 2**53.
    """
    values, table = real_array(x, "x"), real_array(thresholds, "thresholds")
    axis = -1 if channels_last else 1
    if values.ndim < 2 or table.ndim != 2 or table.shape[0] not in (1, values.shape[axis]):
        raise InputError(
            f"thresholds of shape {table.shape} do not fit x of shape {values.shape} with channels on axis {axis}; "
            "[C, T] or [1, T] is accepted"
        )
    comparable, table = _comparable(values, table)
    counts = np.moveaxis(_counts(np.moveaxis(comparable, axis, -1), np.sort(table, axis=1)), -1, axis)
    if values.dtype.kind == "f":
        scaled: RealArray = counts.astype(values.dtype)
        return scaled * values.dtype.type(out_scale) + values.dtype.type(out_bias)
    if float(out_scale).is_integer() and float(out_bias).is_integer():
        return np.ascontiguousarray(counts * int(out_scale) + int(out_bias))
    return counts * float(out_scale) + float(out_bias)


def _comparable(x: RealArray, table: RealArray) -> tuple[RealArray, RealArray]:
    """Both as int64, or both as float64, without changing a value."""
    if x.dtype.kind != "f" and table.dtype.kind != "f":
        return to_int64(x, "x"), to_int64(table, "thresholds")
    for array, name in ((x, "x"), (table, "thresholds")):
        if array.dtype.kind != "f" and array.size and max(-int(array.min()), int(array.max())) > FLOAT64_EXACT:
            raise InputError(f"{name} has integers past 2**53, the other side is float; give both as integers")
    return x.astype(np.float64), table.astype(np.float64)


def _counts(x: RealArray, table: RealArray) -> NDArray[np.int64]:
    """How many of the ascending ``table[c]`` each x[..., c] reaches. NaN thresholds sort last."""
    channels, steps = table.shape
    if steps <= _COMPARE_ALL:
        counts = np.zeros(x.shape, dtype=np.int64)
        for step in range(steps):
            counts += x >= table[:, step]
        return counts
    if channels == 1:
        counts = np.searchsorted(table[0], x.ravel(), side="right").astype(np.int64).reshape(x.shape)
    else:
        counts = _search_by_channel(x, table)
    if x.dtype.kind == "f":
        counts[np.isnan(x)] = 0  # a search takes NaN for the largest value
    return counts


def _search_by_channel(x: RealArray, table: RealArray) -> NDArray[np.int64]:
    """Binary search in every channel at once: one bit of the count a round, most significant first."""
    channels, steps = table.shape
    flat = table.ravel()
    base = np.arange(channels, dtype=np.int64) * steps - 1
    counts = np.zeros(x.shape, dtype=np.int64)
    for bit in reversed(range(steps.bit_length())):
        trial = counts + (1 << bit)
        inside = np.minimum(trial, steps)
        reached = (x >= flat[base + inside]) & (trial <= steps)
        counts = np.where(reached, trial, counts)
    return counts
