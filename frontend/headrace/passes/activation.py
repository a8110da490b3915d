"""Exact integer functions: what elementwise float32 steps and a quantizer make of the integers before them.

Never solved for in closed form. The canonical operations are *run*: on every reachable integer when those can be
enumerated, by bisection when the composition is proven monotone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from headrace.ir.integer import Activation, Lookup
from headrace.ir.op import Array
from headrace.ir.ops import Elementwise
from headrace.ir.scaled import NotExact
from headrace.ir.types import IntRange

Int = NDArray[np.int64]

ENUMERABLE = 2**22
"""Largest number of (integer, channel) pairs that is run through the canonical operations one by one."""


@dataclass(frozen=True, eq=False)
class IntegerFunction:
    """``codes(steps(q))`` per channel.

    Attributes:
        steps: elementwise float32 operations on the integers.
        codes: final real-to-integer function, float32.
        exact_codes: the same in double precision.
        rising: whether *codes* never falls.
        shape: shape that all parameters broadcast to; at most one axis longer than one.
        lo, hi: reachable integers, broadcast to *shape*.
    """

    steps: Sequence[Elementwise]
    codes: Callable[[Array], Int]
    exact_codes: Callable[[Array], Int]
    rising: bool
    shape: tuple[int, ...]
    lo: Int
    hi: Int
    bipolar: bool = False

    def __call__(self, q: Int) -> Int:
        """Integers out for integers in, ``(n, *shape)`` in both, in canonical arithmetic."""
        real = q.astype(np.float32)
        for step in self.steps:
            real = step.apply(real)
        if not np.all(np.isfinite(real) | np.isinf(real)):
            raise NotExact("its input is not a number (NaN) for some reachable values")
        return np.broadcast_to(self.codes(real), (q.shape[0], *self.shape))

    def exact(self, q: Int) -> Int:
        """The same in double precision, standing in for exact real arithmetic."""
        real = q.astype(np.float64)
        for step in self.steps:
            real = step.exact(real)
        return np.broadcast_to(self.exact_codes(real), (q.shape[0], *self.shape))

    def direction(self) -> Int | None:
        """+1 or -1 per channel when the composition is proven monotone."""
        parts = [step.direction() for step in self.steps]
        if any(part is None for part in parts):
            return None
        signs = [np.asarray(part) for part in parts if part is not None]
        sign = reduce(np.multiply, signs, np.ones(self.shape, np.int64))
        return np.broadcast_to(sign if self.rising else -sign, self.shape).astype(np.int64)

    @property
    def axis(self) -> int:
        """The channel axis (0 when the function is the same for every element)."""
        long = [axis for axis, n in enumerate(self.shape) if n > 1]
        return long[0] if long else 0


@dataclass(frozen=True, eq=False)
class Tabulated:
    """An exact integer operator and the bounds of what comes out, per channel."""

    op: Activation | Lookup
    lo: Int
    hi: Int
    identity: bool


def tabulate(f: IntegerFunction) -> Tabulated:
    """The exact integer operator of *f*.

    Raises:
        NotExact: when the range cannot be enumerated and *f* is not proven monotone.
    """
    low, high = int(f.lo.min()), int(f.hi.max())
    channels = int(np.prod(f.shape))
    if (high - low + 1) * channels <= ENUMERABLE:
        return _enumerated(f, low, high)
    return _bisected(f, low, high)


def _bounds(f: IntegerFunction) -> tuple[Int, Int]:
    """Reachable integers per channel, flat."""
    return np.broadcast_to(f.lo, f.shape).ravel(), np.broadcast_to(f.hi, f.shape).ravel()


def _enumerated(f: IntegerFunction, low: int, high: int) -> Tabulated:
    q = np.arange(low, high + 1)
    grid = np.broadcast_to(q.reshape(-1, *(1,) * len(f.shape)), (q.size, *f.shape))
    table = np.ascontiguousarray(f(grid).reshape(q.size, -1).T)
    lo, hi = _bounds(f)
    reachable = (q >= lo[:, None]) & (q <= hi[:, None])
    disagreements = int(np.sum((table != f.exact(grid).reshape(q.size, -1).T) & reachable))
    out_lo = np.where(reachable, table, np.iinfo(np.int64).max).min(axis=1)
    out_hi = np.where(reachable, table, np.iinfo(np.int64).min).max(axis=1)
    output = _output_range(f, out_lo, out_hi)
    table = _hold(table, q, lo, hi)
    jumps = np.diff(table, axis=1)
    rises, falls = np.all(jumps >= 0, axis=1), np.all(jumps <= 0, axis=1)
    identity = bool(np.all((table == q) | ~reachable))
    op: Activation | Lookup
    if np.all(rises | falls):
        op = _from_jumps(table, jumps, low, high, f.axis, output, disagreements)
    else:
        op = Lookup(table, low, output, f.axis, disagreements)
    return Tabulated(op, out_lo.reshape(f.shape), out_hi.reshape(f.shape), identity)


def _hold(table: Int, q: Int, lo: Int, hi: Int) -> Int:
    """Outside a channel's own reachable range keep its edge value: unreachable steps cost nothing."""
    inside = np.clip(q, lo[:, None], hi[:, None]) - q[0]
    return np.take_along_axis(table, inside, axis=1)


def _output_range(f: IntegerFunction, lo: Int, hi: Int) -> IntRange:
    low, high = int(lo.min()), int(hi.max())
    return IntRange(low, high, bipolar=f.bipolar and (low, high) == (-1, 1))


def _from_jumps(
    table: Int, jumps: Int, low: int, high: int, axis: int, output: IntRange, disagreements: int
) -> Activation:
    """Thresholds of a table whose rows are monotone."""
    heights = np.abs(jumps)
    unit = int(np.gcd.reduce(heights, axis=None)) or 1
    counts = heights // unit
    total = int(counts.sum(axis=1).max(initial=0))
    thresholds = np.full((table.shape[0], total), high + 1, np.int64)
    where = np.arange(low + 1, high + 1)
    for channel, row in enumerate(counts):
        found = np.repeat(where, row)
        thresholds[channel, : found.size] = found
    falling = np.any(jumps < 0, axis=1)
    step = np.where(falling, -unit, unit)
    return Activation(thresholds, table[:, 0].copy(), step, output, axis, disagreements)


def _bisected(f: IntegerFunction, low: int, high: int) -> Tabulated:
    direction = f.direction()
    if direction is None:
        raise NotExact(
            f"its {high - low + 1} reachable integers are too many to enumerate and the function is not proven monotone"
        )
    lo, hi = (np.broadcast_to(bound, f.shape).astype(np.int64) for bound in (f.lo, f.hi))
    first, last = f(lo[None])[0], f(hi[None])[0]
    unit = 2 if f.bipolar else 1
    steps = int(np.abs(last - first).max(initial=0)) // unit
    if steps * int(np.prod(f.shape)) > ENUMERABLE:
        raise NotExact(f"it would need {steps} thresholds a channel; quantize to fewer levels")
    found, ideal = (_cross(run, lo, hi, first, direction, steps, unit) for run in (f, f.exact))
    found = np.where(found > hi, high + 1, found)
    ideal = np.where(ideal > hi, high + 1, ideal)
    channels = int(np.prod(f.shape))
    thresholds = np.ascontiguousarray(found.reshape(steps, channels).T)
    out_lo, out_hi = np.minimum(first, last), np.maximum(first, last)
    disagreements = int(np.abs(np.minimum(found, hi + 1) - np.minimum(ideal, hi + 1)).sum())
    op = Activation(
        thresholds,
        first.reshape(-1).copy(),
        direction.reshape(-1) * unit,
        _output_range(f, out_lo, out_hi),
        f.axis,
        disagreements,
    )
    return Tabulated(op, out_lo, out_hi, identity=False)


def _cross(run: Callable[[Int], Int], lo: Int, hi: Int, first: Int, direction: Int, steps: int, unit: int) -> Int:
    """For k = 1..steps and every channel, the smallest integer whose output is k units past the first one's.

    ``hi + 1`` when there is none. All channels and levels are bisected together.
    """
    if steps == 0:
        return np.empty((0, *lo.shape), np.int64)
    goal = unit * np.arange(1, steps + 1).reshape(-1, *(1,) * lo.ndim)
    below = np.broadcast_to(lo, (steps, *lo.shape)).copy()  # f(below) has not reached the goal (f(lo) = first)
    above = np.broadcast_to(hi + 1, (steps, *lo.shape)).copy()
    while np.any(above - below > 1):
        middle = below + (above - below) // 2
        reached = direction * (run(middle) - first) >= goal
        above = np.where(reached, middle, above)
        below = np.where(reached, below, middle)
    return above
