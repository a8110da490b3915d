"""Functions that rise and fall: the number of the segment, by thresholds, then the code of the segment, by a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.ir.integer import Activation, Lookup
from headrace.ir.scaled import NotExact
from headrace.ir.types import IntRange
from headrace.passes.activation import ChannelFunction

Int = NDArray[np.int64]

WALKED = 2**26
"""Most (integer, channel) pairs that are run in blocks when nothing is known of a function."""

BLOCK = 2**20
"""Pairs that are run at once."""

MOST = 255
"""Most thresholds of a function in segments."""

SMALL_TABLE = 2**10
"""Tables up to this are left as they are."""


def in_segments(op: Lookup, high: int) -> tuple[Activation, Lookup] | None:
    """A table for integers up to *high* as segments, when these take much less room; None when they do not."""
    rows, length = op.table.shape
    if rows * length <= SMALL_TABLE:
        return None
    jumps = np.diff(op.table, axis=1) != 0
    if 4 * int(jumps.sum(axis=1).max(initial=0)) > min(length, 4 * MOST):
        return None
    found = [(np.flatnonzero(row) + op.lo + 1, codes[1:][row]) for row, codes in zip(jumps, op.table, strict=True)]
    return _operators(op.table[:, 0], found, high, op.output, op.axis, op.disagreements)


def walk(f: ChannelFunction) -> tuple[tuple[Activation, Lookup], Int, Int]:
    """*f* in segments, by running it on every reachable integer, block by block; and the bounds of its codes.

    Raises:
        NotExact: when these are too many, or the segments are.
    """
    low, high = int(f.lo.min()), int(f.hi.max())
    channels = int(np.prod(f.shape))
    if (high - low + 1) * channels > WALKED:
        raise NotExact(
            f"its {high - low + 1} reachable integers are too many to enumerate and the function is not proven monotone"
        )
    view = (-1, *(1,) * len(f.shape))
    at: list[list[Int]] = [[] for _ in range(channels)]
    to: list[list[Int]] = [[] for _ in range(channels)]
    first = last = f(np.broadcast_to(f.lo, f.shape)[None])[0].reshape(-1)
    out_lo, out_hi, disagreements = first, first, 0
    for start in range(low, high + 1, max(BLOCK // channels, 1)):
        q = np.arange(start, min(start + max(BLOCK // channels, 1), high + 1))
        grid = np.clip(q.reshape(view), f.lo, f.hi)
        codes = f(grid).reshape(q.size, -1)
        reachable = (q.reshape(view) == grid).reshape(q.size, -1)
        disagreements += int(((codes != f.exact(grid).reshape(q.size, -1)) & reachable).sum())
        jumps = np.diff(np.concatenate([last[None], codes]), axis=0) != 0
        for channel in np.flatnonzero(jumps.any(axis=0)):
            places = np.flatnonzero(jumps[:, channel])
            at[channel].append(q[places])
            to[channel].append(codes[places, channel])
        last = codes[-1]
        out_lo, out_hi = np.minimum(out_lo, codes.min(axis=0)), np.maximum(out_hi, codes.max(axis=0))
    none = np.zeros(0, np.int64)
    found = [(np.concatenate([none, *a]), np.concatenate([none, *b])) for a, b in zip(at, to, strict=True)]
    most = max(a.size for a, _ in found)
    if most > MOST:
        raise NotExact(f"it rises and falls {most} times over its {high - low + 1} reachable integers")
    output = IntRange(int(out_lo.min()), int(out_hi.max()))
    ops = _operators(first, found, high, output, f.axis, disagreements)
    return ops, out_lo.reshape(f.shape), out_hi.reshape(f.shape)


def _operators(
    first: Int, found: list[tuple[Int, Int]], high: int, output: IntRange, axis: int, disagreements: int
) -> tuple[Activation, Lookup]:
    """Thresholds where each channel changes, and a table of its codes."""
    most = max(places.size for places, _ in found)
    thresholds = np.full((len(found), most), high + 1, np.int64)
    table = np.repeat(first.reshape(-1, 1), most + 1, axis=1).astype(np.int64)
    for row, (places, codes) in enumerate(found):
        thresholds[row, : places.size] = places
        table[row, 1 : 1 + places.size] = codes
        table[row, 1 + places.size :] = table[row, places.size]
    ones = np.ones(len(found), np.int64)
    count = Activation(thresholds, 0 * ones, ones, IntRange(0, most), axis, disagreements)
    return count, Lookup(table, 0, output, axis)
