"""Canonical signed digits: the fewest digits -1, 0, +1 with which an integer can be written in base two."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]


def signed_digits(number: int) -> Iterator[tuple[int, int]]:
    """``(shift, sign)`` of every digit that is not 0, lowest first; no two are neighbours (Reitwiesner, 1960)."""
    shift = 0
    while number:
        if number & 1:
            sign = 2 - (number & 3)
            yield shift, sign
            number -= sign
        number >>= 1
        shift += 1


def digit_counts(weights: Int) -> Int:
    """Digits of every weight: the bits in which a number and three times it differ (Prodinger, 2000)."""
    magnitude = np.abs(weights.astype(np.int64))
    largest = int(magnitude.max(initial=0))
    numbers = np.arange(largest + 1) if largest < magnitude.size else magnitude  # few numbers make many weights
    different = numbers ^ (3 * numbers)
    bits = np.unpackbits(different[..., np.newaxis].view(np.uint8), axis=-1).sum(axis=-1)
    digits = bits[magnitude] if largest < magnitude.size else bits
    return np.asarray(digits, np.int64)
