"""Arrays of values of a type."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from headrace.numerics.datatypes import DataType, DataTypeError
from headrace.numerics.integers import RealArray, first_index, real_array


def random_array(
    dtype: DataType, shape: int | Sequence[int], rng: np.random.Generator, *, extremes: bool = False
) -> RealArray:
    """Random values of *dtype*, each equally likely (FLOAT32 and FLOAT16: normally distributed).

    Args:
        extremes: also put ``dtype.lo`` and ``dtype.hi`` at two random places (one of them into an array of one).

    Returns:
        *shape*: int64 for integer types (uint64 for UINT64), else float.

    Raises:
        DataTypeError: for a type without known values or wider than 64 bits.
    """
    values = dtype.draw(shape, rng)
    if extremes and values.size:
        places = rng.choice(values.size, size=min(2, values.size), replace=False)
        ends = np.array([dtype.lo, dtype.hi], dtype=values.dtype)
        values.flat[places] = ends[rng.permutation(2)[: places.size]]
    return values


def snap_to_type(values: ArrayLike, dtype: DataType, tolerance: float) -> RealArray:
    """Move floats to the integers they are meant to be.

    For tensors whose annotation says integer but whose values come from floating-point arithmetic, as QONNX's
    ``sanitize_quant_values``; nothing is moved further than *tolerance*.

    Raises:
        DataTypeError: for a value further than *tolerance* from an integer, or whose integer *dtype* does not have.
    """
    array = real_array(values)
    if not dtype.is_integer:
        raise DataTypeError(f"{dtype.name} is not an integer type; snapping needs INT, UINT, BIPOLAR or TERNARY")
    snapped: RealArray = np.rint(array) if array.dtype.kind == "f" else array
    off = ~(np.abs(snapped - array) <= tolerance)
    if off.any():
        index = first_index(off)
        raise DataTypeError(
            f"{array[index]!s} at index {index} is further than {tolerance} from a value of {dtype.name}"
        )
    dtype.encode(snapped)  # raises for the first value outside the type
    return snapped
