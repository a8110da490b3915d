"""Adder graphs as hardware: names, slices and registers for the template ``adder_graph.sv.j2``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np

from headrace.adder_graph import Rounding, pipeline, solve
from headrace.adder_graph.digits import digit_counts
from headrace.adder_graph.graph import CONSTANT, Adder, Operand
from headrace.adder_graph.pipelining import Pipeline
from headrace.adder_graph.rows import COUNTED, ONE, Digit, Row, RowAdder
from headrace.adder_graph.sharing import common_part
from headrace.ir import IntRange
from headrace.layers.base import Resources, RtlModule, StreamType
from headrace.layers.hls import HlsCall, HlsTable
from headrace.layers.memory import Int, constants_range

LARGEST = 4_000_000
"""Digits squared, summed over the columns, up to which common sums are looked for."""


class Unrolled(Protocol):
    """What is asked of a layer that becomes an adder graph."""

    @property
    def weights(self) -> Int: ...
    @property
    def stream(self) -> StreamType: ...
    @property
    def output(self) -> IntRange: ...
    @property
    def bias(self) -> Int | None: ...
    @property
    def cycles(self) -> int: ...


@dataclass(frozen=True)
class Slice:
    """Bits ``high`` down to ``low`` of a signal, or a constant of ``bits`` bits when ``signal`` is empty."""

    signal: str
    high: int
    low: int
    inverted: bool = False
    whole: bool = False
    constant: int = 0

    @property
    def bits(self) -> int:
        return self.high - self.low + 1


@dataclass(frozen=True)
class Sum:
    """``signal[low +: bits] = a + b``; the bits below are ``passed``."""

    signal: str
    width: int
    low: int
    a: tuple[Slice, ...]
    b: tuple[Slice, ...]
    passed: tuple[Slice, ...]
    carry: Slice | None = None

    @property
    def bits(self) -> int:
        return self.width - self.low


@dataclass(frozen=True)
class CountSignal:
    """``signal[k]`` is bit ``plane`` of the number of ones among bits k of ``words``."""

    signal: str
    plane: int
    bits: int
    words: tuple[tuple[Slice, ...], ...]


@dataclass(frozen=True)
class Half:
    """One level of a table: ``signal = index[select] ? upper : lower``, the halves of ``source`` or of the contents."""

    signal: str
    select: int
    bits: int
    source: str
    upper: int = 0
    lower: int = 0


@dataclass(frozen=True)
class TableSignal:
    """``signal = contents[index]``, as multiplexers: synthesis would take an array of constants for a memory."""

    signal: str
    width: int
    index: str
    index_bits: int
    contents: int

    @property
    def halves(self) -> list[Half]:
        result = []
        for level in reversed(range(self.index_bits)):
            bits = self.width << level
            source = f"{self.signal}_{level + 1}"
            upper, lower = self.contents >> bits, self.contents & ((1 << bits) - 1)
            first = level == self.index_bits - 1
            result.append(
                Half(f"{self.signal}_{level}", level, bits, source, upper if first else 0, lower if first else 0)
            )
        return result


@dataclass(frozen=True)
class Register:
    """``target <= source``, at the end of a stage."""

    target: str
    source: str
    width: int


def shareable(weights: Int) -> bool:
    """Whether common sums of the columns are found in a few seconds."""
    return int((digit_counts(weights).sum(axis=0) ** 2).sum()) <= LARGEST


def shared_adders(weights: Int, x: IntRange, bias: Int, rounding: Rounding | None, output: IntRange) -> Pipeline:
    """The pipelined adder graph of ``x @ weights + bias`` with results in *output*, found once for equal arguments."""
    shape = (int(weights.shape[0]), int(weights.shape[1]))
    total = output if rounding is None else None
    return _solved(weights.astype(np.int64).tobytes(), shape, x, tuple(map(int, bias)), rounding, total)


@lru_cache(maxsize=64)
def _solved(
    weights: bytes,
    shape: tuple[int, int],
    x: IntRange,
    bias: tuple[int, ...],
    rounding: Rounding | None,
    total: IntRange | None,
) -> Pipeline:
    matrix = np.frombuffer(weights, np.int64).reshape(shape)
    return pipeline(solve(matrix, x, np.array(bias, np.int64), rounding, total=total))


def graph_resources(weights: Int, x_bits: int) -> Resources:
    """A quick estimate of a shared adder graph, without searching for it: the folding solver compares with it.

    Fitted to the graphs of random matrices of 5 to 64 inputs, 4 to 48 columns, 2 to 8 bits, sparse ones and those of
    -1, 0 and 1 among them. It knows no stages; the estimate of a design counts what the graph has.
    """
    inputs, columns = weights.shape
    part = common_part(weights, [(1 << x_bits) - 1] * inputs)
    digits = int(digit_counts(weights - part).sum()) + (inputs + columns if part.any() else 0)
    lut = 0.843 * digits**0.9078 * x_bits**0.9097 * inputs**0.0242 * columns**0.0562
    if np.abs(weights).max(initial=0) == 1:
        lut *= 1.101 if weights.all() else 0.862
    return Resources(lut=lut, ff=1.42 * lut**0.963)


def graph_module(layer: Unrolled, design: Pipeline) -> RtlModule:
    """The module of a fully unrolled matrix."""
    context = {
        "mw": layer.weights.shape[0],
        "mh": layer.weights.shape[1],
        "x": layer.stream.range,
        "cycles": layer.cycles,
        "latency": design.stages,
        "in_bits": layer.weights.shape[0] * layer.stream.bits,
        "out_bits": layer.output.bits,
        "graph": graph_context(design),
    }
    return RtlModule("adder_graph.sv.j2", context, {}, ("headrace_sum.sv.j2", "headrace_count.sv.j2"))


def rounded_call(layer: Unrolled, rounding: Rounding, weights: HlsTable) -> HlsCall:
    """The C++ function of a fully unrolled matrix with rounding: a plain product, shifted and clamped."""
    bias = np.zeros(layer.weights.shape[1], np.int64) if layer.bias is None else layer.bias
    reach = layer.stream.range
    ends = [np.where(layer.weights > 0, *pair) for pair in ((reach.hi, reach.lo), (reach.lo, reach.hi))]
    high, low = (int(abs((layer.weights * end).sum(axis=0) + bias).max()) for end in ends)
    widest = max(high, low, int(np.abs(layer.weights).sum(axis=0).max()) * max(abs(reach.lo), abs(reach.hi)))
    parameters = (
        ("vectors", layer.cycles),
        ("acc_bits", IntRange(-widest - int(abs(bias).max(initial=0)) - 1, widest).bits + 1),
        ("shift", rounding.shift),
        ("top", (1 << rounding.bits) - 1),
        ("base", rounding.base),
    )
    tables = {"weights": weights, "bias": HlsTable(bias[np.newaxis], constants_range(bias), together=(2,))}
    return HlsCall("mvau_rounded.hpp", "mvau_rounded", parameters, layer.cycles, tables)


def graph_context(design: Pipeline) -> Mapping[str, object]:
    """What the template needs to print a pipelined graph."""
    return _Drawing(design).context()


class _Drawing:
    def __init__(self, design: Pipeline) -> None:
        self.design, self.graph = design, design.graph
        self.tables: list[TableSignal] = []
        self.counts: list[CountSignal] = []

    def context(self) -> dict[str, object]:
        graph, rounding = self.graph, self.graph.rounding
        stages = [self._stage(k) for k in range(self.design.stages)]
        last = self.design.stages - 1
        outputs = [self._slices(output, last, 0, graph.bits) for output in graph.outputs]
        return {
            "inputs": graph.inputs,
            "x_bits": graph.x.bits,
            "flip": graph.flip,
            "stages": stages,
            "depth": self.design.stages,
            "outputs": outputs,
            "sum_bits": graph.bits,
            "rounding": graph.rounding,
            "high_bits": graph.bits - rounding.shift - rounding.bits if rounding is not None else 0,
            "sign": rounding.base & ((1 << rounding.bits) - 1) if rounding is not None else 0,
            "adders": len(graph.adders),
            "luts": graph.luts,
        }

    def _name(self, node: int, stage: int) -> str:
        """The signal that holds *node* in *stage*."""
        kind, number = ("x", node) if node < self.graph.inputs else ("n", node - self.graph.inputs)
        return f"{kind}{number}_{stage}"

    def _stage(self, stage: int) -> dict[str, object]:
        self.tables, self.counts = [], []
        sums = [
            self._row_sum(j, adder, stage) if isinstance(adder, RowAdder) else self._sum(j, adder, stage)
            for j, adder in enumerate(self.graph.adders, self.graph.inputs)
            if self.design.stage[j] == stage
        ]
        registers = [
            Register(self._name(n, stage + 1), self._name(n, stage), self.graph.width[n])
            for n in range(self.graph.nodes)
            if self.design.stage[n] <= stage < self.design.last_use[n]
        ]
        # All before what uses them: a sum may stand before the one that it adds.
        signals = [
            *((half.signal, half.bits) for table in self.tables for half in table.halves),
            *((table.signal, table.width) for table in self.tables),
            *((count.signal, count.bits) for count in self.counts),
            *((result.signal, result.width) for result in sums),
        ]
        parts = {"sums": sums, "tables": self.tables, "counts": self.counts, "registers": registers}
        return {**parts, "signals": signals}

    def _sum(self, node: int, adder: Adder, stage: int) -> Sum:
        operands = [self._field(o, f"{self._name(node, stage)}_{k}", stage) for k, o in enumerate(adder.operands)]
        name = self._name(node, stage)
        if len(operands) == 1:
            return Sum(name, adder.width, adder.width, (), (), self._cut(operands[0], 0, adder.width))
        starts = [_lowest(o, constant) for o, (constant, _) in zip(adder.operands, operands, strict=True)]
        low = min(max(starts), adder.width)
        lower = operands[starts.index(min(starts))]
        a, b = (self._cut(o, low, adder.width) for o in operands)
        return Sum(name, adder.width, low, a, b, self._cut(lower, 0, low))

    def _row_sum(self, node: int, adder: RowAdder, stage: int) -> Sum:
        name, width = self._name(node, stage), adder.width
        a, b = ([*row, *[None] * (width - len(row))] for row in (adder.a, adder.b))
        counted = self._count(name, adder.b, stage)
        first = [self._digit(digit, stage) for digit in a]
        second = [counted[k] if k in counted else self._digit(digit, stage) for k, digit in enumerate(b)]
        passed = [q if p is None else own for p, own, q in zip(a, first, second, strict=True)]
        chain = slice(adder.low, width)
        carry = self._digit(Digit((adder.carry,)), stage) if adder.carry else None
        return Sum(
            name, width, adder.low, _joined(first[chain]), _joined(second[chain]), _joined(passed[: adder.low]), carry
        )

    def _count(self, name: str, row: Row, stage: int) -> dict[int, Slice]:
        """The digits of *row* that are counted, by their weight: a signal for each plane."""
        found: dict[int, Slice] = {}
        for plane in range(COUNTED.bit_length()):
            places = [k for k, digit in enumerate(row) if digit and digit.plane == plane and digit.planes > 1]
            if not places:
                continue
            low, signal = places[0], f"c_{name}_{plane}"
            words: list[list[Slice]] = [[Slice("", 0, 0)] * (places[-1] + 1 - low) for _ in range(COUNTED + 1)]
            for k in places:
                digit = row[k]
                assert digit is not None
                for word, wire in zip(words, digit.wires, strict=False):
                    word[k - low] = self._digit(Digit((wire,)), stage)
                words[COUNTED][k - low] = self._digit(ONE if digit.one else None, stage)
                found[k] = Slice(signal, k - low, k - low)
            self.counts.append(CountSignal(signal, plane, len(words[0]), tuple(map(_joined, words))))
        return found

    def _digit(self, digit: Digit | None, stage: int) -> Slice:
        """A digit that is a wire, its complement or a constant."""
        if digit is None or not digit.wires:
            return Slice("", 0, 0, constant=int(digit is not None))
        wire = digit.wires[0]
        return Slice(self._name(wire.node, stage), wire.bit, wire.bit, wire.inverted)

    def _slices(self, operand: Operand, stage: int, low: int, high: int) -> tuple[Slice, ...]:
        return self._cut(self._field(operand, "", stage), low, high)

    def _field(self, operand: Operand, table: str, stage: int) -> tuple[int, Slice | None]:
        """The constant of an operand, and where its variable bits come from: ``low`` is where they begin."""
        if operand.node == CONSTANT:
            return operand.constant, None
        signal, width = self._name(operand.node, stage), self.graph.width[operand.node]
        if operand.table is not None:
            index, index_bits = signal, width
            width = max(max(operand.table).bit_length(), 1)
            contents = sum(value << (k * width) for k, value in enumerate(operand.table))
            signal = f"t_{table}"
            self.tables.append(TableSignal(signal, width, index, index_bits, contents))
        high = operand.shift + width - 1
        return operand.constant, Slice(signal, high, operand.shift, operand.inverted)

    def _cut(self, field: tuple[int, Slice | None], low: int, high: int) -> tuple[Slice, ...]:
        """Bits ``high - 1 .. low`` of an operand, the highest first."""
        constant, variable = field
        if variable is None:
            return _constant(constant, low, high)
        first, last = max(variable.low, low), min(variable.high + 1, high)
        if first >= last:
            return _constant(constant, low, high)
        whole = first == variable.low and last == variable.high + 1
        part = Slice(variable.signal, last - 1 - variable.low, first - variable.low, variable.inverted, whole)
        return (*_constant(constant, last, high), part, *_constant(constant, low, first))


def _joined(bits: Sequence[Slice]) -> tuple[Slice, ...]:
    """Slices of one bit each, the lowest first, as few slices with the highest first."""
    joined: list[Slice] = []
    for bit in bits:
        last = joined[-1] if joined else None
        if last and not bit.signal and not last.signal:
            joined[-1] = replace(last, high=last.high + 1, constant=last.constant | bit.constant << last.bits)
        elif last and (last.signal, last.inverted, last.high + 1) == (bit.signal, bit.inverted, bit.low):
            joined[-1] = replace(last, high=bit.high)
        else:
            joined.append(bit)
    return tuple(reversed(joined))


def _lowest(operand: Operand, constant: int) -> int:
    """The lowest bit that may be 1."""
    ends = [(constant & -constant).bit_length() - 1] if constant else []
    if operand.node != CONSTANT:
        ends.append(operand.shift)
    return min(ends, default=1 << 30)


def _constant(value: int, low: int, high: int) -> tuple[Slice, ...]:
    if low >= high:
        return ()
    return (Slice("", high - 1, low, constant=value >> low & ((1 << (high - low)) - 1)),)
