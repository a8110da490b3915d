"""Arrays of integers to stream words and back, vectorised over every word of a stream."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace_sim.errors import ArrayError
from headrace_sim.manifest import WordFormat

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


def value_range(fmt: WordFormat) -> tuple[int, int]:
    """Least and greatest value that an element of `fmt` can hold."""
    if fmt.encoding == "bipolar":
        return -1, 1
    if fmt.encoding == "unsigned":
        return 0, (1 << fmt.bits) - 1
    return -(1 << (fmt.bits - 1)), (1 << (fmt.bits - 1)) - 1


def check_values(array: NDArray[np.integer], fmt: WordFormat, name: str) -> None:
    """Raise ArrayError if an element of `array` cannot be represented in `fmt`."""
    low, high = value_range(fmt)
    bad = (array < low) | (array > high)
    if fmt.encoding == "bipolar":
        bad |= array == 0
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        accepted = "-1 or +1" if fmt.encoding == "bipolar" else f"{low}..{high} ({fmt.encoding} {fmt.bits} bits)"
        raise ArrayError(f"array {name!r}: value {int(array[place])} at index {place} is not {accepted}")


def pack(array: Ints, fmt: WordFormat) -> Bytes:
    """Pack `array` (frames, frame_elements) into words (frames * words_per_frame, word_bytes), little endian."""
    codes = (array > 0).astype(np.int64) if fmt.encoding == "bipolar" else array.astype(np.int64, copy=False)
    words = codes.reshape(-1, fmt.elements_per_word)
    if fmt.bits in (8, 16, 32):
        body = np.ascontiguousarray(words.astype(f"<i{fmt.bits // 8}")).view(np.uint8)
    else:
        bits = np.empty((*words.shape, fmt.bits), dtype=np.uint8)
        for bit in range(fmt.bits):
            bits[:, :, bit] = (words >> bit) & 1
        body = np.packbits(bits.reshape(len(words), -1), axis=1, bitorder="little")
    out = np.zeros((len(words), fmt.word_bytes), dtype=np.uint8)
    out[:, : body.shape[1]] = body
    return out


def unpack(words: Bytes, fmt: WordFormat) -> Ints:
    """Inverse of `pack` for whole frames; bits past the elements are ignored."""
    count = fmt.elements_per_word
    if fmt.bits in (8, 16, 32):
        kind = "u" if fmt.encoding == "unsigned" else "i"
        body = np.ascontiguousarray(words[:, : fmt.word_bits // 8])
        values = body.view(f"<{kind}{fmt.bits // 8}").astype(np.int64)
    else:
        bits = np.unpackbits(words, axis=1, count=fmt.word_bits, bitorder="little")
        bits = bits.reshape(len(words), count, fmt.bits)
        values = np.zeros((len(words), count), dtype=np.int64)
        for bit in range(fmt.bits):
            values |= bits[:, :, bit].astype(np.int64) << bit
        if fmt.encoding == "signed":
            values -= bits[:, :, -1].astype(np.int64) << fmt.bits
        elif fmt.encoding == "bipolar":
            values = 2 * values - 1
    return values.reshape(-1, fmt.frame_elements)


def padding_is_zero(words: Bytes, fmt: WordFormat) -> NDArray[np.bool_]:
    """For each word, whether the bits above its elements are all zero."""
    first, rest = divmod(fmt.word_bits, 8)
    used = first
    clean = np.ones(len(words), dtype=np.bool_)
    if rest:
        clean &= (words[:, first] >> rest) == 0
        used += 1
    return clean & ~words[:, used:].any(axis=1)
