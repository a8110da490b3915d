"""Thresholding: a monotone integer function per channel, by comparisons with thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from headrace.adder_graph import Rounding
from headrace.adder_graph.digits import digit_counts
from headrace.arithmetic import wired_constant_luts
from headrace.ir import Array, IntRange
from headrace.ir.integer import Activation
from headrace.ir.op import QUIET
from headrace.layers.base import Layer, Resources, RtlModule, StreamType, lowers
from headrace.layers.comparisons import Comparisons, comparisons, staircase
from headrace.layers.hls import HlsCall, HlsTable
from headrace.layers.lookup import Lookup
from headrace.layers.memory import (
    Int,
    Table,
    check_ram_style,
    constants_range,
    index_bits,
    memory_resources,
    ram_style,
    rom_resources,
)
from headrace.layers.pointwise import StyledPointwise
from headrace.layers.runtime_thresholding import runtime_thresholding
from headrace.layers.threshold_line import Line, fit_line
from headrace.layers.threshold_search import Search
from headrace.numerics import interleave_channels

STYLES = ("parallel", "search", "line", "table")

TABLE_ENTRIES = 1 << 18
"""Most entries of the tables of a layer."""


@dataclass(frozen=True, eq=False)
class Thresholding(StyledPointwise):
    """``y = base[c] + step[c] * #{k : x >= thresholds[c, k]}`` for channel c, the position along the last axis.

    ``style`` is

    * ``parallel``: a comparator for every threshold;
    * ``search``: a pipelined binary search, one comparator and one memory a level;
    * ``line``: a multiplication, an addition and a shift, for thresholds that provably lie on a line
      (:mod:`headrace.layers.threshold_line`);
    * ``table``: a memory addressed by the input, for narrow inputs;
    * ``auto``: the cheapest of those that are possible, by :meth:`resources`.

    Args:
        thresholds: ``(C, T)`` or ``(1, T)``, ascending along T.
        base, step: one value a channel, or one for all.
    """

    kind: ClassVar[str] = "Thresholding"
    replaceable: ClassVar[bool] = True

    thresholds: Int
    base: Int
    step: Int
    stream: StreamType
    output: IntRange
    pe: int = 1
    style: str = "auto"
    ram_style: str = field(default="auto", metadata=QUIET)

    def __post_init__(self) -> None:
        check_ram_style(self.ram_style, "Thresholding")
        channels = self.stream.shape[-1]
        for values in (self.thresholds, self.base, self.step):
            if values.shape[0] not in (1, channels):
                raise ValueError(f"{values.shape[0]} rows of thresholds, bases or steps for {channels} channels")
        self.check_pe()
        if self.style not in ("auto", *STYLES):
            raise ValueError(f"style {self.style!r} is not known; possible: {', '.join(STYLES)}")
        if self.style in ("line", "table") and self.style not in self.legal_styles:
            reason = "the thresholds are not on a line" if self.style == "line" else "the input is too wide"
            raise ValueError(f"style {self.style!r}: {reason}; possible: {', '.join(self.legal_styles)}")

    @cached_property
    def function(self) -> Comparisons:
        """What the hardware evaluates."""
        return comparisons(self.thresholds, self.base, self.step, self.stream.range, keep=self.style == "line")

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

    @cached_property
    def search(self) -> Search:
        """The binary search for the number of thresholds reached."""
        return Search(self.function, self.groups, self.lanes, self.ram_style)

    @property
    def levels(self) -> int:
        """Bits of the number of thresholds reached."""
        return self.search.levels

    @cached_property
    def line(self) -> Line | None:
        """The line through all thresholds, where there is one."""
        f = comparisons(self.thresholds, self.base, self.step, self.stream.range, keep=True)
        return fit_line(f.cuts, f.range)

    @cached_property
    def lookup(self) -> Lookup | None:
        """This layer as a table, where the input is narrow."""
        r, channels = self.stream.range, self.stream.shape[-1]
        if self.stream.bits > 16 or channels << self.stream.bits > TABLE_ENTRIES:
            return None
        values = np.arange(r.lo, r.hi + 1)
        op = Activation(self.thresholds, self.base, self.step, self.output, 0)
        (columns,) = op.execute(np.repeat(values[:, None], channels, axis=1))
        table = np.ascontiguousarray(columns.T)
        return Lookup(
            table[:1] if self.function.rows == 1 else table, self.stream, self.output, self.pe, self.ram_style
        )

    @cached_property
    def legal_styles(self) -> tuple[str, ...]:
        """The styles that compute this function."""
        possible = {"line": self.line is not None, "table": self.lookup is not None}
        return tuple(style for style in STYLES if possible.get(style, True))

    @property
    def latency(self) -> int:
        if self.style == "auto":
            return self.chosen.latency
        fetch = 1 if self.groups > 1 else 0
        return {"search": len(self.search.stages) + 1, "line": 3 + fetch, "table": 1}.get(self.style, 2 + fetch)

    @property
    def counts(self) -> dict[str, int]:
        return {f"param_threshold_{self.stream.range.bits}b": self.thresholds.size}

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        op = Activation(self.thresholds, self.base, self.step, self.output, len(self.stream.shape) - 1)
        return op.execute(*inputs)

    def as_rounding(self) -> tuple[Int, Rounding] | None:
        return staircase(self.thresholds, self.base, self.step, self.stream.range, self.output)

    # -- hardware ---------------------------------------------------------------------------------------------------

    def resources(self) -> Resources:
        """An estimate: half a LUT a bit of a comparator, a full adder a counted bit, the memories."""
        if self.style == "auto":
            return self.chosen.resources()
        if self.style == "table" and self.lookup is not None:
            return self.lookup.resources()
        if self.style == "line" and self.line is not None:
            return self._line_resources(self.line)
        return self._parallel_resources() if self.style == "parallel" else self._search_resources()

    def _parallel_resources(self) -> Resources:
        """Half a LUT a bit of a comparator, less with constants; a count of the results; the memory."""
        bits, pe, steps = self.stream.bits, self.pe, self.steps
        compared = bits * (0.3 if self.groups == 1 else 0.5)
        counted = 3.0 * (steps - self.levels)
        total = Resources(
            pe * (steps * compared + counted + self.output.bits) + 8, pe * (steps + self.output.bits) + 4.0
        )
        if self.groups == 1:
            return total
        fetched = Resources(2.0 * index_bits(self.groups), pe * bits + 2.0 * index_bits(self.groups))
        width = self.lanes * steps * bits
        memory = rom_resources(self.groups, width, self.ram_style)
        # Yosys shares parts of wide words, to their loss.
        shared = 1 + min(self.groups, 64) / 64 * min(width, 256) / 256
        return total + fetched + replace(memory, lut=shared * memory.lut)

    def _search_resources(self) -> Resources:
        """For every level a comparator and its constants; for every stage the input that is handed on."""
        bits, pe, search = self.stream.bits, self.pe, self.search
        group, stages = index_bits(self.groups) if self.groups > 1 else 0, search.stages
        found = sum(stage[0] for stage in stages)
        lut = pe * (search.levels * bits * 0.5 + self.output.bits) + 8 + group
        marks = len(stages) + 2.0 + group * (1 + search.group_stages)
        total = Resources(lut, pe * (len(stages) * bits + found + self.output.bits) + marks)
        for level in range(search.levels):
            depth = search.depth(level)
            if depth > 1 and search.wired(level):
                total += Resources(pe * bits * wired_constant_luts(depth))
            elif depth > 1:
                total += rom_resources(depth, bits, self.ram_style).times(pe)
        return total

    @property
    def y(self) -> IntRange:
        """Range in which the result is computed: that of the output, with bipolar ones as two-bit numbers."""
        return IntRange(self.output.lo, self.output.hi)

    def _line_resources(self, line: Line) -> Resources:
        factor, term = constants_range(line.factor), constants_range(line.term)
        sums = self._line_bits(line)
        constant = self.groups == 1
        lut = self.pe * (sums + 2.0 * self.levels + self.y.bits) + 8
        total = Resources(lut, self.pe * (sums + self.levels + self.output.bits) + 12.0)
        if constant:
            digits = float(digit_counts(line.factor).mean())
            total += Resources(self.pe * max(digits - 1, 0.0) * (self.stream.bits + 2.0))
        else:
            total += Resources(ff=self.pe * (self.stream.bits + factor.bits + term.bits), dsp=float(self.pe))
            total += memory_resources(self.groups, self.lanes * (factor.bits + term.bits), self.ram_style)
        return total

    def _line_bits(self, line: Line) -> int:
        """Width of the product and of the sum of a line, signed."""
        x = self.function.range
        corners = [int(pick(line.factor * end + line.term)) for end in (x.lo, x.hi) for pick in (np.min, np.max)]
        products = [int(line.factor.max()) * end for end in (x.lo, x.hi)]
        reach = IntRange(min(*corners, *products, -1), max(*corners, *products, self.steps << line.shift))
        return reach.bits

    def rtl(self) -> RtlModule:
        if self.style == "auto":
            return self.chosen.rtl()
        if self.style == "table" and self.lookup is not None:
            return self.lookup.rtl()
        f = self.function
        tables = self._tables()
        searches = self.method == "search"
        wired = self.search.wired_cuts() if searches else {}
        context = {
            "method": self.method,
            "tables": tables,
            "pe": self.pe,
            "lanes": self.lanes,
            "groups": self.groups,
            "steps": self.steps,
            "levels": self.levels,
            "stages": self.search.stages,
            "group_stages": self.search.group_stages if searches else 0,
            "wired": wired,
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
            "line": self._line_context() if self.method == "line" else None,
        }
        written = {f"cuts{level}_{lane}" for level in wired for lane in range(self.lanes)}
        memories = {name: t.text for name, t in tables.items() if t.literal is None and name not in written}
        return RtlModule("thresholding.sv.j2", context, memories)

    def _line_context(self) -> dict[str, int]:
        """Widths of a line's constants and of its sum."""
        assert self.line is not None
        return {
            "factor_bits": constants_range(self.line.factor).bits,
            "factor_signed": 0,
            "term_bits": constants_range(self.line.term).bits,
            "term_signed": int(constants_range(self.line.term).signed),
            "sum_bits": self._line_bits(self.line),
            "shift": self.line.shift,
        }

    def hls(self) -> HlsCall:
        if self.style == "auto":
            return self.chosen.hls()
        if self.style in ("line", "table"):  # a tool for high-level synthesis chooses arithmetic and memories itself
            return replace(self, style="search").hls()
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
            cuts = self._hls_table(f.cuts, together=(2, 3), storage=ram_style(self.groups, width, self.ram_style))
            order = ("in0", "out0", "cuts", "base", "step")
            return HlsCall("thresholding.hpp", "thresholding", parameters, self.cycles, {"cuts": cuts, **tables}, order)
        for level, cuts_of_level in enumerate(self.search.cuts):
            storage = ram_style(self.search.depth(level), self.stream.bits, self.ram_style)
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
        table = interleave_channels(values[:, np.newaxis], lanes)[..., 0]
        return HlsTable(table, constants_range(values), together=(2,))

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
            tables["cuts"] = Table(self._by_group(f.cuts), f.range, self.ram_style)
        elif self.method == "line" and self.line is not None:
            for name, values in (("factor", self.line.factor), ("term", self.line.term)):
                tables[name] = Table(self._by_group(values[:, np.newaxis]), constants_range(values), self.ram_style)
        else:
            for level in range(self.levels):
                for lane, cuts in enumerate(self.search.cuts_of_lanes(level)):
                    tables[f"cuts{level}_{lane}"] = Table(cuts.reshape(-1, 1), f.range, self.ram_style)
        if np.any(f.base != f.base[0]):
            tables["base"] = Table(self._by_group(f.base[:, np.newaxis]) & word.hi, word)
        if self._step_kind == "sign":
            tables["step"] = Table(self._by_group((f.step < 0)[:, np.newaxis].astype(np.int64)), IntRange(0, 1))
        elif self._step_kind == "multiply":
            tables["step"] = Table(self._by_group(f.step[:, np.newaxis]) & word.hi, word)
        return tables

    def _by_group(self, rows: Int) -> Int:
        """``(rows, n)`` to one word ``(groups, lanes * n)`` for each channel group."""
        return interleave_channels(rows, self.lanes).reshape(self.groups, -1)


@lowers(Activation)
def lower_activation(op: Activation, stream: StreamType) -> Sequence[Layer]:
    """An activation on the last axis is one Thresholding."""
    if op.writable:
        return (runtime_thresholding(op, stream),)
    return (Thresholding(op.thresholds, op.base, op.step, stream, op.output),)
