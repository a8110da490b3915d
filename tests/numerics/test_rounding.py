"""Rounding modes against exact rational arithmetic, on ties, their float neighbours and random floats."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from qonnx.custom_op.general.quant import resolve_rounding_mode

from headrace.errors import HeadraceError
from headrace.numerics import ROUNDING_MODES, rounding_function

QONNX_MODES = ["ROUND", "HALF_EVEN", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN"]


def exact(mode: str, value: float) -> int:
    """The mode's definition, in rational numbers."""
    x = Fraction(value)
    sign, magnitude = (-1 if x < 0 else 1), abs(x)
    if mode in ("ROUND", "HALF_EVEN"):
        return round(x)
    if mode == "DPU":
        return math.ceil(x) if x < 0 and magnitude % 1 == Fraction(1, 2) else round(x)
    return {
        "CEIL": lambda: math.ceil(x),
        "FLOOR": lambda: math.floor(x),
        "UP": lambda: sign * math.ceil(magnitude),
        "DOWN": lambda: sign * math.floor(magnitude),
        "ROUND_TO_ZERO": lambda: sign * math.floor(magnitude),
        "HALF_UP": lambda: sign * math.floor(magnitude + Fraction(1, 2)),
        "HALF_DOWN": lambda: sign * math.ceil(magnitude - Fraction(1, 2)),
    }[mode]()


def hard_values(dtype: type) -> np.ndarray:
    """Every tie up to 8, halves near the end of float precision, and the floats next to all of them."""
    top = 2.0 ** np.finfo(dtype).nmant
    far = [top - 1, top - 0.5, top + 1, top / 2 - 0.5, top / 2 + 0.5, top / 2 + 1.5, top / 4 + 0.25, top / 4 + 0.5]
    points = np.concatenate([np.arange(-8, 8.25, 0.25), far])
    points = np.concatenate([points, -points, [np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal]]).astype(dtype)
    with np.errstate(over="ignore"):
        up, down = np.nextafter(points, dtype(np.inf)), np.nextafter(points, dtype(-np.inf))
    values = np.concatenate([points, up, down])
    return values[np.isfinite(values)]


@pytest.mark.parametrize("mode", ROUNDING_MODES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_hard_values_are_exact(mode: str, dtype: type) -> None:
    values = hard_values(dtype)
    rounded = rounding_function(mode)(values)
    assert rounded.dtype == dtype
    assert [int(v) for v in rounded] == [exact(mode, v) for v in values.tolist()]


@pytest.mark.parametrize("mode", ROUNDING_MODES)
@given(arrays(np.float32, 8, elements=st.floats(-(2.0**25), 2.0**25, width=32)))
def test_any_float_is_exact(mode: str, values: np.ndarray) -> None:
    assert [int(v) for v in rounding_function(mode)(values)] == [exact(mode, v) for v in values.tolist()]


@pytest.mark.parametrize("mode", QONNX_MODES)
def test_equals_qonnx_where_qonnx_is_exact(mode: str) -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([np.arange(-20, 20, 0.25), rng.integers(-(2**12), 2**12, 1000) / 64]).astype(np.float32)
    assert np.array_equal(rounding_function(mode)(values), resolve_rounding_mode(mode)(values))


def test_the_classic_bug_is_absent() -> None:
    just_below_half = np.array([np.nextafter(np.float32(0.5), np.float32(0))])
    assert resolve_rounding_mode("HALF_UP")(just_below_half).tolist() == [1.0]  # why qonnx is no oracle here
    assert rounding_function("HALF_UP")(just_below_half).tolist() == [0.0]
    odd = np.array([2.0**23 + 1], dtype=np.float32)
    assert rounding_function("HALF_UP")(odd).tolist() == [2.0**23 + 1]


@pytest.mark.parametrize("mode", ROUNDING_MODES)
def test_special_values_pass_and_the_argument_is_left_alone(mode: str) -> None:
    values = np.array([np.inf, -np.inf, np.nan, -0.0, 0.5], dtype=np.float32)
    before = values.copy()
    rounded = rounding_function(mode)(values)
    assert rounded[:2].tolist() == [np.inf, -np.inf]
    assert np.isnan(rounded[2])
    assert rounded[3] == 0
    assert np.array_equal(values, before, equal_nan=True)


def test_names() -> None:
    assert set(QONNX_MODES) < set(ROUNDING_MODES)
    assert rounding_function("half_even") is rounding_function("Round") is rounding_function("HALF_EVEN")
    assert rounding_function("round_to_zero") is rounding_function("DOWN")
    with pytest.raises(
        HeadraceError, match=r"unknown rounding mode 'flor' \(did you mean 'FLOOR'\?\); accepted: ROUND, "
    ):
        rounding_function("flor")
