"""The integer grid that several scales share, found on their mantissas, never by comparing quotients."""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

WIDEST_MULTIPLE = 2**26
"""Largest integer that aligning different input scales may multiply a weight by."""


def mantissas(values: NDArray[Any]) -> tuple[list[int], int]:
    """Integers ``m`` and a common exponent ``e`` with ``values == m * 2**e``, exactly."""
    fraction, exponent = np.frexp(np.asarray(values, np.float64).ravel())
    whole = (fraction * 2.0**53).astype(np.int64)
    exponent = exponent.astype(np.int64) - 53
    used = exponent[whole != 0]
    low = int(used.min()) if used.size else 0
    return [int(m) << int(e - low) if m else 0 for m, e in zip(whole.tolist(), exponent.tolist(), strict=True)], low


def common_grid(scales: NDArray[np.float64], widest: int) -> tuple[float, NDArray[np.int64]] | None:
    """The largest ``g`` with ``scales == g * n`` for integers ``n``, or None when some ``|n|`` passes *widest*.

    Args:
        scales: floats of any shape; zeros are allowed.
        widest: largest multiplier accepted.
    """
    flat, low = mantissas(scales)
    divisor = 0
    for m in flat:
        divisor = gcd(divisor, m)
    if divisor == 0:
        return 1.0, np.zeros(scales.shape, np.int64)
    multiples = [m // divisor for m in flat]
    if max(abs(m) for m in multiples) > widest:
        return None
    return float(np.ldexp(float(divisor), low)), np.array(multiples, np.int64).reshape(scales.shape)
