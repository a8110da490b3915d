"""DuplicateStreams: one stream for several readers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.ir import Array
from headrace.layers.base import Resources, RtlModule, StreamType
from headrace.layers.hls import HlsCall
from headrace.layers.pointwise import Pointwise


@dataclass(frozen=True, eq=False)
class DuplicateStreams(Pointwise):
    """Every word to each of ``copies`` outputs, which may take it at different times.

    ``pe`` elements travel in a word; the ``elements`` of ``stream`` are replaced by it.
    """

    kind: ClassVar[str] = "DuplicateStreams"

    stream: StreamType
    copies: int = 2
    pe: int = 1

    @property
    def outputs(self) -> tuple[StreamType, ...]:
        return self.inputs * self.copies

    @property
    def latency(self) -> int:
        return 1

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        return inputs * self.copies

    def resources(self) -> Resources:
        """An estimate: one register for the word, one flag an output and three LUTs for each but the first."""
        return Resources(lut=max(3.0 * (self.copies - 1), 1.0), ff=self.inputs[0].word_bits + self.copies)

    def rtl(self) -> RtlModule:
        context = {"copies": self.copies, "word": self.inputs[0].word_bits, "cycles": self.cycles}
        return RtlModule("duplicate_streams.sv.j2", context)

    def hls(self) -> HlsCall:
        return HlsCall("duplicate_streams.hpp", "duplicate_streams", (("words", self.cycles),), self.cycles)
