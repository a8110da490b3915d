"""Several frames in one float: as the digits of a number, to a base that their sums of products cannot reach.

With ``x = x0 + 2**s * x1`` the product ``x @ w`` is ``x0 @ w + 2**s * (x1 @ w)``, exact while all of it fits the
significand, and rounding to multiples of ``2**s`` tells the two apart while ``|x0 @ w| < 2**(s - 1)``. One float32 GEMM
so computes two frames of a network of few bits, or three frames fit a float64: the packing of narrow products into one
DSP multiplier, on a processor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import ModelError
from headrace.ir.op import Array

SIGNIFICAND: dict[np.dtype[Any], int] = {np.dtype(np.float32): 24, np.dtype(np.float64): 53}
"""Bits of the integers that a float type holds, the fastest type first."""

COST = {np.dtype(np.float32): 1.0, np.dtype(np.float64): 3.0}
"""Time of a GEMM and of moving its operands, relative to float32."""

MOST = 4
"""Frames in one number, at most: taking more apart costs what their product saves."""


@dataclass(frozen=True)
class Digits:
    """How frames are held: ``frames`` of them in each number of type ``kind``, as digits to base ``2**shift``.

    The frames of a batch that share a number are ``each`` (:meth:`numbers`) apart.
    """

    kind: np.dtype[Any]
    frames: int = 1
    shift: int = 0

    def numbers(self, count: int) -> int:
        """Frames of numbers that *count* frames fit in."""
        return -(-count // self.frames)

    def pack(self, x: Array, first: int, numbers: Array) -> None:
        """Write *numbers*, the one at *first* and those after it, of the frames *x* ``(N, ...)``."""
        each, count = self.numbers(len(x)), len(numbers)
        numbers[...] = x[first : first + count]
        for digit in range(1, self.frames):
            start = digit * each + first
            part = x[start : start + count]
            numbers[: len(part)] += np.multiply(part, self._weight(digit), dtype=self.kind)

    def unpack(self, numbers: Array, first: int, result: Array) -> None:
        """Take *numbers*, of frame *first* and those after it, apart into *result* ``(N, ...)``; they are overwritten.

        Every digit must be below ``2**(shift - 1)`` in magnitude.
        """
        each, count = self.numbers(len(result)), len(numbers)
        for digit in range(self.frames - 1, 0, -1):
            weight = self._weight(digit)
            top = np.multiply(numbers, 1 / weight)
            np.rint(top, out=top)
            start = digit * each + first
            target = result[start : start + count]
            target[...] = top[: len(target)]
            top *= weight
            numbers -= top
        result[first : first + count] = numbers

    def _weight(self, digit: int) -> Any:
        return self.kind.type(2.0 ** (self.shift * digit))


def carrier(bound: int) -> np.dtype[Any]:
    """The fastest number type in which sums of at most *bound* are exact.

    Raises:
        ModelError: when there is none.
    """
    if bound >= 2**63:
        raise ModelError("an accumulator could reach 2^63; narrower weights or activations are needed")
    floats = (kind for kind, bits in SIGNIFICAND.items() if bound < 2**bits)
    return next(floats, np.dtype(np.int64))


def fewest_numbers(bound: int, count: int) -> Digits:
    """How *count* frames are multiplied fastest, when no number of theirs nor any partial sum passes *bound*.

    Raises:
        ModelError: when no type carries *bound*.
    """
    plain = carrier(bound)
    bits = bound.bit_length()
    choices = [Digits(plain)]
    for kind, significand in SIGNIFICAND.items():
        # n digits, each with a bit for its sign, and no sign at the top: n * (bits + 1) - 1 <= significand
        frames = min((significand + 1) // (bits + 1), count, MOST)
        if frames > 1:
            choices.append(Digits(kind, frames, bits + 1))
    return min(choices, key=lambda digits: COST.get(digits.kind, 100.0) * digits.numbers(count))
