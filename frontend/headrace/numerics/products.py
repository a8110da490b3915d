"""Products of integer arrays and the exact ranges of their results."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.errors import InputError
from headrace.numerics.datatypes import DataType, DataTypeError, smallest_type
from headrace.numerics.integers import FLOAT64_EXACT, INT64_HI, INT64_LO, first_index, real_array, to_int64

Int64s: TypeAlias = NDArray[np.int64]

_FLOAT32_EXACT = 2**24


def xnor_popcount_matmul(a: ArrayLike, b: ArrayLike) -> Int64s:
    """The number of positions in which a row of *a* and a column of *b* agree.

    With bits standing for -1 (0) and +1 (1), the bipolar dot product of length K is ``2 * result - K``.

    Args:
        a: [..., K] of zeros and ones.
        b: [K, N] of zeros and ones.

    Returns:
        [..., N], 0 to K.

    Raises:
        InputError: for values other than 0 and 1, or lengths that differ.
    """
    left, right = _bits(a, "a"), _bits(b, "b")
    if right.ndim != 2 or left.ndim < 1 or left.shape[-1] != right.shape[0]:
        raise InputError(
            f"a of shape {left.shape} and b of shape {right.shape} do not multiply; [..., K] and [K, N] do"
        )
    length = right.shape[0]
    # A float GEMM is exact while every partial sum, at most K in magnitude, is an integer of the float type.
    dtype = np.float32 if length <= _FLOAT32_EXACT else np.float64
    signs = np.matmul(2 * left.astype(dtype) - 1, 2 * right.astype(dtype) - 1)
    agreeing: Int64s = (signs.astype(np.int64) + length) // 2
    return agreeing


def dot_product_range(weights: ArrayLike, lo: ArrayLike, hi: ArrayLike) -> tuple[Int64s, Int64s]:
    """The smallest and the largest value of every output of an integer matrix-vector product.

    Both are reached: output m is least when each input n is at ``lo[n]`` for a positive weight and at ``hi[n]`` for a
    negative one.

    Args:
        weights: [MH, MW] integers.
        lo, hi: bounds of each input, [MW] or one for all; lo <= hi.

    Returns:
        (lo, hi) int64 [MH] each.

    Raises:
        InputError: for values that are not integers, lo > hi, or a result outside int64.
    """
    matrix = to_int64(weights, "weights")
    if matrix.ndim != 2:
        raise InputError(f"weights of shape {matrix.shape} are not a matrix [MH, MW]")
    low, high = (_bounds(bound, matrix.shape[1], name) for bound, name in ((lo, "lo"), (hi, "hi")))
    if (low > high).any():
        (index,) = first_index(low > high)
        raise InputError(f"the range [{low[index]}, {high[index]}] of input {index} is empty; lo must not exceed hi")
    positive, negative = np.maximum(matrix, 0), np.minimum(matrix, 0)
    return (
        _exact_sum(positive, low, negative, high),
        _exact_sum(positive, high, negative, low),
    )


def accumulator_range(weights: ArrayLike, input_type: DataType) -> tuple[int, int]:
    """(lo, hi) over all outputs of a product with inputs of any value of an integer type.

    The same as QONNX's ``calculate_matvec_accumulator_range``, of the transposed matrix.

    Args:
        weights: [MH, MW] integers, MH >= 1.

    Raises:
        DataTypeError: when *input_type* is not an integer type.
        InputError: see :func:`dot_product_range`.
    """
    low, high = dot_product_range(weights, *_integer_bounds(input_type))
    if low.size == 0:
        raise InputError("a matrix without rows has no accumulator; at least one row is accepted")
    return int(low.min()), int(high.max())


def accumulator_type(weights: ArrayLike, input_type: DataType) -> DataType:
    """The narrowest type that holds every result of :func:`accumulator_range`."""
    return smallest_type(*accumulator_range(weights, input_type))


def type_product_range(a: DataType, b: DataType, length: int) -> tuple[int, int]:
    """(lo, hi) of a dot product of *length* elements of two integer types, whatever the values.

    The same as QONNX's ``calculate_signed_dot_prod_range``, for unsigned types too.

    Raises:
        DataTypeError: when a type is not an integer type.
        InputError: for a length below 1.
    """
    if length < 1:
        raise InputError(f"a dot product of {length} elements was asked for; at least 1 is accepted")
    corners = [x * y * length for x in _integer_bounds(a) for y in _integer_bounds(b)]
    return min(corners), max(corners)


def _integer_bounds(dtype: DataType) -> tuple[int, int]:
    if not dtype.is_integer:
        raise DataTypeError(
            f"{dtype.name} is not an integer type; an integer range needs INT, UINT, BIPOLAR or TERNARY"
        )
    return int(dtype.lo), int(dtype.hi)


def _bits(values: ArrayLike, name: str) -> NDArray[np.bool_]:
    array = real_array(values, name)
    ones = np.asarray(array == 1)
    wrong = ~(ones | (array == 0))
    if wrong.any():
        index = first_index(wrong)
        raise InputError(f"{name}: {array[index]!s} at index {index} is not a bit; 0 and 1 are accepted")
    return ones


def _bounds(bound: ArrayLike, inputs: int, name: str) -> Int64s:
    array = to_int64(bound, name)
    if array.ndim > 1 or (array.ndim == 1 and array.shape[0] != inputs):
        raise InputError(f"{name} of shape {array.shape} does not fit {inputs} inputs; one value or [{inputs}] does")
    return np.broadcast_to(array, (inputs,))


def _exact_sum(positive: Int64s, with_positive: Int64s, negative: Int64s, with_negative: Int64s) -> Int64s:
    """``positive @ with_positive + negative @ with_negative``, through the fastest arithmetic that is exact."""
    # An upper bound on every partial sum. Its own rounding is far below the factor of two that is kept in reserve.
    bound = 2.0 * (
        positive.astype(np.float64) @ np.abs(with_positive.astype(np.float64))
        - negative.astype(np.float64) @ np.abs(with_negative.astype(np.float64))
    ).max(initial=0.0)
    if bound <= FLOAT64_EXACT:
        sums = positive.astype(np.float64) @ with_positive.astype(np.float64)
        sums += negative.astype(np.float64) @ with_negative.astype(np.float64)
        return sums.astype(np.int64)
    if bound <= INT64_HI:
        return positive @ with_positive + negative @ with_negative
    exact = positive.astype(object) @ with_positive.astype(object) + negative.astype(object) @ with_negative.astype(
        object
    )
    for output, value in enumerate(exact):
        if not INT64_LO <= value <= INT64_HI:
            raise InputError(f"the dot product of output {output} reaches {value}, which is past 64 bits")
    sums64: Int64s = exact.astype(np.int64)
    return sums64
