"""Elements of a stream rewritten for a wider range: sign extension, zero extension, bipolar bits as numbers."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.ir import IntRange


@dataclass(frozen=True)
class Recode:
    """How one element of range ``source`` is written as an element of range ``target``, which must contain it."""

    source: IntRange
    target: IntRange

    def __post_init__(self) -> None:
        if not (self.target.lo <= self.source.lo and self.source.hi <= self.target.hi) or (
            self.target.bipolar and not self.source.bipolar
        ):
            raise ValueError(f"{self.target} does not hold every value of {self.source}")

    @property
    def bits(self) -> int:
        """Width of the source element."""
        return self.source.bits

    @property
    def mode(self) -> str:
        """``"copy"``, ``"sign"`` (top bit repeated), ``"zero"`` (zeros on top) or ``"bipolar"`` (a bit as -1 or 1)."""
        if self.source.bipolar:
            return "copy" if self.target.bipolar else "bipolar"
        if self.source.bits == self.target.bits:
            return "copy"
        return "sign" if self.source.signed else "zero"
