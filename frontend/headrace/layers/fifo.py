"""FIFO: keeps words between two layers that produce and consume them in different rhythms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil
from typing import ClassVar

from headrace.errors import FoldingError
from headrace.ir import Array
from headrace.layers.base import Layer, Resources, RtlModule, StreamType
from headrace.layers.hls import HlsStream
from headrace.layers.memory import check_ram_style, index_bits, memory_resources, ram_resources, ram_style

STYLES = ("auto", "registers", "srl", "distributed", "block", "ultra")
"""Where the words of a FIFO of more than two can be; the names are those of FINN and of synthesis attributes."""

HLS_STORAGE = {"srl": "srl", "distributed": "lutram", "block": "bram", "ultra": "uram"}
"""What Vitis HLS calls the same; it has no FIFO of flip-flops."""

SRL_WORDS = 128
"""Most words for which shift registers are considered: past that a look-up table more is in the way of every bit."""


@dataclass(frozen=True)
class Variant:
    """A module that a FIFO can be, or the error that there is in its place.

    Attributes:
        module: of the library.
        words: that it holds, in a block memory without the one at the output.
        places: words of the memory; 0 for shift registers.
        style: what the memory is asked to be.
        without: the macro whose definition selects this variant; empty for the one that is taken otherwise.
        error: why there is none.
    """

    module: str = ""
    words: int = 0
    places: int = 0
    style: str = ""
    without: str = ""
    error: str = ""

    @property
    def index_bits(self) -> int:
        """Width of a number of one of the words."""
        return index_bits(self.words)


@dataclass(frozen=True, eq=False)
class FIFO(Layer):
    """Holds at most ``depth`` words of ``stream``, first word falling through.

    Depth 0 is a wire, 1 a spare register for the word that its reader does not take (ready is registered, words pass
    at once), 2 a register slice. A deeper one is made in one of these ways (``ram_style``), all of which have
    registered ready and valid, so that every path is cut:

    * ``srl``: shift registers in look-up tables, of which the oldest word is read;
    * ``distributed``: a memory in look-up tables; ``registers``: the same, of flip-flops;
    * ``block`` and ``ultra``: a block memory, whose register of the word that was read makes it a cycle slower.

    ``auto`` takes a block memory for many bits and otherwise what takes the fewest look-up tables and flip-flops. The
    RTL then has other ways for families of devices that lack one: see :attr:`variants`.

    Raises:
        FoldingError: for a negative depth, or a ``ram_style`` that is none.
    """

    kind: ClassVar[str] = "FIFO"

    stream: StreamType
    depth: int = 2
    ram_style: str = "auto"

    def __post_init__(self) -> None:
        if self.depth < 0:
            raise FoldingError(f"FIFO: depth={self.depth} is negative; 0 (a wire) or more words are accepted")
        check_ram_style(self.ram_style, "FIFO", STYLES)

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
        if self.depth <= 2:
            return max(self.depth - 1, 0)
        return 2 if self.style in ("block", "ultra") else 1

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        return inputs

    @cached_property
    def style(self) -> str:
        """The way that is taken."""
        if self.depth <= 2:
            return "registers"
        if self.ram_style != "auto":
            return self.ram_style
        if ram_style(self.depth - 1, self.stream.word_bits) == "block":
            return "block"
        in_tables = ("srl", "distributed") if self.depth <= SRL_WORDS else ("distributed",)
        return min(in_tables, key=lambda style: _size(_RESOURCES[style](self.depth, self.stream.word_bits)))

    @property
    def style_in_use(self) -> str:
        return self.style

    def resources(self) -> Resources:
        """An estimate: the registers of a slice, or the storage and its counters."""
        bits = self.stream.word_bits
        if self.depth <= 2:
            return Resources(lut=self.depth * 2.0 + (bits if self.depth else 0), ff=self.depth * (bits + 1.0))
        return _RESOURCES[self.style](self.depth, bits)

    @property
    def variants(self) -> tuple[Variant, ...]:
        """What the RTL of a FIFO of more than two words is; with ``auto`` it depends on macros that synthesis defines
        for families without memories (``HEADRACE_NO_LUTRAM``) or shift registers (``HEADRACE_NO_SRL``) in look-up
        tables. What is asked for by name is an error there."""
        lacking = {"srl": "HEADRACE_NO_SRL", "distributed": "HEADRACE_NO_LUTRAM"}.get(self.style)
        own = self._variant(self.style)
        if lacking is None:
            return (own,)
        if self.ram_style != "auto":
            text = f"this device family lacks what ram_style {self.style} of a FIFO asks for: choose another, or auto"
            return (Variant(without=lacking, error=text), own)
        block = self._variant("auto", without="HEADRACE_NO_LUTRAM")
        if self.style == "distributed":
            return (block, own)
        return (block, self._variant("distributed", without=lacking), own)

    def _variant(self, style: str, without: str = "") -> Variant:
        bits = self.stream.word_bits
        if style == "srl":
            return Variant("headrace_fifo_srl", self.depth, without=without)
        if style in ("distributed", "registers"):
            return Variant("headrace_fifo_ram", self.depth, _places(self.depth, bits, style), style, without)
        places = _places(self.depth - 1, bits, "block" if style == "auto" else style)
        return Variant("headrace_fifo_block", self.depth - 1, places, style, without)

    def rtl(self) -> RtlModule:
        variants = () if self.depth <= 2 else self.variants
        modules = {variant.module for variant in variants if variant.module}
        library = tuple(f"{module}.sv.j2" for module in sorted({*modules, "headrace_fifo_level"} if modules else ()))
        context = {"depth": self.depth, "bits_in_word": self.stream.word_bits, "variants": variants}
        return RtlModule("fifo.sv.j2", context, library=library)

    def hls(self) -> HlsStream:
        asked = self.ram_style if self.depth > 2 else ""
        return HlsStream(self.depth, HLS_STORAGE.get(asked, ""))


def _places(words: int, bits: int, style: str) -> int:
    """Words of a memory for *words*: a power of two, whose counters wrap by themselves, where that takes no more."""
    whole = 1 << index_bits(words)
    if style == "registers" or ram_resources(whole, bits, style) != ram_resources(words, bits, style):
        return words
    return whole


def _size(resources: Resources) -> float:
    return resources.lut + resources.ff


def _srl(words: int, bits: int) -> Resources:
    index = index_bits(words)
    return Resources(lut=max(2.0 * index + 2.0, index + 6.0) + ceil(words / 32) * bits, ff=index + 1.0)


def _pointers(words: int, bits: int, style: str) -> Resources:
    """Estimate of the count of the words and of the two places of the memory."""
    index = index_bits(words)
    wraps = 0.0 if _places(words, bits, style) == 1 << index else index
    return Resources(lut=max(3.0 * index, 13.0) + wraps, ff=3.0 * index + 1.0)


def _distributed(words: int, bits: int) -> Resources:
    return _pointers(words, bits, "distributed") + ram_resources(words, bits, "distributed")


def _registers(words: int, bits: int) -> Resources:
    places = Resources(lut=words + bits * ceil((words - 1) / 3.0), ff=float(words * bits))
    return _pointers(words, bits, "registers") + places


def _block(words: int, bits: int, style: str) -> Resources:
    index = index_bits(words - 1)
    return Resources(lut=index + 14.0, ff=3.0 * index + 2.0) + memory_resources(words - 1, bits, style)


_RESOURCES: Mapping[str, Callable[[int, int], Resources]] = {
    "registers": _registers,
    "srl": _srl,
    "distributed": _distributed,
    "block": partial(_block, style="block"),
    "ultra": partial(_block, style="ultra"),
}
"""Estimate of a FIFO of more than two words, by its words and their bits."""
