"""Numbers as people read them."""

from __future__ import annotations

LETTERS = {"G": 1e9, "M": 1e6, "k": 1e3}


def number(value: float) -> str:
    """A value in three digits, with thousands, millions and billions abbreviated."""
    for letter, unit in LETTERS.items():
        if abs(value) >= unit * 0.9995:
            return f"{value / unit:.3g}{letter}"
    return f"{value:.3g}"


def from_number(text: str) -> float:
    """The value that :func:`number` wrote, in the digits that are left."""
    unit = LETTERS.get(text[-1:], 1.0)
    return float(text.rstrip("GMk")) * unit
