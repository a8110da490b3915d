"""Constant integers added to integers: biases of the integer dialects."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.ir import integer
from headrace.ir.grid import Grid
from headrace.ir.ops.base import SourceOp
from headrace.ir.real import Real, single
from headrace.ir.scaled import Abstract, Lowering, NotExact, Scaled
from headrace.ir.types import IntRange, TensorType

Int = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Offset(SourceOp):
    """``x + term`` on integers (scale 1), exact at any size; ``term`` broadcasts against a frame."""

    term: Int

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return (TensorType(np.broadcast_shapes(inputs[0].shape, self.term.shape)),)

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        (x,) = inputs
        if x.grid is None or np.any(x.grid.scale != 1) or np.any(x.grid.bias):
            return (Real(x.value + single(self.term)),)
        q = x.grid.q.astype(np.int64) + self.term
        return (Real(single(q), Grid(q, x.grid.scale, x.grid.bias)),)

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        (x,) = inputs
        if not isinstance(x, Scaled):
            return ctx.host(self, inputs)
        x = ctx.integers(x)
        if np.any(x.affine[0] != 1) or np.any(x.affine[1]):
            raise NotExact("it adds integers to a tensor that is scaled")
        return (shifted(ctx, x, self.term),)


def shifted(ctx: Lowering, x: Scaled, term: Int) -> Scaled:
    """*x* with the constant integers *term* added to its integers; scale and steps stay as they are.

    Where *term* varies along several axes, every element of the frame is a channel.
    """
    if not np.any(term):
        return x
    long = [axis for axis, n in enumerate(term.shape) if n > 1]
    lo, hi = np.asarray(x.lo + term), np.asarray(x.hi + term)
    output, one = IntRange(int(lo.min()), int(hi.max())), np.ones(1, np.int64)
    if len(long) <= 1:
        op = integer.IntAffine(one, term.reshape(-1).astype(np.int64), output, long[0] if long else 0)
        return replace(x, value=ctx.emit(op, x.value), lo=lo, hi=hi, bipolar=False)
    each = np.broadcast_to(term, x.shape).reshape(-1).astype(np.int64)
    flat = ctx.emit(integer.Reshape(each.shape), x.value)
    value = ctx.emit(integer.Reshape(x.shape), ctx.emit(integer.IntAffine(one, each, output, 0), flat))
    return replace(x, value=value, lo=lo, hi=hi, bipolar=False)
