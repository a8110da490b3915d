"""Hexadecimal text of memory files, written and read at the speed of ``bytes.hex`` and ``bytes.fromhex``."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.errors import InputError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def digits_for(bits: int) -> int:
    """How many hexadecimal digits hold *bits* bits."""
    return (bits + 3) // 4


def hex_digits(rows: NDArray[np.uint8], digits: int) -> NDArray[np.uint8]:
    """The lowest *digits* digits of each row of bytes (least significant first), as ASCII, most significant first.

    Args:
        rows: uint8 [words, size] with 2 * size >= digits.

    Returns:
        uint8 [words, digits].
    """
    text = np.ascontiguousarray(rows[:, ::-1]).tobytes().hex().encode("ascii")
    return np.frombuffer(text, dtype=np.uint8).reshape(rows.shape[0], 2 * rows.shape[1])[
        :, 2 * rows.shape[1] - digits :
    ]


def parse_hex(text: str | Sequence[str], bits: int, size: int) -> NDArray[np.uint8]:
    """Words of *bits* bits from text: uint8 [words, size], least significant byte first.

    Raises:
        InputError: for a word that is not a hexadecimal number of at most *bits* bits.
    """
    words = _COMMENT.sub(" ", text).split() if isinstance(text, str) else list(text)
    plain = [_plain(word) for word in words] if any("_" in w or "x" in w or "X" in w for w in words) else words
    digits = max(2 * size, max(map(len, plain), default=0))
    digits += digits % 2
    joined = "".join([word.rjust(digits, "0") for word in plain])
    try:
        raw = bytes.fromhex(joined)
    except ValueError:
        raise _not_hex(words, bits) from None
    if 2 * len(raw) != len(joined) or not all(plain):  # fromhex skips white space
        raise _not_hex(words, bits)
    packed = np.frombuffer(raw, dtype=np.uint8).reshape(-1, digits // 2)[:, ::-1]
    spare = 8 * size - bits
    if packed[:, size:].any() or (spare and (packed[:, size - 1] >> np.uint8(8 - spare)).any()):
        raise _not_hex(words, bits)
    return np.ascontiguousarray(packed[:, :size])


def parse_equal_strings(strings: NDArray[np.str_], size: int) -> NDArray[np.uint8] | None:
    """Words of at least *size* bytes from strings of ``0x`` and equally many digits, all characters at once.

    Returns:
        uint8 [words, bytes] as :func:`parse_hex`, or None for any other strings, which that function reads or refuses.
    """
    letters = np.ascontiguousarray(strings).view(np.uint32).reshape(strings.size, strings.dtype.itemsize // 4)
    prefix, digits = letters[:, :2], letters[:, 2:]
    count = digits.shape[1]
    # numpy fills short strings up with zeros; white space, which fromhex skips, lies below "0" too
    if not count or (prefix != (ord("0"), ord("x"))).any() or (digits < ord("0")).any() or (digits > 127).any():
        return None
    padded = np.full((strings.size, max(2 * size, count + count % 2)), ord("0"), dtype=np.uint8)
    padded[:, padded.shape[1] - count :] = digits
    try:
        raw = bytes.fromhex(padded.tobytes().decode("ascii"))
    except ValueError:
        return None
    return np.frombuffer(raw, dtype=np.uint8).reshape(strings.size, padded.shape[1] // 2)[:, ::-1]


def _plain(word: str) -> str:
    return word.replace("_", "").removeprefix("0x").removeprefix("0X")


def _not_hex(words: Sequence[str], bits: int) -> InputError:
    """The error for the first bad word; only called when there is one."""
    for index, word in enumerate(words):
        if not re.fullmatch(r"[0-9a-fA-F]+", _plain(word)) or int(_plain(word), 16) >> bits:
            return InputError(f"word {index}: '{word}' is not a hexadecimal number of at most {bits} bits")
    raise AssertionError("every word is a hexadecimal number that fits")
