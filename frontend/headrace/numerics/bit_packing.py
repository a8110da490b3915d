"""The kernel of packing: codes of any width to bytes and back, a few numpy operations per period.

Codes of *b* bits repeat their alignment to bytes every ``8 / gcd(b, 8)`` codes. Within one period each (code, byte)
pair that overlaps is one shift; the shift is applied to that position of all periods at once. There are at most
``b + 8`` pairs in a period, whatever the size of the array.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

import numpy as np
from numpy.typing import NDArray

from headrace.numerics.element_type import code_dtype
from headrace.numerics.integers import IntArray

Bytes = NDArray[np.uint8]


def bytes_for(bits: int) -> int:
    """How many bytes hold *bits* bits."""
    return (bits + 7) // 8


def pack_codes(codes: IntArray, bits: int) -> Bytes:
    """Concatenate the low *bits* bits of each row of *codes*, first code lowest.

    Args:
        codes: unsigned [rows, n >= 1] with no bit set at or above *bits*.

    Returns:
        uint8 [rows, ceil(n * bits / 8)], least significant byte first, spare bits 0.
    """
    rows, n = codes.shape
    if bits == 1 and n >= 8:  # shorter rows cost packbits more than they hold
        return np.packbits(codes.astype(np.uint8, copy=False), axis=1, bitorder="little")
    if bits in (8, 16, 32, 64):
        little = np.ascontiguousarray(codes, dtype=code_dtype(bits).newbyteorder("<"))
        return little.view(np.uint8).reshape(rows, n * bits // 8)
    period = min(8 // gcd(bits, 8), n)
    whole = -(-n // period) * period
    if whole != n:
        codes = np.pad(codes, ((0, 0), (0, whole - n)))
    columns = codes.reshape(rows * whole // period, period)
    packed = np.empty((columns.shape[0], bytes_for(period * bits)), dtype=np.uint8)
    written = -1
    for element, byte, shift in _overlaps(period, bits):
        column = columns[:, element]
        part = column >> column.dtype.type(shift) if shift >= 0 else column << column.dtype.type(-shift)
        if byte > written:
            packed[:, byte] = part.astype(np.uint8)
            written = byte
        else:
            packed[:, byte] |= part.astype(np.uint8)
    return packed.reshape(rows, whole // period * packed.shape[1])[:, : bytes_for(n * bits)]


def unpack_codes(packed: Bytes, bits: int, n: int) -> IntArray:
    """Inverse of :func:`pack_codes`: the first *n* codes of each row, in the smallest unsigned type.

    Args:
        packed: uint8 [rows, at least ceil(n * bits / 8)]; what lies above the n-th code is ignored.
    """
    rows = packed.shape[0]
    packed = packed[:, : bytes_for(n * bits)]
    dtype = code_dtype(bits)
    if bits == 1 and n >= 8:
        return np.unpackbits(packed, axis=1, count=n, bitorder="little")
    if bits in (8, 16, 32, 64):
        return np.ascontiguousarray(packed).view(dtype.newbyteorder("<")).astype(dtype, copy=False)
    period = min(8 // gcd(bits, 8), n)
    period_bytes = bytes_for(period * bits)
    periods = -(-n // period)
    if periods * period_bytes != packed.shape[1]:
        packed = np.pad(packed, ((0, 0), (0, periods * period_bytes - packed.shape[1])))
    columns = packed.reshape(rows * periods, period_bytes)
    codes = np.zeros((columns.shape[0], period), dtype=dtype)
    for element, byte, shift in _overlaps(period, bits):
        column = columns[:, byte].astype(dtype)
        codes[:, element] |= column << dtype.type(shift) if shift >= 0 else column >> dtype.type(-shift)
    codes &= dtype.type((1 << bits) - 1)
    return codes.reshape(rows, periods * period)[:, :n]


def _overlaps(elements: int, bits: int) -> Iterator[tuple[int, int, int]]:
    """(element, byte, shift): byte holds ``element >> shift`` (a left shift when negative), bytes ascending."""
    for element in range(elements):
        start, stop = element * bits, (element + 1) * bits
        for byte in range(start // 8, bytes_for(stop)):
            yield element, byte, 8 * byte - start
