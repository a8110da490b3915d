"""Fixed-point integers are the float32 values themselves, times a power of two."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from headrace.ir import IntRange, TensorType, Value
from headrace.ir.integer import Lookup
from headrace.ir.ops import Add, BatchNorm, Clip, Div, Elementwise, Function, HardSigmoid, Limit, Mul
from headrace.ir.per_channel import IntAffine, IntClip, to_significand
from headrace.ir.scaled import NotExact, Scaled
from headrace.passes.activation import run_steps
from headrace.passes.fixed_point import FixedPoint, fixed_point, rounded, to_integers

Array = NDArray[Any]


def scaled(lo: object, hi: object, *steps: Elementwise, shape: tuple[int, ...] = (3, 1)) -> Scaled:
    bounds = [np.broadcast_to(np.asarray(b, np.int64), shape).copy() for b in (lo, hi)]
    return Scaled(Value("x"), shape, *bounds, None, None, steps)


def check(x: Scaled, part: FixedPoint | None = None) -> FixedPoint:
    """Every reachable integer, channel by channel, or many of them."""
    part = fixed_point(x) if part is None else part
    span = int((x.hi - x.lo).max())
    rng = np.random.default_rng(0)
    steps = np.arange(span + 1) if span < 10**5 else np.unique(rng.integers(0, span + 1, 10**5))
    q = np.minimum(x.lo + steps.reshape(-1, 1, 1), x.hi)
    y: Array = q
    type_ = TensorType(x.shape, IntRange(int(x.lo.min()), int(x.hi.max())))
    for op in part.ops:
        (y,) = op.execute(y)
        (type_,) = op.infer(type_)
        assert type_.int_range.lo <= y.min()
        assert y.max() <= type_.int_range.hi
    real = run_steps(x.steps, q)
    value = np.ldexp(y.astype(np.float64), part.exponent)
    assert np.array_equal(value, np.broadcast_to(real, y.shape).astype(np.float64))
    assert np.all((y >= part.lo) & (y <= part.hi))
    return part


PER = np.array([[0.3], [-1.7], [2.0**-20]])


@pytest.mark.parametrize(
    "steps",
    [
        (),
        (Mul(np.array([[0.1]])),),
        (Mul(PER),),
        (Mul(PER), Add(np.array([[0.5], [0.0], [-3.3]]))),
        (Add(np.array([[1.0]])), Add(np.array([[0.3]]))),
        (BatchNorm(PER, PER[::-1]), Clip(0.0)),
        (Mul(np.array([[0.1]])), Clip(-1.0, 0.7), Mul(np.array([[0.3]]))),
        (Div(np.float32([[4.0]])), Clip(-0.75, 3.0)),
        (Mul(np.array([[0.3]])), Clip(float("-inf"), 0.7)),
        (Mul(np.array([[-0.3]])), Clip(0.7)),
        (Mul(np.array([[0.001]])), Clip(5000.3)),
        (Mul(np.array([[0.001]])), Clip(float("-inf"), -5000.3)),
        (Mul(np.array([[0.3]])), Limit(np.float32([[-0.7], [-np.inf], [3.3]]), np.float32([[0.7], [1.1], [np.inf]]))),
        (Mul(np.array([[0.3]])), Limit(np.float32([[9000.1]]), np.float32([[np.inf], [9000.1], [1e9]]))),
        (Mul(np.array([[0.03]])), HardSigmoid(), Mul(np.array([[0.7]]))),
        (Mul(np.array([[0.03]])), HardSigmoid(-0.1, 0.3)),
        (Mul(np.array([[0.0]])), Add(np.array([[0.25]]))),
        (Mul(np.array([[0.0], [1.0], [0.1]])),),
        (Function("Tanh"),),
        (Mul(np.array([[0.003]])), Function("Sigmoid")),
    ],
    ids=lambda steps: "-".join(type(s).__name__ for s in steps),
)
@pytest.mark.parametrize("reach", [(-8, 7), (0, 255), (-3000, 3000)], ids=str)
def test_small_ranges(steps: tuple[Elementwise, ...], reach: tuple[int, int]) -> None:
    check(scaled(*reach, *steps))


@pytest.mark.parametrize(
    "steps",
    [
        (),
        (Mul(np.array([[0.1]])),),
        (Mul(PER),),
        (Mul(np.array([[0.1]])), Add(np.array([[0.3]]))),
        (Mul(np.array([[0.001]])), Clip(-2.5, 1.1)),
        (Mul(np.array([[0.001]])), Limit(np.float32([[-2.5], [0.1], [-np.inf]]), np.float32([[1.1], [2.2], [0.3]]))),
        (Mul(np.array([[0.001]])), HardSigmoid()),
        (BatchNorm(np.array([[0.37]]), np.array([[-0.01]])),),
    ],
    ids=lambda steps: "-".join(type(s).__name__ for s in steps),
)
@pytest.mark.parametrize("reach", [(-(2**21), 2**21), (-(2**26) - 1, 2**26 + 3), (2**30, 2**30 + 2**27)], ids=str)
def test_large_ranges_are_computed(steps: tuple[Elementwise, ...], reach: tuple[int, int]) -> None:
    """Rounding as float32 does, where products and sums have more than 24 bits."""
    try:
        part = fixed_point(scaled(*reach, *steps))
    except NotExact as error:
        if "62 bits" not in str(error):
            raise
        return
    check(scaled(*reach, *steps), part)
    assert all(isinstance(op, IntAffine | IntClip) for op in part.ops)


def test_random_chains() -> None:
    rng = np.random.default_rng(0)
    done = 0
    for _ in range(300):
        steps: list[Elementwise] = []
        for kind in rng.choice(["mul", "add", "clip", "norm", "div"], int(rng.integers(0, 5))):
            shape = (3, 1) if rng.random() < 0.4 else (1, 1)
            values = np.round(rng.normal(size=shape), int(rng.integers(0, 4))) * 2.0 ** rng.integers(-6, 4, shape)
            if kind == "mul":
                steps.append(Mul(values))
            elif kind == "add":
                steps.append(Add(values))
            elif kind == "norm":
                steps.append(BatchNorm(values, rng.normal(size=shape)))
            elif kind == "div":
                steps.append(Div(np.float32(2.0) ** rng.integers(-3, 4, shape).astype(np.float32)))
            else:
                ends = np.sort(rng.normal(size=(2, *shape)), axis=0).astype(np.float32)
                steps.append(Limit(*ends) if shape == (3, 1) else Clip(*map(float, ends.ravel())))
        lo = rng.integers(-500, 500, (3, 1))
        x = scaled(lo, lo + rng.integers(0, 9000, (3, 1)), *steps)
        try:
            part = fixed_point(x)
        except NotExact:
            continue
        check(x, part)
        done += 1
    assert done > 250


def test_the_cheapest_form_is_taken() -> None:
    assert fixed_point(scaled(-8, 7)).ops == (), "integers are their own values"
    assert fixed_point(scaled(-8, 7, Mul(np.array([[0.25]])))).ops == (), "a power of two moves the point only"
    exact = fixed_point(scaled(-8, 7, Mul(np.array([[0.75]])), Add(np.array([[0.5]]))))
    assert [type(op) for op in exact.ops] == [IntAffine]
    assert not exact.rounds
    table = fixed_point(scaled(-8, 7, Function("Tanh")))
    assert [type(op) for op in table.ops] == [Lookup]


def test_values_that_are_too_far_apart() -> None:
    with pytest.raises(NotExact, match="too far apart in magnitude"):
        to_integers(np.float32([1e-30, 1e30]))
    with pytest.raises(NotExact, match="infinite or not numbers"):
        to_integers(np.float32([np.inf]))
    with pytest.raises(NotExact):
        fixed_point(scaled(-8, 7, Mul(np.array([[1e-40]]))))
    with pytest.raises(NotExact):
        fixed_point(scaled(-(2**30), 2**30, Function("Tanh")))


@pytest.mark.parametrize(
    "values",
    [[0.0], [1.0, -2.5, 0.125], [0.1, 0.2, 0.3], [2.0**-100, 3 * 2.0**-100], [-0.0, 2.0**60], [1.5] * 3, [2.0**-126]],
)
def test_integers_of_floats(values: list[float]) -> None:
    floats = np.float32(values)
    integers, exponent = to_integers(floats)
    assert [Fraction(int(v)) * Fraction(2) ** exponent for v in integers] == [Fraction(float(v)) for v in floats]
    assert not np.any(integers) or np.bitwise_or.reduce(integers) & 1, "the exponent is as large as possible"


def test_significands() -> None:
    x = np.array([0, 2**24 - 1, 2**24, 2**24 + 1, 2**24 + 3, -(2**25) - 2, -(2**25) - 6, 2**62 - 1, 2**40 + 2**15])
    assert to_significand(x).tolist() == [int(np.float32(v)) for v in x.tolist()]
    part = rounded(FixedPoint((), np.array([-(2**26) - 1]), np.array([2**26 + 2]), 0))
    (op,) = part.ops
    assert op.execute(np.array([[2**26 + 2], [-(2**26) - 5], [7]]))[0].ravel().tolist() == [2**26, -(2**26) - 8, 7]
    assert rounded(FixedPoint((), np.array([0]), np.array([2**24]), 0)).ops == ()
