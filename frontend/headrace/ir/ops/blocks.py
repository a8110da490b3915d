"""Products over channels of different scale, block by block: narrow weights, and a join of the accumulators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.ir import integer
from headrace.ir.graph import Value
from headrace.ir.grid import Grid
from headrace.ir.ops.joins import Join
from headrace.ir.ops.linear import Operands, Product, dequantizing_steps
from headrace.ir.real import Real, Single, single
from headrace.ir.scaled import Joined, Lowering, Scaled
from headrace.ir.types import Shape

Int = NDArray[np.int64]
Double = NDArray[np.float64]

NARROW = 2**6
"""Multiples up to this stay in the weights: that costs less than a second product."""

EXACT = 2**24
"""Accumulators below this are float32 numbers, as a join reads them."""


@dataclass(frozen=True, eq=False)
class WeightedSum(Join):
    """``fl(n x + m y)`` of integers x and y, n and m positive: two accumulators on one grid."""

    factors: tuple[int, int]

    def combine(self, x: Single, y: Single) -> Single:
        n, m = self.factors
        return single(n * x.astype(np.int64) + m * y.astype(np.int64))

    def combine_exact(self, x: Double, y: Double) -> Double:
        return self.factors[0] * x + self.factors[1] * y

    def rising(self) -> bool:
        return True

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        x, y = inputs
        n, m = self.factors
        q = n * x.value.astype(np.int64) + m * y.value.astype(np.int64)
        one = np.ones((1,) * (q.ndim - 1))
        return (Real(single(q), Grid(q, one, np.zeros_like(one))),)

    def __str__(self) -> str:
        return "a product over channels of two scales"


def in_blocks(ctx: Lowering, operands: Operands, axis: int, emit: Callable[[Value, Operands], Scaled]) -> Joined | None:
    """A product over channels of two scales as two products with narrow weights; None where one does better.

    Args:
        axis: of the frame, over which channels are summed.
        emit: adds the product of part of the operands, without its scale.
    """
    blocks = operands.product.blocks
    if ctx.writable() is not None:  # one layer, as was asked for
        return None
    if len(blocks) != 2 or max(n for _, _, n in blocks) <= NARROW or min(n for _, _, n in blocks) < 1:
        return None
    parts = [_part(operands, start, stop) for start, stop, _ in blocks]
    if any(_reach(part) >= EXACT for part in parts):
        return None
    sides = []
    for part, (start, stop, _) in zip(parts, blocks, strict=True):
        cut = integer.Slice(axis % len(operands.x.shape), start, stop)
        sides.append(emit(ctx.emit(cut, operands.x.value), part))
    factors = (blocks[0][2], blocks[1][2])
    scale, offset = (_along(a, axis, sides[0].shape) for a in (operands.product.scale, operands.product.offset))
    steps = dequantizing_steps(scale, offset)
    return Joined(WeightedSum(factors), sides[0], sides[1], sides[0].shape, factors, scale, offset, steps)


def _part(operands: Operands, start: int, stop: int) -> Operands:
    """The operands of channels *start* to *stop*, unscaled."""
    narrow = operands.product.narrow
    assert narrow is not None
    weights = narrow[start:stop] if narrow.ndim == 2 else narrow[:, start:stop]
    outputs = weights.shape[1] if weights.ndim == 2 else weights.shape[0]
    product = Product(weights, np.ones(outputs), np.zeros(outputs))
    keep = slice(start, stop)
    return replace(operands, product=product, zero=operands.zero[keep], lo=operands.lo[keep], hi=operands.hi[keep])


def _reach(part: Operands) -> float:
    """Largest magnitude of an accumulator, or of what the zero point adds to it."""
    weights = np.abs(part.product.weights.astype(np.float64))
    matrix = weights if weights.ndim == 2 else weights.reshape(*weights.shape[:2], -1).sum(axis=2).T
    largest = np.max(
        [np.abs(part.lo), np.abs(part.hi), np.abs(part.lo + part.zero), np.abs(part.hi + part.zero)], axis=0
    )
    return float((largest @ matrix).max(initial=0.0))


def _along(a: Double, axis: int, shape: Shape) -> Double:
    view = [1] * len(shape)
    view[axis] = -1
    return a.reshape(view)
