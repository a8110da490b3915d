"""Monotone functions of several integers as staircases: where each code begins, for every value of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.ir.scaled import Int
from headrace.passes.joint_function import JointFunction, join_values

STAIRS = 2**19
"""Most stairs (codes x other integers x channels) that are computed."""

FAR = 2**40
"""Farther than any integer that a straight line leads to is worth looking for."""

REACH = 2
"""How far from where a straight line has it a stair is looked for first."""


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
        slopes: real change per integer, per source and channel; of a function with curved branches only a hint.
        disagreements: pairs on which float32 and exact real arithmetic decide differently.
    """

    f: JointFunction
    main: int
    sign: Int
    others: tuple[Int, ...]
    first: Int
    unit: int
    at: Int
    slopes: NDArray[np.float64]
    disagreements: int


def climb(f: JointFunction) -> Stairs | None:
    """The staircase of *f*, found by running it; None when *f* is not proven monotone, or the stairs are too many."""
    directions = f.directions()
    if directions is None:
        return None
    counts = [int(hi.max()) - int(lo.min()) + 1 for lo, hi in f.bounds]
    main = int(np.argmax(counts))
    width = float(np.prod([float(n) for k, n in enumerate(counts) if k != main])) * f.channels
    if width > STAIRS:
        return None
    others, reachable = _combinations(f, main)
    sign, (lo, hi) = directions[main], f.bounds[main]
    unit = 2 if f.signs else 1
    first, last = (_along(f, main, sign, others, np.broadcast_to(q, others[0].shape)) for q in (lo, hi))
    first, last = first.min(axis=0), last.max(axis=0)
    stairs = int((last - first).max()) // unit
    if width * max(stairs, 1) > STAIRS:
        return None
    goals = np.repeat(first + unit * np.arange(1, stairs + 1)[:, None], others[0].shape[0], axis=0)
    rows = tuple(np.tile(other, (stairs, 1)) for other in others)
    slopes = _slopes(f)

    def find(run: Callable[..., Int]) -> Int:
        def reached(q: Int, k: Int) -> NDArray[np.bool_]:
            return _along(run, main, sign, [other[k] for other in rows], q) >= goals[k]

        return _rises(reached, f, main, rows, stairs, slopes)

    at, ideal = find(f), find(f.exact)
    shape = (stairs, *others[0].shape)
    disagreements = int(np.abs(at - ideal).reshape(shape)[:, reachable].sum())
    return Stairs(f, main, sign, others, first, unit, at.reshape(shape), slopes, disagreements)


def _along(run: Callable[..., Int], main: int, sign: Int, others: Sequence[Int], q: Int) -> Int:
    """``sign * run`` for integers *q* of the main source and *others*, ``(n, C)``."""
    return sign * run(*(q if k == main else other for k, other in enumerate(others)))


def _combinations(f: JointFunction, main: int) -> tuple[tuple[Int, ...], NDArray[np.bool_]]:
    """Integers of every source for all combinations of the sources but *main*, and which a channel can reach."""
    axes = [
        np.arange(1) if k == main else np.arange(int(lo.min()), int(hi.max()) + 1)
        for k, (lo, hi) in enumerate(f.bounds)
    ]
    grids = [g.reshape(-1, 1) for g in np.meshgrid(*axes, indexing="ij")]
    clipped = tuple(
        np.clip(g, lo, hi) if k != main else g + 0 * lo
        for k, (g, (lo, hi)) in enumerate(zip(grids, f.bounds, strict=True))
    )
    reachable = np.ones(grids[0].shape[0], bool)
    for k, (g, c) in enumerate(zip(grids, clipped, strict=True)):
        if k != main:
            reachable &= np.any(g == c, axis=1)
    return clipped, reachable


Reached = Callable[[Int, Int], NDArray[np.bool_]]
"""Whether integers ``(n, C)`` of the main source reach the goals of the rows of given numbers ``(n,)``."""


def _rises(
    reached: Reached, f: JointFunction, main: int, rows: tuple[Int, ...], stairs: int, slopes: NDArray[np.float64]
) -> Int:
    """For every row and channel, the smallest integer of the main source that reaches the goal; ``hi + 1`` if none.

    The rows of the first combination are bisected; those of the others are looked for where a straight line has them,
    and bisected in what that leaves.
    """
    lo, hi = f.bounds[main]
    count = rows[0].shape[0]
    below, above = (np.broadcast_to(b, (count, f.channels)).copy() for b in (lo - 1, hi + 1))
    if count == 0:
        return above
    with np.errstate(all="ignore"):
        shift = sum(slopes[k] / slopes[main] * rows[k] for k in range(len(rows)) if k != main)
    line = np.asarray(shift, np.float64) * np.ones((count, f.channels))
    if np.all(np.isfinite(line)):
        start = np.arange(0, count, count // stairs)  # rows come stair by stair, each with all combinations
        _bisect(reached, below, above, start, lo, hi)
        anchor = np.repeat(start, count // stairs)
        guess = above[anchor] - np.rint(np.clip(line - line[anchor], -FAR, FAR)).astype(np.int64)
        for edge in (guess - REACH, guess + REACH):
            inside = (edge >= lo) & (edge <= hi)
            yes = reached(np.clip(edge, lo, hi), np.arange(count))
            above = np.where(inside & yes, np.minimum(above, edge), above)
            below = np.where(inside & ~yes, np.maximum(below, edge), below)
    _bisect(reached, below, above, np.arange(count), lo, hi)
    return above


def _bisect(reached: Reached, below: Int, above: Int, rows: Int, lo: Int, hi: Int) -> None:
    """Close the brackets ``below < at <= above`` of *rows*, all together, in place."""
    while True:
        rows = rows[np.any(above[rows] - below[rows] > 1, axis=1)]
        if rows.size == 0:
            return
        b, a = below[rows], above[rows]
        middle = b + (a - b) // 2
        yes = reached(np.clip(middle, lo, hi), rows)
        is_open = a - b > 1
        above[rows] = np.where(is_open & yes, middle, a)
        below[rows] = np.where(is_open & ~yes, middle, b)


def _slopes(f: JointFunction) -> NDArray[np.float64]:
    """Real change per integer of each source, over its range and before the last steps, ``(sources, C)``."""
    middle = [(lo + hi) // 2 for lo, hi in f.bounds]
    found = []
    for k, (lo, hi) in enumerate(f.bounds):
        ends = []
        for q in (lo, hi):
            feeds = {v: (q if j == k else middle[j]).reshape(1, *f.shape) for j, v in enumerate(f.sources)}
            sides = [join_values(side, feeds, exact=True) for side in (f.x.left, f.x.right)]
            ends.append(np.broadcast_to(f.x.op.combine_exact(*sides), (1, *f.shape)).reshape(-1))
        with np.errstate(all="ignore"):
            found.append(np.where(hi > lo, (ends[1] - ends[0]) / np.maximum(hi - lo, 1), 0.0))
    return np.array(found)
