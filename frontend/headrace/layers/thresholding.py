"""Thresholding: a monotone integer function per channel, by comparisons with thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from headrace.ir import Array, IntRange
from headrace.ir.integer import Activation
from headrace.layers.base import Layer, Resources, RtlModule, StreamType, lowers
from headrace.layers.hls import HlsCall, HlsTable
from headrace.layers.memory import Int, Table, index_bits, memory_resources, ram_style
from headrace.layers.pointwise import Pointwise
from headrace.numerics import interleave_channels

STYLES = ("parallel", "search")


@dataclass(frozen=True)
class Comparisons:
    """``y = base[c] + step[c] * #{k : x > cuts[c, k]}`` on the codes of x, cleaned of everything that has no effect.

    ``cuts`` are the thresholds less one, ``(rows, T)``, ascending: ``x >= t`` is ``x > t - 1``, and while a threshold
    that is never reached may be one more than x can be, its cut always fits the width of x. One row serves all
    channels. ``step`` is never 0.
    """

    cuts: Int
    base: Int
    step: Int
    range: IntRange

    @property
    def rows(self) -> int:
        """Channels told apart, 1 when all are alike."""
        return int(self.cuts.shape[0])


def comparisons(thresholds: Int, base: Int, step: Int, x: IntRange) -> Comparisons:
    """Normalise an activation's thresholds for inputs of range *x*: the same function for every such input.

    Bipolar inputs are compared as their codes 0 and 1. Thresholds at or below the lowest input go into the base,
    those above the highest become one more than it, columns that no channel reaches are dropped (all but one).
    """
    rows = max(thresholds.shape[0], base.size, step.size)
    cuts = np.broadcast_to(thresholds, (rows, thresholds.shape[1])).astype(np.int64)
    base, step = np.broadcast_to(base, rows).astype(np.int64), np.broadcast_to(step, rows).astype(np.int64)
    if x.bipolar:
        cuts = (cuts + 2) // 2  # -1 + 2 code >= t  <=>  code >= ceil((t + 1) / 2)
        x = IntRange(0, 1)
    always = cuts <= x.lo
    base = base + step * always.sum(axis=1)
    idle = (step == 0)[:, np.newaxis] | always
    cuts = np.sort(np.where(idle, x.hi + 1, np.minimum(cuts, x.hi + 1)), axis=1)
    reached = cuts <= x.hi
    cuts = cuts[:, : max(int(reached.sum(axis=1).max(initial=0)), 1)]
    if cuts.shape[1] == 0:
        cuts = np.full((rows, 1), x.hi + 1, np.int64)
    moving = reached.any(axis=1)
    step = np.where(moving, step, step[moving][0] if moving.any() else 1)
    if all(np.all(values == values[:1]) for values in (cuts, base, step)):
        cuts, base, step = cuts[:1], base[:1], step[:1]
    return Comparisons(cuts - 1, base, step, x)


@dataclass(frozen=True, eq=False)
class Thresholding(Pointwise):
    """``y = base[c] + step[c] * #{k : x >= thresholds[c, k]}`` for channel c, the position along the last axis.

    ``style`` is ``parallel`` (a comparator for every threshold), ``search`` (a pipelined binary search: one comparator
    and one memory a level), or ``auto``, which takes the smaller of the two by :meth:`resources`.

    Args:
        thresholds: ``(C, T)`` or ``(1, T)``, ascending along T.
        base, step: one value a channel, or one for all.
    """

    kind: ClassVar[str] = "Thresholding"

    thresholds: Int
    base: Int
    step: Int
    stream: StreamType
    output: IntRange
    pe: int = 1
    style: str = "auto"

    def __post_init__(self) -> None:
        channels = self.stream.shape[-1]
        for values in (self.thresholds, self.base, self.step):
            if values.shape[0] not in (1, channels):
                raise ValueError(f"{values.shape[0]} rows of thresholds, bases or steps for {channels} channels")
        self.check_pe()
        if self.style not in ("auto", *STYLES):
            raise ValueError(f"style {self.style!r}; possible: {STYLES}")

    @cached_property
    def function(self) -> Comparisons:
        """What the hardware evaluates."""
        return comparisons(self.thresholds, self.base, self.step, self.stream.range)

    @property
    def groups(self) -> int:
        """Channel groups that take turns; 1 when all channels are alike."""
        return 1 if self.function.rows == 1 else self.stream.shape[-1] // self.pe

    @property
    def lanes(self) -> int:
        """Elements of a word that are told apart; 1 when all channels are alike."""
        return 1 if self.function.rows == 1 else self.pe

    @property
    def steps(self) -> int:
        """Thresholds a channel that take effect."""
        return int(self.function.cuts.shape[1])

    @property
    def levels(self) -> int:
        """Levels of the binary search."""
        return self.steps.bit_length()

    @property
    def latency(self) -> int:
        if self.method == "search":
            return self.levels + 1
        return 3 if self.groups > 1 else 2

    @property
    def counts(self) -> dict[str, int]:
        return {f"param_threshold_{self.stream.range.type_name}": self.thresholds.size}

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        op = Activation(self.thresholds, self.base, self.step, self.output, len(self.stream.shape) - 1)
        return op.execute(*inputs)

    # -- hardware ---------------------------------------------------------------------------------------------------

    @property
    def method(self) -> str:
        """The style in use."""
        if self.style != "auto":
            return self.style
        return min(STYLES, key=lambda style: _weight(self._cost(style)))

    def resources(self) -> Resources:
        """An estimate: half a LUT a bit of a comparator, a full adder a counted bit, the memories."""
        return self._cost(self.method)

    def _cost(self, style: str) -> Resources:
        bits, out = self.stream.bits, self.output.bits
        comparators = self.steps if style == "parallel" else self.levels
        known = self.groups == 1 and style == "parallel"  # constants halve a comparator again
        lut = self.pe * (comparators * bits * (0.3 if known else 0.5) + out)
        ff = self.pe * (comparators + out) + bits * self.pe * (self.levels if style == "search" else 1)
        if style == "parallel":
            lut += self.pe * (self.steps - self.levels)
        total = Resources(lut + 8, ff + 12.0)
        if style == "parallel":
            return total + (memory_resources(self.groups, self.lanes * self.steps * bits) if not known else Resources())
        for level in range(self.levels):
            if self.groups << level > 1:
                for _ in range(self.pe):
                    total += memory_resources(self.groups << level, bits)
        return total

    @property
    def y(self) -> IntRange:
        """Range in which the result is computed: that of the output, with bipolar ones as two-bit numbers."""
        return IntRange(self.output.lo, self.output.hi)

    def rtl(self) -> RtlModule:
        f = self.function
        tables = self._tables()
        context = {
            "method": self.method,
            "tables": tables,
            "pe": self.pe,
            "lanes": self.lanes,
            "groups": self.groups,
            "steps": self.steps,
            "levels": self.levels,
            "cycles": self.cycles,
            "latency": self.latency,
            "x_bits": self.stream.bits,
            "x_signed": f.range.signed,
            "y_bits": self.y.bits,
            "out_bits": self.output.bits,
            "out_bipolar": self.output.bipolar,
            "group_bits": index_bits(self.groups),
            "base": int(f.base[0]) % (1 << self.y.bits),
            "step_kind": self._step_kind,
            "step_size": int(abs(f.step[0])) % (1 << self.y.bits),
        }
        memories = {name: table.text for name, table in tables.items() if table.literal is None}
        return RtlModule("thresholding.sv.j2", context, memories)

    def hls(self) -> HlsCall:
        f, y = self.function, self.output
        steps = int(np.abs(f.step).max()) * self.steps
        widest = IntRange(-steps + min(y.lo, 0), steps + max(y.hi, 0))  # base, step * count, and their sum
        parameters = (
            ("words", self.cycles),
            ("groups", self.groups),
            ("acc_bits", widest.bits),
            ("count_bits", self.levels),
        )
        tables = {"base": self._hls_row(f.base), "step": self._hls_row(f.step)}
        if self.method == "parallel":
            width = self.lanes * self.steps * self.stream.bits
            cuts = self._hls_table(f.cuts, together=(2, 3), storage=ram_style(self.groups, width))
            order = ("in0", "out0", "cuts", "base", "step")
            return HlsCall("thresholding.hpp", "thresholding", parameters, self.cycles, {"cuts": cuts, **tables}, order)
        for level, cuts_of_level in enumerate(self._levels()):
            storage = ram_style(self.groups << level, self.stream.bits)
            ports = self.pe // self.lanes
            tables[f"cuts{level}"] = self._hls_table(cuts_of_level, apart=(2,), storage=storage, ports=ports)
        return HlsCall("thresholding.hpp", "thresholding_search", parameters, self.cycles, tables)

    def _hls_table(
        self, cuts: Int, together: tuple[int, ...] = (), apart: tuple[int, ...] = (), storage: str = "", ports: int = 1
    ) -> HlsTable:
        """Cuts ``(rows, n)`` as ``(groups, lanes, n)``; those of bipolar inputs as numbers, not codes."""
        values = 2 * cuts - 1 if self.stream.range.bipolar else cuts
        x = IntRange(-1, 1) if self.stream.range.bipolar else self.function.range
        return HlsTable(interleave_channels(values, self.lanes), x, together, apart, storage, ports)

    def _hls_row(self, values: Int) -> HlsTable:
        """One value a row as ``(groups, lanes)``, or one for all."""
        if np.all(values == values[0]):
            values, lanes = values[:1], 1
        else:
            lanes = self.lanes
        r = IntRange(int(values.min()), int(values.max()))
        return HlsTable(interleave_channels(values[:, np.newaxis], lanes)[..., 0], r, together=(2,))

    @property
    def _step_kind(self) -> str:
        step = self.function.step
        if np.any(np.abs(step) != abs(step[0])):
            return "multiply"
        return "sign" if np.any(step != step[0]) else "add" if step[0] > 0 else "subtract"

    def _tables(self) -> dict[str, Table]:
        """Constants by name: thresholds, and bases and steps where channels differ in them."""
        f = self.function
        word = IntRange(0, (1 << self.y.bits) - 1)
        tables: dict[str, Table] = {}
        if self.method == "parallel":
            tables["cuts"] = Table(self._by_group(f.cuts), f.range)
        else:
            for level, cuts_of_level in enumerate(self._levels()):
                for lane, cuts in enumerate(interleave_channels(cuts_of_level, self.lanes).swapaxes(0, 1)):
                    tables[f"cuts{level}_{lane}"] = Table(cuts.reshape(-1, 1), f.range)
        if np.any(f.base != f.base[0]):
            tables["base"] = Table(self._by_group(f.base[:, np.newaxis]) & word.hi, word)
        if self._step_kind == "sign":
            tables["step"] = Table(self._by_group((f.step < 0)[:, np.newaxis].astype(np.int64)), IntRange(0, 1))
        elif self._step_kind == "multiply":
            tables["step"] = Table(self._by_group(f.step[:, np.newaxis]) & word.hi, word)
        return tables

    def _levels(self) -> list[Int]:
        """Cuts ``(rows, 2**level)`` that each level of the binary search compares with."""
        f = self.function
        full = np.full((f.rows, (1 << self.levels) - 1), f.range.hi, np.int64)  # x > hi never holds
        full[:, : self.steps] = f.cuts
        return [
            full[:, (1 << (self.levels - level - 1)) - 1 :: 1 << (self.levels - level)] for level in range(self.levels)
        ]

    def _by_group(self, rows: Int) -> Int:
        """``(rows, n)`` to one word ``(groups, lanes * n)`` for each channel group."""
        return interleave_channels(rows, self.lanes).reshape(self.groups, -1)


def _weight(cost: Resources) -> float:
    """Resources as one number to choose by: a block RAM counts as 200 LUTs."""
    return cost.lut + 0.5 * cost.ff + 200 * cost.bram18


@lowers(Activation)
def lower_activation(op: Activation, stream: StreamType) -> Sequence[Layer]:
    """An activation on the last axis is one Thresholding."""
    return (Thresholding(op.thresholds, op.base, op.step, stream, op.output),)
