"""From shared sums to adders: signs, widths and constants are settled here.

Nodes are unsigned, so that an operand narrower than the other costs LUTs only where it has bits. A term of negative
sign enters complemented; what that adds is a constant, and so is what all adders together have too much. One narrow
leaf of every column enters its first adder as a table, which takes the column's whole constant at no cost.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from headrace.adder_graph.graph import CONSTANT, Adder, AdderGraph, Int, Operand, adder_luts
from headrace.adder_graph.sharing import Sharing, Term
from headrace.ir import IntRange

TABLE_BITS = 5
"""A LUT has six inputs: one for the other operand, five for a table."""


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
        self.adders: list[Adder] = []

    # -- operands ---------------------------------------------------------------------------------------------------

    def form(self, node: int, weight: int) -> _Form:
        """*node* times an odd weight, not negative and as small as it can be."""
        bits, (lo, hi) = self.width[node], self.range[node]
        full = (1 << bits) - 1
        if weight == 1:
            return _Form(Operand(node), 0)
        if weight == -1 and (bits > TABLE_BITS or hi == full):
            return _Form(Operand(node, inverted=True), full)
        least = min(weight * lo, weight * hi)
        return _Form(Operand(node, table=self.table(node, weight, -least)), -least)

    def table(self, node: int, weight: int, offset: int, modulus: int = 0) -> tuple[int, ...]:
        """``weight * v + offset`` for all codes v of *node*; those that never come repeat their neighbour."""
        lo, hi = self.range[node]
        values = [weight * min(max(v, lo), hi) + offset for v in range(1 << self.width[node])]
        return tuple(value % modulus for value in values) if modulus else tuple(values)

    # -- adders -----------------------------------------------------------------------------------------------------

    def append(self, adder: Adder, sums: Int, offset: int, interval: tuple[int, int]) -> int:
        self.adders.append(adder)
        self.sums.append(sums)
        self.offset.append(offset)
        self.range.append(interval)
        self.width.append(adder.width)
        self.depth.append(1 + max((self.depth[o.node] for o in adder.operands if o.node != CONSTANT), default=-1))
        return len(self.sums) - 1

    def bounds(self, sums: Int) -> tuple[int, int]:
        """Exact range of ``sums @ u``."""
        lo, hi = self.codes
        return int(np.minimum(sums * lo, sums * hi).sum()), int(np.maximum(sums * lo, sums * hi).sum())

    def merge(self, one: Term, other: Term) -> Term:
        """The sum of two terms as a node, of the sign and with the operands that cost least."""
        best: tuple[int, int, Adder, int] | None = None
        for order, (a, b) in enumerate(((one, other), (other, one))):
            if abs(a.weight) != 1 and abs(b.weight) == 1:
                continue
            sign = 1 if a.weight > 0 else -1
            adder = self._adder(a._replace(weight=sign * a.weight), b._replace(weight=sign * b.weight))
            rank = adder_luts(adder, self.width)
            if best is None or (rank, order) < best[:2]:
                best = (rank, order, adder, sign)
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

    def column(self, terms: tuple[Term, ...], bias: int, bits: int, limit: int) -> Operand:
        """The sum of *terms* and *bias*, modulo ``2**bits``, in at most *limit* levels if that can be."""
        modulus = 1 << bits
        if not terms:
            return Operand(CONSTANT, constant=bias % modulus)
        leaf = min(
            (t for t in terms if self.width[t.node] <= TABLE_BITS),
            key=lambda t: (self.depth[t.node], abs(t.weight) == 1, self.width[t.node], abs(t.weight), t),
            default=None,
        )
        path = self._tree(terms, leaf, limit)
        if leaf is None:
            return self._plain_column(path[0], bias, modulus)
        return self._path(leaf, path[1:], bias, bits)

    def levels(self, terms: tuple[Term, ...], accumulators: int) -> int:
        """Depth of the sum of *terms* by :meth:`_tree` with so many accumulators at most."""
        waiting = sorted(self.depth[t.node] for t in terms)
        level = active = 0
        while waiting or active > 1:
            ready = bisect_right(waiting, level)
            started = min(accumulators - active, ready)
            active += started
            taken = min(active, ready - started)
            del waiting[: started + taken]
            active -= (active - taken) // 2
            if active > 1 or waiting or taken:
                level += 1
        return level

    def _tree(self, terms: tuple[Term, ...], leaf: Term | None, limit: int) -> list[Term]:
        """Sum *terms* in accumulators that each take up a term a level, as few as the *limit* allows: only where two
        accumulators meet are bits added that a single accumulator would not have cost. Returns the sum; with a *leaf*,
        the leaf and what its accumulator takes up, in turn."""
        count = next((k for k in range(1, len(terms)) if self.levels(terms, k) <= limit), len(terms))
        waiting = [t for t in terms if t is not leaf]
        sums: list[Term] = []
        path: list[Term] = []
        if leaf is not None:
            path.append(leaf)
        level = 0
        path_depth = self.depth[leaf.node] if leaf is not None else 0
        while waiting or len(sums) + bool(path) > 1:
            ready = sorted((t for t in waiting if self.depth[t.node] <= level), key=lambda t: (-self._span(t), t))
            started = ready[: max(count - len(sums) - bool(path), 0)]
            ready = ready[len(started) :]
            sums += started
            waiting = [t for t in waiting if t not in started]
            free = list(sums)
            if path and path_depth <= level and (ready or free):
                first = len(path) == 1
                taken = min(
                    ready or free,
                    key=lambda t: (t.weight < 0 and first, abs(t.weight) > 1, self._span(t) * (-1 if first else 1), t),
                )
                (ready if ready else free).remove(taken)
                (waiting if taken in waiting else sums).remove(taken)
                path.append(taken)
                path_depth = level + 1
            for one, other in self._pairs(free, ready):
                waiting.remove(other)
                sums[sums.index(one)] = self.merge(one, other)
                free.remove(one)
            if not ready:
                for one, other in self._pairs(free, free):
                    sums.remove(other)
                    sums[sums.index(one)] = self.merge(one, other)
            level += 1
        return path or sums

    def _pairs(self, ones: list[Term], others: list[Term]) -> list[tuple[Term, Term]]:
        """Disjoint pairs, those first that lose least against adding both to something wider."""
        ranked = [(self._loss(one, other), one, other) for one in ones for other in others if one != other]
        ranked.sort()
        used: set[Term] = set()
        pairs = []
        for _, one, other in ranked:
            if one not in used and other not in used:
                used |= {one, other}
                pairs.append((one, other))
        return pairs

    def _loss(self, one: Term, other: Term) -> int:
        """LUTs of a sum, and of adding it to something wider, less those of adding both terms to it."""
        low = min(one.shift, other.shift)
        spans = [self._span(t) for t in (one, other)]
        widths = [span.bit_length() for span in spans]
        tops = [t.shift + w for t, w in zip((one, other), widths, strict=True)]
        overlap = max(min(tops) - max(one.shift, other.shift), 0)
        total = (spans[0] << one.shift - low) + (spans[1] << other.shift - low)
        tables = min(widths) if abs(one.weight) > 1 and abs(other.weight) > 1 else 0
        return overlap + tables + total.bit_length() - sum(widths)

    def _span(self, term: Term) -> int:
        lo, hi = self.range[term.node]
        return abs(term.weight) * (hi - lo)

    def _path(self, leaf: Term, path: list[Term], bias: int, bits: int) -> Operand:
        """Add *path*, in turn, to a table of *leaf* that also holds all constants."""
        constant = bias - (leaf.weight * self.offset[leaf.node] << leaf.shift)
        forms = [self.form(t.node, t.weight) for t in path]
        for term, form in zip(path, forms, strict=True):
            constant -= (form.offset + term.weight * self.offset[term.node]) << term.shift
        low = (1 << leaf.shift) - 1
        modulus = 1 << bits
        constant %= modulus
        field = 1 << max(bits - leaf.shift, 0)
        values = self.table(leaf.node, leaf.weight, constant >> leaf.shift, field)
        first = Operand(leaf.node, leaf.shift, table=values, constant=constant & low)
        if not path and leaf.weight == 1 and constant == 0:
            return Operand(leaf.node, leaf.shift)
        node = CONSTANT
        sums = leaf.weight * self.sums[leaf.node] << leaf.shift
        for k, (term, form) in enumerate(zip(path, forms, strict=True)):
            operand = _shifted(form.operand, term.shift)
            adder = Adder(operand, first, bits) if k == 0 else Adder(Operand(node), operand, bits)
            sums = sums + (term.weight * self.sums[term.node] << term.shift)
            node = self.append(adder, sums, 0, (0, modulus - 1))
        if not path:
            node = self.append(Adder(first, None, bits), sums, 0, (0, modulus - 1))
        return Operand(node)

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
    columns = [
        tuple(Term(terms[t.node].node, terms[t.node].shift + t.shift, terms[t.node].weight * t.weight) for t in column)
        for column in sharing.columns
    ]
    limit = max((builder.levels(column, len(column)) for column in columns), default=0) + slack
    outputs = [builder.column(own, k, total.bits, limit) for own, k in zip(columns, bias.tolist(), strict=True)]
    return AdderGraph(x, sharing.inputs, tuple(builder.adders), tuple(outputs), total)
