"""Which sums the columns of a constant matrix have in common: greedy elimination of two-term subexpressions.

Every weight is written in signed digits, a column is then a sum of shifted, signed terms. The pair of terms that saves
most over all columns becomes a term of its own, until no pair saves anything. The method is the classical one for
multiple constant multiplication (Hartley, 1996; Hosangadi et al., 2006); what differs is what is counted, see
:meth:`_Search.saving`.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.adder_graph.digits import digit_counts, signed_digits

Int = npt.NDArray[np.int64]


class Pair(NamedTuple):
    """``first * 2**max(-shift, 0) + sign * second * 2**max(shift, 0)``."""

    first: int
    second: int
    shift: int
    sign: int


class Term(NamedTuple):
    """``weight * node * 2**shift`` with an odd weight."""

    node: int
    shift: int
    weight: int


@dataclass(frozen=True)
class Sharing:
    """Columns as sums of terms, over the inputs (nodes ``0 .. inputs - 1``), then ``pairs``, in order, and then the sum
    of the nodes ``common`` if they are several."""

    inputs: int
    pairs: tuple[Pair, ...]
    columns: tuple[tuple[Term, ...], ...]
    common: tuple[int, ...] = ()


COUNTING = 0.5
"""LUTs that a bit of a term costs in the sum of a column: three digits count five bits, a first term is free."""

Digits = dict[tuple[int, int], int]
"""A column: sign by (node, shift)."""


def share(
    weights: Int, spans: Sequence[int], part: Int, table_bits: int, seed: int | None = None, price: float = COUNTING
) -> Sharing:
    """The common sums of ``x @ weights``.

    Args:
        weights: ``(inputs, columns)``.
        spans: highest less lowest value of every input.
        part: what to take from all weights of a column, as :func:`common_part` gives it.
        table_bits: a node of at most so many bits is one term of a column: a weight that is written with the fewest
            digits again, or that a table holds.
        seed: breaks ties at random; without one, by the order of the inputs.
        price: LUTs that a bit of a term costs in the sum of a column.
    """
    rest = weights - part
    if part.any():
        rest = np.column_stack([rest, np.ones(weights.shape[0], np.int64)])
    search = _Search(rest, spans, seed, price)
    search.run()
    common: tuple[int, ...] = ()
    if part.any():
        common = tuple(sorted(node for node, _ in search.columns.pop()))
        total = common[0]
        if len(common) > 1:
            total = len(search.width)
            search.width.append(int(np.sum(spans)).bit_length())
        for digits, weight in zip(search.columns, part.tolist(), strict=True):
            digits.update({(total, shift): sign for shift, sign in signed_digits(weight)})
    columns = tuple(_terms(digits, search.width, table_bits) for digits in search.columns)
    return Sharing(weights.shape[0], tuple(search.pairs), columns, common)


def common_part(weights: Int, spans: Sequence[int], always: bool = False) -> Int:
    """What to take from all weights of a column, one value a column: where few weights are 0, their digits can be
    fewer with a multiple of the sum of all inputs taken out, which is computed once.

    For weights of -1 and +1 half the digits go. It is taken where that pays for the sum of all inputs, or *always*
    where it leaves fewer digits.
    """
    bits = COUNTING * float(np.mean([int(span).bit_length() for span in spans] or [0]))
    total_bits = int(np.sum(np.asarray(spans, np.int64))).bit_length()
    before = digit_counts(weights).sum(axis=0)
    best, part = 0 if always else bits * weights.shape[0], np.zeros(weights.shape[1], np.int64)
    for shift in range(int(np.abs(weights).max(initial=0)).bit_length()):
        values = np.array([1 << shift, -1 << shift])
        saved = [(before - digit_counts(weights - v).sum(axis=0)) * bits - total_bits * COUNTING for v in values]
        gain = np.maximum(np.max(saved, axis=0), 0)
        if gain.sum() > best:
            best, part = gain.sum(), np.where(gain > 0, values[np.argmax(saved, axis=0)], 0)
    return part


def _terms(digits: Digits, width: Sequence[int], table_bits: int) -> tuple[Term, ...]:
    """The digits of narrow nodes together, those of wide ones each alone."""
    terms, whole = [], defaultdict[int, int](int)
    for (node, shift), sign in sorted(digits.items()):
        if width[node] <= table_bits:
            whole[node] += sign << shift
        else:
            terms.append(Term(node, shift, sign))
    for node, weight in whole.items():
        if weight:
            shift = (weight & -weight).bit_length() - 1
            terms.append(Term(node, shift, weight >> shift))
    return tuple(terms)


class _Search:
    """The state of one elimination. Pairs are counted under packed integers, see :meth:`_pack`."""

    def __init__(self, weights: Int, spans: Sequence[int], seed: int | None, price: float) -> None:
        self.price = price
        inputs = weights.shape[0]
        self.spans = np.asarray(spans, np.int64)
        self.sums = list(np.eye(inputs, dtype=np.int64))
        self.width = [int(span).bit_length() for span in spans]
        self.pairs: list[Pair] = []
        self.random = None if seed is None else np.random.default_rng(seed)
        self.columns: list[Digits] = [
            {(k, shift): sign for k, w in enumerate(column) for shift, sign in signed_digits(w)}
            for column in weights.T.tolist()
        ]
        self.readers: dict[int, set[int]] = defaultdict(set)
        for c, digits in enumerate(self.columns):
            for node, _ in digits:
                self.readers[node].add(c)
        self.count: dict[int, int] = defaultdict(int)
        self.worth: dict[int, tuple[float, int]] = {}

    def run(self) -> None:
        for column in self.columns:
            digits = [(node, shift, sign) for (node, shift), sign in column.items()]
            for k, one in enumerate(digits):
                for other in digits[:k]:
                    self.count[self._pack(*one, *other)] += 1
        heap: list[tuple[float, float, int]] = []
        for key in self.count:
            self._offer(heap, key)
        while heap:
            promised, tie, key = heapq.heappop(heap)
            saving = self.saving(key)
            if saving < -promised:
                if saving > 0:
                    heapq.heappush(heap, (-saving, tie, key))
                continue
            for changed in self._eliminate(key):
                self._offer(heap, changed)

    def _append(self, pair: Pair) -> int:
        """The node that *pair* becomes."""
        total = self._sum(pair)
        self.sums.append(total)
        self.width.append(self._span(total).bit_length())
        self.pairs.append(pair)
        return len(self.sums) - 1

    def _offer(self, heap: list[tuple[float, float, int]], key: int) -> None:
        saving = self.saving(key)
        if saving > 0:
            heapq.heappush(heap, (-saving, 0.0 if self.random is None else self.random.random(), key))

    @staticmethod
    def _pack(a: int, s: int, p: int, b: int, t: int, q: int) -> int:
        """Key of the pair of digits (a, shift s, sign p) and (b, t, q)."""
        if a > b or (a == b and s > t):
            a, s, b, t = b, t, a, s
        return (((a << 20) + b << 7) + t - s + 64 << 1) + (p != q)

    @staticmethod
    def _unpack(key: int) -> Pair:
        shift = (key >> 1 & 127) - 64
        return Pair(key >> 28, key >> 8 & 0xFFFFF, shift, -1 if key & 1 else 1)

    def saving(self, key: int) -> float:
        """LUTs that a pair saves: each place that has it saves the price of the bits of both terms less those of their
        sum; the sum itself costs the bits that overlap."""
        count = self.count[key]
        if count < 2:
            return -1
        known = self.worth.get(key)
        if known is None:
            known = self.worth[key] = self._worth(self._unpack(key))
        return count * known[0] - known[1]

    def _worth(self, pair: Pair) -> tuple[float, int]:
        wide = self.width[pair.first], self.width[pair.second]
        low = max(-pair.shift, 0), max(pair.shift, 0)
        overlap = min(low[0] + wide[0], low[1] + wide[1]) - max(low)
        return self.price * (wide[0] + wide[1] - self._span(self._sum(pair)).bit_length()), max(overlap, 0)

    def _sum(self, pair: Pair) -> Int:
        first, second = self.sums[pair.first], self.sums[pair.second]
        total: Int = (first << max(-pair.shift, 0)) + pair.sign * (second << max(pair.shift, 0))
        return total

    def _span(self, sums: Int) -> int:
        return int(np.abs(sums) @ self.spans)

    def _eliminate(self, key: int) -> set[int]:
        """Make the pair of *key* a node; the keys of the pairs that the node is in."""
        pair = self._unpack(key)
        places = self._places(pair)
        if len(places) < 2:  # they overlapped
            self.count[key] = 0
            return set()
        node = self._append(pair)
        touched: set[int] = set()
        for c, shift in places:
            column = self.columns[c]
            sign = column[pair.first, shift]
            for old in ((pair.first, shift), (pair.second, shift + pair.shift)):
                old_sign = column.pop(old)
                for (other, s), p in column.items():
                    self.count[self._pack(*old, old_sign, other, s, p)] -= 1
            low = shift + min(pair.shift, 0)
            for (other, s), p in column.items():
                new = self._pack(node, low, sign, other, s, p)
                self.count[new] += 1
                touched.add(new)
            column[node, low] = sign
            self.readers[node].add(c)
            left = {other for other, _ in column}
            for gone in {pair.first, pair.second} - left:
                self.readers[gone].discard(c)
        return touched

    def _places(self, pair: Pair) -> list[tuple[int, int]]:
        """(column, shift of the first term) of all places, none of which use a digit twice."""
        places = []
        for c in sorted(self.readers[pair.first] & self.readers[pair.second]):
            column = self.columns[c]
            used: set[tuple[int, int]] = set()
            for node, shift in sorted(key for key in column if key[0] == pair.first):
                one, other = (node, shift), (pair.second, shift + pair.shift)
                if other in column and column[one] * pair.sign == column[other] and not {one, other} & used:
                    used |= {one, other}
                    places.append((c, shift))
        return places
