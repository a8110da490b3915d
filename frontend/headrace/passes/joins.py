"""Which integers stand for a sum of branches of different scales: the smallest that decide every code as float32 does.

PyTorch adds the float32 values of both branches; hardware adds integers, ``k = n0 * q0 + n1 * q1``, and looks the code
up in ``k``. For every pair of reachable integers the code is known (it is run). Where it is proven monotone, it is a
staircase: for each code and each ``q1``, the smallest ``q0`` that reaches it. Factors decide all of it if and only if,
for every code, all pairs below have a smaller ``k`` than all pairs at or above; that is checked, never assumed. The
factors come from the ratio of the scales, small ones first; a branch of few values may also pass a table, which can
follow any ratio and any rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.ir.integer import Activation, Lookup
from headrace.ir.scaled import Int, NotExact
from headrace.ir.types import IntRange
from headrace.passes.fixed_point import to_integers
from headrace.passes.joint_function import JointFunction, join_values

STAIRS = 2**19
"""Most steps of a staircase (codes x other integers x channels) that are computed."""

FEW_PAIRS, PAIRS = 2**10, 2**16
"""Entries of a table over all pairs of integers that is preferred to large factors, and most of one at all."""

SMALL, LARGE = 16, 4096
"""Factors that are tried before and after tables for one branch."""

TABLE = 2**16
"""Most entries of the table that one branch may pass."""


@dataclass(frozen=True, eq=False)
class Combination:
    """``k = sum of factors[i] * q[i]`` (of ``tables[i][q[i]]`` where there is one), and the code as a function of k.

    Attributes:
        factors: one per source.
        tables: by index of the source.
        op: from k to codes.
        lo, hi: codes that can come out, per channel.
    """

    factors: tuple[int, ...]
    tables: dict[int, Lookup]
    op: Activation | Lookup
    lo: Int
    hi: Int


def combine(f: JointFunction) -> Combination | None:
    """The cheapest combination that gives *f* exactly, or None when none of moderate size does."""
    if sum(n > 1 for n in f.shape) > 1:
        return None
    stairs = climb(f)
    if stairs is None:
        return _all_pairs(f)
    return (
        _linear(stairs, SMALL)
        or _with_table(stairs, 4)
        or _all_pairs(f, FEW_PAIRS)
        or _linear(stairs, LARGE)
        or _with_table(stairs, 10)
        or _all_pairs(f)
    )


# -- the staircase ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Stairs:
    """A monotone joint function, told by where it rises along one source.

    Attributes:
        f: the function.
        main: index of the source along which it is told; ``sign`` (per channel) is its direction there.
        others: integers of every source for each of the M combinations of the other sources, ``(M, C)``.
        first: lowest value of ``sign * f``, ``(C,)``; every stair rises by *unit*.
        at: for each of J stairs, combination and channel, the smallest integer of the main source that reaches it
            (one past the reachable ones when none does), ``(J, M, C)``.
        disagreements: pairs on which float32 and exact real arithmetic decide differently.
    """

    f: JointFunction
    main: int
    sign: Int
    others: tuple[Int, ...]
    first: Int
    unit: int
    at: Int
    disagreements: int


def climb(f: JointFunction) -> Stairs | None:
    """The staircase of *f*; None when it is not proven monotone, or too large to compute."""
    directions = f.directions()
    if directions is None:
        return None
    counts = [int(hi.max()) - int(lo.min()) + 1 for lo, hi in f.bounds]
    main = int(np.argmax(counts))
    combinations = float(np.prod([float(n) for k, n in enumerate(counts) if k != main]))
    if combinations * f.channels > STAIRS:
        return None
    others, real = _combinations(f, main)
    sign = directions[main]
    lo, hi = (np.broadcast_to(b, others[0].shape) for b in f.bounds[main])

    def along(run: Callable[..., Int], q: Int) -> Int:
        """``sign * run`` for integers *q* of the main source, ``(stairs, M, C)``."""
        feeds = [q if k == main else np.broadcast_to(o, q.shape) for k, o in enumerate(others)]
        result: Int = sign * run(*(part.reshape(-1, f.channels) for part in feeds)).reshape(q.shape)
        return result

    first, last = along(f, lo[None])[0].min(axis=0), along(f, hi[None])[0].max(axis=0)
    unit = 2 if f.signs else 1
    stairs = int((last - first).max()) // unit
    if combinations * f.channels * max(stairs, 1) > STAIRS:
        return None
    goals = first + unit * np.arange(1, stairs + 1)[:, None, None]
    at = _rise(lambda q: along(f, q) >= goals, lo, hi, stairs)
    ideal = _rise(lambda q: along(f.exact, q) >= goals, lo, hi, stairs)
    return Stairs(f, main, sign, others, first, unit, at, int(np.abs(at - ideal)[:, real].sum()))


def _combinations(f: JointFunction, main: int) -> tuple[tuple[Int, ...], NDArray[np.bool_]]:
    """Integers of every source for all combinations of the sources but *main*, and which are reachable everywhere."""
    axes = [
        np.arange(1) if k == main else np.arange(int(lo.min()), int(hi.max()) + 1)
        for k, (lo, hi) in enumerate(f.bounds)
    ]
    grids = [g.reshape(-1, 1) for g in np.meshgrid(*axes, indexing="ij")]
    clipped = tuple(
        np.clip(g, lo, hi) if k != main else g + 0 * lo
        for k, (g, (lo, hi)) in enumerate(zip(grids, f.bounds, strict=True))
    )
    real = np.ones(grids[0].shape[0], bool)
    for k, (g, c) in enumerate(zip(grids, clipped, strict=True)):
        if k != main:
            real &= np.any(g == c, axis=1)
    return clipped, real


def _rise(reached: Callable[[Int], NDArray[np.bool_]], lo: Int, hi: Int, stairs: int) -> Int:
    """By bisection of all stairs together, the smallest integer for which *reached* holds."""
    below = np.broadcast_to(lo - 1, (stairs, *lo.shape)).copy()
    above = np.broadcast_to(hi + 1, (stairs, *lo.shape)).copy()
    while np.any(above - below > 1):
        middle = below + (above - below) // 2
        inside = np.clip(middle, lo, hi)
        yes = reached(inside) & (middle >= lo)
        active = above - below > 1
        above = np.where(active & yes, middle, above)
        below = np.where(active & ~yes, middle, below)
    return above


# -- combinations -----------------------------------------------------------------------------------------------------


def _linear(stairs: Stairs, largest: int) -> Combination | None:
    for factors in _ratios(stairs, largest):
        others = sum(n * q for k, (n, q) in enumerate(zip(factors, stairs.others, strict=True)) if k != stairs.main)
        found = _thresholds(stairs, factors[stairs.main], np.asarray(others))
        if found is not None:
            return _combination(stairs, factors, {}, found, np.asarray(others))
    return None


def _ratios(stairs: Stairs, largest: int) -> Iterator[tuple[int, ...]]:
    """Integer factors near the ratio of the branches' slopes, small first, reduced."""
    slopes = _slopes(stairs.f)
    smallest = min((abs(s) for s in slopes if s), default=0.0)
    if not smallest or not np.all(np.isfinite(slopes)):
        return
    ratios = np.array(slopes) / smallest
    best = np.inf
    seen: set[tuple[int, ...]] = set()
    sign = int(np.sign(slopes[stairs.main])) or 1
    for multiple in range(1, largest + 1):
        n = np.rint(ratios * multiple)
        if np.abs(n).max() > largest:
            break
        error = float(np.abs(n / multiple - ratios).max())
        if multiple > SMALL and error >= best:
            continue
        best = min(best, error)
        whole = n.astype(np.int64)
        divisor = int(np.gcd.reduce(whole)) or 1
        factors = tuple(int(v) // divisor * sign for v in whole)
        if factors[stairs.main] > 0 and factors not in seen:
            seen.add(factors)
            yield factors


def _slopes(f: JointFunction) -> list[float]:
    """Real change per integer of each source, over its range, in the first channel and before the last steps."""
    middle = [(lo[:1] + hi[:1]) // 2 for lo, hi in f.bounds]
    found = []
    for k, (lo, hi) in enumerate(f.bounds):
        span = int(hi[0] - lo[0])
        ends = []
        for q in (lo[:1], hi[:1]):
            feeds = {
                v: np.broadcast_to(q if j == k else middle[j], (1, *f.shape)) for j, v in enumerate(f.sources)
            }
            sides = [join_values(side, feeds, exact=True) for side in (f.x.left, f.x.right)]
            ends.append(float(np.asarray(f.x.op.combine_exact(*sides)).flat[0]))
        found.append((ends[1] - ends[0]) / span if span else 0.0)
    return found


def _thresholds(stairs: Stairs, n: int, others: Int) -> Int | None:
    """Thresholds of ``k = n * q + others`` (``n > 0``) that separate every stair, ``(J, C)``, if there are any."""
    lo, hi = stairs.f.bounds[stairs.main]
    far = np.iinfo(np.int64).max // 4
    below = np.where(stairs.at > lo, n * (stairs.at - 1) + others, -far).max(axis=1)
    reached = np.where(stairs.at <= hi, n * stairs.at + others, far).min(axis=1)
    if np.any(below >= reached):
        return None
    found: Int = np.where(reached == far, far, below + 1)
    return found


def _with_table(stairs: Stairs, shifts: int) -> Combination | None:
    """``k = 2^s * q0 + table[q1]``: the table follows every stair as closely as its neighbours allow."""
    if len(stairs.f.sources) != 2 or stairs.at.size == 0:
        return None
    other = 1 - stairs.main
    values = stairs.others[other]
    lo = int(stairs.f.bounds[other][0].min())
    count = values.shape[0]
    if count * stairs.f.channels > TABLE:
        return None
    for shift in range(shifts + 1):
        n = 2**shift
        table = _fit(stairs, n)
        found = None if table is None else _thresholds(stairs, n, table)
        if table is None or found is None:
            continue
        table = table - table.min()
        found = _thresholds(stairs, n, table)
        assert found is not None
        rows = np.ascontiguousarray(table.T)
        rows = rows[:1] if np.array_equal(rows, np.broadcast_to(rows[:1], rows.shape)) else rows
        lookup = Lookup(rows, lo, IntRange(0, int(rows.max())), _axis(stairs.f))
        factors = tuple(n if k == stairs.main else 1 for k in range(2))
        return _combination(stairs, factors, {other: lookup}, found, table)
    return None


ROUNDS = 64
"""Most relaxations of a table; the constraints of a hopeless one drift for ever."""


def _fit(stairs: Stairs, n: int) -> Int | None:
    """The table ``(M, C)`` for factor *n*, by relaxation of the difference constraints between stairs and entries."""
    lo, hi = stairs.f.bounds[stairs.main]
    interior = (stairs.at > lo) & (stairs.at <= hi)
    mean = np.where(interior, stairs.at, 0).sum(axis=0) / np.maximum(interior.sum(axis=0), 1)
    table: Int = np.rint(-n * mean).astype(np.int64)
    for _ in range(ROUNDS):
        below = np.where(stairs.at > lo, n * (stairs.at - 1) + table, np.iinfo(np.int64).min // 4).max(axis=1)
        least = np.where(stairs.at <= hi, below[:, None] + 1 - n * stairs.at, np.iinfo(np.int64).min // 4).max(axis=0)
        if np.all(table >= least):
            return table
        table = np.maximum(table, least)
    return None


def _axis(f: JointFunction) -> int:
    return next((axis for axis, n in enumerate(f.shape) if n > 1), 0)


def _combination(
    stairs: Stairs, factors: Sequence[int], tables: dict[int, Lookup], thresholds: Int, others: Int
) -> Combination:
    hi = stairs.f.bounds[stairs.main][1]
    n = factors[stairs.main]
    top = int((n * hi + others).max())
    rows = np.ascontiguousarray(np.minimum(thresholds, top + 1).T)
    reached = (rows <= top).sum(axis=1)
    ends = [stairs.sign * stairs.first, stairs.sign * (stairs.first + stairs.unit * reached)]
    out_lo, out_hi = np.minimum(*ends), np.maximum(*ends)
    output = _output(stairs.f, out_lo, out_hi)
    op = Activation(
        rows, ends[0].copy(), stairs.sign * stairs.unit, output, _axis(stairs.f), stairs.disagreements
    )
    shape = stairs.f.shape
    return Combination(tuple(factors), tables, op, out_lo.reshape(shape), out_hi.reshape(shape))


def _output(f: JointFunction, lo: Int, hi: Int) -> IntRange:
    low, high = int(lo.min()), int(hi.max())
    return IntRange(low, high, bipolar=f.signs and (low, high) == (-1, 1))


def _all_pairs(f: JointFunction, entries: int = PAIRS) -> Combination | None:
    """``k = q0 + count * q1``: every pair has an entry of its own in one table."""
    if len(f.sources) != 2:
        return None
    (lo0, hi0), (lo1, hi1) = f.bounds
    low0, low1 = int(lo0.min()), int(lo1.min())
    n0, n1 = int(hi0.max()) - low0 + 1, int(hi1.max()) - low1 + 1
    if n0 * n1 * f.channels > entries:
        return None
    q1, q0 = (q.reshape(-1, 1) for q in np.meshgrid(np.arange(n1) + low1, np.arange(n0) + low0, indexing="ij"))
    pair = np.clip(q0, lo0, hi0), np.clip(q1, lo1, hi1)
    codes, ideal = f(*pair), f.exact(*pair)
    reachable = (q0 == pair[0]) & (q1 == pair[1])
    lo, hi = codes.min(axis=0), codes.max(axis=0)
    table = np.ascontiguousarray(codes.T)
    disagreements = int(((codes != ideal) & reachable).sum())
    op = Lookup(table, low0 + n0 * low1, _output(f, lo, hi), _axis(f), disagreements)
    return Combination((1, n0), {}, op, lo.reshape(f.shape), hi.reshape(f.shape))


def tabulate_values(f: JointFunction) -> tuple[Combination, int]:
    """The float32 values of ``f.x`` over all pairs (or all integers of its one source), as fixed-point integers.

    Returns:
        the combination and the exponent of the integers that it gives.

    Raises:
        NotExact: when there are too many.
    """
    counts = [int(hi.max()) - int(lo.min()) + 1 for lo, hi in f.bounds]
    lows = [int(lo.min()) for lo, _ in f.bounds]
    entries = float(np.prod([float(n) for n in counts])) * f.channels
    if len(counts) > 2 or sum(n > 1 for n in f.shape) > 1 or entries > PAIRS:
        raise NotExact(
            f"{f.x.op} of {' x '.join(map(str, counts))} integers is too large for a table; quantize both to fewer bits"
        )
    axes = [np.arange(n) + low for n, low in zip(counts, lows, strict=True)]
    grids = [g.reshape(-1, 1) for g in np.meshgrid(*reversed(axes), indexing="ij")]  # the first source varies fastest
    table, exponent = to_integers(f.real(*(np.clip(g, *b) for g, b in zip(reversed(grids), f.bounds, strict=True))))
    lo, hi = table.min(axis=0), table.max(axis=0)
    factors = (1, counts[0])[: len(counts)]
    low = sum(n * at for n, at in zip(factors, lows, strict=True))
    op = Lookup(np.ascontiguousarray(table.T), low, IntRange(int(lo.min()), int(hi.max())), _axis(f))
    return Combination(factors, {}, op, lo.reshape(f.shape), hi.reshape(f.shape)), exponent
