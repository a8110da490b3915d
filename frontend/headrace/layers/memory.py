"""Constants of layers as the words of memories and as literals: everything goes through :mod:`headrace.numerics`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.ir import IntRange
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


def value_range(values: Int) -> IntRange:
    """The range of constants, bipolar when only -1 and +1 occur."""
    if values.size and bool(np.all(np.abs(values) == 1)):
        return IntRange(-1, 1, bipolar=True)
    return IntRange(int(values.min(initial=0)), int(values.max(initial=0)))


def index_bits(count: int) -> int:
    """Width of an index into *count* things, at least 1."""
    return max((count - 1).bit_length(), 1)
