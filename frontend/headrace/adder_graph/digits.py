"""Canonical signed digits: the fewest digits -1, 0, +1 with which an integer can be written in base two."""

from __future__ import annotations

from collections.abc import Iterator


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
