"""Products of integers and their ranges, against QONNX's and against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qonnx.core.datatype import DataType as QonnxType
from qonnx.custom_op.general.xnorpopcount import xnorpopcountmatmul
from qonnx.util.basic import calculate_matvec_accumulator_range, calculate_signed_dot_prod_range
from qonnx.util.range_analysis import calculate_matvec_accumulator_extremum

from headrace.errors import InputError
from headrace.numerics import (
    DataTypeError,
    accumulator_range,
    accumulator_type,
    datatype,
    dot_product_range,
    to_int64,
    type_product_range,
    xnor_popcount_matmul,
)


@pytest.mark.parametrize(("lead", "k", "n"), [((3,), 1, 1), ((4,), 17, 5), ((2, 3), 784, 10), ((), 8, 3), ((0,), 4, 2)])
def test_xnor_popcount_equals_qonnx(lead: tuple[int, ...], k: int, n: int) -> None:
    rng = np.random.default_rng(k)
    a, b = rng.integers(0, 2, (*lead, k)), rng.integers(0, 2, (k, n))
    result = xnor_popcount_matmul(a, b)
    assert result.dtype == np.int64
    assert np.array_equal(result, xnorpopcountmatmul(a, b))
    assert np.array_equal(result, (a[..., None] == b).sum(axis=-2))
    assert np.array_equal(2 * result - k, (2 * a - 1) @ (2 * b - 1))


@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 4))
def test_dot_product_range_is_reached_and_never_left(seed: int, outputs: int, inputs: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.integers(-3, 4, (outputs, inputs))
    lo = rng.integers(-3, 3, inputs)
    hi = lo + rng.integers(0, 3, inputs)
    vectors = np.array(list(itertools.product(*(range(a, b + 1) for a, b in zip(lo, hi, strict=True)))))
    every = weights @ vectors.T
    low, high = dot_product_range(weights, lo, hi)
    assert np.array_equal(low, every.min(axis=1))
    assert np.array_equal(high, every.max(axis=1))


@pytest.mark.parametrize("name", ["INT4", "UINT4", "BIPOLAR", "TERNARY", "BINARY"])
def test_ranges_equal_qonnx(name: str) -> None:
    weights = np.random.default_rng(1).integers(-8, 8, (5, 30))
    kind = datatype(name)
    low, high = dot_product_range(weights, kind.lo, kind.hi)
    expected = calculate_matvec_accumulator_extremum(weights, kind.lo, kind.hi)
    assert np.array_equal((low, high), expected)
    assert accumulator_range(weights, kind) == calculate_matvec_accumulator_range(weights.T, QonnxType[name])
    kind = accumulator_type(weights, kind)
    assert kind.allowed(low)
    assert kind.allowed(high)


@pytest.mark.parametrize(
    ("a", "b"), [("INT4", "INT8"), ("BIPOLAR", "INT2"), ("TERNARY", "TERNARY"), ("BIPOLAR", "BIPOLAR")]
)
@pytest.mark.parametrize("length", [1, 9, 784])
def test_type_product_range_equals_qonnx(a: str, b: str, length: int) -> None:
    expected = calculate_signed_dot_prod_range(QonnxType[a], QonnxType[b], length)
    assert type_product_range(datatype(a), datatype(b), length) == expected


def test_type_product_range_of_unsigned_and_wide_types() -> None:
    assert type_product_range(datatype("UINT4"), datatype("UINT4"), 3) == (0, 675)
    assert type_product_range(datatype("UINT4"), datatype("INT4"), 3) == (-360, 315)
    assert type_product_range(datatype("INT32"), datatype("INT32"), 4) == (-(2**64) + 2**33, 2**64)


@pytest.mark.parametrize("magnitude", [2**20, 2**26, 2**30, 2**40, 2**61, 2**62])
def test_ranges_stay_exact_up_to_64_bits(magnitude: int) -> None:
    weights = np.array([[1, -1, 1], [magnitude - 1, 0, 3], [-1, 0, 0], [0, 0, 0]])
    lo, hi = [-magnitude + 1, -1, -5], [magnitude - 1, 1, 5]
    if magnitude <= 2**30:
        low, high = dot_product_range(weights, lo, hi)
        expected_hi = [sum(abs(w) * h for w, h in zip(row, hi, strict=True)) for row in weights.tolist()]
        assert high.tolist() == expected_hi
        assert low.tolist() == [-h for h in expected_hi]
        assert low.dtype == np.int64
    else:
        with pytest.raises(InputError, match=r"output 1 reaches -?[0-9]+, which is past 64 bits"):
            dot_product_range(weights, lo, hi)
    ones = np.array([[1, 1, 1]])
    assert [v.tolist() for v in dot_product_range(ones, lo, hi)] == [[-magnitude - 5], [magnitude + 5]]


def test_the_ends_of_int64() -> None:
    low, high = dot_product_range([[1, 1]], [-(2**63), 0], [2**63 - 1, 0])
    assert (low.tolist(), high.tolist()) == ([-(2**63)], [2**63 - 1])
    with pytest.raises(InputError, match="past 64 bits"):
        dot_product_range([[1, 1]], [-(2**63), -1], [0, 0])
    with pytest.raises(InputError, match="past 64 bits"):
        dot_product_range([[-1]], [-(2**63)], [0])


def test_inputs_that_are_not_integers_or_do_not_fit() -> None:
    for bad, message in [
        (lambda: dot_product_range([[0.5]], 0, 1), r"weights: 0.5 at index \(0, 0\)"),
        (lambda: dot_product_range([[1]], np.nan, 1), "lo: nan"),
        (lambda: dot_product_range([[1]], 0, 2.0**63), "hi: 9"),
        (lambda: dot_product_range([[1, 2]], [0, 3], [1, 2]), r"range \[3, 2\] of input 1 is empty"),
        (lambda: dot_product_range([[1, 2]], [0, 3, 4], 9), "does not fit 2 inputs"),
        (lambda: dot_product_range([1, 2], 0, 1), "not a matrix"),
        (lambda: accumulator_range(np.zeros((0, 3)), datatype("INT2")), "without rows"),
        (lambda: type_product_range(datatype("INT2"), datatype("INT2"), 0), "at least 1"),
        (lambda: xnor_popcount_matmul([[0, 2]], [[0], [1]]), r"a: 2 at index \(0, 1\) is not a bit"),
        (lambda: xnor_popcount_matmul([[0, 1]], [[0]]), "do not multiply"),
        (lambda: to_int64(np.array([2**63], dtype=np.uint64)), "not a 64-bit integer"),
    ]:
        with pytest.raises(InputError, match=message):
            bad()
    with pytest.raises(DataTypeError, match="FIXED<4,2> is not an integer type"):
        accumulator_range([[1]], datatype("FIXED<4,2>"))


def test_integral_floats_are_integers() -> None:
    low, high = dot_product_range(np.array([[1.0, -2.0]], dtype=np.float32), np.float32(-8), np.float32(7))
    assert (low.tolist(), high.tolist()) == ([-22], [23])
    assert to_int64(np.array([-(2.0**63), 2.0**62])).tolist() == [-(2**63), 2**62]
