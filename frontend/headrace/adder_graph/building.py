"""From shared sums to adders: signs, widths and constants are settled here.

Nodes are unsigned, so that an operand narrower than the other costs LUTs only where it has bits. A term of negative
sign enters complemented; what that adds is a constant, and so is what all adders together have too much. The last sums,
one a column, are of many operands (:mod:`headrace.adder_graph.columns`) and take the column's whole constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.adder_graph.columns import Plan, Word, as_row, least_levels, levels_at_least, plan, stacked
from headrace.adder_graph.digits import signed_digits
from headrace.adder_graph.graph import CONSTANT, Adder, AdderGraph, Int, Operand, adder_luts
from headrace.adder_graph.rows import COUNTED, RowAdder, whole
from headrace.adder_graph.sharing import Sharing, Term
from headrace.ir import IntRange

TABLE_BITS = COUNTED
"""Bits of a node that a table takes in a LUT that has one input for the other operand."""

WORDS = COUNTED + 1
"""Words that a chain of three adders sums: one as it comes, and the others in three rows."""


@dataclass(frozen=True)
class _Part:
    """A sum of some words of a column: ``sums @ u + offset`` for input codes u."""

    plan: Plan
    sums: Int
    offset: int


@dataclass(frozen=True)
class _Form:
    """How a weighted node enters an adder: ``operand = weight * node + offset`` (before the shift)."""

    operand: Operand
    offset: int


class Builder:
    """Grows a graph. ``sums[n]`` and ``offset[n]``: node n is ``sums[n] @ u + offset[n]`` for input codes u."""

    def __init__(self, x: IntRange, inputs: int) -> None:
        self.x, self.inputs = x, inputs
        origin = 1 << (x.bits - 1) if x.signed else 0
        lo, hi = (0, 1) if x.bipolar else (x.lo + origin, x.hi + origin)
        self.codes = lo, hi
        self.sums: list[Int] = list(np.eye(inputs, dtype=np.int64))
        self.offset = [0] * inputs
        self.range = [(lo, hi)] * inputs
        self.width = [x.bits] * inputs
        self.depth = [0] * inputs
        self.adders: list[Adder | RowAdder] = []

    # -- operands ---------------------------------------------------------------------------------------------------

    def form(self, node: int, weight: int) -> _Form:
        """*node* times a weight of 1 or -1, not negative and as small as it can be."""
        bits, (_, hi) = self.width[node], self.range[node]
        full = (1 << bits) - 1
        if weight == 1:
            return _Form(Operand(node), 0)
        if bits > TABLE_BITS or hi == full:
            return _Form(Operand(node, inverted=True), full)
        return _Form(Operand(node, table=self.table(node, -1, hi)), hi)

    def table(self, node: int, weight: int, offset: int, modulus: int = 0) -> tuple[int, ...]:
        """``weight * v + offset`` for all codes v of *node*; those that never come repeat their neighbour."""
        lo, hi = self.range[node]
        values = [weight * min(max(v, lo), hi) + offset for v in range(1 << self.width[node])]
        return tuple(value % modulus for value in values) if modulus else tuple(values)

    # -- adders -----------------------------------------------------------------------------------------------------

    def append(self, adder: Adder | RowAdder, sums: Int, offset: int, interval: tuple[int, int]) -> int:
        self.adders.append(adder)
        self.sums.append(sums)
        self.offset.append(offset)
        self.range.append(interval)
        self.width.append(adder.width)
        self.depth.append(1 + max((self.depth[node] for node in adder.nodes), default=-1))
        return len(self.sums) - 1

    def bounds(self, sums: Int) -> tuple[int, int]:
        """Exact range of ``sums @ u``."""
        lo, hi = self.codes
        return int(np.minimum(sums * lo, sums * hi).sum()), int(np.maximum(sums * lo, sums * hi).sum())

    def merge(self, one: Term, other: Term) -> Term:
        """The sum of two terms, of weight 1 or -1, as a node of the sign and with the operands that cost least."""
        best: tuple[int, int, Adder, int] | None = None
        for order, (a, b) in enumerate(((one, other), (other, one))):
            adder = self._adder(a._replace(weight=1), b._replace(weight=a.weight * b.weight))
            rank = adder_luts(adder, self.width)
            if best is None or (rank, order) < best[:2]:
                best = (rank, order, adder, a.weight)
        assert best is not None
        _, _, adder, sign = best
        result = Term(CONSTANT, min(one.shift, other.shift), sign)
        sums, offset, interval = self._meaning(adder, one, other, result)
        return result._replace(node=self.append(adder, sums, offset, interval))

    def _adder(self, a: Term, b: Term) -> Adder:
        low = min(a.shift, b.shift)
        first, second = self.form(a.node, a.weight), self.form(b.node, b.weight)
        base = 0
        for term, form in ((a, first), (b, second)):
            base += (form.offset + term.weight * self.offset[term.node]) << (term.shift - low)
        lo, hi = self.bounds(self._linear(a, low) + self._linear(b, low))
        operands = _shifted(first.operand, a.shift - low), _shifted(second.operand, b.shift - low)
        return Adder(*operands, _window(lo + base, hi + base))

    def _linear(self, term: Term, low: int) -> Int:
        result: Int = term.weight * self.sums[term.node] << (term.shift - low)
        return result

    def _meaning(self, adder: Adder, one: Term, other: Term, result: Term) -> tuple[Int, int, tuple[int, int]]:
        """What the node of *adder* is: its sums, offset and range."""
        low = result.shift
        total = result.weight * (self._linear(one, low) + self._linear(other, low))
        offset = 0
        for term in (one, other):
            weight = result.weight * term.weight
            offset += (self.form(term.node, weight).offset + weight * self.offset[term.node]) << (term.shift - low)
        lo, hi = self.bounds(total)
        offset -= (lo + offset) >> adder.width << adder.width
        return total, offset, (lo + offset, hi + offset)

    # -- columns ----------------------------------------------------------------------------------------------------

    def words(self, terms: tuple[Term, ...]) -> tuple[list[Word], int]:
        """The digits of *terms* as words, and a constant that makes them their sum."""
        words, constant = [], 0
        for term in terms:
            constant -= term.weight * self.offset[term.node] << term.shift
            for place, sign in signed_digits(term.weight):
                shift = term.shift + place
                words.append(Word(self.depth[term.node], shift, self.width[term.node], term.node, sign < 0))
                if sign < 0:
                    constant -= ((1 << self.width[term.node]) - 1) << shift
        return words, constant

    def column(self, terms: tuple[Term, ...], bias: int, bits: int, limit: int) -> Operand:
        """The sum of *terms* and *bias*, modulo ``2**bits``, in at most *limit* levels if that can be."""
        modulus = 1 << bits
        if not terms:
            return Operand(CONSTANT, constant=bias % modulus)
        if len(terms) == 1 and (abs(terms[0].weight) == 1 or self.width[terms[0].node] <= TABLE_BITS):
            return self._single(terms[0], bias, bits)
        words, constant = self.words(terms)
        parts, end = self._planned(words, bias + constant, bits, limit)
        for part in parts:
            self._emit(part.plan, bits, part)
        return Operand(self._emit(end, bits))

    def total(self, terms: tuple[Term, ...]) -> Term:
        """The sum of *terms* as a node."""
        words, _ = self.words(terms)
        sums, offset = _total(words, self._means(words))
        bits = (self.bounds(sums)[1] + offset).bit_length()
        parts, end = self._planned(words, 0, bits, least_levels([w.ready for w in words]))
        for part in parts:
            self._emit(part.plan, bits, part)
        return Term(self._emit(end, bits, _Part(end, sums, offset)), 0, 1)

    def _means(self, words: Sequence[Word]) -> dict[int, tuple[Int, int]]:
        return {word.node: (self.sums[word.node], self.offset[word.node]) for word in words}

    def _planned(self, words: list[Word], constant: int, bits: int, limit: int) -> tuple[list[_Part], Plan]:
        """Sums of six words each, as few as the *limit* allows, and then the sum of them and the other words."""
        parts: list[_Part] = []
        means = self._means(words)
        node = len(self.sums) - 1
        best: tuple[int, list[_Part], Plan] | None = None
        while True:
            last = len(words) <= WORDS
            for patient in (True, False) if last or levels_at_least(words, bits) <= limit else ():
                end = plan(words, constant, bits, patient)
                if best is None or end.depth < best[0]:
                    best = end.depth, parts, end
                if end.depth <= limit:
                    return parts, end
            if last and best:
                return best[1:]
            own, words = stacked(words, WORDS)
            part = _Part(plan(own, 0, bits, patient=False), *_total(own, means))
            parts = [*parts, part]
            node += max(len(part.plan.steps), 1)
            means[node] = part.sums, part.offset
            top = min(self.bounds(part.sums)[1] + part.offset, (1 << bits) - 1)
            words.append(Word(part.plan.depth, 0, top.bit_length(), node))

    def _emit(self, planned: Plan, bits: int, part: _Part | None = None) -> int:
        """The adders of a plan; what its sum is, if that is known."""
        nothing = np.zeros(self.inputs, np.int64)
        row, node = as_row(planned.start, bits), CONSTANT
        tops = planned.tops()[1:]
        if part and tops:
            tops[-1:] = [min(self.bounds(part.sums)[1] + part.offset, (1 << bits) - 1)]
        for step, top in zip(planned.steps, tops, strict=True):
            width = min(top.bit_length(), bits)
            adder = RowAdder(row[:width], as_row(step.row, width), width, min(step.low, width), step.carry)
            node = self.append(adder, nothing, 0, (0, (1 << width) - 1))
            row = whole(node, width)
        if node == CONSTANT:
            width = max(len(row), 1)  # a sum that is always 0 has a bit, too
            node = self.append(RowAdder(row, (), width, width), nothing, 0, (0, (1 << width) - 1))
        if part:
            self.sums[node], self.offset[node] = part.sums, part.offset
        return node

    def _single(self, term: Term, bias: int, bits: int) -> Operand:
        """One term and all constants, which the table of a narrow one holds."""
        if self.width[term.node] > TABLE_BITS:
            return self._plain_column(term, bias, 1 << bits)
        constant = (bias - (term.weight * self.offset[term.node] << term.shift)) % (1 << bits)
        if term.weight == 1 and constant == 0:
            return Operand(term.node, term.shift)
        values = self.table(term.node, term.weight, constant >> term.shift, 1 << max(bits - term.shift, 0))
        first = Operand(term.node, term.shift, table=values, constant=constant & ((1 << term.shift) - 1))
        sums = term.weight * self.sums[term.node] << term.shift
        return Operand(self.append(Adder(first, None, bits), sums, 0, (0, (1 << bits) - 1)))

    def _plain_column(self, term: Term, bias: int, modulus: int) -> Operand:
        """*term* and all constants; the constants take an adder of their own unless they are none."""
        full = (1 << self.width[term.node]) - 1
        constant = bias - (term.weight * self.offset[term.node] << term.shift)
        operand = Operand(term.node, term.shift)
        if term.weight < 0:
            operand = Operand(term.node, term.shift, inverted=True)
            constant -= full << term.shift
        constant %= modulus
        if constant == 0 and operand.plain:
            return operand
        bits = modulus.bit_length() - 1
        sums = term.weight * self.sums[term.node] << term.shift
        adder = Adder(operand, Operand(CONSTANT, constant=constant) if constant else None, bits)
        return Operand(self.append(adder, sums, 0, (0, modulus - 1)))


def _total(words: Sequence[Word], means: Mapping[int, tuple[Int, int]]) -> tuple[Int, int]:
    """The sum of *words* as sums of inputs and an offset, of what their nodes are."""
    sums, offset = np.zeros_like(means[words[0].node][0]), 0
    for word in words:
        own, more = means[word.node]
        sign = -1 if word.negative else 1
        sums = sums + (sign * own << word.shift)
        offset += sign * more + word.negative * ((1 << word.width) - 1) << word.shift
    return sums, offset


def _shifted(operand: Operand, shift: int) -> Operand:
    return Operand(operand.node, shift, operand.inverted, operand.table)


def _window(lo: int, hi: int) -> int:
    """Fewest bits w for which lo .. hi lies between two neighbouring multiples of 2**w."""
    width = max((hi - lo).bit_length(), 1)
    while lo >> width != hi >> width:
        width += 1
    return width


def build(sharing: Sharing, x: IntRange, bias: Int, total: IntRange, slack: int) -> AdderGraph:
    """The adders of *sharing*, whose inputs are codes of *x*; ``bias`` a column, sums in *total*."""
    builder = Builder(x, sharing.inputs)
    terms: list[Term] = [Term(k, 0, 1) for k in range(sharing.inputs)]
    for pair in sharing.pairs:
        one, other = terms[pair.first], terms[pair.second]
        shifted = (
            one._replace(shift=one.shift + max(-pair.shift, 0)),
            other._replace(shift=other.shift + max(pair.shift, 0), weight=other.weight * pair.sign),
        )
        terms.append(builder.merge(*shifted))
    if len(sharing.common) > 1:
        terms.append(builder.total(tuple(terms[node] for node in sharing.common)))
    columns = [
        tuple(Term(terms[t.node].node, terms[t.node].shift + t.shift, terms[t.node].weight * t.weight) for t in column)
        for column in sharing.columns
    ]
    limit = slack + max((least_levels([w.ready for w in builder.words(c)[0]]) for c in columns), default=0)
    outputs = [builder.column(own, k, total.bits, limit) for own, k in zip(columns, bias.tolist(), strict=True)]
    return AdderGraph(x, sharing.inputs, tuple(builder.adders), tuple(outputs), total)
