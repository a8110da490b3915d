"""How the terms of a column are summed: as a heap of bits, in rows that are added to an accumulator.

Bits of equal weight are counted five at a time, see :mod:`headrace.adder_graph.rows`; every row takes a digit of each
weight. The accumulator begins with plain bits of the terms, the first row is added to those. Negative terms enter
complemented, which costs nothing in front of a chain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import accumulate
from typing import NamedTuple

from headrace.adder_graph.rows import COUNTED, ONE, Digit, Row, Wire


class Word(NamedTuple):
    """``node << shift`` or, when ``negative``, the complement of all bits of the node, shifted; there from level
    ``ready`` on."""

    ready: int
    shift: int
    width: int
    node: int
    negative: bool = False


@dataclass
class Step:
    """A row and the carry that go into the accumulator in one adder, whose chain begins at bit ``low``."""

    row: list[Digit | None]
    low: int
    carry: Wire | None

    @property
    def most(self) -> int:
        """A bound of what goes into the accumulator."""
        return _most(self.row) + ((1 << self.low) if self.carry else 0)


@dataclass
class Plan:
    """``start`` and then ``steps``, the last of which is at level ``depth``."""

    start: list[Digit | None]
    steps: list[Step]
    depth: int

    def tops(self) -> list[int]:
        """A bound of the accumulator before the first step and after every step."""
        return list(accumulate((step.most for step in self.steps), initial=_most(self.start)))

    @property
    def fits_chains(self) -> bool:
        """Whether nothing is added to the accumulator below the bit at which the chain of a step begins."""
        there = [bool(digit) for digit in self.start]
        for step, top in zip(self.steps, self.tops()[1:], strict=True):
            if any(p and q for p, q in zip(there, step.row[: step.low], strict=False)):
                return False
            there = [True] * top.bit_length()
        return True


def plan(words: Sequence[Word], constant: int, bits: int, patient: bool) -> Plan:
    """The sum of *words* and *constant*, modulo ``2**bits``.

    A *patient* plan waits for five bits to count, which takes fewer LUTs and may take more levels.
    """
    return _Heap(words, constant % (1 << bits), bits, patient).plan()


def levels_at_least(words: Sequence[Word], bits: int) -> int:
    """A bound of the depth of a plan: the digits of some weight, in rows from when the second word is there."""
    heights = [0] * (bits + 2)
    for word in words:
        for k in range(word.shift, min(word.shift + word.width, bits)):
            heights[k] += 1
    digits = max(sum(heights[k : k + 3]) for k in range(bits)) // COUNTED
    return sorted(word.ready for word in words)[:2][-1] + digits - 1


def stacked(words: Sequence[Word], height: int) -> tuple[list[Word], list[Word]]:
    """Of *words* the first that are there, *height* at most on every weight; and the others."""
    ordered = sorted(words)
    latest = ordered[min(height, len(ordered)) - 1].ready
    heights: dict[int, int] = defaultdict(int)
    taken, left = [], []
    for word in ordered:
        weights = range(word.shift, word.shift + word.width)
        if word.ready <= latest and all(heights[k] < height for k in weights):
            taken.append(word)
            for k in weights:
                heights[k] += 1
        else:
            left.append(word)
    return taken, left


def least_levels(ready: Sequence[int]) -> int:
    """Levels of a sum of terms that are there from the levels *ready* on, two operands an adder."""
    heap = list(ready)
    heapify(heap)
    while len(heap) > 1:
        heappop(heap)
        heappush(heap, heappop(heap) + 1)
    return heap[0] if heap else 0


def _most(row: Sequence[Digit | None]) -> int:
    return sum(1 << k for k, digit in enumerate(row) if digit)


class _Heap:
    """What is left to add: bits by weight that are ready or not yet, and digits that are counted already."""

    def __init__(self, words: Sequence[Word], constant: int, bits: int, patient: bool) -> None:
        self.words, self.constant, self.bits, self.patient = sorted(words), constant, bits, patient
        self.waiting: list[list[tuple[int, Wire]]] = [[] for _ in range(bits)]
        self.ready: list[list[Wire]] = [[] for _ in range(bits)]
        self.digits: dict[int, list[Digit]] = defaultdict(list)
        for word in reversed(self.words):
            for k in range(min(word.width, bits - word.shift)):
                self.waiting[word.shift + k].append((word.ready, Wire(word.node, k, word.negative)))

    def plan(self) -> Plan:
        level = self.words[min(1, len(self.words) - 1)].ready if self.words else 0
        self._arrive(level)
        found = Plan(self._start(level), [], level)
        top = _most(found.start)
        while any(self.ready) or any(self.waiting) or any(self.digits.values()):
            row = [self._digit(k) for k in range(self.bits)]
            if any(row):
                there = map(bool, found.start) if not found.steps else [True] * min(top.bit_length(), self.bits)
                low = next((k for k, (p, q) in enumerate(zip(there, row, strict=False)) if p and q), self.bits)
                found.steps.append(Step(row, low, self._carry(low)))
                top += found.steps[-1].most
                found.depth = level + 1
            level += 1
            self._arrive(level)
        self._constants(found)
        return found

    def _arrive(self, level: int) -> None:
        for waiting, ready in zip(self.waiting, self.ready, strict=True):
            while waiting and waiting[-1][0] <= level:
                ready.append(waiting.pop()[1])

    def _start(self, level: int) -> list[Digit | None]:
        """The plain bits of the widest word that is there, and where it has none, those of others."""
        there = [w for w in self.words if w.ready <= level and not w.negative]
        first = max(there, key=lambda w: w.width).node if there else -1
        start: list[Digit | None] = [None] * self.bits
        for k, ready in enumerate(self.ready):
            plain = [w for w in ready if not w.inverted]
            if plain:
                wire = next((w for w in plain if w.node == first), plain[0])
                ready.remove(wire)
                start[k] = Digit((wire,))
        return start

    def _digit(self, k: int) -> Digit | None:
        if not self.digits[k]:
            self._count(k)
        return self.digits[k].pop(0) if self.digits[k] else None

    def _count(self, k: int) -> None:
        """Count some bits of weight k, with a bit of the constant where that takes no digit more."""
        ready, one = self.ready[k], bool(self.constant >> k & 1)
        if len(ready) < COUNTED and (not ready or (self.patient and self.waiting[k])):
            return
        number = (1, 2, 2, 4, 5)[min(len(ready), COUNTED) - 1] if one else (1, 1, 3, 3, 5)[min(len(ready), COUNTED) - 1]
        wires, self.ready[k] = tuple(ready[:number]), ready[number:]
        one = one and number > 1
        self.constant -= one << k
        for plane in range(min(Digit(wires, one).planes, self.bits - k)):
            self.digits[k + plane].append(Digit(wires, one, plane))

    def _carry(self, low: int) -> Wire | None:
        """A bit that goes into the chain where it begins."""
        plain = [w for w in self.ready[low] if not w.inverted] if low < self.bits else []
        if not plain:
            return None
        self.ready[low].remove(plain[0])
        return plain[0]

    def _constants(self, found: Plan) -> None:
        """Put what is left of the constant where nothing is added to it yet, as late as can be."""
        for k in range(self.bits):
            if self.constant >> k & 1 and not self._placed(found, k):
                found.steps.append(Step([None] * k + [ONE] + [None] * (self.bits - k - 1), k, None))
                found.depth += 1

    def _placed(self, found: Plan, k: int) -> bool:
        """Put a one of weight k into a row that has room for it; whether there is such a row."""
        for row in self._room(found, k):
            row[k] = ONE
            if found.fits_chains:  # it may make an accumulator wider than a later row begins at
                return True
            row[k] = None
        return False

    def _room(self, found: Plan, k: int) -> Iterator[list[Digit | None]]:
        """The rows that have nothing of weight k, those first where it costs least."""
        tops = found.tops()
        for step, top in zip(reversed(found.steps[1:]), reversed(tops[1:-1]), strict=True):
            if top >> k == 0 and step.row[k] is None:
                yield step.row
        first = found.steps[0] if found.steps else Step([None] * self.bits, self.bits, None)
        if found.start[k] is None and (first.row[k] is None or k > first.low):
            yield found.start
        for step in found.steps:
            if step.row[k] is None and k > step.low:
                yield step.row


def as_row(digits: Sequence[Digit | None], width: int) -> Row:
    """*digits* below ``2**width``, as many as there are."""
    end = max((k + 1 for k, digit in enumerate(digits) if digit), default=0)
    return tuple(digits[: min(end, width)])
