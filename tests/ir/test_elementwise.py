"""Elementwise operators: what they claim of themselves (direction, linearity, clamp, neutral parameters) is true."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from headrace.ir import TensorType
from headrace.ir.grid import Grid
from headrace.ir.ops import (
    Add,
    BatchNorm,
    Celu,
    Clip,
    Div,
    Elementwise,
    Elu,
    Function,
    HardSigmoid,
    Mul,
    Power,
    PRelu,
    Reciprocal,
    ThresholdedRelu,
)
from headrace.ir.real import Real

Array = NDArray[Any]

C = np.array([[0.3], [-1.7], [0.0], [2.5e-3]])
F = C.astype(np.float32)
NONZERO = np.float32([[0.3], [-1.7], [12.0], [2.5e-3]])

OPERATORS: list[Elementwise] = [
    Mul(C),
    Mul(np.array([[1 / 3]])),
    Add(C),
    Div(NONZERO),
    Reciprocal(F),
    BatchNorm(C, C[::-1]),
    Clip(0.0),
    Clip(-1.0, 1.0),
    Clip(2.0, 2.0),
    PRelu(np.abs(F)),
    PRelu(F),
    ThresholdedRelu(0.75),
    ThresholdedRelu(-0.5),
    HardSigmoid(),
    HardSigmoid(-0.2, 0.5),
    Elu(0.7),
    Elu(-0.5),
    Elu(1.6732632, 1.050701),
    Celu(0.3),
    Celu(-0.3),
    Power(np.float32([[2.0]])),
    *(Function(name) for name in Function.names()),
]


def samples() -> Array:
    """Sorted float32 numbers, many of them neighbours, and a few exact ones."""
    rng = np.random.default_rng(0)
    picked = [0.0, -0.0, 0.5, 1.0, -1.0, 80.0, -80.0]
    x = np.concatenate([rng.normal(size=2000) * 3, rng.normal(size=500) * 1e-3, picked])
    x = x.astype(np.float32)
    return np.unique(np.concatenate([x, np.nextafter(x, np.float32(np.inf))]))


@pytest.mark.parametrize("op", OPERATORS, ids=str)
def test_direction_is_true_of_float32(op: Elementwise) -> None:
    x = samples()
    with np.errstate(all="ignore"):
        y = np.broadcast_to(op.apply(x[:, None, None]), (x.size, 4, 1))
    assert y.dtype == np.float32
    direction = op.direction()
    if direction is None:
        return
    signed = y * np.broadcast_to(direction, (4, 1))
    assert np.all((signed[1:] >= signed[:-1]) | np.isnan(signed[1:]) | np.isnan(signed[:-1]))


@pytest.mark.parametrize("op", OPERATORS, ids=str)
def test_exact_and_float32_stay_close(op: Elementwise) -> None:
    x = samples()[:, None, None]
    with np.errstate(all="ignore"):
        single, double = op.apply(x), op.exact(x.astype(np.float64))
    assert double.dtype == np.float64
    finite = np.isfinite(single) & np.isfinite(double)
    assert np.allclose(single[finite], double[finite], rtol=1e-5, atol=1e-5)
    assert np.array_equal(np.isnan(single), np.isnan(double))


@pytest.mark.parametrize("op", OPERATORS, ids=str)
def test_linear_is_the_exact_function(op: Elementwise) -> None:
    ends = op.linear()
    x = samples().astype(np.float64)[:, None, None]
    if ends is None:
        return
    a, b = ends
    assert np.allclose(op.exact(x), a * x + b, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("op", OPERATORS, ids=str)
def test_neutral_parameters_change_nothing(op: Elementwise) -> None:
    neutral = op.neutral()
    if neutral is None:
        return
    idle = op.map_parameters(lambda a: a * 0)
    for name, value in neutral.items():
        object.__setattr__(idle, name, np.full_like(getattr(op, name), value))
    x = samples()[:, None, None]
    assert np.all(idle.apply(x) == x)


@pytest.mark.parametrize("op", OPERATORS, ids=str)
def test_parameters_move_with_the_tensor(op: Elementwise) -> None:
    x = np.random.default_rng(0).normal(size=(5, 4, 3)).astype(np.float32)
    turned = op.map_parameters(lambda a: np.broadcast_to(a, (4, 3)).T)
    with np.errstate(all="ignore"):
        assert np.array_equal(turned.apply(x.transpose(0, 2, 1)), op.apply(x).transpose(0, 2, 1), equal_nan=True)
    assert op.infer(TensorType((4, 3)))[0].shape == (4, 3)


def test_one_rounding_a_step() -> None:
    """Products and sums of float32 are rounded once each; a fused multiply-add would give other bits."""
    x = np.float32([1 + 2**-12])[None, None]
    a = np.array([[1 + 2.0**-12]])
    b = np.array([[-(1 + 2.0**-11)]])
    assert BatchNorm(a, b).apply(x).item() == 0.0
    assert BatchNorm(a, b).exact(x.astype(np.float64)).item() == 2.0**-24
    assert Mul(np.array([[1 / 3]])).apply(np.float32([[[3.0]]])).item() == np.float32(np.float32(1 / 3) * np.float32(3))
    assert Div(np.float32([[3.0]])).apply(np.float32([[[1.0]]])).item() == np.float32(1) / np.float32(3)


@pytest.mark.parametrize(
    ("name", "x", "y"),
    [
        ("Sigmoid", 0.0, 0.5),
        ("Sigmoid", -200.0, np.float32(1.383896526736737e-87)),
        ("Tanh", 20.0, 1.0),
        ("Softplus", 0.0, np.float32(0.6931471805599453)),
        ("Round", 2.5, 2.0),
        ("Round", -1.5, -2.0),
        ("HardSwish", -3.0, 0.0),
        ("HardSwish", 3.0, 3.0),
        ("HardSwish", 1.0, np.float32(2 / 3)),
        ("Gelu", 1.0, np.float32(0.8413447460685429)),
        ("GeluTanh", 1.0, np.float32(0.8411919906082768)),
        ("Float16", 1 + 2**-11, 1.0),
        ("Float16", 1 + 3 * 2**-11, 1 + 2**-9),
        ("Exp", 100.0, np.inf),
        ("Erf", 1.0, np.float32(0.8427007929497149)),
    ],
)
def test_functions(name: str, x: float, y: float) -> None:
    assert Function(name).apply(np.float32([x])).item() == y


def test_prelu_and_its_relatives() -> None:
    x = np.float32([-2.0, -0.0, 0.0, 0.5, 3.0])
    assert PRelu(np.float32([-0.25])).apply(x).tolist() == [0.5, 0.0, 0.0, 0.5, 3.0]
    assert ThresholdedRelu(0.5).apply(x).tolist() == [0.0, 0.0, 0.0, 0.0, 3.0]
    assert ThresholdedRelu(-3.0).apply(x).tolist() == [-2.0, 0.0, 0.0, 0.5, 3.0]
    assert Celu(2.0).apply(np.float32([-2.0])).item() == np.float32(2 * np.expm1(-1.0))
    assert Elu(2.0).apply(np.float32([-2.0])).item() == np.float32(2 * np.expm1(-2.0))


@pytest.mark.parametrize("scale", [[[0.5]], [[0.25], [-0.5], [1.0], [-2.0]]], ids=str)
@pytest.mark.parametrize("bounds", [(0.0, np.inf), (-1.0, 1.0), (-np.inf, 2.0), (4.0, 4.0), (-4.0, -2.0)], ids=str)
def test_clips_on_a_grid_clamp_its_integers(scale: list[list[float]], bounds: tuple[float, float]) -> None:
    op = Clip(*bounds)
    q = np.broadcast_to(np.arange(-20, 21)[:, None, None], (41, 4, 1))
    s = np.array(scale)
    clamp = op.clamp(s, np.zeros_like(s))
    if any(b % abs(v) for b in bounds if np.isfinite(b) for v in s.ravel()):
        assert clamp is None
        return
    assert clamp is not None
    assert np.all(clamp.lo <= clamp.hi)
    assert np.array_equal(clamp(q) * s, op.exact(q * s))


def test_clips_with_an_offset_or_off_the_grid() -> None:
    shifted = Clip(0.0, 6.0).clamp(np.array([0.5]), np.array([1.5]))
    assert shifted is not None
    assert (shifted.lo.tolist(), shifted.hi.tolist()) == ([-3], [9])
    assert Clip(0.0, 6.0).clamp(np.array([0.5]), np.array([0.25])) is None
    assert Clip(0.0, 6.0).clamp(np.array([float(np.float32(0.1))]), np.zeros(1)) is None
    assert Clip(0.0).clamp(np.array([0.0, 1.0]), np.zeros(2)) is None
    assert Function("Tanh").clamp(np.array([1.0]), np.zeros(1)) is None


@pytest.mark.parametrize("op", [Clip(0.0, 6.0), Function("Tanh"), PRelu(np.float32([[0.3]])), Mul(C), Add(C)], ids=str)
def test_whether_a_grid_survives_does_not_depend_on_the_frames(op: Elementwise) -> None:
    """A frame that does not reach the bend must not be treated otherwise than one that does."""
    step = float(np.float32(0.1))
    for q in (np.ones((1, 4, 1), np.int64), np.full((1, 4, 1), 100), np.full((1, 4, 1), -100)):
        value = q.astype(np.float32) * np.float32(step)
        (y,) = op.evaluate(Real(value, Grid(q, np.array([[step]]), np.zeros((1, 1)))))
        assert (y.grid is not None) == (op.linear() is not None)
