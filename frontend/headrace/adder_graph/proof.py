"""That an adder graph computes what it should for every input: by following sums of inputs through it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from headrace.adder_graph.graph import CONSTANT, AdderGraph, Int, Operand
from headrace.adder_graph.rows import Digit, RowAdder, Wire, whole
from headrace.ir import IntRange


@dataclass(frozen=True)
class _Meaning:
    """A value that is ``sums @ u + offset`` of the input codes u: exactly, or modulo ``2**bits`` (``exact`` is false).

    Its codes are from ``lo`` to ``hi``. Where the sum of inputs is none (``known`` is false) or is right modulo a power
    of two only, ``row`` are its digits, which are the value exactly if it does not overflow (``fits``).
    """

    sums: Int
    offset: int
    lo: int
    hi: int
    bits: int
    exact: bool
    known: bool = True
    row: RowAdder | None = None
    fits: bool = False

    def reaches(self, factor: int, modulus: int) -> bool:
        """Whether *factor* times the value, where that is right modulo ``2**bits``, is right modulo *modulus*."""
        return (factor << self.bits) % modulus == 0


def prove(graph: AdderGraph, weights: Int, bias: Int, total: IntRange | None = None) -> None:
    """Show that the sums of *graph* are ``x @ weights + bias`` for every x in range.

    Args:
        graph: what computes the sums, ``graph.inputs`` integers in ``graph.x`` to one sum a column.
        weights: ``(inputs, columns)``.
        bias: ``(columns,)``.
        total: range that the caller knows to hold the sums; without one, what x in range gives.

    Every node is a sum of inputs and a constant; its exact range says whether its width holds it, or it is right modulo
    a power of two, which has to reach as far as what reads it. An accumulator that has taken in some digits of a count
    and not yet the others is not; it is followed by its digits until all are there.

    Raises:
        ValueError: names the first node or column for which this does not hold.
    """
    origin = graph.flip
    codes = (0, 1) if graph.x.bipolar else (graph.x.lo + origin, graph.x.hi + origin)
    nodes = [_Meaning(row, 0, *codes, graph.x.bits, True) for row in np.eye(graph.inputs, dtype=np.int64)]
    for k, adder in enumerate(graph.adders):
        if isinstance(adder, RowAdder):
            if not adder.fits_chain:
                raise ValueError(f"adder {k} is not one on a carry chain")
            nodes.append(_row(adder, nodes, codes))
            continue
        parts = [_operand(o, nodes, adder.width, f"adder {k}") for o in adder.operands]
        nodes.append(_node(sum(p[0] for p in parts), sum(p[1] for p in parts), adder.width, codes))
    scale = 2 if graph.x.bipolar else 1
    for column, output in enumerate(graph.outputs):
        sums, offset = _operand(output, nodes, graph.bits, f"column {column}")
        wanted = bias[column] - (1 if graph.x.bipolar else origin) * weights[:, column].sum()
        modulus = 1 << graph.bits
        excess = sums - scale * weights[:, column]
        if codes[0] == codes[1]:  # the inputs are constants: only the whole counts
            excess, offset = np.zeros_like(excess), offset + codes[0] * int(excess.sum())
        if np.any(excess % modulus) or (offset - int(wanted)) % modulus:
            raise ValueError(f"column {column} is not the product with column {column} of the matrix")
        lo, hi = (end + int(wanted) for end in _range(scale * weights[:, column], codes))
        lo, hi = (lo, hi) if total is None else (max(lo, total.lo), min(hi, total.hi))
        lowest = -(modulus // 2) if graph.total.signed else 0
        if lo < lowest or hi >= lowest + modulus:
            raise ValueError(f"column {column} does not fit {graph.bits} bits")


def _row(adder: RowAdder, nodes: list[_Meaning], codes: tuple[int, int]) -> _Meaning:
    """What *adder* is: a sum of inputs, or what its digits are."""
    sums, offset, open_ = _Digits(nodes, 1 << adder.width).resolve(adder)
    node = _node(sums, offset, adder.width, codes)
    if node.exact and not open_:
        return node
    most = adder.most
    first = {digit.wires[0].node for digit in adder.a if digit and digit.wires}
    if len(first) == 1 and adder.a == whole(before := first.pop(), nodes[before].bits):
        most -= (1 << nodes[before].bits) - 1 - nodes[before].hi
    top = (1 << adder.width) - 1
    return replace(node, lo=0, hi=min(most, top), exact=False, known=not open_, row=adder, fits=most <= top)


class _Digits:
    """A sum of digits, modulo a power of two: wires and counts by their factors."""

    def __init__(self, nodes: list[_Meaning], modulus: int) -> None:
        self.nodes, self.modulus = nodes, modulus
        self.wires: dict[int, dict[int, int]] = {}
        self.counts: dict[Digit, dict[int, int]] = {}
        self.sums, self.offset = np.zeros_like(nodes[0].sums), 0

    def resolve(self, adder: RowAdder) -> tuple[Int, int, bool]:
        """*adder* as a sum of inputs and an offset; whether anything is left that is not."""
        self._add(adder, 1)
        while self._counted() or self._gathered():
            pass
        return self.sums, self.offset, bool(self.wires or self.counts)

    def _add(self, adder: RowAdder, factor: int) -> None:
        for k, digit in adder.places():
            if not digit.wires:
                self.offset += factor * (int(digit.one) >> digit.plane) << k
            elif len(digit.wires) == 1 and not digit.one and digit.plane == 0:
                self._wire(digit.wires[0], factor << k)
            else:
                planes = self.counts.setdefault(digit._replace(plane=0), {})
                planes[digit.plane] = planes.get(digit.plane, 0) + (factor << k)

    def _wire(self, wire: Wire, factor: int) -> None:
        if wire.inverted:
            self.offset += factor
        bits = self.wires.setdefault(wire.node, {})
        bits[wire.bit] = bits.get(wire.bit, 0) + (-factor if wire.inverted else factor)

    def _counted(self) -> bool:
        """Take counts of which all digits are there for the bits that they count."""
        found = [
            (digit, f) for digit, planes in self.counts.items() if (f := self._factor(planes, digit.planes)) is not None
        ]
        for digit, factor in found:
            del self.counts[digit]
            self.offset += factor * digit.one
            for wire in digit.wires:
                self._wire(wire, factor)
        return bool(found)

    def _gathered(self) -> bool:
        """Take the last node of which all bits are there for what it is."""
        for node in sorted(self.wires, reverse=True):
            known, bits = self.nodes[node], self.wires[node]
            factor = self._factor(bits, known.bits)
            if factor is None:
                continue
            reaches = known.reaches(factor, self.modulus)
            if known.exact or (known.known and reaches):
                self.sums, self.offset = self.sums + factor * known.sums, self.offset + factor * known.offset
            elif known.row is not None and (known.fits or reaches):
                self._add(known.row, factor)
            else:
                continue
            del self.wires[node]
            return True
        return False

    def _factor(self, found: dict[int, int], bits: int) -> int | None:
        """f, when bit k has the factor ``f * 2**k``."""
        factor = found.get(0, 0)
        right = all((found.get(k, 0) - (factor << k)) % self.modulus == 0 for k in range(bits))
        return factor if right else None


def _range(sums: Int, codes: tuple[int, int]) -> tuple[int, int]:
    ends = sums * codes[0], sums * codes[1]
    return int(np.minimum(*ends).sum()), int(np.maximum(*ends).sum())


def _node(sums: Int | int, offset: int, width: int, codes: tuple[int, int]) -> _Meaning:
    form = np.asarray(sums, np.int64)
    lo, hi = (end + offset for end in _range(form, codes)) if form.ndim else (offset, offset)
    if lo >> width != hi >> width:
        return _Meaning(form, offset, 0, (1 << width) - 1, width, exact=False)
    turn = lo >> width << width
    return _Meaning(form, offset - turn, lo - turn, hi - turn, width, exact=True)


def _operand(operand: Operand, nodes: list[_Meaning], width: int, where: str) -> tuple[Int, int]:
    """What an operand stands for, modulo ``2**width``."""
    if operand.node == CONSTANT:
        return np.zeros_like(nodes[0].sums), operand.constant
    node = nodes[operand.node]
    if not node.known:
        raise ValueError(f"{where} reads node {operand.node}, which is not a sum of inputs")
    if not node.exact and (operand.table is not None or node.bits + operand.shift < width):
        raise ValueError(f"{where} reads node {operand.node}, which is right modulo 2**{node.bits} only")
    weight, offset = 1, 0
    if operand.inverted:
        weight, offset = -1, (1 << node.bits) - 1
    elif operand.table is not None:
        weight, offset = _line(operand.table, node, width - operand.shift, where)
    sums: Int = weight * node.sums << operand.shift
    return sums, (weight * node.offset + offset << operand.shift) + operand.constant


def _line(table: tuple[int, ...], node: _Meaning, bits: int, where: str) -> tuple[int, int]:
    """Weight and offset of a table, which is a straight line modulo ``2**bits`` over the codes that come."""
    lo, hi = max(node.lo, 0), node.hi
    weight = table[min(lo + 1, hi)] - table[lo]
    offset = table[lo] - weight * lo
    if any((table[v] - weight * v - offset) % (1 << max(bits, 0)) for v in range(lo, hi + 1)):
        raise ValueError(f"{where}: a table is not linear")
    return weight, offset
