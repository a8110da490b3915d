"""Element types that are integers or integers times a power of two."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from headrace.numerics.element_type import MAX_BITS, DataType, DataTypeError, code_dtype
from headrace.numerics.integers import (
    INT64_LO,
    UINT64_HI,
    BoolArray,
    IntArray,
    RealArray,
    first_index,
    integers_fit_float64,
    real_array,
)


class _GridType(DataType):
    """Values ``q * 2**-fraction`` for every integer q from ``_q_lo`` to ``_q_hi``, coded in two's complement."""

    @property
    @abstractmethod
    def _q_lo(self) -> int: ...

    @property
    @abstractmethod
    def _q_hi(self) -> int: ...

    @property
    def _fraction(self) -> int:
        return 0

    @property
    def lo(self) -> int | float:
        return self._q_lo

    @property
    def hi(self) -> int | float:
        return self._q_hi

    @property
    def num_values(self) -> int:
        return self._q_hi - self._q_lo + 1

    @property
    def is_integer(self) -> bool:
        return True

    @property
    def numpy_dtype(self) -> np.dtype[np.generic]:
        unsigned = code_dtype(self.bits)
        return np.dtype(f"i{unsigned.itemsize}") if self._q_lo < 0 else unsigned

    def allowed_mask(self, values: ArrayLike) -> BoolArray:
        array = real_array(values)
        if array.dtype.kind == "f":
            # ldexp is exact here (it can only overflow, and infinity is refused); q_hi + 1 is a power
            # of two or small, hence exact too, unlike q_hi itself.
            q = np.ldexp(array.astype(np.float64), self._fraction)
            return np.asarray((np.floor(q) == q) & (q >= float(self._q_lo)) & (q < float(self._q_hi + 1)))
        lo, hi = -(-self._q_lo >> self._fraction), self._q_hi >> self._fraction
        # A bound past 64 bits would not compare with an array; clipped, it bounds the same integers.
        return np.asarray((array >= max(lo, INT64_LO)) & (array <= min(hi, UINT64_HI)))

    def encode(self, values: ArrayLike) -> IntArray:
        array = real_array(values)
        unsigned = code_dtype(self.bits)
        if array.size == 0:
            return array.astype(unsigned)
        storage = np.dtype(f"i{unsigned.itemsize}") if self._q_lo < 0 else unsigned
        q: RealArray = array
        if self._fraction:
            if not self.allowed(array):
                raise self._refuse(array)
            q = _times_power_of_two(array, self._fraction)
        # item() gives Python numbers, whose comparison is exact; a NaN makes min() NaN and is refused.
        if not (self._q_lo <= q.min().item() and q.max().item() <= self._q_hi):
            raise self._refuse(array)
        integers = q.astype(storage)
        if q.dtype.kind == "f" and not (integers == q).all():
            raise self._refuse(array)
        codes = integers.view(unsigned)
        if self._q_lo < 0 and self.bits < 8 * unsigned.itemsize:
            codes &= unsigned.type((1 << self.bits) - 1)
        return codes

    def decode(self, codes: IntArray) -> RealArray:
        unsigned = code_dtype(self.bits)
        raw = codes.astype(unsigned)
        if self._q_lo >= 0:
            return raw.astype(np.uint64 if self.bits == 64 else np.int64)
        spare = 8 * unsigned.itemsize - self.bits
        if spare:
            raw <<= unsigned.type(spare)
        q = raw.view(f"i{unsigned.itemsize}")
        if spare:
            q >>= q.dtype.type(spare)  # arithmetic: extends the sign
        return q.astype(np.int64)


@dataclass(frozen=True, repr=False)
class IntegerType(_GridType):
    """INT<width> or UINT<width>."""

    width: int
    has_sign: bool

    def __post_init__(self) -> None:
        if not 1 <= self.width <= MAX_BITS:
            kind = "INT" if self.has_sign else "UINT"
            raise DataTypeError(
                f"{kind}{self.width} has no values; widths from 1 to {MAX_BITS} bits are accepted"
                if self.width < 1
                else f"{kind}{self.width} is too wide; widths from 1 to {MAX_BITS} bits are accepted"
            )

    @property
    def name(self) -> str:
        if self.width == 1 and not self.has_sign:
            return "BINARY"
        return f"{'INT' if self.has_sign else 'UINT'}{self.width}"

    @property
    def bits(self) -> int:
        return self.width

    @property
    def _q_lo(self) -> int:
        return -(1 << (self.width - 1)) if self.has_sign else 0

    @property
    def _q_hi(self) -> int:
        return (1 << (self.width - self.has_sign)) - 1


@dataclass(frozen=True, repr=False)
class TernaryType(_GridType):
    """-1, 0 and +1 in two bits."""

    @property
    def name(self) -> str:
        return "TERNARY"

    @property
    def bits(self) -> int:
        return 2

    @property
    def _q_lo(self) -> int:
        return -1

    @property
    def _q_hi(self) -> int:
        return 1

    def decode(self, codes: IntArray) -> RealArray:
        if (codes == 0b10).any():
            index = first_index(codes == 0b10)
            raise DataTypeError(f"code 0b10 at index {index} is not a value of TERNARY; 0b11, 0b00, 0b01 are")
        return super().decode(codes)

    def draw(self, shape: int | Sequence[int], rng: np.random.Generator) -> RealArray:
        return rng.integers(-1, 1, shape, dtype=np.int64, endpoint=True)


@dataclass(frozen=True, repr=False)
class FixedPointType(_GridType):
    """FIXED<width,int_bits>: signed, *int_bits* of them (the sign included) before the binary point."""

    width: int
    int_bits: int

    def __post_init__(self) -> None:
        if not 1 <= self.width <= 64 or not -64 <= self.int_bits < self.width:
            raise DataTypeError(
                f"FIXED<{self.width},{self.int_bits}> is not a type; "
                "FIXED<w,i> needs 1 <= w <= 64 bits of which -64 <= i < w stand before the point"
            )

    @property
    def name(self) -> str:
        return f"FIXED<{self.width},{self.int_bits}>"

    @property
    def bits(self) -> int:
        return self.width

    @property
    def frac_bits(self) -> int:
        """Bits after the binary point."""
        return self.width - self.int_bits

    @property
    def scale(self) -> float:
        """The distance between neighbouring values, ``2**-frac_bits``."""
        return math.ldexp(1.0, -self.frac_bits)

    @property
    def _q_lo(self) -> int:
        return -(1 << (self.width - 1))

    @property
    def _q_hi(self) -> int:
        return (1 << (self.width - 1)) - 1

    @property
    def _fraction(self) -> int:
        return self.frac_bits

    @property
    def lo(self) -> float:
        return math.ldexp(self._q_lo, -self.frac_bits)

    @property
    def hi(self) -> float:
        return math.ldexp(self._q_hi, -self.frac_bits)

    @property
    def is_integer(self) -> bool:
        return False

    @property
    def is_fixed_point(self) -> bool:
        return True

    @property
    def numpy_dtype(self) -> np.dtype[np.generic]:
        return np.dtype(np.float32 if self.width <= 25 else np.float64)

    def decode(self, codes: IntArray) -> RealArray:
        q = super().decode(codes)
        if self.width > 53 and not integers_fit_float64(q).all():
            raise DataTypeError(f"{self.name}: values of more than 53 significant bits do not fit float64")
        return np.ldexp(q.astype(np.float64), -self.frac_bits)


@dataclass(frozen=True, repr=False)
class BipolarType(DataType):
    """-1 and +1 in one bit: 0 stands for -1."""

    @property
    def name(self) -> str:
        return "BIPOLAR"

    @property
    def bits(self) -> int:
        return 1

    @property
    def lo(self) -> int:
        return -1

    @property
    def hi(self) -> int:
        return 1

    @property
    def num_values(self) -> int:
        return 2

    @property
    def is_integer(self) -> bool:
        return True

    @property
    def numpy_dtype(self) -> np.dtype[np.generic]:
        return np.dtype(np.int8)

    def allowed_mask(self, values: ArrayLike) -> BoolArray:
        array = real_array(values)
        return np.asarray((array == 1) | (array == -1))

    def encode(self, values: ArrayLike) -> IntArray:
        array = real_array(values)
        positive = array == 1
        if not (positive | (array == -1)).all():
            raise self._refuse(array)
        return np.asarray(positive).view(np.uint8)

    def decode(self, codes: IntArray) -> RealArray:
        return 2 * codes.astype(np.int64) - 1

    def _described(self) -> str:
        return "BIPOLAR (-1 or 1)"


@dataclass(frozen=True, repr=False)
class ScaledIntegerType(DataType):
    """SCALEDINT<width>: QONNX's annotation of a width-bit integer times an unknown scale. It has no known values."""

    width: int

    def __post_init__(self) -> None:
        if not 1 <= self.width <= MAX_BITS:
            raise DataTypeError(f"SCALEDINT<{self.width}> is not a type; widths from 1 to {MAX_BITS} are accepted")

    @property
    def name(self) -> str:
        return f"SCALEDINT<{self.width}>"

    @property
    def bits(self) -> int:
        return self.width

    @property
    def signed(self) -> bool:
        return True

    @property
    def lo(self) -> float:
        raise self._unknown()

    @property
    def hi(self) -> float:
        raise self._unknown()

    @property
    def num_values(self) -> int:
        return 1 << self.width

    @property
    def numpy_dtype(self) -> np.dtype[np.generic]:
        return np.dtype(np.float32)

    def allowed_mask(self, values: ArrayLike) -> BoolArray:
        raise self._unknown()

    def encode(self, values: ArrayLike) -> IntArray:
        raise self._unknown()

    def decode(self, codes: IntArray) -> RealArray:
        raise self._unknown()

    def _unknown(self) -> DataTypeError:
        return DataTypeError(
            f"{self.name} does not say which scale its values have; use INT{self.width} for the integers"
        )


def _times_power_of_two(array: RealArray, exponent: int) -> RealArray:
    """``array * 2**exponent``, exact in the type of the result for every allowed value."""
    if array.dtype.kind == "f":
        return np.ldexp(array.astype(np.float64), exponent)
    return array.astype(np.int64) << min(exponent, 63)  # past 63 bits the only allowed integer is 0
