"""What an adder graph is: adders of two operands, exactly evaluated and counted in LUTs.

Node ``k < inputs`` is the code of input k as an unsigned number (two's complement with its sign bit turned over), node
``inputs + j`` the result of adder j. All nodes are unsigned; what a node has too much or too little against the sum
that it stands for is a constant, which the constants of the last adders put right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from headrace.adder_graph.rows import RowAdder
from headrace.ir import IntRange

Int = npt.NDArray[np.int64]
CONSTANT = -1
"""The node of an operand that is its constant alone."""


@dataclass(frozen=True)
class Operand:
    """``f(node) * 2**shift + constant``: f is the identity, the complement of all bits, or a table.

    ``constant`` has bits only where the shifted ``f(node)`` has none.
    """

    node: int
    shift: int = 0
    inverted: bool = False
    table: tuple[int, ...] | None = None
    constant: int = 0

    @property
    def plain(self) -> bool:
        """Whether the bits of the node are used as they are."""
        return self.table is None and not self.inverted


@dataclass(frozen=True)
class Adder:
    """``(a + b) mod 2**width``; without ``b``, the bits of ``a``."""

    a: Operand
    b: Operand | None
    width: int

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.a,) if self.b is None else (self.a, self.b)

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes that are read."""
        return tuple(o.node for o in self.operands if o.node != CONSTANT)

    def reads(self, node_width: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        """The bits that are read: their nodes and places."""
        for operand in self.operands:
            if operand.node != CONSTANT:
                used = self.width - operand.shift if operand.table is None else node_width[operand.node]
                yield from ((operand.node, bit) for bit in range(min(node_width[operand.node], used)))


@dataclass(frozen=True)
class Rounding:
    """``base + clip(sum >> shift, 0, 2**bits - 1)``, what follows the sums when it is folded into the graph.

    Raises:
        ValueError: a base other than 0 and ``-2**(bits - 1)``, the two that take no adder.
    """

    shift: int
    bits: int
    base: int = 0

    def __post_init__(self) -> None:
        if self.base not in (0, -(1 << self.bits >> 1)):
            raise ValueError(f"base {self.base} of {self.bits} bits must be 0 or {-(1 << self.bits >> 1)}")

    def execute(self, sums: Int) -> Int:
        """The results of *sums*, of any shape."""
        clipped: Int = np.clip(sums >> self.shift, 0, (1 << self.bits) - 1) + self.base
        return clipped


@dataclass(frozen=True)
class AdderGraph:
    """``y = x @ weights + bias`` in adders, then ``rounding`` if there is one.

    Attributes:
        x: range of every input.
        inputs: their number.
        adders: in topological order.
        outputs: one operand a column, of which the low ``bits`` are the sum.
        total: range that holds the sums.
        rounding: what is applied to every sum.
    """

    x: IntRange
    inputs: int
    adders: tuple[Adder | RowAdder, ...]
    outputs: tuple[Operand, ...]
    total: IntRange
    rounding: Rounding | None = None

    @property
    def bits(self) -> int:
        """Width of a sum, in two's complement if any of them can be negative."""
        return self.total.bits

    @property
    def nodes(self) -> int:
        return self.inputs + len(self.adders)

    @property
    def flip(self) -> int:
        """Bits of an input's code to turn over."""
        return 1 << (self.x.bits - 1) if self.x.signed else 0

    @cached_property
    def width(self) -> tuple[int, ...]:
        """Bits of every node."""
        return (self.x.bits,) * self.inputs + tuple(adder.width for adder in self.adders)

    @cached_property
    def depth(self) -> tuple[int, ...]:
        """Adders in a row up to and with every node."""
        depth = [0] * self.inputs
        for adder in self.adders:
            depth.append(1 + max((depth[node] for node in adder.nodes), default=-1))
        return tuple(depth)

    def sums(self, x: Int) -> Int:
        """The sums, before rounding, of inputs ``(n, inputs)``."""
        values: list[Int] = list(((x.T + 1) // 2 if self.x.bipolar else x.T + self.flip).astype(np.int64))
        for adder in self.adders:
            if isinstance(adder, RowAdder):
                values.append(np.broadcast_to(adder.evaluate(values), len(x)))
                continue
            total = np.zeros(len(x), np.int64)
            for operand in adder.operands:
                total += self._operand(operand, values)
            values.append(total & ((1 << adder.width) - 1))
        low = -(1 << (self.bits - 1)) if self.total.signed else 0
        y = np.empty((len(x), len(self.outputs)), np.int64)
        for column, output in enumerate(self.outputs):
            y[:, column] = ((self._operand(output, values) - low) & ((1 << self.bits) - 1)) + low
        return y

    def execute(self, x: Int) -> Int:
        """The outputs of inputs ``(n, inputs)``."""
        y = self.sums(x)
        if self.rounding is None:
            return y
        return self.rounding.execute(y)

    def _operand(self, operand: Operand, values: list[Int]) -> Int:
        if operand.node == CONSTANT:
            return np.full(len(values[0]), operand.constant, np.int64)
        value = values[operand.node]
        if operand.table is not None:
            value = np.asarray(np.asarray(operand.table, np.int64)[value])
        elif operand.inverted:
            value = ((1 << self.width[operand.node]) - 1) - value
        result: Int = (value << operand.shift) + operand.constant
        return result

    # -- cost -------------------------------------------------------------------------------------------------------

    @cached_property
    def luts(self) -> int:
        """Look-up tables of six inputs that the sums take; see :func:`adder_luts`."""
        return sum(a.luts if isinstance(a, RowAdder) else adder_luts(a, self.width) for a in self.adders)


def bit_kinds(operand: Operand | None, node_width: tuple[int, ...] | list[int], width: int) -> list[object]:
    """What every bit of an operand is: 0 or 1, ``("wire", node, bit)``, ``("not", node, bit)`` or ``("table", ...)``
    with its column of the table."""
    kinds: list[object] = [0] * width
    if operand is None:
        return kinds
    for k in range(width):
        kinds[k] = operand.constant >> k & 1
    if operand.node == CONSTANT:
        return kinds
    for k, kind in enumerate(_field(operand, node_width)):
        if operand.shift + k < width and kind != 0:
            kinds[operand.shift + k] = kind
    return kinds


def _field(operand: Operand, node_width: tuple[int, ...] | list[int]) -> Iterator[object]:
    bits = node_width[operand.node]
    if operand.table is None:
        yield from (("not" if operand.inverted else "wire", operand.node, k) for k in range(bits))
        return
    for k in range(max(operand.table).bit_length()):
        column = sum((value >> k & 1) << n for n, value in enumerate(operand.table))
        everything = (1 << len(operand.table)) - 1
        wires = [sum((n >> j & 1) << n for n in range(len(operand.table))) for j in range(bits)]
        if column in (0, everything):
            yield int(column != 0)
        elif column in wires:
            yield ("wire", operand.node, wires.index(column))
        elif everything ^ column in wires:
            yield ("not", operand.node, wires.index(everything ^ column))
        else:
            yield ("table", operand.node, column)


def adder_luts(adder: Adder, node_width: tuple[int, ...] | list[int]) -> int:
    """LUTs of an adder on a carry chain: one for each exclusive-or in front of the chain, equal ones once; one more for
    each bit of ``a`` that is not a wire (the chain takes ``a`` itself, too)."""
    a, b = (bit_kinds(o, node_width, adder.width) for o in (adder.a, adder.b))
    low = next((k for k, (p, q) in enumerate(zip(a, b, strict=True)) if p != 0 and q != 0), adder.width)
    luts: set[object] = set()
    for k, (p, q) in enumerate(zip(a, b, strict=True)):
        if k < low:
            luts |= {kind for kind in (p, q) if isinstance(kind, tuple) and kind[0] != "wire"}
        elif isinstance(p, int) and isinstance(q, int):
            continue
        elif 0 in (p, q):
            luts |= {kind for kind in (p, q) if isinstance(kind, tuple) and kind[0] != "wire"}
        else:
            luts.add((p, q))
            if isinstance(p, tuple) and p[0] != "wire":
                luts.add(p)
    return len(luts)
