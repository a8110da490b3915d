"""Exact fractions in arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def fractions(values: object, rank: int) -> Array:
    """Floats as exact fractions, with leading axes of one up to *rank*."""
    array = np.asarray(values, np.float64)
    exact = np.array([Fraction(v) for v in array.ravel().tolist()], object).reshape(array.shape)
    return exact.reshape((1,) * (rank - exact.ndim) + exact.shape[max(exact.ndim - rank, 0) :])


def zeros(rank: int) -> Array:
    return np.full((1,) * rank, Fraction(0), object)


def single(exact: Array) -> Array:
    """Fractions rounded to float32."""
    return np.array([np.float32(float(v)) for v in np.asarray(exact, object).ravel()], np.float32).reshape(
        np.shape(exact)
    )


def gcd(values: Sequence[Fraction]) -> Fraction:
    """The largest fraction that all *values* are whole multiples of; 0 when all are 0."""
    result = Fraction(0)
    for v in values:
        a, b = result, abs(v)
        result = Fraction(
            math.gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator
        )
    return result


def compact(a: Array) -> Array:
    """Axes along which nothing changes, shortened to one."""
    for axis in range(a.ndim):
        first = np.take(a, [0], axis=axis)
        if np.all(a == first):
            a = first
    return a
