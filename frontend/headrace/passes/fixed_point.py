"""Real tensors as fixed-point integers: the float32 values themselves, times one power of two for the whole tensor.

Every float32 number is an integer times a power of two, so a tensor of few values, or one that was only scaled and
shifted, always has such integers. They are wider than the model's own, but exact: a float32 multiplication is an
integer one rounded to 24 significant bits, and so is an addition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.ir import Op
from headrace.ir.integer import Lookup
from headrace.ir.op import Array
from headrace.ir.ops import Add, AddTensors, BatchNorm, Clip, Div, Elementwise, HardSigmoid, Limit, Mul
from headrace.ir.per_channel import IntAffine, IntClip, to_significand
from headrace.ir.real import single
from headrace.ir.scaled import Joined, NotExact, Scaled
from headrace.ir.types import IntRange
from headrace.passes.activation import bounds_over, run_steps

Int = NDArray[np.int64]

WIDEST = 62
"""Most bits of a fixed-point integer."""

LOWEST = -126
"""Smallest exponent of the power of two: below it float32 loses bits."""

HIGHEST = 64
"""Exponents below this leave room for 62 bits before float32 overflows."""

SMALL_TABLE = 2**12
LARGE_TABLE = 2**20
"""Entries of a table that is preferred to wide multiplications, and of one that is accepted where these do not do."""

EXACT = 2**24
"""Integers up to this are float32 numbers."""


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """How to make fixed-point integers of an integer tensor.

    Attributes:
        ops: integer operators to apply, in order.
        lo, hi: bounds of the result.
        exponent: the values are the integers times two to this power.
    """

    ops: tuple[Op, ...]
    lo: Int
    hi: Int
    exponent: int

    @property
    def rounds(self) -> bool:
        """Whether products have to be rounded to float32's significand."""
        return any(isinstance(op, IntAffine) and op.significand for op in self.ops)


def fixed_point(x: Scaled) -> FixedPoint:
    """The fixed-point form of *x*: free where possible, else a small table, else multiplications, else a large table.

    Raises:
        NotExact: when it has none of at most 62 bits.
    """
    computed = reason = None
    try:
        computed = _computed(x)
    except NotExact as error:
        reason = error
    if computed is not None and not computed.rounds:
        return computed
    shape = np.broadcast_shapes((1,) * len(x.shape), *(step.parameter_shape() for step in x.steps))
    entries = (int(x.hi.max()) - int(x.lo.min()) + 1) * int(np.prod(shape))
    if sum(n > 1 for n in shape) <= 1 and entries <= (SMALL_TABLE if computed is not None else LARGE_TABLE):
        return _tabulated(x, shape)
    if computed is None:
        raise NotExact(f"its input has too many values for a table ({entries}), and {reason}")
    return computed


def to_integers(values: Array) -> tuple[Int, int]:
    """Integers and an exponent with ``values == integers * 2**exponent``, the exponent as large as possible.

    Raises:
        NotExact: when values are infinite, NaN or so far apart that the integers pass 62 bits.
    """
    if not np.all(np.isfinite(values)):
        raise NotExact("some of its reachable values are infinite or not numbers")
    fraction, power = np.frexp(values.astype(np.float64))
    whole = np.rint(fraction * 2.0**53).astype(np.int64)
    used = whole != 0
    if not np.any(used):
        return np.zeros(values.shape, np.int64), 0
    trailing = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    low = power - 53 + trailing
    exponent = int(low[used].min())
    if exponent < LOWEST or int(power[used].max()) - exponent > WIDEST:
        raise NotExact("its reachable values are too far apart in magnitude for integers of 62 bits")
    integers = np.where(used, (whole >> trailing) << np.where(used, low - exponent, 0), 0)
    return integers.astype(np.int64), exponent


def _tabulated(x: Scaled, shape: tuple[int, ...]) -> FixedPoint:
    """A table of the values of every reachable integer, per channel."""
    low, high = int(x.lo.min()), int(x.hi.max())
    lo, hi = bounds_over(x, shape)
    q = np.clip(np.arange(low, high + 1).reshape(-1, *(1,) * len(shape)), lo, hi)
    table, exponent = to_integers(run_steps(x.steps, np.broadcast_to(q, (q.shape[0], *shape))))
    rows = np.ascontiguousarray(table.reshape(table.shape[0], -1).T)
    out_lo, out_hi = rows.min(axis=1), rows.max(axis=1)
    axis = next((k for k, n in enumerate(shape) if n > 1), 0)
    op = Lookup(rows, low, IntRange(int(out_lo.min()), int(out_hi.max())), axis)
    return FixedPoint((op,), out_lo.reshape(shape), out_hi.reshape(shape), exponent)


def _computed(x: Scaled) -> FixedPoint:
    """The steps one by one: multiplications, additions and clips by constants."""
    state = rounded(FixedPoint((), x.lo, x.hi, 0))
    for factor, term, ends in _stages(x.steps, len(x.shape)):
        state = _affine(state, factor, term)
        if ends is not None:
            state = _clip(state, *ends)
    return state


Stage = tuple[Array, Array, tuple[Array, Array] | None]
"""A factor, a term, and the bounds of a clip if there is one: float32 numbers that broadcast against a frame."""


def _stages(steps: Sequence[Elementwise], rank: int) -> list[Stage]:
    """*steps* as stages of one float32 multiplication, one addition and one clip each.

    Raises:
        NotExact: when a step is none of these.
    """
    one, zero = np.ones((1,) * rank, np.float32), np.zeros((1,) * rank, np.float32)
    stages: list[Stage] = []
    for step in steps:
        if isinstance(step, BatchNorm):
            stages.append((single(step.a), single(step.b), None))
        elif isinstance(step, Mul):
            stages.append((single(step.factor), zero, None))
        elif isinstance(step, Div) and np.all(np.frexp(step.divisor)[0] == 0.5):
            stages.append((single(1.0 / step.divisor.astype(np.float64)), zero, None))
        elif isinstance(step, Add):
            open_ = stages and stages[-1][2] is None and not np.any(stages[-1][1])
            before = stages.pop() if open_ else (one, zero, None)
            stages.append((before[0], single(step.term), None))
        elif isinstance(step, Clip | Limit):
            before = stages.pop() if stages and stages[-1][2] is None else (one, zero, None)
            stages.append((before[0], before[1], (single(step.lo) * one, single(step.hi) * one)))
        elif isinstance(step, HardSigmoid):
            stages.append((single(step.alpha) * one, single(step.beta) * one, (zero, one)))
        else:
            raise NotExact(f"{step.title} is no multiplication, addition or clip")
    return stages


def _affine(state: FixedPoint, factor: Array, term: Array) -> FixedPoint:
    """*state* times *factor* plus *term*, each rounded to float32 where that changes something."""
    m, scale = to_integers(factor)
    t, place = to_integers(term)
    exponent = state.exponent + scale
    if np.any(t):
        if place < exponent:
            m, exponent = _lengthened(m, exponent - place), place
        t = _lengthened(t, place - exponent)
    odd = np.abs(m) >> np.where(m != 0, np.frexp((m & -m).astype(np.float64))[1] - 1, 0)
    reach = np.maximum(np.abs(state.lo.astype(np.float64)), np.abs(state.hi.astype(np.float64)))
    product = reach * np.abs(m)
    total = product + np.abs(t)
    if float(total.max()) >= 2.0**WIDEST or not LOWEST <= exponent < HIGHEST:
        raise NotExact("its reachable values are too far apart in magnitude for integers of 62 bits")
    kept = np.all((reach * odd <= EXACT) | (odd <= 1))  # what is multiplied is a float32 number already
    rounds = not kept or (bool(np.any(t)) and float(total.max()) > EXACT)
    ends = [_apply(q, m, t, rounds) for q in (state.lo, state.hi)]
    lo, hi = np.minimum(*ends), np.maximum(*ends)
    if np.all(m == 1) and not np.any(t) and not rounds:
        return FixedPoint(state.ops, lo, hi, exponent)
    axis = _axis(m, t)
    output = IntRange(int(lo.min()), int(hi.max()))
    op = IntAffine(_flat(m), _flat(t), output, axis, rounds)
    return FixedPoint((*state.ops, op), lo, hi, exponent)


def _apply(q: Int, m: Int, t: Int, rounds: bool) -> Int:
    return to_significand(to_significand(q * m) + t) if rounds else np.asarray(q * m + t)


def _lengthened(m: Int, bits: int) -> Int:
    if bits > WIDEST or float(np.abs(m).max(initial=0)) * 2.0**bits >= 2.0**WIDEST:
        raise NotExact("its reachable values are too far apart in magnitude for integers of 62 bits")
    return m << bits


def _axis(*constants: Int) -> int:
    """The one axis along which *constants* vary.

    Raises:
        NotExact: when there are several.
    """
    shape = np.broadcast_shapes(*(c.shape for c in constants))
    long = [axis for axis, n in enumerate(shape) if n > 1]
    if len(long) > 1:
        raise NotExact("its scale or offset varies along several axes")
    return long[0] if long else 0


def _flat(constant: Int) -> Int:
    return constant.reshape(-1)


def _clip(state: FixedPoint, low: Array, high: Array) -> FixedPoint:
    """*state* clipped between float32 bounds; those that cannot be reached are left out."""
    unit = 2.0**state.exponent
    low = np.where(low <= state.lo.min() * unit, -np.inf, low)
    high = np.where(high >= state.hi.max() * unit, np.inf, high)
    below, above = np.isfinite(low), np.isfinite(high)
    if not np.any(below | above):
        return state
    whole, place = to_integers(np.stack(np.broadcast_arrays(np.where(below, low, 0.0), np.where(above, high, 0.0))))
    if np.any(whole) and place < state.exponent:
        rank = state.lo.ndim
        finer = _lengthened(np.ones((1,) * rank, np.int64), state.exponent - place)
        output = IntRange(int((state.lo * finer).min()), int((state.hi * finer).max()))
        shift = IntAffine(_flat(finer), np.zeros(1, np.int64), output)
        state = FixedPoint((*state.ops, shift), state.lo * finer, state.hi * finer, place)
    whole = _lengthened(whole, place - state.exponent) if np.any(whole) else whole
    bottom = np.where(below, whole[0], np.where(above, np.minimum(whole[1], state.lo.min()), state.lo.min()))
    top = np.where(above, whole[1], np.maximum(bottom, state.hi.max()))
    lo, hi = (np.minimum(np.maximum(end, bottom), top) for end in (state.lo, state.hi))
    op = IntClip(_flat(bottom), _flat(top), IntRange(int(lo.min()), int(hi.max())), _axis(bottom, top))
    return FixedPoint((*state.ops, op), lo, hi, state.exponent)


def unit_scale(exponent: int, rank: int) -> NDArray[np.float64]:
    """Two to the power *exponent*, as it broadcasts against a frame."""
    return np.full((1,) * rank, 2.0**exponent)


def rounded(part: FixedPoint) -> FixedPoint:
    """*part* with its integers rounded to float32's significand, where they are wider."""
    if max(abs(int(part.lo.min())), abs(int(part.hi.max()))) <= EXACT:
        return part
    lo, hi = to_significand(part.lo), to_significand(part.hi)
    output = IntRange(int(lo.min()), int(hi.max()))
    op = IntAffine(np.ones(1, np.int64), np.zeros(1, np.int64), output, 0, True)
    return replace(part, ops=(*part.ops, op), lo=lo, hi=hi)


def is_plain(x: Scaled | Joined) -> bool:
    """Whether the integers of *x* are its float32 values times a power of two, and those of all that it adds up."""
    if isinstance(x, Joined):
        return isinstance(x.op, AddTensors) and not x.steps and is_plain(x.left) and is_plain(x.right)
    try:
        return not fixed_point(x).ops
    except NotExact:
        return False
