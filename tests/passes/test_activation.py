"""Integer functions: enumerated, bisected and looked up, always what running the operations gives."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from headrace.ir import IntRange
from headrace.ir.grid import Clamp
from headrace.ir.integer import Activation, Lookup
from headrace.ir.ops import (
    Add,
    BatchNorm,
    BipolarQuant,
    Clip,
    Elementwise,
    Function,
    IntQuant,
    Mul,
    MultiThreshold,
    PRelu,
    Quantizer,
    RawCodes,
    Sign,
)
from headrace.ir.scaled import NotExact
from headrace.passes import activation
from headrace.passes.activation import ClampFunction, IntegerFunction, Tabulated, tabulate

Array = NDArray[Any]

MODES = ("ROUND", "HALF_UP", "HALF_DOWN", "FLOOR", "CEIL", "UP", "DOWN", "ROUND_TO_ZERO")


def function(
    steps: list[Elementwise], quantizer: Quantizer, lo: object, hi: object, shape: tuple[int, ...] = (1,)
) -> IntegerFunction:
    bounds = (np.broadcast_to(np.asarray(b, np.int64), shape) for b in (lo, hi))
    return IntegerFunction(
        shape, *bounds, steps, quantizer.codes, quantizer.exact_codes, quantizer.rising(), quantizer.levels.bipolar
    )


def int_quant(step: object, bits: int = 4, mode: str = "ROUND", signed: bool = True, zero: object = 0) -> IntQuant:
    lo = -(2 ** (bits - 1)) if signed else 0
    scale, point = (np.atleast_1d(np.asarray(v, np.float32)) for v in (step, zero))
    return IntQuant(scale, point, lo, lo + 2**bits - 1, mode)


def bisect(f: IntegerFunction | ClampFunction) -> Tabulated:
    """What would be made of *f* if its range were too large to enumerate."""
    return activation._bisected(f, int(f.lo.min()), int(f.hi.max()))


def reach(f: IntegerFunction | ClampFunction) -> tuple[Array, Array]:
    """Every (integer, channel) that is reachable, and what *f* makes of it."""
    q = np.arange(int(f.lo.min()), int(f.hi.max()) + 1)
    grid = np.clip(q.reshape(-1, *(1,) * len(f.shape)), f.lo, f.hi)
    return grid, f(grid)


def check(f: IntegerFunction | ClampFunction, table: Tabulated) -> None:
    """The operator equals *f* on every reachable integer, stays in its type, and its bounds are reached."""
    q, expected = reach(f)
    (got,) = table.op.execute(q)
    assert np.array_equal(got, expected)
    assert np.array_equal(table.lo, expected.min(axis=0))
    assert np.array_equal(table.hi, expected.max(axis=0))
    assert (table.op.output.lo, table.op.output.hi) == (expected.min(), expected.max())
    if isinstance(table.op, Activation):
        rows = table.op.thresholds
        assert np.all(np.diff(rows, axis=1) >= 0)
        assert np.all(rows > f.lo.min())
        assert np.all(rows <= f.hi.max() + 1)


def check_both(f: IntegerFunction | ClampFunction) -> Activation:
    """Enumeration and bisection give the same function, the same bounds and the same count of disagreements."""
    enumerated, bisected = tabulate(f), bisect(f)
    check(f, enumerated)
    check(f, bisected)
    assert isinstance(enumerated.op, Activation)
    assert isinstance(bisected.op, Activation)
    assert enumerated.op.output == bisected.op.output
    assert enumerated.op.axis == bisected.op.axis
    assert enumerated.op.disagreements == bisected.op.disagreements
    return enumerated.op


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("factor", [0.5, -0.5, 0.1, -0.3])
def test_roundings(mode: str, signed: bool, factor: float) -> None:
    """Half-way integers included: with factor 0.5 every odd one is a tie."""
    check_both(function([Mul(np.array([factor]))], int_quant(1.0, 4, mode, signed), -60, 61))


def test_ties_go_as_the_rounding_says() -> None:
    expected = {
        "ROUND": [-2, -2, -1, 0, 0, 0, 1, 2, 2],
        "HALF_UP": [-2, -2, -1, -1, 0, 1, 1, 2, 2],
        "HALF_DOWN": [-2, -1, -1, 0, 0, 0, 1, 1, 2],
        "FLOOR": [-2, -2, -1, -1, 0, 0, 1, 1, 2],
        "CEIL": [-2, -1, -1, 0, 0, 1, 1, 2, 2],
        "UP": [-2, -2, -1, -1, 0, 1, 1, 2, 2],
        "DOWN": [-2, -1, -1, 0, 0, 0, 1, 1, 2],
        "ROUND_TO_ZERO": [-2, -1, -1, 0, 0, 0, 1, 1, 2],
    }
    q = np.arange(-4, 5)[:, None]
    for mode, values in expected.items():
        table = tabulate(function([Mul(np.array([0.5]))], int_quant(1.0, 4, mode), -4, 4))
        assert table.op.execute(q)[0].ravel().tolist() == values, mode
        assert table.op.disagreements == 0


@pytest.mark.parametrize("bits", [1, 2, 5, 8])
def test_everything_per_channel(bits: int) -> None:
    """Own range, batch norm (rising, falling, constant), scale and zero point in every channel."""
    rng = np.random.default_rng(bits)
    shape = (6, 1)
    a = np.array([0.4, -0.7, 0.0, 1.3, -2.1, 0.01])[:, None]
    b = rng.normal(size=shape)
    step = np.float32(rng.uniform(0.1, 2, shape))
    zero = np.float32(rng.integers(0, 2**bits, shape))
    lo = rng.integers(-100, 0, shape)
    quantizer = IntQuant(step, zero, 0, 2**bits - 1, "HALF_UP")
    op = check_both(function([BatchNorm(a, b), Clip(-3.0)], quantizer, lo, lo + 150, shape))
    assert op.thresholds.shape[0] == 6
    assert op.axis == 0
    constant = op.base[2] + op.step[2] * np.sum(op.thresholds[2] <= lo.max() + 150)
    assert constant == op.base[2], "gamma 0: no threshold of that channel is ever reached"


def test_channels_may_be_any_axis() -> None:
    for axis, shape in ((0, (3, 1, 1)), (1, (1, 3, 1)), (2, (1, 1, 3))):
        step = np.float32([0.5, 1.0, 2.0]).reshape(shape)
        quantizer = IntQuant(step, np.zeros((1, 1, 1), np.float32), -8, 7)
        assert check_both(function([], quantizer, -30, 30, shape)).axis == axis


def test_eight_bits() -> None:
    op = check_both(function([Mul(np.array([0.037]))], int_quant(0.01, 8, signed=False), -500, 1000))
    assert op.thresholds.shape == (1, 255)


def test_levels_out_of_reach_cost_nothing() -> None:
    """Most of 256 levels lie outside a small accumulator's range; some channels saturate always."""
    shape = (3,)
    offset = np.array([0.0, 1000.0, -1000.0])
    op = check_both(function([Add(offset)], int_quant([1.0, 1.0, 1.0], 8), -3, 3, shape))
    assert op.thresholds.shape == (3, 6)
    assert op.thresholds[1:].tolist() == [[4] * 6] * 2
    assert op.base.tolist() == [-3, 127, -128]


def test_a_function_that_skips_levels() -> None:
    op = check_both(function([Mul(np.array([3.0]))], int_quant(1.0, 8), -9, 9))
    assert op.step.tolist() == [3], "the steps share a height"
    assert op.thresholds.shape == (1, 18)
    uneven = function([Mul(np.array([1.5]))], int_quant(1.0, 8, "FLOOR"), -9, 9)
    check_both(uneven)


def test_bipolar() -> None:
    f = function([Add(np.array([0.5, -3.0, -99.0, 99.0]))], BipolarQuant(np.float32([1.0])), -7, 9, (4,))
    op = check_both(f)
    assert op.output == IntRange(-1, 1, bipolar=True)
    assert op.step.tolist() == [2, 2, 2, 2]
    assert op.thresholds.ravel().tolist() == [0, 3, 10, 10]
    always = tabulate(function([Add(np.array([99.0]))], BipolarQuant(np.float32([1.0])), -7, 9))
    assert always.op.output == IntRange(1, 1)


def test_falling_bipolar_keeps_its_tie() -> None:
    """-x >= 0 holds at 0: the threshold of the falling function is 1, not 0."""
    op = check_both(function([Mul(np.array([-1.0]))], BipolarQuant(np.float32([1.0])), -4, 4))
    assert (op.base.tolist(), op.step.tolist(), op.thresholds.tolist()) == ([1], [-2], [[1]])


@pytest.mark.parametrize("name", ["Sigmoid", "Tanh", "Softplus", "Softsign", "Erf", "Exp", "Atan", "Asinh"])
def test_monotone_functions(name: str) -> None:
    steps: list[Elementwise] = [Mul(np.array([0.013])), Function(name)]
    check_both(function(steps, int_quant(1 / 16, 5), -900, 900))


@pytest.mark.parametrize("name", ["Gelu", "GeluTanh", "HardSwish", "Mish", "Silu", "Abs", "Sin", "Cos"])
def test_functions_that_turn_become_lookups(name: str) -> None:
    f = function([Mul(np.array([0.05])), Function(name)], int_quant(1 / 8, 6), -100, 100)
    table = tabulate(f)
    check(f, table)
    assert isinstance(table.op, Lookup)
    with pytest.raises(NotExact, match="too many to enumerate and the function is not proven monotone"):
        tabulate(function([Mul(np.array([1e-6])), Function(name)], int_quant(1 / 8, 6), -(2**22), 2**22))


def test_a_lookup_per_channel_with_own_ranges() -> None:
    shape = (3, 1)
    slope = np.float32([[-0.5], [0.25], [-2.0]])
    f = function([PRelu(slope)], int_quant([[1.0]], 6), [[-9], [0], [-30]], [[9], [5], [2]], shape)
    table = tabulate(f)
    check(f, table)
    assert isinstance(table.op, Lookup)
    assert table.op.table.shape == (3, 40)


def test_a_function_need_not_be_proven_monotone_to_be_thresholds() -> None:
    """Gelu turns at -0.75, but not for the integers that arrive here."""
    table = tabulate(function([Mul(np.array([0.25])), Function("Gelu")], int_quant(1 / 8, 6), -2, 40))
    assert isinstance(table.op, Activation)


def test_nothing_is_asked_about_unreachable_integers() -> None:
    """The square root of channel 0 never sees a negative number, although channel 1 does."""
    shape = (2,)
    steps: list[Elementwise] = [Add(np.array([0.0, 50.0])), Function("Sqrt")]
    f = function(steps, int_quant([0.5, 0.5], 5, signed=False), [0, -50], [40, 10], shape)
    check(f, tabulate(f))
    with pytest.raises(NotExact, match="not a number"):
        tabulate(function(steps, int_quant([0.5, 0.5], 5), [-1, -50], [40, 10], shape))


def test_infinities_are_values() -> None:
    f = function([Mul(np.array([10.0])), Function("Exp")], int_quant(1.0, 8, signed=False), -20, 20)
    check(f, tabulate(f))
    with pytest.raises(NotExact, match="NaN"):
        tabulate(function([Mul(np.array([1e38])), Mul(np.array([1e38])), Mul(np.array([0.0]))], int_quant(1.0), -2, 2))


def test_multi_threshold_both_ways() -> None:
    thresholds = np.array([[-3.25, 0.0, 0.1, 7.0], [-99.0, -1.0, -1.0, 99.0]])
    for multiple in (1, -2):
        f = function([], MultiThreshold(thresholds, 1.0, multiple, 3, 0, 2), -20, 20, (2, 1))
        check_both(f)


def test_raw_codes_and_sign() -> None:
    check_both(function([], RawCodes(np.float32([2.0]), np.float32([5]), 0, 255), -50, 50))
    op = check_both(function([Add(np.array([0.5]))], Sign(1), -5, 5))
    assert (op.thresholds.tolist(), op.step.tolist()) == ([[0]], [2]), "an offset of one half never gives 0"


def test_large_accumulators_are_bisected() -> None:
    """2^40 integers: thresholds found by running the operations, at every power of float32's precision."""
    f = function([Mul(np.array([3e-11]))], int_quant(1.0, 6), -(2**40), 2**40)
    table = tabulate(f)
    assert isinstance(table.op, Activation)
    for level, t in enumerate(table.op.thresholds[0].tolist(), 1):
        below, at = f(np.array([[t - 1], [t]])).ravel().tolist()
        assert at == table.op.base[0] + level
        assert below < at
    shape = (3,)
    per = function([Mul(np.array([3e-11, -1e-10, 0.0]))], int_quant([1.0, 1.0, 1.0], 6), -(2**40), 2**40, shape)
    q = np.random.default_rng(0).integers(-(2**40), 2**40, (2000, 3))
    assert np.array_equal(tabulate(per).op.execute(q)[0], per(q))


def test_bisection_refuses_more_thresholds_than_it_could_enumerate(monkeypatch: pytest.MonkeyPatch) -> None:
    f = function([], int_quant(1.0, 8), -500, 500)
    monkeypatch.setattr(activation, "ENUMERABLE", 254)
    with pytest.raises(NotExact, match="it would need 255 thresholds for each of 1 channels, 254 in all can be"):
        tabulate(f)
    monkeypatch.setattr(activation, "ENUMERABLE", 255)
    check(f, tabulate(f))


def test_functions_of_too_many_channels_are_refused_before_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    f = function([Mul(np.array([0.0, 1.0, 2.0]))], int_quant(1.0), -9, 9, (3,))
    monkeypatch.setattr(activation, "ENUMERABLE", 2)
    monkeypatch.setattr(IntegerFunction, "__call__", None)
    with pytest.raises(NotExact, match="its constants make 3 functions of their own, up to 2 can be"):
        tabulate(f)


def test_constant_functions_have_no_thresholds() -> None:
    f = function([Mul(np.array([0.0])), Add(np.array([2.5]))], int_quant(1.0), -9, 9)
    for table in (tabulate(f), bisect(f)):
        check(f, table)
        assert isinstance(table.op, Activation)
        assert table.op.thresholds.shape == (1, 0)
        assert table.op.output == IntRange(2, 2)


def test_one_reachable_integer() -> None:
    f = function([], int_quant(1.0), 3, 3)
    table = tabulate(f)
    check(f, table)
    assert table.identity


def test_identity_is_recognised() -> None:
    assert tabulate(function([], int_quant(1.0, 4), -8, 7)).identity
    assert not tabulate(function([], int_quant(1.0, 4), -9, 7)).identity
    assert tabulate(function([Mul(np.array([0.1]))], int_quant(0.1, 4), -8, 7)).identity


# -- disagreements ------------------------------------------------------------------------------------------------


def exact_codes(factor: float, step: float, q: int, mode: str = "ROUND") -> int:
    """What real arithmetic decides: fractions all the way, then half-even or the floor."""
    y = Fraction(factor) * q / Fraction(float(np.float32(step)))
    value = round(y) if mode == "ROUND" else y.numerator // y.denominator
    return min(max(value, -128), 127)


@pytest.mark.parametrize("mode", ["ROUND", "FLOOR"])
@pytest.mark.parametrize(("factor", "step"), [(0.1, 0.2), (0.3, 0.1), (0.7, 0.1), (1.1, 0.1)])
def test_disagreements_are_counted_one_by_one(mode: str, factor: float, step: float) -> None:
    """Decimal scales meet ties and integers that float32 places and real arithmetic does not, or the reverse."""
    low, high = -300, 300
    f = function([Mul(np.array([factor]))], int_quant(step, 8, mode), low, high)
    single, real = np.float32(factor), np.float32(step)
    count = 0
    for q in range(low, high + 1):
        y = float(np.float32(q) * single / real)
        canonical = min(max(round(y) if mode == "ROUND" else int(np.floor(y)), -128), 127)
        count += canonical != exact_codes(factor, step, q, mode)
    assert check_both(f).disagreements == count


def test_there_are_cases_that_disagree() -> None:
    """The count above is not always 0: 0.7 / 0.1 reads 7 in float32 and less in real arithmetic."""
    assert tabulate(function([Mul(np.array([0.7]))], int_quant(0.1, 8, "FLOOR"), -300, 300)).op.disagreements > 0
    assert tabulate(function([Mul(np.array([0.5]))], int_quant(0.25, 8, "FLOOR"), -300, 300)).op.disagreements == 0


class Shifted(Sign):
    """Codes whose exact form decides a known distance away."""

    def codes(self, x: Array) -> Array:
        return np.clip(np.floor(x / 10), -3, 3).astype(np.int64)

    def exact_codes(self, x: Array) -> Array:
        return np.clip(np.floor((x - 2) / 10), -3, 3).astype(np.int64)


def test_a_known_number_of_disagreements() -> None:
    """Six decisions, each two integers apart: twelve; at the end of the range they are still counted."""
    for sign in (1.0, -1.0):
        f = function([Mul(np.array([sign]))], Shifted(1), -50, 50)
        assert check_both(f).disagreements == 12
    assert check_both(function([], Shifted(1), 0, 50)).disagreements == 2 + 6
    assert check_both(function([], Shifted(1), 1, 11)).disagreements == 1 + 2
    assert check_both(function([], Shifted(1), 10, 11)).disagreements == 2


class Doubled(Sign):
    """One decision, of two levels at once: every integer in between counts once, not twice."""

    def codes(self, x: Array) -> Array:
        return np.where(x >= 0, 2, 0).astype(np.int64)

    def exact_codes(self, x: Array) -> Array:
        return np.where(x >= 5, 2, 0).astype(np.int64)


def test_disagreements_count_integers_not_levels() -> None:
    assert check_both(function([], Doubled(1), -50, 50)).disagreements == 5


def test_disagreements_only_count_what_a_channel_can_reach() -> None:
    f = function([Add(np.array([0.0, 0.0]))], Doubled(1), [-50, -50], [50, 2], (2,))
    assert check_both(f).disagreements == 5 + 3


# -- clamps -------------------------------------------------------------------------------------------------------


def test_clamps_become_thresholds() -> None:
    shape = (2, 1)
    clamp = Clamp(np.array([[0], [-3]]), np.array([[5], [100]]))
    f = ClampFunction(shape, np.full(shape, -10), np.full(shape, 20), clamp)
    op = check_both(f)
    assert op.disagreements == 0
    assert op.output == IntRange(-3, 20)


def test_clamps_of_integers_that_float32_does_not_hold() -> None:
    base = 2**40 + 1
    f = ClampFunction((1,), np.array([base]), np.array([base + 9]), Clamp(np.array([base + 2]), np.array([base + 5])))
    assert f(np.array([[base], [base + 3], [base + 9]])).ravel().tolist() == [base + 2, base + 3, base + 5]
    check(f, tabulate(f))
