"""Tensor types of the IR: a frame shape and what the elements are."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from headrace.errors import ModelError

MOST_ELEMENTS = 2**26
"""Elements of the largest frame that is compiled, and of the largest constant that is computed from a few numbers."""

Shape = tuple[int, ...]
"""Shape of one frame: the batch axis, always first and of any size, is left out."""


def check_frame(shape: Shape, what: str = "frames") -> Shape:
    """*shape*, when a frame of it is not too large; the message calls it *what*.

    Raises:
        ModelError: when it has more than :data:`MOST_ELEMENTS` elements.
    """
    if prod(shape) > MOST_ELEMENTS:
        raise ModelError(
            f"its {what} of shape {list(shape)} have {prod(shape):,} elements; up to {MOST_ELEMENTS:,} are supported"
        )
    return shape


@dataclass(frozen=True)
class IntRange:
    """Integers from ``lo`` to ``hi``, both reachable bounds inclusive.

    ``bipolar`` says that only -1 and +1 occur, which hardware carries in one bit (-1 as 0).

    Raises:
        ValueError: when the bounds are the wrong way round, or bipolar bounds are not -1 and 1.
    """

    lo: int
    hi: int
    bipolar: bool = False

    def __post_init__(self) -> None:
        if self.lo > self.hi:
            raise ValueError(f"empty integer range [{self.lo}, {self.hi}]")
        if self.bipolar and (self.lo, self.hi) != (-1, 1):
            raise ValueError(f"a bipolar range is [-1, 1], not [{self.lo}, {self.hi}]")

    @property
    def signed(self) -> bool:
        """Whether the hardware encoding is two's complement."""
        return self.lo < 0 and not self.bipolar

    @property
    def bits(self) -> int:
        """Width of the hardware encoding: the fewest bits that hold every value, never zero."""
        if self.bipolar:
            return 1
        if self.lo >= 0:
            return max(self.hi.bit_length(), 1)
        return max((-self.lo - 1).bit_length(), max(self.hi, 0).bit_length()) + 1

    @property
    def encoding(self) -> str:
        """``"bipolar"``, ``"signed"`` or ``"unsigned"``, the words of the design manifest."""
        return "bipolar" if self.bipolar else "signed" if self.signed else "unsigned"

    @property
    def count(self) -> int:
        """Number of integers from ``lo`` to ``hi``."""
        return self.hi - self.lo + 1

    @property
    def type_name(self) -> str:
        """The narrowest type that holds the integers: ``BIPOLAR``, ``INT5``, ``UINT3``."""
        return "BIPOLAR" if self.bipolar else f"{'INT' if self.signed else 'UINT'}{self.bits}"

    @property
    def whole(self) -> IntRange:
        """All integers of :attr:`type_name`."""
        if self.bipolar:
            return self
        span = 1 << self.bits
        return IntRange(-span // 2, span // 2 - 1) if self.signed else IntRange(0, span - 1)

    def __str__(self) -> str:
        return self.type_name if self.bipolar else f"{self.type_name}[{self.lo}..{self.hi}]"


@dataclass(frozen=True)
class FloatType:
    """Real values, held as IEEE float32 on the host."""

    def __str__(self) -> str:
        return "FLOAT32"


Element = IntRange | FloatType


@dataclass(frozen=True)
class TensorType:
    """Frame shape (without the batch axis) and element type of a tensor."""

    shape: Shape
    element: Element = FloatType()

    @property
    def is_integer(self) -> bool:
        """Whether the elements are integers of a known range."""
        return isinstance(self.element, IntRange)

    @property
    def int_range(self) -> IntRange:
        """The integer range.

        Raises:
            TypeError: for a float tensor.
        """
        if not isinstance(self.element, IntRange):
            raise TypeError(f"tensor type {self} is not an integer type")
        return self.element

    def __str__(self) -> str:
        return f"{self.element}{list(self.shape)}"
