"""Exact conversion of array-likes to numpy integers, and the small integer arithmetic of folding."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.errors import HeadraceError, InputError

AnyInt: TypeAlias = np.int8 | np.int16 | np.int32 | np.int64 | np.uint8 | np.uint16 | np.uint32 | np.uint64
AnyFloat: TypeAlias = np.float16 | np.float32 | np.float64
IntArray: TypeAlias = NDArray[AnyInt]
RealArray: TypeAlias = NDArray[AnyInt | AnyFloat]
BoolArray: TypeAlias = NDArray[np.bool_]

INT64_LO, INT64_HI, UINT64_HI = -(2**63), 2**63 - 1, 2**64 - 1
FLOAT64_EXACT = 2**53
"""Every integer of at most this magnitude is a float64."""


def real_array(values: ArrayLike, what: str = "values") -> RealArray:
    """*values* as a numpy array of integers or of floats of at most 64 bits; booleans become uint8.

    Raises:
        InputError: for anything else (complex numbers, strings, objects, extended precision).
    """
    array = np.asarray(values)
    if array.dtype.kind == "b":
        return array.view(np.uint8)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise InputError(
            f"{what}: an array of {array.dtype} was given; integers or floats of at most 64 bits are accepted"
        )
    return array


def first_index(flags: BoolArray) -> tuple[int, ...]:
    """Index of the first True in C order."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(flags)), flags.shape))


def to_int64(values: ArrayLike, what: str = "values") -> NDArray[np.int64]:
    """*values* (integers, or floats that are integers) as int64, exactly.

    Raises:
        InputError: for a value that is not an integer, or is outside int64.
    """
    array = real_array(values, what)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        # The comparison is false for NaN too; 2**63 is a float and is the first value past int64.
        bad = ~((array >= float(INT64_LO)) & (array < 2.0**63) & (np.floor(array) == array))
    elif array.dtype == np.uint64:
        bad = array > np.uint64(INT64_HI)
    else:
        return array.astype(np.int64)
    if bad.any():
        index = first_index(bad)
        raise InputError(f"{what}: {array[index]!s} at index {index} is not a 64-bit integer")
    return array.astype(np.int64)


def integers_fit_float64(array: RealArray) -> BoolArray:
    """Whether each of an array of integers is exactly a float64: its odd part has at most 53 bits."""
    integers = array.astype(np.uint64 if array.dtype == np.uint64 else np.int64)
    lowest_bit = integers & -integers
    return np.asarray(np.abs(integers // np.where(lowest_bit == 0, 1, lowest_bit)) <= FLOAT64_EXACT)


def divisors(number: int) -> list[int]:
    """All positive divisors of a positive *number*, in ascending order."""
    low = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return low + [number // d for d in reversed(low) if d * d != number]


def require_divides(part: int, whole: int, *, part_name: str, whole_name: str, error: type[HeadraceError]) -> int:
    """``whole // part``, or *error* with the two names, the two values and the divisors that would do."""
    if part >= 1 and whole >= 1 and whole % part == 0:
        return whole // part
    valid = ", ".join(map(str, divisors(whole))) if whole >= 1 else f"none, {whole_name} must be positive"
    raise error(f"{part_name}={part} does not divide {whole_name}={whole}; valid: {valid}")


def round_up_to_multiple(value: int, factor: int) -> int:
    """The smallest multiple of *factor* (>= 1) that is at least *value* (>= 0)."""
    if factor < 1 or value < 0:
        raise InputError(
            f"round_up_to_multiple({value}, {factor}): the value must be at least 0, the factor at least 1"
        )
    return -(-value // factor) * factor
