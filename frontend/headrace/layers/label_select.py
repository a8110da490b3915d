"""LabelSelect: the indices of the k largest or smallest values of a vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from headrace.errors import FoldingError
from headrace.ir import Array, IntRange
from headrace.ir.integer import IntTopK
from headrace.layers.base import Layer, Resources, RtlModule, StreamType, divisors, lowers
from headrace.layers.hls import HlsCall
from headrace.layers.memory import index_bits


@dataclass(frozen=True, eq=False)
class LabelSelect(Layer):
    """Indices along the last axis of its ``k`` best values, best first, the lower index first among equals.

    Each of PE lanes keeps its own k best in order while the vector arrives. Then the best of the lanes' heads leaves,
    k times, while the next vector arrives.
    """

    kind: ClassVar[str] = "LabelSelect"

    stream: StreamType
    k: int = 1
    largest: bool = True
    pe: int = 1

    def __post_init__(self) -> None:
        channels = self.stream.shape[-1]
        if not 1 <= self.k <= channels:
            raise ValueError(f"top {self.k} of {channels}")
        if self.pe < 1 or channels % self.pe:
            valid = ", ".join(map(str, divisors(channels)))
            raise FoldingError(f"LabelSelect: PE={self.pe} does not divide {channels}; valid: {valid}")

    @property
    def vectors(self) -> int:
        """Vectors in a frame."""
        return prod(self.stream.shape[:-1])

    @property
    def words(self) -> int:
        """Input words of a vector."""
        return self.stream.shape[-1] // self.pe

    @property
    def slots(self) -> int:
        """Values that a lane keeps."""
        return min(self.k, self.words)

    @property
    def inputs(self) -> tuple[StreamType, ...]:
        return (replace(self.stream, elements=self.pe),)

    @property
    def outputs(self) -> tuple[StreamType, ...]:
        return (StreamType((*self.stream.shape[:-1], self.k), IntRange(0, self.stream.shape[-1] - 1)),)

    @property
    def cycles(self) -> int:
        return self.vectors * max(self.words, self.k)

    @property
    def latency(self) -> int:
        return self.words + 1

    @property
    def folding(self) -> dict[str, int]:
        return {"PE": self.pe}

    @property
    def folding_choices(self) -> dict[str, tuple[int, ...]]:
        return {"PE": divisors(self.stream.shape[-1])}

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        return IntTopK(self.k, self.largest).execute(*inputs)

    def resources(self) -> Resources:
        """An estimate: per slot a comparator, a multiplexer and two registers; per lane a comparator at the output."""
        key, index = self.stream.bits, index_bits(self.stream.shape[-1])
        slots = self.pe * self.slots
        merged = (self.pe - 1) * (key + index)
        lut = slots * (key / 2 + 1.9 * (key + index)) + 1.5 * merged
        return Resources(lut=lut + 12, ff=slots * (key + 2.0 * index + 2) + merged + 3 * index + 3)

    def rtl(self) -> RtlModule:
        channels = self.stream.shape[-1]
        key_bits = self.stream.bits
        flips = (1 << (key_bits - 1)) if self.stream.range.signed else 0  # to offset binary: order as unsigned
        if not self.largest:
            flips ^= (1 << key_bits) - 1
        context = {
            "channels": channels,
            "k": self.k,
            "largest": self.largest,
            "pe": self.pe,
            "words": self.words,
            "slots": self.slots,
            "cycles": self.cycles,
            "latency": self.latency,
            "key_bits": key_bits,
            "flips": flips,
            "index_bits": index_bits(channels),
            "word_bits": index_bits(self.words),
            "left_bits": self.k.bit_length(),
        }
        return RtlModule("label_select.sv.j2", context, library=("headrace_top_lane.sv.j2",))

    def hls(self) -> HlsCall:
        parameters = (
            ("vectors", self.vectors),
            ("words", self.words),
            ("k", self.k),
            ("slots", self.slots),
            ("largest", int(self.largest)),
        )
        cycles = self.vectors * (self.words + self.k)  # labels leave before the next vector is read
        return HlsCall("label_select.hpp", "label_select", parameters, cycles)


@lowers(IntTopK)
def lower_top_k(op: IntTopK, stream: StreamType) -> Sequence[Layer]:
    """Top-k of the last axis is one LabelSelect."""
    return (LabelSelect(stream, op.k, op.largest),)
