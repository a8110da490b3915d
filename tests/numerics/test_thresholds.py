"""Multi-thresholds against QONNX's and against counting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qonnx.custom_op.general.multithreshold import multithreshold as qonnx_multithreshold

from headrace.errors import InputError
from headrace.numerics import multithreshold

STEPS = [0, 1, 3, 15, 24, 25, 63, 255]


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("table_channels", [1, 5])
@pytest.mark.parametrize("shape", [(3, 5), (2, 5, 4), (2, 5, 3, 4)])
@pytest.mark.parametrize("sort", [False, True])
def test_equals_qonnx(steps: int, table_channels: int, shape: tuple[int, ...], sort: bool) -> None:
    rng = np.random.default_rng(steps)
    x = rng.integers(-40, 40, shape).astype(np.float32)
    table = rng.integers(-40, 40, (table_channels, steps)).astype(np.float32)
    if sort:
        table.sort(axis=1)
    expected = qonnx_multithreshold(x, table, 0.3, -1.7)
    result = multithreshold(x, table, 0.3, -1.7)
    assert result.dtype == expected.dtype == np.float32
    assert np.array_equal(result, expected)
    last = np.moveaxis(x, 1, -1)
    expected = qonnx_multithreshold(last, table, channels_last=True)
    assert np.array_equal(multithreshold(last, table, channels_last=True), expected)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 70), st.sampled_from([1, 3]))
def test_ties_and_neighbours_count_exactly(seed: int, steps: int, channels: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((channels, steps)).astype(np.float32)
    pool = np.concatenate([table.ravel(), [0, np.inf, -np.inf]]).astype(np.float32)
    pool = np.concatenate([pool, np.nextafter(pool, np.float32(np.inf)), np.nextafter(pool, np.float32(-np.inf))])
    x = rng.choice(pool, (4, 3))
    expected = [[sum(v >= t for t in table[c % channels]) for c, v in enumerate(row)] for row in x.tolist()]
    assert multithreshold(x, table).tolist() == expected


@pytest.mark.parametrize("steps", [3, 40])
@pytest.mark.parametrize("channels", [1, 2])
def test_integers_are_compared_as_integers(steps: int, channels: int) -> None:
    base = 2**60
    table = base + np.arange(channels * steps).reshape(channels, steps)
    x = base + np.array([[0, steps], [-1, steps - 1], [1, 2**20]])
    expected = [[int((v >= table[c % channels]).sum()) for c, v in enumerate(row)] for row in x]
    result = multithreshold(x, table)
    assert result.dtype == np.int64
    assert result.tolist() == expected
    assert multithreshold(x, table, 2, -3).tolist() == (2 * np.array(expected) - 3).tolist()
    assert multithreshold(x, table, 0.5).dtype == np.float64


@pytest.mark.parametrize("steps", [2, 30])
@pytest.mark.parametrize("channels", [1, 2])
def test_not_a_number_reaches_nothing(steps: int, channels: int) -> None:
    table = np.tile(np.arange(steps, dtype=np.float32), (channels, 1))
    table[0, 1] = np.nan
    x = np.array([[np.nan, np.nan], [np.inf, np.inf]], dtype=np.float32)
    expected = [[0, 0], [steps - 1, steps - (channels == 1)]]
    assert multithreshold(x, table).tolist() == expected
    assert multithreshold(x, table).tolist() == qonnx_multithreshold(x, table).tolist()


def test_the_arguments_are_left_alone() -> None:
    table = np.array([[3.0, 1.0, 2.0]])
    assert multithreshold(np.array([[2.0]]), table).tolist() == [[2.0]]
    assert table.tolist() == [[3.0, 1.0, 2.0]]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match=r"thresholds of shape \(4, 2\) do not fit x of shape \(2, 3\)"):
        multithreshold(np.zeros((2, 3)), np.zeros((4, 2)))
    with pytest.raises(InputError, match="C, T"):
        multithreshold(np.zeros((2, 3)), np.zeros(3))
    with pytest.raises(InputError, match=r"past 2\*\*53"):
        multithreshold(np.array([[2**53 + 1]]), np.array([[0.5]]))
