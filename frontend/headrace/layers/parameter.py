"""Constants that software replaces at run time: where each of them is in the address space of its layer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod

import numpy as np

from headrace.ir import IntRange
from headrace.layers.memory import Int, element_type
from headrace.numerics import pack_bytes, to_hex_text

WORD = 32
"""Bits of a word of the control interface; a wider memory word is several, the lowest first."""


@dataclass(frozen=True, eq=False)
class Parameter:
    """An array of integers in the memories of a layer.

    The array is reshaped to *split* and its axes put into the order *axes*. The first of these axes say which memory
    word, as many as there are *strides*; the elements along the others are packed into that word, the first lowest.

    Attributes:
        name: ``weights``, ``thresholds`` ...
        values: what is in the memories when the hardware is configured.
        range: of what is stored.
        split, axes: see above.
        strides: of each axis that counts words, in words of the control interface.
        offset: address of the first of them in the layer.
        stored_less: what is stored is smaller than the value by so much.
    """

    name: str
    values: Int
    range: IntRange
    split: tuple[int, ...]
    axes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    stored_less: int = 0

    @property
    def grid(self) -> tuple[int, ...]:
        """Memory words along each axis that counts them."""
        return tuple(self.split[a] for a in self.axes[: len(self.strides)])

    @property
    def elements(self) -> int:
        """Elements of a memory word."""
        return prod(self.split) // prod(self.grid)

    @property
    def width(self) -> int:
        """Bits of a memory word."""
        return self.elements * self.range.bits

    @property
    def columns(self) -> int:
        """Words of the control interface that a memory word takes."""
        return ceil(self.width / WORD)

    @property
    def column_widths(self) -> list[int]:
        """Bits that each of them holds."""
        return [min(WORD, self.width - low) for low in range(0, self.width, WORD)]

    @property
    def end(self) -> int:
        """The first address after it."""
        last = sum((n - 1) * stride for n, stride in zip(self.grid, self.strides, strict=True))
        return self.offset + last + self.columns

    @cached_property
    def words(self) -> Int:
        """The memory words as they are stored, ``(words, elements)``."""
        ordered = self.values.reshape(self.split).transpose(self.axes)
        return np.ascontiguousarray(ordered.reshape(-1, self.elements)) - self.stored_less

    @property
    def addresses(self) -> Int:
        """Address in the layer of every memory word."""
        steps = np.indices(self.grid).reshape(len(self.grid), -1)
        found: Int = self.offset + (np.array(self.strides)[:, None] * steps).sum(axis=0)
        return found

    @property
    def control_words(self) -> Int:
        """The words of the control interface ``(words, columns)``, unsigned."""
        packed = pack_bytes(self.words, element_type(self.range))
        padded = np.zeros((len(packed), self.columns * WORD // 8), np.uint8)
        padded[:, : packed.shape[1]] = packed
        return padded.view("<u4").astype(np.int64)

    def column_texts(self) -> list[tuple[int, str]]:
        """Width, and ``$readmemh`` text, of the memory of each column of the words."""
        packed, step = pack_bytes(self.words, element_type(self.range)), WORD // 8
        return [
            (width, to_hex_text(np.ascontiguousarray(packed[:, k * step : (k + 1) * step]), width))
            for k, width in enumerate(self.column_widths)
        ]


def slots(count: int) -> int:
    """Addresses kept for *count* things, so that some bits of the address are their number: a power of two."""
    return 1 << (count - 1).bit_length()


def address_bits(parameters: tuple[Parameter, ...]) -> int:
    """Width of an address in a layer with these *parameters*."""
    return max((max(p.end for p in parameters) - 1).bit_length(), 1)
