"""Element types of streams and memories: names, ranges and bit patterns.

The names are those of QONNX (``INT4``, ``UINT3``, ``BINARY``, ``BIPOLAR``, ``TERNARY``, ``FIXED<8,3>``,
``SCALEDINT<8>``, ``FLOAT32``, ``FLOAT16``, ``FLOAT<4,3,7>``), so an annotation in a model file reads the
same here. ``UINT1`` and ``BINARY`` are one type, called ``BINARY``.

Bit patterns ("codes") are what the hardware sees:

===========  ====  ==================================================================
type         bits  code of a value v
===========  ====  ==================================================================
INT<n>       n     two's complement of v
UINT<n>      n     v
BIPOLAR      1     0 for -1, 1 for +1
TERNARY      2     two's complement of v
FIXED<w,i>   w     two's complement of ``v * 2**(w - i)``
FLOAT32/16   32/16 IEEE 754
FLOAT<e,m>   1+e+m sign, exponent, mantissa; with subnormals, without infinities and NaN
===========  ====  ==================================================================
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.errors import did_you_mean
from headrace.numerics.element_type import DataType, DataTypeError, code_dtype
from headrace.numerics.float_types import FloatType, MiniFloatType
from headrace.numerics.integer_types import (
    BipolarType,
    FixedPointType,
    IntegerType,
    ScaledIntegerType,
    TernaryType,
)
from headrace.numerics.integers import RealArray, real_array

__all__ = [
    "DataType",
    "DataTypeError",
    "bits_for_range",
    "datatype",
    "from_codes",
    "integer_range",
    "smallest_type",
    "to_codes",
]

_ACCEPTED = (
    "INT<n>, UINT<n> (n >= 1), BINARY, BIPOLAR, TERNARY, FIXED<w,i>, SCALEDINT<n>, FLOAT32, FLOAT16, FLOAT<e,m,b>"
)

_NAMED: dict[str, DataType] = {
    "BINARY": IntegerType(1, False),
    "BIPOLAR": BipolarType(),
    "TERNARY": TernaryType(),
    "FLOAT32": FloatType(32),
    "FLOAT16": FloatType(16),
}

_NUMBER = r"\s*(-?[0-9]{1,18})\s*"
_PARAMETRIC: list[tuple[re.Pattern[str], Callable[..., DataType]]] = [
    (re.compile(r"INT(-?[0-9]{1,18})"), lambda bits: IntegerType(bits, True)),
    (re.compile(r"UINT(-?[0-9]{1,18})"), lambda bits: IntegerType(bits, False)),
    (re.compile(f"FIXED<{_NUMBER},{_NUMBER}>"), FixedPointType),
    (re.compile(f"SCALEDINT<{_NUMBER}>"), ScaledIntegerType),
    (re.compile(f"FLOAT<{_NUMBER},{_NUMBER}(?:,{_NUMBER})?>"), MiniFloatType),
]

_EXAMPLES = (
    [f"{kind}{bits}" for kind in ("INT", "UINT") for bits in range(1, 65)]
    + [f"FIXED<{width},{whole}>" for width in (4, 8, 16, 32) for whole in range(width)]
    + [f"SCALEDINT<{bits}>" for bits in range(1, 33)]
    + [*_NAMED]
)
"""What a misspelt name is compared with."""


def bits_for_range(lo: SupportsIndex, hi: SupportsIndex) -> tuple[int, bool]:
    """The least width that holds every integer from *lo* to *hi*, and whether it must be signed.

    Returns:
        (bits, signed) with bits >= 1; unsigned whenever lo >= 0.

    Raises:
        DataTypeError: when lo > hi.
    """
    low, high = operator.index(lo), operator.index(hi)
    if low > high:
        raise DataTypeError(f"the range [{low}, {high}] is empty; lo must not exceed hi")
    if low >= 0:
        return max(1, high.bit_length()), False
    return 1 + max((~low).bit_length(), high.bit_length() if high > 0 else 0), True


def smallest_type(lo: SupportsIndex, hi: SupportsIndex) -> DataType:
    """The narrowest INT or UINT that holds every integer from *lo* to *hi* (UINT whenever lo >= 0).

    Raises:
        DataTypeError: when lo > hi, or past :data:`MAX_BITS` bits.
    """
    return IntegerType(*bits_for_range(lo, hi))


def integer_range(bits: int, *, signed: bool, narrow: bool = False) -> tuple[int, int]:
    """(lo, hi) of a quantizer of *bits* bits; *narrow* drops -2**(bits-1), or the largest unsigned value.

    The same as QONNX's ``min_int`` and ``max_int``.
    """
    kind = IntegerType(bits, signed)
    lo, hi = kind._q_lo, kind._q_hi
    if narrow:
        return (lo + 1, hi) if signed else (lo, hi - 1)
    return lo, hi


def datatype(name: str) -> DataType:
    """The data type called *name*.

    Raises:
        DataTypeError: for a name that is no type (INT0, int8, FIXED<4,4>, ...), with the nearest that is.
    """
    if not isinstance(name, str):
        raise DataTypeError(f"a data type name is a string, not {type(name).__name__}; accepted: {_ACCEPTED}")
    text = name.strip()
    if text in _NAMED:
        return _NAMED[text]
    for pattern, make in _PARAMETRIC:
        match = pattern.fullmatch(text)
        if match:
            return make(*(int(number) for number in match.groups() if number is not None))
    hint = did_you_mean(text.upper(), _EXAMPLES)
    raise DataTypeError(f"unknown data type '{name}'{hint}; accepted: {_ACCEPTED}")


def to_codes(values: ArrayLike, dtype: DataType) -> NDArray[np.uint64]:
    """The bit pattern of every value, in the low ``dtype.bits`` bits of a uint64. Same shape.

    Raises:
        DataTypeError: for the first value that *dtype* does not have (nothing is rounded or clipped),
            or for a type wider than 64 bits.
    """
    return dtype.encode(values).astype(np.uint64)


def from_codes(codes: ArrayLike, dtype: DataType) -> RealArray:
    """The values of bit patterns: int64 for integer types (uint64 for UINT64), float64 for FIXED, else float.

    Raises:
        DataTypeError: for a code of more than ``dtype.bits`` bits, or one that stands for no value.
    """
    array = real_array(codes, "codes")
    if array.dtype.kind == "f":
        raise DataTypeError(f"codes are unsigned integers, not {array.dtype}")
    if array.size and (int(array.min()) < 0 or int(array.max()) >> dtype.bits):
        raise DataTypeError(f"a code of {dtype.name} is an unsigned integer of {dtype.bits} bits")
    return dtype.decode(array.astype(code_dtype(dtype.bits)))
