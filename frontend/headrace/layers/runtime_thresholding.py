"""Thresholding whose thresholds are in memories that software writes: any monotone function on every channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headrace.errors import UnsupportedError
from headrace.ir import Array, IntRange
from headrace.ir.counting import count_thresholds
from headrace.ir.integer import Activation
from headrace.layers.base import Resources, RtlModule, StreamType
from headrace.layers.hls import HlsCall
from headrace.layers.memory import Int, index_bits, memory_text, ram_resources
from headrace.layers.parameter import WORD, Parameter, address_bits, slots
from headrace.layers.pointwise import StyledPointwise
from headrace.layers.recode import Recode
from headrace.layers.runtime import PARAMETER_RAM, SETTING, not_in_cpp
from headrace.numerics import interleave_channels

STYLES = ("parallel", "search")


@dataclass(frozen=True)
class Memory:
    """A memory of one lane: of the thresholds with the same number, or of a level of the search; or of the directions.

    Attributes:
        level: of the search; 0 in style ``parallel``.
        first: number of the first threshold in it.
        groups: channel groups.
        bits: of a word.
        direction: whether it holds the directions.
    """

    name: str
    lane: int
    level: int
    first: int
    groups: int
    bits: int
    direction: bool = False

    @property
    def depth(self) -> int:
        """Words."""
        return self.groups if self.direction else self.groups << self.level

    @property
    def address_bits(self) -> int:
        """Width of the address."""
        return index_bits(self.depth)


@dataclass(frozen=True, eq=False)
class RuntimeThresholding(StyledPointwise):
    """``y = lo + #{k : x >= thresholds[c, k]}``, or ``hi - #{...}`` where ``falling[c]``, for channel c.

    lo and hi are the ends of ``output``, and T = hi - lo: any monotone function to that range is such a one. (Bipolar
    outputs are -1 and +1 for codes 0 and 1, with T = 1.) ``style`` is

    * ``parallel``: a comparator and a memory for every threshold: those reached are counted, in any order;
    * ``search``: a binary search, a comparator and a memory a level: thresholds out of order are compared as the search
      comes upon them;
    * ``auto``: the cheaper, by :meth:`resources`.

    Args:
        thresholds: ``(C, T)``, from ``x.lo`` (always reached) to ``x.hi + 1`` (never).
        falling: ``(C,)``, 0 or 1.
    """

    kind: ClassVar[str] = "Thresholding"
    replaceable: ClassVar[bool] = True

    thresholds: Int
    falling: Int
    stream: StreamType
    output: IntRange
    pe: int = 1
    style: str = "auto"

    def __post_init__(self) -> None:
        self.check_pe()
        if self.thresholds.shape != (self.channels, self.steps) or self.falling.shape != (self.channels,):
            raise ValueError(f"thresholds {self.thresholds.shape} for {self.channels} channels of {self.output}")
        if self.style not in ("auto", *STYLES):
            raise ValueError(
                f"style {self.style!r} does not fit thresholds that are written; possible: {', '.join(STYLES)}"
            )
        if self.stored.bits > WORD:
            raise UnsupportedError(
                f"{SETTING}=1 is not possible for thresholds of {self.stored.bits} bits; accepted: up to {WORD}, of "
                "narrower weights or inputs before it"
            )

    @property
    def steps(self) -> int:
        """Thresholds a channel."""
        return 1 if self.output.bipolar else self.output.hi - self.output.lo

    @property
    def levels(self) -> int:
        """Bits of their number."""
        return self.steps.bit_length()

    @property
    def groups(self) -> int:
        """Channel groups that take turns."""
        return self.channels // self.pe

    @property
    def stored(self) -> IntRange:
        """Range of a threshold less one."""
        return IntRange(min(self.stream.range.lo - 1, -1), max(self.stream.range.hi, 0))

    @property
    def legal_styles(self) -> tuple[str, ...]:
        return STYLES

    @property
    def latency(self) -> int:
        return 3 if self.method == "parallel" else self.levels + 1

    @property
    def counts(self) -> dict[str, int]:
        return {f"param_threshold_{self.stream.range.bits}b": self.thresholds.size}

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        x = inputs[0].astype(np.int64)
        if np.all(np.diff(self.thresholds, axis=1) >= 0):
            count = count_thresholds(x, self.thresholds)
        else:
            count = self._count(x)
        y = np.where(self.falling == 1, self.steps - count, count)
        return (2 * y - 1 if self.output.bipolar else y + self.output.lo,)

    def _count(self, x: Int) -> Int:
        """What the hardware makes of thresholds that are out of order."""
        if self.method == "parallel":
            return sum(((x >= row).astype(np.int64) for row in self.thresholds.T), np.zeros(x.shape, np.int64))
        padded = np.full((self.channels, (1 << self.levels) - 1), self.stream.range.hi + 1, np.int64)
        padded[:, : self.steps] = self.thresholds
        count = np.zeros(x.shape, np.int64)
        for bit in reversed(range(self.levels)):
            count += (x >= padded[np.arange(self.channels), count + (1 << bit) - 1]).astype(np.int64) << bit
        return count

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        row, split = slots(self.steps + 1), (self.groups, self.pe)
        strides = (slots(self.pe) * row, row)
        whole, order, along = (*split, self.steps), (0, 1, 2), (*strides, 1)
        cuts = Parameter("thresholds", self.thresholds, self.stored, whole, order, along, stored_less=1)
        return (cuts, Parameter("falling", self.falling, IntRange(0, 1), split, (0, 1), strides, self.steps))

    @property
    def runtime_settings(self) -> dict[str, object]:
        return {SETTING: 1}

    # -- hardware ---------------------------------------------------------------------------------------------------

    def resources(self) -> Resources:
        """An estimate: memories that are written, comparators, counts, and the way to and from the memories."""
        if self.style == "auto":
            return self.chosen.resources()
        bits, pe, steps = self.stored.bits, self.pe, self.steps
        total = Resources(24.0, 12.0) + Resources(pe * 2.0 * self.output.bits, pe * (self.output.bits + 1.0))
        parallel = self.style == "parallel"
        for level in range(1 if parallel else self.levels):
            depth = self.groups << level
            way_in = Resources(bits / 2 + 2.0 * index_bits(depth), float(bits + index_bits(depth)))
            one = ram_resources(depth, bits) + way_in + Resources(0.5 * bits, float(bits if level else 1))
            total += one.times(pe * steps if parallel else pe)
        group = index_bits(self.groups)
        total += (ram_resources(self.groups, 1) + Resources(bits / 2 + 2.0 * group, 2.0 + group)).times(pe)
        counted = 3.0 * (steps - self.levels) if parallel else 0.0
        return total + Resources(pe * counted, float(pe * bits))

    def _memories(self) -> list[Memory]:
        """The memories, lane by lane; those of the directions last."""
        rest, top = (self.groups, self.stored.bits), self.levels - 1
        parallel = self.style == "parallel"
        entries = [(0, k) for k in range(self.steps)] if parallel else [(k, (1 << top - k) - 1) for k in range(top + 1)]
        cuts = [Memory(f"cut{p}_{k}", p, *entry, *rest) for p in range(self.pe) for k, entry in enumerate(entries)]
        level = 0 if parallel else top
        return [*cuts, *(Memory(f"falling{p}", p, level, 0, self.groups, 1, True) for p in range(self.pe))]

    def rtl(self) -> RtlModule:
        if self.style == "auto":
            return self.chosen.rtl()
        bits, r = self.output.bits, self.output
        lane_bits = (self.pe - 1).bit_length()
        context = {
            "config": {"address_bits": address_bits(self.parameters)},
            "method": self.style,
            "memories": self._memories(),
            "pe": self.pe,
            "groups": self.groups,
            "steps": self.steps,
            "levels": self.levels,
            "cycles": self.cycles,
            "latency": self.latency,
            "recode": Recode(self.stream.range, _plain(self.stored)),
            "x_bits": self.stream.bits,
            "cut_bits": self.stored.bits,
            "out_bits": bits,
            "low": 0 if r.bipolar else r.lo % (1 << bits),
            "high": 1 if r.bipolar else r.hi % (1 << bits),
            "group_bits": index_bits(self.groups),
            "group_low": self.levels + lane_bits,
            "group_width": (self.groups - 1).bit_length(),
            "lane_bits": lane_bits,
            "partial": self.steps + 1 < 1 << self.levels,
        }
        return RtlModule("runtime_thresholding.sv.j2", context, self._contents(), (PARAMETER_RAM,))

    def hls(self) -> HlsCall:
        raise not_in_cpp(self)

    def _contents(self) -> dict[str, str]:
        """Contents of every memory by suffix."""
        cuts = np.full((self.channels, (1 << self.levels) - 1), self.stored.hi, np.int64)  # never reached
        cuts[:, : self.steps] = self.thresholds - 1
        by_lane = interleave_channels(cuts, self.pe)  # (groups, pe, entries)
        texts = {}
        for m in (m for m in self._memories() if not m.direction):
            step = 1 << (self.levels - m.level) if self.style == "search" else cuts.shape[1]
            texts[m.name] = memory_text(by_lane[:, m.lane, m.first :: step].reshape(-1, 1), self.stored)
        falling = interleave_channels(self.falling, self.pe)
        return texts | {f"falling{p}": memory_text(falling[:, p : p + 1], IntRange(0, 1)) for p in range(self.pe)}


def _plain(values: IntRange) -> IntRange:
    """The same integers as numbers, also where they could be one bit."""
    return IntRange(values.lo, values.hi)


def runtime_thresholding(op: Activation, stream: StreamType) -> RuntimeThresholding:
    """*op* with thresholds that are written, in the form of :class:`RuntimeThresholding`."""
    channels, x, r = stream.shape[-1], stream.range, op.output
    unit = 2 if r.bipolar else 1
    steps = (r.hi - r.lo) // unit
    rows = np.broadcast_to(op.thresholds, (channels, op.thresholds.shape[1]))
    base, step = np.broadcast_to(op.base, channels), np.broadcast_to(op.step, channels)
    thresholds = np.full((channels, steps), x.hi + 1, np.int64)
    for c in range(channels):
        start = (base[c] - r.lo if step[c] > 0 else r.hi - base[c]) // unit
        reached = np.repeat(rows[c], abs(int(step[c])) // unit)[: steps - start]
        thresholds[c, :start] = x.lo
        thresholds[c, start : start + reached.size] = np.clip(reached, x.lo, x.hi + 1)
    return RuntimeThresholding(thresholds, (step < 0).astype(np.int64), stream, r)
