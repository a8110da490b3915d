"""Products with constant matrices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ModelError
from headrace.ir import integer
from headrace.ir.exact import accumulator_range, any_weights_range
from headrace.ir.graph import Value
from headrace.ir.grid import Constant
from headrace.ir.ops.base import SourceOp
from headrace.ir.ops.blocks import in_blocks
from headrace.ir.ops.linear import (
    Operands,
    Product,
    accumulate,
    accumulator,
    align,
    centred,
    channel_values,
    integer_operands,
    scaled_once,
    unscaled,
    writable_weights,
    zero_sum,
)
from headrace.ir.real import Real
from headrace.ir.scaled import Abstract, Floating, Lowering, NotExact, Scaled
from headrace.ir.types import TensorType

Double = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MatMul(SourceOp):
    """``x @ W`` over the last axis of a frame, with constant ``W`` of shape ``(K, M)``."""

    weights: Constant

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        depth, width = self.weights.value.shape
        if not x.shape or x.shape[-1] != depth:
            raise ModelError(f"cannot multiply frames {list(x.shape)} by weights [{depth}, {width}]")
        return (TensorType((*x.shape[:-1], width)),)

    def _product(self, scale: Double, bias: Double) -> Product:
        assert self.weights.grid is not None
        s = channel_values(np.atleast_1d(scale), -1, "the input scale").reshape(-1, 1)
        b = channel_values(np.atleast_1d(bias), -1, "the input offset").reshape(-1, 1)
        return align(self.weights.grid, s, b, 1)

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        x = centred(inputs[0])
        if x.grid is not None and self.weights.grid is not None:
            try:
                product = self._product(x.grid.scale, x.grid.bias)
            except NotExact:
                product = None
            if product is not None:
                acc = integer.IntMatMul(product.weights, np.zeros((2, 1), np.int64)).execute(x.grid.q)[0]
                return (accumulate(acc, product, -1),)
        total = x.value.astype(np.float64) @ unscaled(self.weights, 1)
        return (scaled_once(total, self.weights, 1, -1),)

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        (x,) = inputs
        if isinstance(x, Floating):
            return ctx.host(self, inputs)
        operands = integer_operands(ctx, x, self.weights, -1, self._product)
        blocks = in_blocks(ctx, operands, -1, lambda value, part: _emit_matmul(ctx, value, part))
        return (blocks or _emit_matmul(ctx, operands.x.value, operands),)


def _emit_matmul(ctx: Lowering, value: Value, operands: Operands) -> Scaled:
    """Emit the product of the integers *value* and annotate it."""
    weights = operands.product.weights
    writable = writable_weights(ctx, operands)
    if writable is None:
        ranges = np.stack(accumulator_range(weights, operands.lo, operands.hi))
    else:
        ends = any_weights_range(writable, operands.lo, operands.hi)
        ranges = np.repeat(np.array(ends, np.int64)[:, None], weights.shape[1], axis=1)
    result = ctx.emit(integer.IntMatMul(weights, ranges + zero_sum(operands), writable), value)
    return accumulator(ctx, result, ctx.shape(result), -1, operands, ranges)
