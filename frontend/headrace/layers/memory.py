"""Constants of layers as the words of memories and as literals: everything goes through :mod:`headrace.numerics`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from weakref import ReferenceType, ref

import numpy as np
from numpy.typing import NDArray

from headrace.errors import FoldingError, did_you_mean
from headrace.ir import IntRange
from headrace.layers.base import Resources
from headrace.numerics import DataType, datatype, pack_bytes, to_hex_text, words_to_ints

Int = NDArray[np.int64]


def element_type(values: IntRange) -> DataType:
    """The data type whose bit pattern is the hardware encoding of *values*."""
    if values.bipolar:
        return datatype("BIPOLAR")
    return datatype(f"{'INT' if values.signed else 'UINT'}{values.bits}")


def constants_range(values: Int) -> IntRange:
    """The range of constants as numbers; never bipolar, even where only -1 and +1 occur."""
    return IntRange(int(values.min()), int(values.max()))


def memory_text(words: Int, values: IntRange) -> str:
    """``$readmemh`` text of *words* ``(depth, elements)``, element 0 in the least significant bits."""
    return to_hex_text(pack_bytes(words, element_type(values)), words.shape[1] * values.bits)


def packed_words(words: Int, values: IntRange) -> list[int]:
    """The same words as integers, for constants in the text of a module."""
    return words_to_ints(pack_bytes(words, element_type(values)))


_ranges: dict[int, tuple[ReferenceType[Int], IntRange]] = {}


def value_range(values: Int) -> IntRange:
    """The range of constants, bipolar when only -1 and +1 occur.

    Kept for each array: the many foldings of a layer that are weighed share their weights, which nobody changes.
    """
    key = id(values)
    if key not in _ranges:
        _ranges[key] = ref(values, lambda _: _ranges.pop(key, None)), _value_range(values)
    return _ranges[key][1]


def _value_range(values: Int) -> IntRange:
    if values.size and bool(np.all(np.abs(values) == 1)):
        return IntRange(-1, 1, bipolar=True)
    return IntRange(int(values.min(initial=0)), int(values.max(initial=0)))


def partial_sums(weights: Int, x: IntRange) -> IntRange:
    """What the running sums of ``x @ weights`` can be in any order, from 0 to the last, as a signed range.

    Args:
        weights: ``(terms, results)``.
        x: range of the inputs.
    """
    ends = np.sort(np.stack([weights * x.lo, weights * x.hi]), axis=0)
    low = np.minimum(ends[0], 0).sum(axis=0).min(initial=-1)
    high = np.maximum(ends[1], 0).sum(axis=0).max(initial=0)
    return IntRange(int(low), int(high))


def index_bits(count: int) -> int:
    """Width of an index into *count* things, at least 1."""
    return max((count - 1).bit_length(), 1)


RAM_STYLES = ("auto", "distributed", "block", "ultra")
"""What a layer can ask for as the place of its memory, as FINN's ``ram_style``."""


def ram_style(depth: int, width: int, asked: str = "auto") -> str:
    """The style *asked* for, or by ``auto``: ``"block"`` for memories that fill a good part of an 18 kbit block RAM,
    else ``"distributed"``."""
    if asked != "auto":
        return asked
    return "block" if depth > 128 and depth * width > 4096 else "distributed"


def check_ram_style(asked: str, kind: str, styles: Sequence[str] = RAM_STYLES) -> None:
    """Refuse a ``ram_style`` that there is not.

    Raises:
        FoldingError: names the *kind* of layer and the *styles*.
    """
    if asked not in styles:
        near = did_you_mean(asked, styles)
        raise FoldingError(f"{kind}: ram_style={asked!r} is not one of {', '.join(styles)}{near}")


BLOCKS = {
    1: ((512, 36), (1024, 18), (2048, 9), (4096, 4), (8192, 2), (16384, 1)),
    2: ((512, 72), (1024, 36), (2048, 18), (4096, 9), (8192, 4), (16384, 2), (32768, 1)),
}
"""Words and widths that one block RAM can have: of 18 kbit, and of two together."""
ULTRA_WORDS, ULTRA_BITS = 4096, 72
"""Words and width of an UltraRAM."""


def block_rams(depth: int, width: int) -> int:
    """Block RAMs of 18 kbit for *depth* words of *width* bits, the fewest of all shapes."""
    shapes = [(blocks, words, bits) for blocks, listed in BLOCKS.items() for words, bits in listed]
    deepest = BLOCKS[2][-1][0]
    return min(b * ceil(width / bits) * ceil(depth / n) for b, n, bits in shapes if n >= min(depth, deepest))


def rom_attribute(depth: int, width: int, asked: str = "auto") -> str:
    """What the RTL of a memory of constants says of its place; empty where synthesis chooses as it would anyway."""
    style = ram_style(depth, width, asked)
    return "" if (asked, style) == ("auto", "distributed") else style


def memory_resources(depth: int, width: int, asked: str = "auto") -> Resources:
    """Estimate of a memory: 64 bits a LUT, or blocks."""
    style = ram_style(depth, width, asked)
    if style == "ultra":
        return Resources(uram=ceil(width / ULTRA_BITS) * ceil(depth / ULTRA_WORDS))
    if style == "block":
        return Resources(bram18=block_rams(depth, width))
    return Resources(lut=ceil(depth / 64) * width)


def ram_resources(depth: int, width: int, asked: str = "auto") -> Resources:
    """Estimate of a memory with a writing and a reading port: in look-up tables, four hold up to 32 words of six bits,
    and 64 words of three (three and a half in later devices); what chooses among several takes some more."""
    if ram_style(depth, width, asked) != "distributed":
        return memory_resources(depth, width, asked)
    if depth <= 32:
        return Resources(lut=4.0 * ceil(width / 6))
    parts = ceil(depth / 64)
    chosen = width * max(1.0, 0.4 * parts) if parts > 1 else 0.0
    return Resources(lut=4.0 * ceil(width / 3.25) * parts + chosen)


def rom_bits(depth: int, width: int) -> int:
    """Bits of a word of constants that differ: a short memory has few columns that are not equal to another."""
    if depth >= 16:
        return width
    columns = 1 << depth
    return ceil(columns * (1 - (1 - 1 / columns) ** width))


def rom_resources(depth: int, width: int, asked: str = "auto") -> Resources:
    """Estimate of a memory of constants with a register behind it, which a block RAM has inside."""
    if ram_style(depth, width, asked) != "distributed":
        return memory_resources(depth, width, asked)
    different = rom_bits(depth, width)
    return memory_resources(depth, different, "distributed") + Resources(ff=different)


@dataclass(frozen=True, eq=False)
class Table:
    """Constants that a module reads: one word becomes a literal, more become a memory.

    Args:
        words: ``(depth, elements)``.
        range: of the elements.
        asked: ``ram_style`` of the layer.
    """

    words: Int
    range: IntRange
    asked: str = "auto"

    @property
    def depth(self) -> int:
        """Number of words."""
        return int(self.words.shape[0])

    @property
    def width(self) -> int:
        """Bits of a word."""
        return int(self.words.shape[1]) * self.range.bits

    @property
    def literal(self) -> int | None:
        """The only word, or None when a memory is needed."""
        return packed_words(self.words, self.range)[0] if self.depth == 1 else None

    @property
    def text(self) -> str:
        """``$readmemh`` text."""
        return memory_text(self.words, self.range)

    @property
    def style(self) -> str:
        """Kind of memory to ask the synthesis tool for; empty where it may choose."""
        return rom_attribute(self.depth, self.width, self.asked)
