"""Adders whose second operand is a row of counted bits.

An adder on a carry chain has a look-up table of six inputs in front of every bit, of which a sum of two numbers uses
two. One input is the bit of the first operand, so the second may be any function of five bits at no cost. Five bits
of equal weight are summed by three of those functions, the bits of their number (a 5:3 counter): three chains add
five numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]

COUNTED = 5
"""Bits that a digit counts at most: a LUT has six inputs, one is for the other operand."""


class Wire(NamedTuple):
    """A bit of a node, or its complement."""

    node: int
    bit: int
    inverted: bool = False


class Digit(NamedTuple):
    """Bit ``plane`` of the number of ones among ``wires``, and one more with ``one``."""

    wires: tuple[Wire, ...]
    one: bool = False
    plane: int = 0

    @property
    def wire(self) -> Wire | None:
        """The wire that the digit is, if it is one as it comes."""
        plain = len(self.wires) == 1 and not self.one and self.plane == 0 and not self.wires[0].inverted
        return self.wires[0] if plain else None

    @property
    def planes(self) -> int:
        """Digits of the whole number."""
        return (len(self.wires) + self.one).bit_length()

    def evaluate(self, values: list[Int]) -> Int:
        """The digit, of the values of all nodes."""
        count = np.asarray(int(self.one) + sum((values[w.node] >> w.bit & 1) ^ w.inverted for w in self.wires))
        result: Int = count >> self.plane & 1
        return result


ONE = Digit((), True)

Row = tuple[Digit | None, ...]
"""A number by its digits, the lowest first; None is 0."""


@dataclass(frozen=True)
class RowAdder:
    """``(a + b + (carry << low)) mod 2**width``.

    The digits of ``a`` are wires and ones. Below ``low``, where the chain begins, ``a`` or ``b`` is 0.
    """

    a: Row
    b: Row
    width: int
    low: int
    carry: Wire | None = None

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes that are read, in order."""
        found = {wire.node for digit in (*self.a, *self.b) if digit for wire in digit.wires}
        return tuple(sorted(found | ({self.carry.node} if self.carry else set())))

    def reads(self, _node_width: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        """The bits that are read: their nodes and places."""
        yield from ((wire.node, wire.bit) for _, digit in self.places() for wire in digit.wires)

    @property
    def most(self) -> int:
        """A bound of ``a + b + (carry << low)``."""
        ones = sum(1 << k for row in (self.a, self.b) for k, digit in enumerate(row) if digit)
        return ones + ((1 << self.low) if self.carry else 0)

    @property
    def fits_chain(self) -> bool:
        """Whether it is what the class says, each digit of ``b`` in one look-up table."""
        below = zip(self.a[: self.low], self.b[: self.low], strict=False)
        first = all(digit.planes == 1 and digit.plane == 0 for digit in self.a if digit)
        counted = all(len(digit.wires) <= COUNTED for digit in self.b if digit)
        return first and counted and not any(p and q for p, q in below)

    def places(self) -> Iterator[tuple[int, Digit]]:
        """All digits, and the carry, with their weights as powers of two."""
        for row in (self.a, self.b):
            yield from ((k, digit) for k, digit in enumerate(row) if digit)
        if self.carry:
            yield self.low, Digit((self.carry,))

    def evaluate(self, values: list[Int]) -> Int:
        """The sum, of the values of all nodes."""
        total = sum(digit.evaluate(values) << k for k, digit in self.places())
        result: Int = np.asarray(total & ((1 << self.width) - 1))
        return result

    @property
    def luts(self) -> int:
        """LUTs: one for each digit of ``b`` but for a wire alone, for which there is nothing in ``a``."""
        a = (*self.a, *[None] * len(self.b))
        return len(
            {(p, q) for p, q in zip(a, self.b, strict=False) if q and not (q.wire and p is None) and (q.wires or p)}
        )


def whole(node: int, width: int) -> Row:
    """All bits of *node*."""
    return tuple(Digit((Wire(node, k),)) for k in range(width))
