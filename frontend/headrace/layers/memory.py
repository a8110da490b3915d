"""Constants of layers as the words of memories and as literals: everything goes through :mod:`headrace.numerics`."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from weakref import ReferenceType, ref

import numpy as np
from numpy.typing import NDArray

from headrace.ir import IntRange
from headrace.layers.base import Resources
from headrace.numerics import DataType, datatype, pack_bytes, to_hex_text, words_to_ints

Int = NDArray[np.int64]


def element_type(values: IntRange) -> DataType:
    """The data type whose bit pattern is the hardware encoding of *values*."""
    if values.bipolar:
        return datatype("BIPOLAR")
    return datatype(f"{'INT' if values.signed else 'UINT'}{values.bits}")


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


def ram_style(depth: int, width: int) -> str:
    """``"block"`` for memories that fill a good part of an 18 kbit block RAM, else ``"distributed"``."""
    return "block" if depth > 128 and depth * width > 4096 else "distributed"


def memory_resources(depth: int, width: int) -> Resources:
    """Estimate of a memory: 64 bits a LUT, or block RAMs of 18 kbit of at most 36 bits by 512 words."""
    if ram_style(depth, width) == "distributed":
        return Resources(lut=ceil(depth / 64) * width)
    words = next((w for w, d in ((36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192)) if depth <= d), 1)
    return Resources(bram18=ceil(width / words) * ceil(depth / (16384 if words == 1 else depth)))


def ram_resources(depth: int, width: int) -> Resources:
    """Estimate of a memory with a writing and a reading port: six bits in four LUTs up to 32 words, three up to 64."""
    if ram_style(depth, width) == "block":
        return memory_resources(depth, width)
    if depth <= 32:
        return Resources(lut=4.0 * ceil(width / 6))
    return Resources(lut=4.0 * ceil(width / 3) if depth <= 64 else 2.0 * ceil(depth / 64) * width)


def rom_bits(depth: int, width: int) -> int:
    """Bits of a word of constants that differ: a short memory has few columns that are not equal to another."""
    if depth >= 16:
        return width
    columns = 1 << depth
    return ceil(columns * (1 - (1 - 1 / columns) ** width))


def rom_resources(depth: int, width: int) -> Resources:
    """Estimate of a memory of constants with a register behind it, which a block RAM has inside."""
    if ram_style(depth, width) == "block":
        return memory_resources(depth, width)
    different = rom_bits(depth, width)
    return memory_resources(depth, different) + Resources(ff=different)


@dataclass(frozen=True, eq=False)
class Table:
    """Constants that a module reads: one word becomes a literal, more become a memory.

    Args:
        words: ``(depth, elements)``.
        range: of the elements.
    """

    words: Int
    range: IntRange

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
        """Kind of memory to ask the synthesis tool for."""
        return ram_style(self.depth, self.width)
