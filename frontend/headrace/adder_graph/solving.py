"""The smallest graph of several tries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headrace.adder_graph.building import TABLE_BITS, build
from headrace.adder_graph.digits import digit_counts
from headrace.adder_graph.graph import AdderGraph, Int, Rounding
from headrace.adder_graph.pipelining import least_stages
from headrace.adder_graph.proof import prove
from headrace.adder_graph.sharing import COUNTING, common_part, share
from headrace.ir import IntRange

EFFORT = 180_000
"""Tries times pairs of digits in the columns of the matrix: bounds the time that :func:`solve` takes."""

MOST_TRIES = 40

PRICES = (COUNTING, 0.6, 0.75, 0.4, 0.9)
"""What the tries take for the price of a bit, in turn: where columns have little in common, others share more."""

REGISTER = 0.2
"""LUTs that a register bit is worth when graphs of several depths are compared."""

SLACK = 2
"""Levels of adders that a graph may have more than its deepest column needs."""


def solve(
    weights: Int,
    x: IntRange,
    bias: Int | None = None,
    rounding: Rounding | None = None,
    effort: int = EFFORT,
    slack: int = SLACK,
    total: IntRange | None = None,
) -> AdderGraph:
    """A graph of shared adders for ``x @ weights + bias``, proved for every x. The same arguments give the same graph.

    Args:
        weights: ``(inputs, columns)``.
        x: range of every input.
        bias: one value a column, 0 without.
        rounding: applied to the sums; its own rounding constant is part of ``bias``.
        effort: more of it is slower and finds smaller graphs.
        slack: how much deeper than the shallowest sums may be where that makes them smaller.
        total: range that holds the sums; their exact range without one.

    Raises:
        ValueError: the proof fails, which is an error of the search.
    """
    weights = np.asarray(weights, np.int64)
    bias = np.zeros(weights.shape[1], np.int64) if bias is None else np.asarray(bias, np.int64)
    scale, origin = (2, -1) if x.bipolar else (1, -(1 << (x.bits - 1)) if x.signed else 0)
    constants = bias + origin * weights.sum(axis=0)
    known, total = total, sum_range(weights, x, bias) if total is None else total
    if rounding is not None:  # the clamp needs a sign, and a bit above those that it keeps
        top = 1 << (rounding.shift + rounding.bits)
        total = IntRange(min(total.lo, -top), max(total.hi, top - 1))
    spans = [(x.hi - x.lo) // scale] * weights.shape[0]
    part = common_part(scale * weights, spans)
    other = 0 * part if part.any() else common_part(scale * weights, spans, always=True)
    digits = digit_counts(scale * weights - part).sum(axis=0)
    tries = min(max(effort // max(int((digits**2).sum()), 1), 1), MOST_TRIES)

    def tried(k: int) -> AdderGraph:
        common, price = other if k % 3 == 1 else part, PRICES[k % len(PRICES)]
        sharing = share(scale * weights, spans, common, TABLE_BITS, seed=k or None, price=price)
        return replace(build(sharing, x, constants, total, slack), rounding=rounding)

    found = min(map(tried, range(tries)), key=cost)
    prove(found, weights, bias, known)
    return found


def cost(graph: AdderGraph) -> float:
    """LUTs, and some for the registers of one sum a column and stage."""
    return graph.luts + REGISTER * least_stages(graph) * graph.bits * len(graph.outputs)


def sum_range(weights: Int, x: IntRange, bias: Int) -> IntRange:
    """The exact range of ``x @ weights + bias`` over all columns."""
    low = np.minimum(weights * x.lo, weights * x.hi).sum(axis=0) + bias
    high = np.maximum(weights * x.lo, weights * x.hi).sum(axis=0) + bias
    return IntRange(int(low.min(initial=0)), int(high.max(initial=0)))
