"""Arrays of elements to the words of streams and memories, and back.

Element 0 is in the least significant bits of a word, elements lie side by side with nothing between them, and spare
bits at the top of a word are 0. In memory a word is a row of bytes, least significant first: an array of words is
uint8 ``[..., words, ceil(bits / 8)]``, so words of any width stay one numpy array. From there it becomes Python
integers (:func:`words_to_ints`), text for ``$readmemh`` (:func:`to_hex`) or raw bytes (``words.tobytes()``).

finn-base packs the innermost dimension with element 0 in the *most* significant bits unless told ``reverse_inner``,
and gives the most significant byte first unless told ``reverse_endian``; :func:`pack_bytes` equals it with both set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.errors import InputError
from headrace.numerics.bit_packing import Bytes, bytes_for, pack_codes, unpack_codes
from headrace.numerics.datatypes import DataType
from headrace.numerics.hex_text import digits_for, hex_digits, parse_equal_strings, parse_hex
from headrace.numerics.integers import RealArray, real_array, require_divides


def word_bits(dtype: DataType, elements: int, pad_to_bits: int | None = None) -> int:
    """Width of a word of *elements* elements, *pad_to_bits* if given.

    Raises:
        InputError: when the elements do not fit into *pad_to_bits*, or there are none.
    """
    if elements < 1:
        raise InputError(f"a word of {elements} elements was asked for; it must hold at least 1")
    used = dtype.bits * elements
    if pad_to_bits is None:
        return used
    if pad_to_bits < used:
        raise InputError(
            f"pad_to_bits={pad_to_bits} is too narrow for {elements} x {dtype.name}, which take {used} bits"
        )
    return pad_to_bits


def pack_bytes(values: ArrayLike, dtype: DataType, pad_to_bits: int | None = None) -> Bytes:
    """Pack the last axis of *values* into one word.

    Args:
        values: [..., elements], each exactly a value of *dtype*.
        pad_to_bits: word width; by default as many bits as the elements take.

    Returns:
        uint8 [..., ceil(word width / 8)], least significant byte first.

    Raises:
        DataTypeError: for a value that *dtype* does not have.
        InputError: when the elements do not fit into *pad_to_bits*, or *values* is a scalar.
    """
    array = real_array(values)
    if array.ndim == 0:
        raise InputError("a scalar cannot be packed; an array whose last axis is the word is accepted")
    elements = array.shape[-1]
    size = bytes_for(word_bits(dtype, elements, pad_to_bits))
    lead = array.shape[:-1]
    packed = pack_codes(dtype.encode(array).reshape(prod(lead), elements), dtype.bits)
    if packed.shape[1] < size:
        packed = np.pad(packed, ((0, 0), (0, size - packed.shape[1])))
    return packed.reshape(*lead, size)


def unpack_bytes(words: ArrayLike, dtype: DataType, elements: int) -> RealArray:
    """Inverse of :func:`pack_bytes`.

    Args:
        words: uint8 [..., bytes]; bits above the last element are ignored.
        elements: how many elements a word holds.

    Returns:
        [..., elements]: int64 for integer types, float otherwise (see :func:`from_codes`).

    Raises:
        InputError: when the words are not uint8 or have fewer bits than the elements take.
    """
    array = _word_array(words)
    used = word_bits(dtype, elements)
    if array.shape[-1] < bytes_for(used):
        raise InputError(
            f"words of {array.shape[-1]} bytes are too narrow for {elements} x {dtype.name}, which take {used} bits"
        )
    lead = array.shape[:-1]
    codes = unpack_codes(array.reshape(prod(lead), array.shape[-1]), dtype.bits, elements)
    values: RealArray = dtype.decode(codes).reshape(*lead, elements)
    return values


def pack_stream(values: ArrayLike, dtype: DataType, elements_per_word: int, pad_to_bits: int | None = None) -> Bytes:
    """Cut the last axis into words of *elements_per_word* elements (PE or SIMD), in order.

    Args:
        values: [..., n], n a multiple of *elements_per_word*.

    Returns:
        uint8 [..., n / elements_per_word, ceil(word width / 8)].

    Raises:
        InputError: when *elements_per_word* does not divide n, or see :func:`pack_bytes`.
    """
    array = real_array(values)
    if array.ndim == 0:
        raise InputError("a scalar cannot be packed; an array whose last axis is the stream is accepted")
    n = array.shape[-1]
    words = require_divides(
        elements_per_word, n, part_name="elements_per_word", whole_name="elements", error=InputError
    )
    return pack_bytes(array.reshape(*array.shape[:-1], words, elements_per_word), dtype, pad_to_bits)


def unpack_stream(words: ArrayLike, dtype: DataType, elements_per_word: int) -> RealArray:
    """Inverse of :func:`pack_stream`: uint8 [..., words, bytes] to [..., words * elements_per_word]."""
    array = _word_array(words)
    if array.ndim < 2:
        raise InputError(f"words of shape {array.shape} are not a stream; [..., words, bytes] is accepted")
    values = unpack_bytes(array, dtype, elements_per_word)
    joined: RealArray = values.reshape(*array.shape[:-2], array.shape[-2] * elements_per_word)
    return joined


def words_to_ints(words: ArrayLike) -> list[int]:
    """Words (uint8 [..., bytes]) as Python integers, in C order."""
    array = _word_array(words)
    size = array.shape[-1]
    if size <= 8:
        wide = np.zeros((array.size // size, 8), dtype=np.uint8)
        wide[:, :size] = array.reshape(-1, size)
        ints: list[int] = wide.view("<u8").ravel().tolist()
        return ints
    raw = array.tobytes()
    return [int.from_bytes(raw[at : at + size], "little") for at in range(0, len(raw), size)]


def ints_to_words(ints: Iterable[int], bits: int) -> Bytes:
    """Unsigned integers of *bits* bits as words, uint8 [n, ceil(bits / 8)].

    Raises:
        InputError: for an integer that is negative or wider than *bits*.
    """
    size = _word_size(bits)
    numbers = [int(number) for number in ints]
    for index, number in enumerate(numbers):
        if number < 0 or number >> bits:
            raise InputError(f"word {index}: {number} is not an unsigned integer of {bits} bits")
    raw = b"".join(number.to_bytes(size, "little") for number in numbers)
    return np.frombuffer(raw, dtype=np.uint8).reshape(-1, size).copy()


def to_hex_text(words: ArrayLike, bits: int) -> str:
    """Words as the text of a ``$readmemh`` file: ``ceil(bits / 4)`` digits and a newline a word, in C order.

    Raises:
        InputError: when a word has a bit set at or above *bits*, or a number of bytes other than ``ceil(bits / 8)``.
    """
    digits = _checked_digits(words, bits)
    lines = np.full((digits.shape[0], digits.shape[1] + 1), ord("\n"), dtype=np.uint8)
    lines[:, :-1] = digits
    return lines.tobytes().decode("ascii")


def to_hex(words: ArrayLike, bits: int) -> list[str]:
    """Words as hexadecimal numbers of ``ceil(bits / 4)`` digits without prefix, in C order; see :func:`to_hex_text`."""
    return to_hex_text(words, bits).split()


def from_hex(text: str | Sequence[str], bits: int) -> Bytes:
    """Read what :func:`to_hex` or :func:`to_hex_text` wrote, or a ``$readmemh`` file made elsewhere.

    Args:
        text: words between white space, or a sequence of words; ``0x``, underscores and comments are accepted.

    Returns:
        uint8 [words, ceil(bits / 8)].

    Raises:
        InputError: for a word that is not a hexadecimal number of at most *bits* bits.
    """
    return parse_hex(text, bits, _word_size(bits))


def pack_hex(
    values: ArrayLike,
    dtype: DataType,
    pad_to_bits: int | None = None,
    *,
    reverse_inner: bool = False,
    prefix: str = "0x",
) -> NDArray[np.str_]:
    """Pack the last axis into hexadecimal strings as finn-base's ``pack_innermost_dim_as_hex_string`` does.

    Args:
        values: [..., elements].
        pad_to_bits: word width, rounded up to whole digits; by default as many bits as the elements take.
        reverse_inner: put element 0 into the least significant bits (as everywhere else in this module);
            by default it is the most significant one, as in a C++ initialiser read from left to right.

    Returns:
        str [...], each of the same length.
    """
    array = real_array(values)
    if array.ndim == 0:
        raise InputError("a scalar cannot be packed; an array whose last axis is the word is accepted")
    bits = 4 * digits_for(word_bits(dtype, array.shape[-1], pad_to_bits))
    digits = _checked_digits(pack_bytes(array if reverse_inner else array[..., ::-1], dtype, bits), bits)
    letters = np.empty((digits.shape[0], len(prefix) + digits.shape[1]), dtype=np.uint32)
    letters[:, : len(prefix)] = [ord(letter) for letter in prefix]
    letters[:, len(prefix) :] = digits
    return letters.view(f"U{letters.shape[1]}").reshape(array.shape[:-1])


def unpack_hex(strings: ArrayLike, dtype: DataType, elements: int, *, reverse_inner: bool = False) -> RealArray:
    """Inverse of :func:`pack_hex`: str [...] to values [..., elements]; digits above the elements are ignored."""
    array = np.asarray(strings, dtype=np.str_)
    needed = word_bits(dtype, elements)
    words = parse_equal_strings(array, bytes_for(needed))
    if words is None:
        lines: list[str] = array.ravel().tolist()
        words = from_hex(lines, max(needed, 4 * max(map(len, lines), default=0)))
    values = unpack_bytes(words, dtype, elements).reshape(*array.shape, elements)
    return values if reverse_inner else values[..., ::-1]


def _word_size(bits: int) -> int:
    if bits < 1:
        raise InputError(f"words of {bits} bits were asked for; a word has at least 1")
    return bytes_for(bits)


def _word_array(words: ArrayLike) -> Bytes:
    array = np.asarray(words)
    if array.dtype != np.uint8 or array.ndim == 0 or array.shape[-1] == 0:
        raise InputError(
            f"words are a uint8 array [..., bytes], least significant byte first; got {array.dtype} {array.shape}"
        )
    return array


def _checked_digits(words: ArrayLike, bits: int) -> Bytes:
    """ASCII digits, most significant first: uint8 [words, ceil(bits / 4)]."""
    array = _word_array(words)
    size = _word_size(bits)
    if array.shape[-1] != size:
        raise InputError(f"words of {bits} bits have {size} bytes, not {array.shape[-1]}")
    rows = array.reshape(-1, size)
    spare = 8 * size - bits
    if spare and (rows[:, -1] >> np.uint8(8 - spare)).any():
        index = int(np.argmax(rows[:, -1] >> np.uint8(8 - spare) != 0))
        raise InputError(f"word {index} has a bit set above its {bits} bits")
    return hex_digits(rows, digits_for(bits))
