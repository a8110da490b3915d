"""Quantizers against their formulas in exact fractions, one element at a time, and against qonnx's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from qonnx.custom_op.general.intquant import int_quant
from qonnx.custom_op.general.multithreshold import multithreshold
from qonnx.custom_op.general.trunc import trunc_v1, trunc_v2

from headrace.ir import IntRange, TensorType
from headrace.ir.ops import BipolarQuant, Codes, IntQuant, MultiThreshold, RawCodes, Sign, Trunc
from headrace.ir.real import Real

Array = NDArray[Any]


def away(v: Fraction) -> int:
    return math.ceil(v) if v > 0 else math.floor(v)


ROUNDING: dict[str, Callable[[Fraction], int]] = {
    "ROUND": round,
    "HALF_EVEN": round,
    "HALF_UP": lambda v: math.floor(abs(v) + Fraction(1, 2)) * (1 if v > 0 else -1),
    "HALF_DOWN": lambda v: math.ceil(abs(v) - Fraction(1, 2)) * (1 if v > 0 else -1),
    "UP": away,
    "DOWN": math.trunc,
    "ROUND_TO_ZERO": math.trunc,
    "CEIL": math.ceil,
    "FLOOR": math.floor,
}


def samples(step: float) -> Array:
    """Frames of two values: ties, their float32 neighbours, random numbers, extremes."""
    rng = np.random.default_rng(0)
    ties = np.arange(-40, 41) / 2 * np.float64(np.float32(step))
    x = np.concatenate([ties, rng.normal(size=200) * 8 * step, [0.0, -0.0, 1e30, -1e30, 3e38, 1e-45]]).astype(
        np.float32
    )
    x = np.concatenate([x, np.nextafter(x, np.float32(9)), np.nextafter(x, np.float32(-9))])
    return x[: x.size // 2 * 2].reshape(-1, 2)


def slow_codes(q: IntQuant, x: Array) -> list[list[int]]:
    step, zero = (np.broadcast_to(a, x.shape[1:]) for a in (q.step, q.zero_point))
    rows = []
    for row in x:
        codes = []
        for v, s, z in zip(row, step, zero, strict=True):
            with np.errstate(over="ignore"):
                y = np.float32(np.float32(v / s) + z)
            bounded = q.lo if y < q.lo else q.hi if y > q.hi else ROUNDING[q.rounding](Fraction(float(y)))
            codes.append(bounded - int(z))
        rows.append(codes)
    return rows


@pytest.mark.parametrize("mode", ROUNDING)
@pytest.mark.parametrize("step", [0.5, 0.1, 3.0])
def test_int_quant(mode: str, step: float) -> None:
    x = samples(step)
    for lo, hi, zero in ((-8, 7, 0), (0, 255, 5), (-3, 3, -2), (0, 1, 0), (-(2**31), 2**31 - 1, 0)):
        q = IntQuant(np.float32([step]), np.float32([zero]), lo, hi, mode)
        codes = q.codes(x)
        assert codes.tolist() == slow_codes(q, x)
        assert codes.min() >= q.levels.lo
        assert codes.max() <= q.levels.hi
        (real,) = q.evaluate(Real(x))
        assert isinstance(real, Real)
        assert np.array_equal(real.value, codes.astype(np.float32) * np.float32(step))
        if mode != "ROUND_TO_ZERO" and hi < 2**24:
            with np.errstate(over="ignore"):
                theirs = int_quant(x, np.float32(step), np.float32(zero), *_as_bits(lo, hi), mode)
                y = np.abs(x / np.float32(step) + np.float32(zero))
            lost = (np.abs(y - 0.5) < 1e-6) & (mode == "HALF_UP")  # qonnx takes 0.49999997 + 0.5 to 1 in float32
            assert np.all((real.value == theirs) | lost)


def _as_bits(lo: int, hi: int) -> tuple[Any, int, int]:
    """(bits, signed, narrow) of a range, as QONNX counts them."""
    signed = lo < 0
    bits = (hi + 1).bit_length() if signed else hi.bit_length()
    return np.float32(bits), int(signed), int(signed and lo == -hi)


def test_scale_and_zero_point_per_channel() -> None:
    x = samples(0.25)
    q = IntQuant(np.float32([0.25, 0.1]), np.float32([3, -2]), -4, 11, "HALF_UP")
    assert q.codes(x).tolist() == slow_codes(q, x)
    assert q.levels == IntRange(-4 - 3, 11 + 2)
    assert q.parameter_shape() == (2,)
    assert q.infer(TensorType((2,)))[0] == TensorType((2,))
    assert q.map_parameters(lambda a: a[::-1]).codes(x[:, ::-1]).tolist() == q.codes(x)[:, ::-1].tolist()


def test_float32_ties_are_float32_ties() -> None:
    """0.3 / 0.2 in float32 is just over or under a tie; the quotient decides, not the decimal numbers."""
    q = IntQuant(np.float32([0.2]), np.float32([0]), -8, 7)
    x = np.float32([[0.3]])
    assert q.codes(x).item() == round(Fraction(float(np.float32(0.3) / np.float32(0.2))))
    assert q.exact_codes(x.astype(np.float64)).item() == round(
        Fraction(float(x[0, 0])) / Fraction(float(np.float32(0.2)))
    )


@pytest.mark.parametrize("zero", [0, 1, 128, 255])
def test_quantize_linear_rounds_before_the_zero_point(zero: int) -> None:
    """As ONNX says: an odd zero point must not turn ties the other way, nor a large one swallow small fractions."""
    x = np.concatenate([samples(0.5), np.float32([[0.49999997 / 2, 0.50000006 / 2]])])
    q = RawCodes(np.float32([0.5]), np.float32([zero]), 0, 255)
    with np.errstate(over="ignore"):
        expected = [[min(max(_rounded(v / np.float32(0.5)) + zero, 0), 255) for v in row] for row in x]
    assert q.codes(x).tolist() == expected
    (real,) = q.evaluate(Real(x))
    assert np.array_equal(real.value, np.float32(expected))
    assert q.infer(TensorType((2,)))[0] == TensorType((2,), IntRange(0, 255))


def test_the_zero_point_first() -> None:
    """As in ONNX Runtime's QLinearAdd: an odd zero point turns ties the other way."""
    x = np.float32([[0.5, 1.5, -0.5, 2.5]])
    after = RawCodes(np.float32([1.0]), np.float32([3]), 0, 255)
    before = RawCodes(np.float32([1.0]), np.float32([3]), 0, 255, zero_first=True)
    assert after.codes(x).tolist() == [[3, 5, 3, 5]]
    assert before.codes(x).tolist() == before.exact_codes(x.astype(np.float64)).tolist() == [[4, 4, 2, 6]]


def _rounded(v: np.float32) -> int:
    return round(Fraction(float(v))) if np.isfinite(v) else 2**40 * int(np.sign(v))


def test_bipolar_quant() -> None:
    x = np.float32([[0.0, -0.0, 1e-45, -1e-45, 3.0, -3.0]])
    q = BipolarQuant(np.float32([0.5]))
    (real,) = q.evaluate(Real(x))
    assert q.codes(x).tolist() == [[1, 1, 1, -1, 1, -1]]
    assert real.value.tolist() == [[0.5, 0.5, 0.5, -0.5, 0.5, -0.5]]
    assert q.levels.bipolar


def test_sign() -> None:
    q = Sign(1)
    assert q.codes(np.float32([[0.0, -0.0, 1e-45, -2.0]])).tolist() == [[0, 0, 1, -1]]
    assert q.levels == IntRange(-1, 1)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(("axis", "shape"), [(0, (3,)), (0, (3, 2, 2)), (1, (2, 3)), (2, (2, 2, 3))])
@pytest.mark.parametrize(("scale", "bias"), [(1.0, 0.0), (2.0, -1.0), (-0.5, 1.5), (1.0, 0.375)])
def test_multi_threshold(rows: int, axis: int, shape: tuple[int, ...], scale: float, bias: float) -> None:
    rng = np.random.default_rng(rows)
    thresholds = np.sort(np.round(rng.normal(size=(rows, 5)) * 4) / 4, axis=1)
    x = np.round(rng.normal(size=(40, *shape)) * 4).astype(np.float32) / 4
    unit = float(np.gcd(int(scale * 8), int(bias * 8)) / 8)
    q = MultiThreshold(thresholds, unit, int(scale / unit), int(bias / unit), axis, len(shape))
    (real,) = q.evaluate(Real(x))
    moved = np.moveaxis(x, 1 + axis, 1)
    assert np.array_equal(real.value, np.moveaxis(multithreshold(moved, thresholds, scale, bias), 1, 1 + axis))
    assert q.levels.lo <= q.codes(x).min()
    assert q.codes(x).max() <= q.levels.hi
    assert q.rising() == (scale > 0)


def test_multi_threshold_with_an_offset_off_its_grid() -> None:
    q = MultiThreshold(np.array([[0.0, 1.0]]), 0.1, -1, 0, 0, 1, 0.7)
    (real,) = q.evaluate(Real(np.float32([[-1.0, 0.0, 2.0]])))
    codes = np.float32([0, -1, -2])
    assert real.value[0].tolist() == (codes * np.float32(0.1) + np.float32(0.7)).tolist()
    assert q.bias.item() == 0.7


def test_one_threshold_between_minus_one_and_one_is_bipolar() -> None:
    assert MultiThreshold(np.array([[0.0]]), 1.0, 2, -1, 0, 1).levels.bipolar
    assert not MultiThreshold(np.array([[0.0, 1.0]]), 1.0, 1, -1, 0, 1).levels.bipolar


@pytest.mark.parametrize("mode", ["FLOOR", "CEIL", "ROUND", "UP", "HALF_UP"])
@pytest.mark.parametrize("shift", [0, 1, 3])
def test_trunc(mode: str, shift: int) -> None:
    x = np.float32(np.random.default_rng(0).integers(-200, 200, (50, 2))) * np.float32(0.25)
    first = Trunc(np.float32([0.25]), shift, np.float32([0.25]), mode)
    (real,) = first.evaluate(Real(x))
    assert np.array_equal(real.value, trunc_v1(x, np.float32(0.25), 0, np.float32(8), np.float32(8 - shift), mode))
    step = np.float32(0.25 * 2**shift)
    second = Trunc(np.float32([0.25]), shift, np.float32([step]), mode, -8, 7)
    (real,) = second.evaluate(Real(x))
    assert np.array_equal(real.value, trunc_v2(x, np.float32(0.25), 0, 8, 0, 1, step, np.float32(4), mode))
    assert second.levels == IntRange(-8, 7)


def test_a_pruned_channel_has_scale_zero() -> None:
    q = IntQuant(np.float32([0.5, 0.0]), np.float32([0]), -8, 7)
    (real,) = q.evaluate(Real(np.float32([[1.0, 0.0]])))
    assert real.value.tolist() == [[1.0, 0.0]]
    assert q.codes(np.float32([[1.0, 0.0]])).tolist() == [[2, 0]]


def test_codes_are_the_hosts_side_of_a_quantizer() -> None:
    q = IntQuant(np.float32([0.5]), np.float32([0]), -8, 7)
    op = Codes(q)
    assert op.infer(TensorType((3,)))[0] == TensorType((3,), IntRange(-8, 7))
    assert op.execute(np.float32([[0.25, 0.75, 9.0]]))[0].tolist() == [[0, 2, 7]]
