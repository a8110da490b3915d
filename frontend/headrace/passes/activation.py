"""Exact integer functions: what elementwise float32 steps and a quantizer make of the integers before them.

Never solved for in closed form. The canonical operations are *run*: on every reachable integer when those can be
enumerated, by bisection when the composition is proven monotone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from headrace.ir.grid import Clamp
from headrace.ir.integer import Activation, Lookup
from headrace.ir.op import Array
from headrace.ir.ops import Elementwise, Quantizer
from headrace.ir.real import Single, single
from headrace.ir.scaled import NotExact, Scaled
from headrace.ir.types import IntRange

Int = NDArray[np.int64]

ENUMERABLE = 2**22
"""Largest number of (integer, channel) pairs that is run through the canonical operations one by one."""

MANY_THRESHOLDS = 255
"""Steps of different height are repeated thresholds: up to this many are taken even where a table is shorter."""


FEW_PAIRS = 2**14
"""Up to this many pairs, enumeration is quick whatever the function."""

BISECTION_COST = 2
"""Cost of one evaluation in a bisection relative to one in an enumeration, the exact counterpart included."""


@dataclass(frozen=True, eq=False)
class ChannelFunction:
    """A function from integers to integers per channel.

    Attributes:
        shape: shape that all parameters broadcast to, of the rank of a frame.
        lo, hi: reachable integers, broadcast to *shape*; the function is never asked about any other.
    """

    shape: tuple[int, ...]
    lo: Int
    hi: Int

    def __call__(self, q: Int) -> Int:
        """Integers out for integers in, ``(n, *shape)`` in both, in canonical arithmetic."""
        raise NotImplementedError

    def exact(self, q: Int) -> Int:
        """The same in double precision, standing in for exact real arithmetic."""
        raise NotImplementedError

    def direction(self) -> Int | None:
        """+1 or -1 per channel when the function is proven monotone."""
        raise NotImplementedError

    @property
    def bipolar(self) -> bool:
        """Whether only -1 and +1 come out."""
        return False

    @property
    def axis(self) -> int:
        """The channel axis (0 when the function is the same for every element)."""
        long = [axis for axis, n in enumerate(self.shape) if n > 1]
        return long[0] if long else 0


@dataclass(frozen=True, eq=False)
class ClampFunction(ChannelFunction):
    """A clamp of the integers themselves."""

    clamp: Clamp

    def __call__(self, q: Int) -> Int:
        return np.broadcast_to(self.clamp(q), (q.shape[0], *self.shape))

    def exact(self, q: Int) -> Int:
        return self(q)

    def direction(self) -> Int | None:
        return np.ones(self.shape, np.int64)


@dataclass(frozen=True, eq=False)
class IntegerFunction(ChannelFunction):
    """``codes(steps(q))`` per channel.

    Attributes:
        steps: elementwise float32 operations on the integers.
        codes: final real-to-integer function, float32.
        exact_codes: the same in double precision.
        rising: whether *codes* never falls.
        signs: whether *codes* gives -1 and +1 only.
    """

    steps: Sequence[Elementwise]
    codes: Callable[[Array], Int]
    exact_codes: Callable[[Array], Int]
    rising: bool = True
    signs: bool = False

    @staticmethod
    def of(x: Scaled, shape: tuple[int, ...], quantizer: Quantizer) -> IntegerFunction:
        """What *quantizer* makes of *x*."""
        signs = quantizer.levels.bipolar
        bounds = bounds_over(x, shape)
        return IntegerFunction(
            shape, *bounds, x.steps, quantizer.codes, quantizer.exact_codes, quantizer.rising(), signs
        )

    def __call__(self, q: Int) -> Int:
        real = run_steps(self.steps, q)
        if np.any(np.isnan(real)):
            raise NotExact("its input is not a number (NaN) for some reachable values")
        return np.broadcast_to(self.codes(real), (q.shape[0], *self.shape))

    def exact(self, q: Int) -> Int:
        real = q.astype(np.float64)
        with np.errstate(all="ignore"):  # judged by what comes out
            for step in self.steps:
                real = step.exact(real)
            return np.broadcast_to(self.exact_codes(real), (q.shape[0], *self.shape))

    @property
    def bipolar(self) -> bool:
        return self.signs

    def direction(self) -> Int | None:
        parts = [step.direction() for step in self.steps]
        if any(part is None for part in parts):
            return None
        signs = [np.asarray(part) for part in parts if part is not None]
        sign = reduce(np.multiply, signs, np.ones(self.shape, np.int64))
        return np.broadcast_to(sign if self.rising else -sign, self.shape).astype(np.int64)


def run_steps(steps: Sequence[Elementwise], q: Int) -> Single:
    """The real values that recorded *steps* read integers *q* as, in canonical arithmetic."""
    real = single(q)
    with np.errstate(all="ignore"):  # infinities are values here, and NaN is looked for by the caller
        for step in steps:
            real = step.apply(real)
    return real


@dataclass(frozen=True, eq=False)
class Tabulated:
    """An exact integer operator and the bounds of what comes out, per channel."""

    op: Activation | Lookup
    lo: Int
    hi: Int
    identity: bool


def bounds_over(x: Scaled, shape: tuple[int, ...]) -> tuple[Int, Int]:
    """Reachable integers of *x* per index of *shape*: the extremes along the axes that *shape* does not resolve."""
    gone = tuple(axis for axis, n in enumerate(shape) if n == 1)
    lo, hi = x.lo.min(axis=gone, keepdims=True), x.hi.max(axis=gone, keepdims=True)
    return np.broadcast_to(lo, shape), np.broadcast_to(hi, shape)


def tabulate(f: ChannelFunction) -> Tabulated:
    """The exact integer operator of *f*, along ``f.axis``; if *f* has several channel axes, of the flattened frame.

    Raises:
        NotExact: when the range cannot be enumerated and *f* is not proven monotone.
    """
    channels = math.prod(f.shape)
    if channels > ENUMERABLE:
        raise NotExact(
            f"its constants make {channels:,} functions of their own, up to {ENUMERABLE:,} can be; "
            "use one scale for all"
        )
    low, high = int(f.lo.min()), int(f.hi.max())
    pairs = (high - low + 1) * channels
    if pairs > ENUMERABLE or (pairs > FEW_PAIRS and _bisection_is_cheaper(f, pairs)):
        return _bisected(f, low, high)
    return _enumerated(f, low, high)


def _bisection_is_cheaper(f: ChannelFunction, pairs: int) -> bool:
    """Whether *f* is proven monotone and has few levels for the size of its range."""
    if f.direction() is None:
        return False
    first, last = (f(np.broadcast_to(end, f.shape)[None])[0] for end in (f.lo, f.hi))
    levels = int(np.abs(last - first).max(initial=0)) // (2 if f.bipolar else 1)
    return BISECTION_COST * levels * int(np.prod(f.shape)) * (int((f.hi - f.lo).max()) + 1).bit_length() < pairs


def _bounds(f: ChannelFunction) -> tuple[Int, Int]:
    """Reachable integers per channel, flat."""
    return np.broadcast_to(f.lo, f.shape).ravel(), np.broadcast_to(f.hi, f.shape).ravel()


def _enumerated(f: ChannelFunction, low: int, high: int) -> Tabulated:
    q = np.arange(low, high + 1)
    # Outside a channel's own reachable range its edge value is kept: unreachable steps cost nothing.
    grid = np.clip(q.reshape(-1, *(1,) * len(f.shape)), f.lo, f.hi)
    table = np.ascontiguousarray(f(grid).reshape(q.size, -1).T)
    lo, hi = _bounds(f)
    reachable = (q >= lo[:, None]) & (q <= hi[:, None])
    disagreements = int(np.sum((table != f.exact(grid).reshape(q.size, -1).T) & reachable))
    out_lo, out_hi = table.min(axis=1), table.max(axis=1)
    output = _output_range(f, out_lo, out_hi)
    jumps = np.diff(table, axis=1)
    rises, falls = np.all(jumps >= 0, axis=1), np.all(jumps <= 0, axis=1)
    identity = bool(np.all((table == q) | ~reachable))
    op: Activation | Lookup
    if np.all(rises | falls):
        op = _from_jumps(table, jumps, low, high, f.axis, output, disagreements)
    else:
        op = Lookup(table, low, output, f.axis, disagreements)
    return Tabulated(op, out_lo.reshape(f.shape), out_hi.reshape(f.shape), identity)


def _output_range(f: ChannelFunction, lo: Int, hi: Int) -> IntRange:
    low, high = int(lo.min()), int(hi.max())
    return IntRange(low, high, bipolar=f.bipolar and (low, high) == (-1, 1))


def _from_jumps(
    table: Int, jumps: Int, low: int, high: int, axis: int, output: IntRange, disagreements: int
) -> Activation | Lookup:
    """Thresholds of a table whose rows are monotone, unless jumps of different height made them more than the table."""
    heights = np.abs(jumps)
    unit = int(np.gcd.reduce(heights, axis=None)) or 1
    counts = heights // unit
    totals = counts.sum(axis=1)
    total = int(totals.max(initial=0))
    if total > max(table.shape[1], MANY_THRESHOLDS):
        return Lookup(table, low, output, axis, disagreements)
    thresholds = np.full((table.shape[0], total), high + 1, np.int64)
    where = np.broadcast_to(np.arange(low + 1, high + 1), counts.shape)
    thresholds[np.arange(total) < totals[:, None]] = np.repeat(where, counts.ravel())
    falling = np.any(jumps < 0, axis=1)
    step = np.where(falling, -unit, unit)
    return Activation(thresholds, table[:, 0].copy(), step, output, axis, disagreements)


def _bisected(f: ChannelFunction, low: int, high: int) -> Tabulated:
    direction = f.direction()
    if direction is None:
        raise NotExact(
            f"its {high - low + 1} reachable integers are too many to enumerate and the function is not proven monotone"
        )
    lo, hi = (np.broadcast_to(bound, f.shape).astype(np.int64) for bound in (f.lo, f.hi))
    first, last = f(lo[None])[0], f(hi[None])[0]
    unit = 2 if f.bipolar else 1
    steps = int(np.abs(last - first).max(initial=0)) // unit
    if steps * first.size > ENUMERABLE:
        raise NotExact(
            f"it would need {steps:,} thresholds for each of {first.size:,} channels, {ENUMERABLE:,} in all can be; "
            "quantize to fewer levels"
        )
    goals = direction * first + unit * np.arange(1, steps + 1).reshape(-1, *(1,) * lo.ndim)
    found = _reach(f, lo, hi, direction, np.broadcast_to(lo, goals.shape), np.broadcast_to(hi + 1, goals.shape), goals)
    thresholds = np.where(found > hi, high + 1, found).reshape(steps, first.size).T
    out_lo, out_hi = np.minimum(first, last), np.maximum(first, last)
    op = Activation(
        np.ascontiguousarray(thresholds),
        first.reshape(-1).copy(),
        direction.reshape(-1) * unit,
        _output_range(f, out_lo, out_hi),
        f.axis,
        _disagreements(f, found, lo, hi, direction),
    )
    return Tabulated(op, out_lo, out_hi, identity=False)


def _disagreements(f: ChannelFunction, found: Int, lo: Int, hi: Int, direction: Int) -> int:
    """Reachable integers that *f* and ``f.exact`` map differently, given where *f* rises: it is constant between."""
    starts, stops = np.concatenate([lo[None], found]), np.concatenate([found, hi[None] + 1])
    goals = direction * f(np.minimum(starts, hi))
    first, last = (_reach(f.exact, lo, hi, direction, starts, stops, goal) for goal in (goals, goals + 1))
    return int(np.sum((stops - starts) - (last - first)))


def _reach(run: Callable[[Int], Int], lo: Int, hi: Int, direction: Int, start: Int, stop: Int, goal: Int) -> Int:
    """The smallest integer from *start* on for which ``direction * run`` reaches *goal*; *stop* when none below does.

    All channels and goals ``(n, *channels)`` are bisected together; *run* is asked about integers from *lo* to *hi*.
    """
    below, above = start - 1, stop.copy()
    while np.any(active := above - below > 1):
        middle = below + (above - below) // 2
        reached = direction * run(np.clip(middle, lo, hi)) >= goal
        above, below = np.where(active & reached, middle, above), np.where(active & ~reached, middle, below)
    return above
