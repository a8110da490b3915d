"""Floating-point element types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.numerics.element_type import DataType, DataTypeError, code_dtype
from headrace.numerics.integers import BoolArray, IntArray, RealArray, integers_fit_float64, real_array


@dataclass(frozen=True, repr=False)
class FloatType(DataType):
    """FLOAT32 and FLOAT16: IEEE 754, infinities and NaN included."""

    width: int

    @property
    def name(self) -> str:
        return f"FLOAT{self.width}"

    @property
    def bits(self) -> int:
        return self.width

    @property
    def lo(self) -> float:
        return -self.hi

    @property
    def hi(self) -> float:
        return 65504.0 if self.width == 16 else float(np.finfo(np.float32).max)

    @property
    def num_values(self) -> int:
        raise DataTypeError(f"{self.name} is not counted: several of its codes are NaN")

    @property
    def numpy_dtype(self) -> np.dtype[np.generic]:
        return np.dtype(f"f{self.width // 8}")

    def allowed_mask(self, values: ArrayLike) -> BoolArray:
        array = real_array(values)
        rounded = self._rounded(array)
        # float64 holds every float exactly; an integer that it would round is not a float32 either.
        same = np.asarray((rounded.astype(np.float64) == array.astype(np.float64)) | (array != array))
        if array.dtype.kind != "f":
            same &= integers_fit_float64(array)
        return same

    def encode(self, values: ArrayLike) -> IntArray:
        array = real_array(values)
        if not self.allowed(array):
            raise self._refuse(array)
        return self._rounded(array).view(code_dtype(self.width))

    def decode(self, codes: IntArray) -> RealArray:
        floats: RealArray = codes.astype(code_dtype(self.width)).view(self.numpy_dtype)
        return floats

    def draw(self, shape: int | Sequence[int], rng: np.random.Generator) -> RealArray:
        return self._rounded(rng.standard_normal(shape))

    def _rounded(self, array: RealArray) -> RealArray:
        with np.errstate(over="ignore"):
            rounded: RealArray = array.astype(self.numpy_dtype)
        return rounded


@dataclass(frozen=True, repr=False)
class MiniFloatType(DataType):
    """FLOAT<exponent_bits,mantissa_bits,bias>: subnormals, and no code spent on infinity or NaN, as in QONNX.

    A bias of 0 stands for the usual ``2**(exponent_bits - 1) - 1``.
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int = 0

    def __post_init__(self) -> None:
        e, m = self.exponent_bits, self.mantissa_bits
        if not (1 <= e <= 8 and 0 <= m <= 23 and -512 <= self.bias <= 512):
            raise DataTypeError(
                f"FLOAT<{e},{m},{self.bias}> is not a type; FLOAT<e,m,b> needs 1 <= e <= 8 exponent bits, "
                "0 <= m <= 23 mantissa bits and -512 <= b <= 512"
            )
        if self.bias == 0:
            object.__setattr__(self, "bias", (1 << (e - 1)) - 1)

    @property
    def name(self) -> str:
        return f"FLOAT<{self.exponent_bits},{self.mantissa_bits},{self.bias}>"

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def lo(self) -> float:
        return -self.hi

    @property
    def hi(self) -> float:
        largest_exponent = (1 << self.exponent_bits) - 1 - self.bias
        return math.ldexp((2 << self.mantissa_bits) - 1, largest_exponent - self.mantissa_bits)

    @property
    def num_values(self) -> int:
        return 1 << self.bits

    @property
    def numpy_dtype(self) -> np.dtype[np.generic]:
        fits = self.hi <= float(np.finfo(np.float32).max) and self._lowest_exponent - self.mantissa_bits >= -149
        return np.dtype(np.float32 if fits else np.float64)

    @property
    def _lowest_exponent(self) -> int:
        """Exponent of the smallest normal number and of every subnormal."""
        return 1 - self.bias

    def allowed_mask(self, values: ArrayLike) -> BoolArray:
        array = real_array(values)
        floats = array.astype(np.float64)
        significand, _ = self._decompose(floats)
        # floor(inf) == inf, but infinity is past hi; NaN compares false.
        mask = np.asarray((np.floor(significand) == significand) & (np.abs(floats) <= self.hi))
        if array.dtype.kind != "f":
            mask &= integers_fit_float64(array)
        return mask

    def encode(self, values: ArrayLike) -> IntArray:
        array = real_array(values)
        if not self.allowed(array):
            raise self._refuse(array)
        floats = array.astype(np.float64)
        significand, exponent = self._decompose(floats)
        # A normal significand has its leading one at bit m, where it adds the 1 missing from the field.
        codes = (exponent - self._lowest_exponent << self.mantissa_bits) + significand.astype(np.int64)
        codes |= np.signbit(floats).astype(np.int64) << (self.bits - 1)
        return codes.astype(code_dtype(self.bits))

    def decode(self, codes: IntArray) -> RealArray:
        raw = codes.astype(np.int64)
        field = (raw >> self.mantissa_bits) & ((1 << self.exponent_bits) - 1)
        fraction = raw & ((1 << self.mantissa_bits) - 1)
        significand = np.where(field == 0, fraction, fraction + (1 << self.mantissa_bits))
        exponent = np.maximum(field, 1) - self.bias - self.mantissa_bits
        magnitude = np.ldexp(significand.astype(np.float64), exponent)
        values: NDArray[np.float64] = np.where(raw >> (self.bits - 1) & 1, -magnitude, magnitude)
        return values

    def _decompose(self, floats: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """(s, x) with ``|v| = s * 2**(x - mantissa_bits)`` and x the exponent the format would use for v."""
        _, above = np.frexp(floats)
        lowest = np.int64(self._lowest_exponent)
        exponent = np.where(floats == 0, lowest, np.maximum(above.astype(np.int64) - 1, lowest))
        significand: NDArray[np.float64] = np.ldexp(np.abs(floats), self.mantissa_bits - exponent)
        return significand, exponent
