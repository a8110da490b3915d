"""Integer grids: how real tensors are read as integers times a scale.

A float32 tensor is *on a grid* when every element is ``scale * q`` for integers ``q``. Scales are dyadic rationals
(floats), so common divisors are exact; they are found on integer mantissas, never by comparing quotients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.ir.op import Array
from headrace.numerics.common_grid import common_grid

Int = NDArray[np.int64]
Double = NDArray[np.float64]

WIDEST_WEIGHT = 2**24
"""Whole weights past this are taken for unquantized floats: float32 no longer holds every integer."""

WIDEST_SCALED_WEIGHT = 2**16
"""The same for weights that are multiples of a scale: floats of similar size always share a grid of some 24 bits."""


SAMPLE = 2**12
"""Weights whose grid is found value by value; whether the others lie on it takes one division each."""


@dataclass(frozen=True, eq=False)
class Grid:
    """``value = scale * q + bias`` with integer ``q``.

    For a batch of frames, scale and bias have the rank of a frame (no batch axis) and broadcast against it.
    """

    q: Int
    scale: Double
    bias: Double

    def map(self, move: Callable[[Array], Array]) -> Grid:
        """Apply one data movement (a callable on batches of frames) to all three."""

        def carry(a: Double) -> Double:
            moved = move(np.broadcast_to(a, self.q.shape[1:])[None])[0]
            return compact(moved)

        return Grid(move(self.q), carry(self.scale), carry(self.bias))


FAR = 2**62
"""Stands for no bound: no integer of a model reaches it."""


@dataclass(frozen=True, eq=False)
class Clamp:
    """``min(max(q, lo), hi)`` on the integers of a grid; both broadcast against a frame, ``lo <= hi``."""

    lo: Int
    hi: Int

    def __call__(self, q: Array) -> Int:
        clamped: Int = np.minimum(np.maximum(q, self.lo), self.hi)
        return clamped

    def then(self, later: Clamp | None) -> Clamp:
        """This clamp followed by *later*: a clamp again."""
        return self if later is None else Clamp(later(self.lo), later(self.hi))

    def map(self, move: Callable[[Array], Array]) -> Clamp:
        """The same clamp after a data movement: *move* is applied to both bounds."""
        return Clamp(move(self.lo), move(self.hi))


def zero_point(scale: Double, bias: Double) -> Int | None:
    """The integers ``z`` with ``bias == -z * scale``, so that the real value is ``scale * (q - z)``; None without."""
    if not np.any(bias):
        return np.zeros(np.broadcast_shapes(scale.shape, bias.shape), np.int64)
    if not np.all(scale):
        return None
    z = np.rint(-bias / scale)
    exact = np.all(np.abs(z) < 2.0**31) and np.all(-z * scale == bias)
    return z.astype(np.int64) if exact else None


@dataclass(frozen=True, eq=False)
class Constant:
    """A constant operand: its value and, when it came out of a quantizer, its grid."""

    value: Array
    grid: Grid | None = None


def compact(a: Array) -> Array:
    """*a* with every axis along which it is constant reduced to length one."""
    for axis, n in enumerate(a.shape):
        if n > 1:
            first = np.take(a, [0], axis=axis)
            if np.array_equal(np.broadcast_to(first, a.shape), a):
                a = first
    return a


def find_grid(values: Array, axis: int | None) -> Grid | None:
    """The grid that constant *values* lie on, one scale for all or, failing that, one per index of *axis*.

    On it are also the float32 products ``fl(q * scale)`` of integers up to 255 and a scale of any size, which a folded
    DequantizeLinear leaves. Returns None when no such integers are found: the values were never quantized.
    """
    whole = np.asarray(values, np.float64)
    zero = np.zeros((1,) * whole.ndim)
    if np.all(whole == np.rint(whole)) and np.abs(whole).max(initial=0) <= WIDEST_WEIGHT:
        return Grid(whole.astype(np.int64), np.ones_like(zero), zero)
    one = _unique_grid(whole)
    if one is not None:
        return Grid(one[1], np.full_like(zero, one[0]), zero)
    if axis is None:
        return _rounded_grid(whole, None)
    found = []
    for part in np.moveaxis(whole, axis, 0):
        own = _unique_grid(part)
        if own is None:
            return _rounded_grid(whole, None) or _rounded_grid(whole, axis)
        found.append(own)
    shape = [1] * whole.ndim
    shape[axis] = -1
    q = np.moveaxis(np.stack([part[1] for part in found]), 0, axis)
    return Grid(q, np.array([part[0] for part in found]).reshape(shape), zero)


def _unique_grid(values: Double) -> tuple[float, Int] | None:
    """:func:`common_grid` of the distinct values, found on a sample: its grid is that of all, if all lie on it."""
    sample = np.unique(values.reshape(-1)[:: max(values.size // SAMPLE, 1)])
    found = common_grid(sample, WIDEST_SCALED_WEIGHT)
    if found is None:
        return None
    q = np.rint(values / found[0])
    if np.abs(q).max(initial=0) <= WIDEST_SCALED_WEIGHT and np.array_equal(q * found[0], values):
        return found[0], q.astype(np.int64)
    distinct, inverse = np.unique(values, return_inverse=True)
    if distinct.size > 2 * WIDEST_SCALED_WEIGHT + 1:
        return None
    found = common_grid(distinct, WIDEST_SCALED_WEIGHT)
    return None if found is None else (found[0], found[1][inverse].reshape(values.shape))


FOLDED = 255
"""Largest integer that is looked for in values that were rounded after they were scaled."""

PROBES = 16
"""Values of a row that must agree on a scale before all of them are asked."""


def _rounded_grid(values: Double, axis: int | None) -> Grid | None:
    """The grid with ``values == fl32(q * scale)``, one scale for all or one per index of *axis*, if there is one."""
    if values.size == 0 or not np.array_equal(values.astype(np.float32), values):
        return None
    moved = values if axis is None else np.moveaxis(values, axis, 0)
    rows = moved.reshape(1 if axis is None else moved.shape[0], -1)
    scales = _rounded_scales(rows)
    if scales is None:
        return None
    q = np.rint(rows / scales[:, None]).astype(np.int64).reshape(moved.shape)
    if axis is None:
        return Grid(q, np.full((1,) * values.ndim, scales[0]), np.zeros((1,) * values.ndim))
    shape = [1] * values.ndim
    shape[axis] = -1
    return Grid(np.moveaxis(q, 0, axis), scales.reshape(shape), np.zeros((1,) * values.ndim))


def _rounded_scales(rows: Double) -> Double | None:
    """A float32 scale for each of *rows*, with the smallest integers; None when one has none."""
    scales = np.ones(rows.shape[0])
    for r, row in enumerate(rows):
        largest = float(np.abs(row).max())
        if largest == 0:
            continue
        about = largest / np.arange(1, FOLDED + 1)
        ratios = row[:: max(row.size // PROBES, 1)] / about[:, None]
        near = np.all(np.abs(ratios - np.rint(ratios)) <= np.abs(ratios) * 2.0**-21, axis=1)
        found = (_rounded_scale(row, float(guess)) for guess in about[near])
        scale = next((s for s in found if s is not None), None)
        if scale is None:
            return None
        scales[r] = scale
    return scales


def _rounded_scale(row: Double, about: float) -> float | None:
    """A float32 number near *about* whose integer multiples, rounded to float32, are the values of *row*."""
    middle = np.float32(about)
    near = (middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(0)))
    q = np.rint(row / about).astype(np.float32)
    return next((float(s) for s in near if s > 0 and np.array_equal(q * s, row)), None)
