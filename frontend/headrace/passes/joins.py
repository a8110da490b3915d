"""Which integers stand for a sum of branches of different scales: the smallest that decide every code as float32 does.

PyTorch adds the float32 values of both branches; hardware adds integers, ``k = n0 * q0 + n1 * q1``, and looks the code
up in ``k``. For every pair of reachable integers the code is known (it is run). Where it is proven monotone, it is a
staircase: for each code and each ``q1``, the smallest ``q0`` that reaches it. Factors decide all of it if and only if,
for every code, all pairs below have a smaller ``k`` than all pairs at or above; that is checked, never assumed. The
factors come from the ratio of the scales, small ones first; a branch of few values may also pass a table, which can
follow any ratio and any rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headrace.ir.integer import Activation, IntAffine, Lookup
from headrace.ir.op import Array
from headrace.ir.scaled import Int, NotExact
from headrace.ir.types import IntRange
from headrace.passes.fixed_point import to_integers
from headrace.passes.joint_function import JointFunction
from headrace.passes.segments import MOST
from headrace.passes.stairs import Stairs, climb

FEW_PAIRS, PAIRS = 2**10, 2**16
"""Entries of a table over all pairs of integers that is preferred to large factors, and most of one at all."""

WALKED = 2**22
"""Most pairs whose values are sorted to find the segments of a function that rises and falls."""

SMALL, LARGE = 16, 4096
"""Factors that are tried before and after tables for one branch."""

FEW_ENTRIES, TABLE = 2**8, 2**16
"""Integers of a branch up to which it passes a table rather than multiplications, and most entries of such a table."""

MULTIPLIERS = range(8, 29, 4)
"""Binary places of large factors that are tried for branches of many integers."""


@dataclass(frozen=True, eq=False)
class Combination:
    """``k = sum of factors[i] * q[i]`` (of ``tables[i](q[i])`` where there is one), and the code as a function of k.

    Attributes:
        factors: one per source.
        tables: by index of the source.
        op: from k to codes, or to segments.
        lo, hi: codes that can come out, per channel.
        then: from segments to codes, where the function rises and falls.
    """

    factors: tuple[int, ...]
    tables: dict[int, Lookup | IntAffine]
    op: Activation | Lookup
    lo: Int
    hi: Int
    then: Lookup | None = None


def combine(f: JointFunction) -> Combination | None:
    """The cheapest combination that gives *f* exactly, or None when none of moderate size does."""
    if sum(n > 1 for n in f.shape) > 1:
        return None
    stairs = climb(f)
    if stairs is None:
        return _all_pairs(f, FEW_PAIRS) or _in_segments(f) or _all_pairs(f)
    return (
        _linear(stairs, _ratios(stairs, SMALL))
        or _with_table(stairs, 4, FEW_ENTRIES)
        or _all_pairs(f, FEW_PAIRS)
        or _linear(stairs, _ratios(stairs, LARGE))
        or _with_table(stairs, 10, FEW_ENTRIES)
        or _linear(stairs, _close_ratios(stairs))
        or _with_factors(stairs)
        or _with_table(stairs, 10, TABLE)
        or _all_pairs(f)
    )


# -- combinations -----------------------------------------------------------------------------------------------------


def _linear(stairs: Stairs, candidates: Iterable[tuple[int, ...]]) -> Combination | None:
    """The first of *candidates* that works, the same factors for all channels."""
    for factors in candidates:
        others = sum(n * q for k, (n, q) in enumerate(zip(factors, stairs.others, strict=True)) if k != stairs.main)
        found = _thresholds(stairs, factors[stairs.main], np.asarray(others))
        if found is not None:
            return _combination(stairs, factors, {}, found, np.asarray(others))
    return None


def _ratios(stairs: Stairs, largest: int) -> Iterator[tuple[int, ...]]:
    """Integer factors near the ratio of the branches' slopes, small first, reduced."""
    slopes = stairs.slopes[:, 0]
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


def _close_ratios(stairs: Stairs) -> Iterator[tuple[int, ...]]:
    """For two sources, best rational approximations of the ratio of their slopes, ever closer."""
    slopes = stairs.slopes[:, 0]
    if len(slopes) != 2 or not np.all(np.isfinite(slopes)) or not np.all(slopes):
        return
    other = 1 - stairs.main
    ratio = Fraction(float(slopes[other])) / Fraction(float(slopes[stairs.main]))
    for places in MULTIPLIERS:
        near = ratio.limit_denominator(2**places)
        if 0 < abs(near.numerator) < 2**30:
            yield tuple(near.denominator if k == stairs.main else near.numerator for k in range(2))


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


def _with_factors(stairs: Stairs) -> Combination | None:
    """``k = 2^s * q0 + n[c] * q1``, for a branch of more integers than a small table has."""
    if len(stairs.f.sources) != 2 or stairs.at.size == 0:
        return None
    other = 1 - stairs.main
    (lo, hi), values = stairs.f.bounds[other], stairs.others[other]
    with np.errstate(all="ignore"):
        ratio = stairs.slopes[other] / stairs.slopes[stairs.main]
    if not np.all(np.abs(ratio) < 2.0**16):
        return None
    for places in MULTIPLIERS:
        n = np.rint(ratio * 2**places).astype(np.int64)
        found = _thresholds(stairs, 2**places, n * values)
        if found is not None:
            ends = np.stack([n * lo, n * hi])
            output = IntRange(int(ends.min()), int(ends.max()))
            op = IntAffine(n, np.zeros(1, np.int64), output, _axis(stairs.f))
            factors = tuple(2**places if k == stairs.main else 1 for k in range(2))
            return _combination(stairs, factors, {other: op}, found, n * values)
    return None


def _with_table(stairs: Stairs, shifts: int, entries: int) -> Combination | None:
    """``k = 2^s * q0 + table[q1]``: the table follows every stair as closely as its neighbours allow."""
    if len(stairs.f.sources) != 2 or stairs.at.size == 0:
        return None
    other = 1 - stairs.main
    values = stairs.others[other]
    lo = int(stairs.f.bounds[other][0].min())
    count = values.shape[0]
    if count > entries or count * stairs.f.channels > TABLE:
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


ROUNDS = 2**23
"""Most constraints that are looked at to relax a table: those of a hopeless one drift for ever."""


def _fit(stairs: Stairs, n: int) -> Int | None:
    """The table ``(M, C)`` for factor *n*, by relaxation of the difference constraints between stairs and entries."""
    lo, hi = stairs.f.bounds[stairs.main]
    interior = (stairs.at > lo) & (stairs.at <= hi)
    mean = np.where(interior, stairs.at, 0).sum(axis=0) / np.maximum(interior.sum(axis=0), 1)
    table: Int = np.rint(-n * mean).astype(np.int64)
    for _ in range(min(max(ROUNDS // stairs.at.size, 8), 64)):
        below = np.where(stairs.at > lo, n * (stairs.at - 1) + table, np.iinfo(np.int64).min // 4).max(axis=1)
        least = np.where(stairs.at <= hi, below[:, None] + 1 - n * stairs.at, np.iinfo(np.int64).min // 4).max(axis=0)
        if np.all(table >= least):
            return table
        table = np.maximum(table, least)
    return None


def _axis(f: JointFunction) -> int:
    return next((axis for axis, n in enumerate(f.shape) if n > 1), 0)


def _combination(
    stairs: Stairs, factors: Sequence[int], tables: dict[int, Lookup | IntAffine], thresholds: Int, others: Int
) -> Combination:
    hi = stairs.f.bounds[stairs.main][1]
    n = factors[stairs.main]
    top = int((n * hi + others).max())
    rows = np.ascontiguousarray(np.minimum(thresholds, top + 1).T)
    reached = (rows <= top).sum(axis=1)
    ends = [stairs.sign * stairs.first, stairs.sign * (stairs.first + stairs.unit * reached)]
    out_lo, out_hi = np.minimum(*ends), np.maximum(*ends)
    output = _output(stairs.f, out_lo, out_hi)
    op = Activation(rows, ends[0].copy(), stairs.sign * stairs.unit, output, _axis(stairs.f), stairs.disagreements)
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


def _in_segments(f: JointFunction) -> Combination | None:
    """A function that rises and falls with the joined value: which segment the value lies in, then its code."""
    core = replace(f, x=replace(f.x, steps=()))
    counts = [int(hi.max()) - int(lo.min()) + 1 for lo, hi in f.bounds]
    if f.directions() is not None or core.directions() is None:
        return None
    if float(np.prod([float(n) for n in counts])) * f.channels > WALKED:
        return None
    axes = [np.arange(n) + int(lo.min()) for n, (lo, _) in zip(counts, f.bounds, strict=True)]
    grids = [g.reshape(-1, 1) for g in np.meshgrid(*axes, indexing="ij")]
    q = [np.clip(g, lo, hi) for g, (lo, hi) in zip(grids, f.bounds, strict=True)]
    values, codes = core.real(*q), f(*q)
    reachable = np.all([g == clipped for g, clipped in zip(grids, q, strict=True)], axis=0)
    disagreements = int(((codes != f.exact(*q)) & reachable).sum())
    places, entries = [], []
    for value, code in zip(values.T, codes.T, strict=True):
        order = np.argsort(value, kind="stable")
        value, code = value[order], code[order]
        jumps = np.flatnonzero(np.diff(code)) + 1
        places.append(value[jumps])
        entries.append(code[np.concatenate([[0], jumps])])
    most = max(p.size for p in places)
    if most > MOST:
        return None
    thresholds = np.full((f.channels, most), np.inf, np.float32)
    table = np.zeros((f.channels, most + 1), np.int64)
    for row, (place, code) in enumerate(zip(places, entries, strict=True)):
        thresholds[row, : place.size] = place
        table[row] = np.append(code, np.full(most + 1 - code.size, code[-1]))
    segment = _segment_of(thresholds)
    found = combine(replace(core, codes=segment, exact_codes=segment, rising=True, signs=False))
    if found is None:
        return None
    lo, hi = codes.min(axis=0), codes.max(axis=0)
    then = Lookup(table, 0, _output(f, lo, hi), _axis(f), disagreements)
    op = replace(found.op, disagreements=0)
    return replace(found, op=op, lo=lo.reshape(f.shape), hi=hi.reshape(f.shape), then=then)


def _segment_of(thresholds: NDArray[np.float32]) -> Callable[[Array], Int]:
    """How many of its channel's *thresholds* ``(C, T)`` a value has reached."""

    def segment(real: Array) -> Int:
        flat = real.reshape(real.shape[0], -1)
        count = np.empty(flat.shape, np.int64)
        for channel, row in enumerate(thresholds):
            count[:, channel] = np.searchsorted(row, flat[:, channel], side="right")
        return count.reshape(real.shape)

    return segment


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
