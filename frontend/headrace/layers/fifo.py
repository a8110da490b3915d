"""FIFO: keeps words between two layers that produce and consume them in different rhythms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.errors import FoldingError
from headrace.ir import Array
from headrace.layers.base import Layer, Resources, RtlModule, StreamType
from headrace.layers.hls import HlsStream
from headrace.layers.memory import index_bits, ram_resources, ram_style


@dataclass(frozen=True, eq=False)
class FIFO(Layer):
    """Holds at most ``depth`` words of ``stream``, first word falling through.

    Depth 0 is a wire, 1 a register that passes ready through, 2 a register slice with registered ready, more a
    memory with a registered output. A memory FIFO has registered ready and valid: it cuts every path.
    """

    kind: ClassVar[str] = "FIFO"

    stream: StreamType
    depth: int = 2

    def __post_init__(self) -> None:
        if self.depth < 0:
            raise FoldingError(f"FIFO: depth={self.depth} is negative; 0 (a wire) or more words are accepted")

    @property
    def inputs(self) -> tuple[StreamType, ...]:
        return (self.stream,)

    @property
    def outputs(self) -> tuple[StreamType, ...]:
        return (self.stream,)

    @property
    def cycles(self) -> int:
        return self.stream.words

    @property
    def latency(self) -> int:
        return min(self.depth, 1) if self.depth <= 2 else 2

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        return inputs

    def resources(self) -> Resources:
        """An estimate: the register of each variant, and the memory with its two counters."""
        bits = self.stream.word_bits
        if self.depth <= 2:
            return Resources(lut=self.depth * 2.0 + (bits if self.depth == 2 else 0), ff=self.depth * (bits + 1.0))
        words = self.depth - 1
        index = index_bits(words)
        control = (3.0 if words & (words - 1) == 0 else 4.5) * index + 3.0
        total = ram_resources(words, bits) + Resources(lut=control, ff=2.0 * index + words.bit_length() + 1.0)
        return total if ram_style(words, bits) == "block" else total + Resources(ff=bits)

    def rtl(self) -> RtlModule:
        words = self.depth - 1  # in the memory; the output register holds one more
        context = {
            "depth": self.depth,
            "bits_in_word": self.stream.word_bits,
            "words": words,
            "index_bits": index_bits(words),
            "count_bits": words.bit_length(),
            "ram_style": ram_style(words, self.stream.word_bits),
        }
        return RtlModule("fifo.sv.j2", context)

    def hls(self) -> HlsStream:
        return HlsStream(self.depth)
