"""The interface of an element type."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from headrace.errors import HeadraceError
from headrace.numerics.integers import BoolArray, IntArray, RealArray, first_index

MAX_BITS = 512
"""Widest integer type. Bit patterns stop at 64 bits; names and ranges go on to here."""


class DataTypeError(HeadraceError):
    """A data type that does not exist, or a value that its type cannot hold."""


@dataclass(frozen=True, repr=False)
class DataType(ABC):
    """The type of one element: immutable, hashable, equal by value. Obtain one by its name, with :func:`datatype`."""

    @staticmethod
    def from_name(name: str) -> DataType:
        """Same as :func:`headrace.numerics.datatype`."""
        from headrace.numerics.datatypes import datatype  # that module imports every subclass of this one

        return datatype(name)

    @property
    @abstractmethod
    def name(self) -> str:
        """The QONNX name; ``datatype(t.name) == t``."""

    @property
    @abstractmethod
    def bits(self) -> int:
        """Width of one element in bits, at least 1."""

    @property
    @abstractmethod
    def lo(self) -> int | float:
        """The smallest value."""

    @property
    @abstractmethod
    def hi(self) -> int | float:
        """The largest value."""

    @property
    @abstractmethod
    def num_values(self) -> int:
        """How many different values the type has (QONNX counts both zeros of a FLOAT<e,m>)."""

    @property
    @abstractmethod
    def numpy_dtype(self) -> np.dtype[np.generic]:
        """The smallest numpy type that holds every value (QONNX's ``to_numpy_dt``)."""

    @abstractmethod
    def allowed_mask(self, values: ArrayLike) -> BoolArray:
        """Elementwise: is this exactly a value of the type? Same shape as *values*."""

    @abstractmethod
    def encode(self, values: ArrayLike) -> IntArray:
        """Bit patterns in the smallest unsigned numpy type; see :func:`to_codes`."""

    @abstractmethod
    def decode(self, codes: IntArray) -> RealArray:
        """Inverse of :meth:`encode`; see :func:`from_codes`."""

    @property
    def to_qonnx_name(self) -> str:
        """Same as :attr:`name`."""
        return self.name

    @property
    def signed(self) -> bool:
        """Whether the type has negative values."""
        return self.lo < 0

    @property
    def is_integer(self) -> bool:
        """Whether every value is an integer."""
        return False

    @property
    def is_fixed_point(self) -> bool:
        """Whether the type is FIXED<w,i>."""
        return False

    def allowed(self, values: ArrayLike) -> bool:
        """Whether every one of *values* is exactly a value of the type (true of an empty array)."""
        return bool(self.allowed_mask(values).all())

    def draw(self, shape: int | Sequence[int], rng: np.random.Generator) -> RealArray:
        """Random values, each equally likely; see :func:`headrace.numerics.random_array`."""
        codes = rng.integers(0, (1 << self.bits) - 1, shape, dtype=code_dtype(self.bits), endpoint=True)
        return self.decode(codes)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"datatype('{self.name}')"

    def _refuse(self, values: RealArray) -> DataTypeError:
        """The error for the first of *values* that is not allowed."""
        index = first_index(~self.allowed_mask(values))
        where = f" at index {index}" if index else ""
        return DataTypeError(f"{values[index]!s}{where} is not a value of {self._described()}")

    def _described(self) -> str:
        return f"{self.name} ({self.lo} to {self.hi})"


def code_dtype(bits: int) -> np.dtype[np.unsignedinteger]:
    """The smallest unsigned numpy type of at least *bits* bits.

    Raises:
        DataTypeError: past 64 bits.
    """
    for size in (8, 16, 32, 64):
        if bits <= size:
            return np.dtype(f"u{size // 8}")
    raise DataTypeError(f"elements of {bits} bits cannot be encoded; at most 64 bits are accepted")
