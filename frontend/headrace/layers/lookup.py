"""Lookup: any integer function of one value, per channel, as a table in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from headrace.ir import Array, IntRange
from headrace.ir.integer import Lookup as LookupOp
from headrace.ir.op import QUIET
from headrace.layers.base import Layer, Resources, RtlModule, StreamType, lowers
from headrace.layers.hls import HlsCall, HlsTable
from headrace.layers.memory import (
    Int,
    check_ram_style,
    index_bits,
    memory_resources,
    memory_text,
    ram_style,
    rom_attribute,
)
from headrace.layers.pointwise import Pointwise
from headrace.numerics import interleave_channels


@dataclass(frozen=True, eq=False)
class Lookup(Pointwise):
    """``y = table[c, x - stream.range.lo]`` for channel c, the position along the last axis.

    A memory for each PE is addressed by channel group and by the bits of x as they are, so that nothing is computed.

    Args:
        table: ``(C, stream.range.count)``, or one row for all channels.
    """

    kind: ClassVar[str] = "Lookup"

    table: Int
    stream: StreamType
    output: IntRange
    pe: int = 1
    ram_style: str = field(default="auto", metadata=QUIET)

    def __post_init__(self) -> None:
        check_ram_style(self.ram_style, "Lookup")
        channels = self.stream.shape[-1]
        if self.table.shape[0] not in (1, channels) or self.table.shape[1] != self.stream.range.count:
            raise ValueError(f"a table {self.table.shape} for {channels} channels of {self.stream.range}")
        self.check_pe()

    @property
    def shared(self) -> bool:
        """Whether all channels use one table."""
        return bool(self.table.shape[0] == 1)

    @property
    def groups(self) -> int:
        """Channel groups that take turns; 1 when all channels use one table."""
        return 1 if self.shared else self.stream.shape[-1] // self.pe

    @property
    def latency(self) -> int:
        return 1

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        op = LookupOp(self.table, self.stream.range.lo, self.output, len(self.stream.shape) - 1)
        return op.execute(*inputs)

    @property
    def depth(self) -> int:
        """Words of one memory."""
        return self.groups << self.stream.bits

    def resources(self) -> Resources:
        """An estimate: the memories with a register that a block RAM has inside, and the counter of channel groups.

        Up to 256 words, multiplexers that are no look-up tables choose among those of a bit.
        """
        memory = memory_resources(self.depth, self.output.bits, self.ram_style)
        chosen = 1.4 if self.depth > 256 else 1.0
        group = index_bits(self.groups) if self.groups > 1 else 0
        ff = 0.0 if memory.bram18 or memory.uram else float(self.outputs[0].word_bits)
        tables = replace(memory, lut=chosen * memory.lut).times(self.pe)
        return tables + Resources(lut=2.0 + group, ff=ff + group + 1)

    def rtl(self) -> RtlModule:
        lanes = 1 if self.shared else self.pe
        context = {
            "pe": self.pe,
            "lanes": lanes,
            "groups": self.groups,
            "cycles": self.cycles,
            "x_bits": self.stream.bits,
            "in_bits": self.inputs[0].word_bits,
            "y_bits": self.output.bits,
            "group_bits": index_bits(self.groups),
            "depth": self.depth,
            "rom_style": rom_attribute(self.depth, self.output.bits, self.ram_style),
        }
        return RtlModule("lookup.sv.j2", context, self._memories(lanes))

    def hls(self) -> HlsCall:
        lanes = 1 if self.shared else self.pe
        table = interleave_channels(self._by_code(), lanes)  # (groups, lanes, codes)
        storage = ram_style(self.depth, self.output.bits, self.ram_style)
        tables = {"table": HlsTable(table, self.output, apart=(2,), storage=storage, ports=self.pe // lanes)}
        parameters = (("words", self.cycles), ("groups", self.groups))
        return HlsCall("lookup.hpp", "lookup", parameters, self.cycles, tables)

    def _memories(self, lanes: int) -> dict[str, str]:
        """One memory a lane: entry ``group * 2**bits + code of x``."""
        per_lane = interleave_channels(self._by_code(), lanes).transpose(1, 0, 2).reshape(lanes, -1, 1)
        return {f"table{lane}": memory_text(per_lane[lane], self.output) for lane in range(lanes)}

    def _by_code(self) -> Int:
        """The table with a column for each code of x; codes that cannot occur hold the first result."""
        r = self.stream.range
        values = np.arange(r.lo, r.hi + 1)
        codes = (values > 0).astype(np.int64) if r.bipolar else values & ((1 << r.bits) - 1)
        by_code: Int = np.repeat(self.table[:, :1], 1 << r.bits, axis=1)
        keep = np.abs(values) == 1 if r.bipolar else np.ones(values.shape, np.bool_)
        by_code[:, codes[keep]] = self.table[:, keep]
        return by_code


@lowers(LookupOp)
def lower_lookup(op: LookupOp, stream: StreamType) -> Sequence[Layer]:
    """A table of the operator's range becomes one of the range that arrives."""
    values = np.clip(np.arange(stream.range.lo, stream.range.hi + 1) - op.lo, 0, op.table.shape[1] - 1)
    return (Lookup(np.ascontiguousarray(op.table[:, values]), stream, op.output),)
