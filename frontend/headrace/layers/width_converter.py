"""DWC: stream data width converter, between layers that carry different numbers of elements in a word."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, lcm
from typing import ClassVar

from headrace.ir import Array
from headrace.layers.base import Layer, Resources, RtlModule, StreamType
from headrace.layers.hls import HlsCall


@dataclass(frozen=True, eq=False)
class StreamingDataWidthConverter(Layer):
    """The same elements in words of ``out_elements`` instead of ``stream.elements``, at any ratio.

    Words are collected to blocks of the least common multiple of both, and blocks are cut into words again: while a
    block is cut, the next is collected, so the side with more words sets the pace. A block that is one word needs no
    second place: it leaves as the next begins.
    """

    kind: ClassVar[str] = "DWC"

    stream: StreamType
    out_elements: int

    def __post_init__(self) -> None:
        _ = self.outputs  # refuses an element count that does not divide

    @property
    def inputs(self) -> tuple[StreamType, ...]:
        return (self.stream,)

    @property
    def outputs(self) -> tuple[StreamType, ...]:
        return (replace(self.stream, elements=self.out_elements),)

    @property
    def block(self) -> int:
        """Elements of a block."""
        return lcm(self.stream.elements, self.out_elements)

    @property
    def collected(self) -> int:
        """Input words of a block."""
        return self.block // self.stream.elements

    @property
    def cut(self) -> int:
        """Output words of a block."""
        return self.block // self.out_elements

    @property
    def cycles(self) -> int:
        return max(self.inputs[0].words, self.outputs[0].words)

    @property
    def latency(self) -> int:
        return self.collected

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        return inputs

    def resources(self) -> Resources:
        """An estimate: registers and counters, and a multiplexer a bit where a block is shifted."""
        block, word = self.block * self.stream.bits, self.outputs[0].word_bits
        if self.cut == 1:
            return Resources(lut=4.0 + self.collected.bit_length(), ff=block + self.collected.bit_length())
        counters = self.cut.bit_length() + (self.collected - 1).bit_length()
        return Resources(lut=block - word + 14.0, ff=2.0 * block - self.inputs[0].word_bits + counters)

    def rtl(self) -> RtlModule:
        context = {
            "cycles": self.cycles,
            "latency": self.latency,
            "in_elements": self.stream.elements,
            "out_elements": self.out_elements,
            "in_bits": self.inputs[0].word_bits,
            "out_bits": self.outputs[0].word_bits,
            "block_bits": self.block * self.stream.bits,
            "collected": self.collected,
            "cut": self.cut,
            "count_bits": max((self.collected - 1).bit_length(), 1),
            "left_bits": self.cut.bit_length(),
            "filled_bits": self.collected.bit_length(),
        }
        return RtlModule("width_converter.sv.j2", context)

    def hls(self) -> HlsCall:
        parameters = (("cycles", self.cycles), ("chunk", gcd(self.stream.elements, self.out_elements)))
        return HlsCall("width_converter.hpp", "width_converter", parameters, self.cycles)
