"""Sums of two tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ModelError
from headrace.ir import integer
from headrace.ir.grid import Grid, common_grid, compact
from headrace.ir.op import Array
from headrace.ir.ops.base import SourceOp
from headrace.ir.ops.linear import dequantizing_steps
from headrace.ir.real import Real, single
from headrace.ir.scaled import Abstract, Lowering, NotExact, Scaled
from headrace.ir.types import TensorType

Double = NDArray[np.float64]

WIDEST_FACTOR = 2**26
"""Largest integer factor that bringing two branches onto one grid may cost."""


def join_factors(a: Double, b: Double) -> tuple[Double, tuple[int, int]] | None:
    """A grid ``g`` (of the scales' shape) and integers with ``a == n[0] * g`` and ``b == n[1] * g``, exactly.

    None when no grid exists whose factors are the same for every channel and at most 2^26.
    """
    x, y = np.broadcast_arrays(a, b)
    if np.array_equal(x, y):
        return compact(x), (1, 1)
    pairs = np.stack([x.ravel(), y.ravel()], axis=1)
    first = common_grid(pairs[0], WIDEST_FACTOR)
    if first is None:
        return None
    unit, (n, m) = first[0], first[1].tolist()
    grid = np.full(x.shape, unit)
    if pairs.shape[0] > 1:
        if n == 0:
            return None
        grid = x / n  # exact when n divides x's significand, which the check below shows
        if not (np.array_equal(grid * n, x) and np.array_equal(grid * m, y)):
            return None
    return compact(grid), (int(n), int(m))


@dataclass(frozen=True, eq=False)
class AddTensors(SourceOp):
    """``x + y``: on integers where a common grid exists exactly, scaled once after."""

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        x, y = inputs
        if len(x.shape) != len(y.shape):
            raise ModelError(f"cannot add frames {list(x.shape)} and {list(y.shape)}")
        try:
            return (TensorType(np.broadcast_shapes(x.shape, y.shape)),)
        except ValueError as error:
            raise ModelError(f"cannot add frames {list(x.shape)} and {list(y.shape)}") from error

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        x, y = inputs
        if x.grid is not None and y.grid is not None:
            joined = join_factors(x.grid.scale, y.grid.scale)
            if joined is not None:
                grid, (n, m) = joined
                q = n * x.grid.q.astype(np.int64) + m * y.grid.q.astype(np.int64)
                bias = x.grid.bias + y.grid.bias
                value = single(q)
                for step in dequantizing_steps(grid, bias):
                    value = step.apply(value)
                return (Real(value, Grid(q, grid, bias)),)
        return (Real(x.value + y.value),)

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        x, y = inputs
        if not (isinstance(x, Scaled) and isinstance(y, Scaled)):
            return ctx.host(self, inputs)
        if x.shape != y.shape:
            raise NotExact(f"its operands have different shapes {list(x.shape)} and {list(y.shape)}")
        x, y = ctx.integers(x), ctx.integers(y)
        joined = join_factors(x.affine[0], y.affine[0])
        if joined is None:
            raise NotExact("its operands' scales share no integer grid; give both branches one quantizer")
        grid, (n, m) = joined
        bias = compact(np.asarray(x.affine[1] + y.affine[1]))
        value = ctx.emit(integer.IntAdd((n, m)), x.value, y.value)
        lo = sum_bounds(x, y, n, m, np.minimum)
        hi = sum_bounds(x, y, n, m, np.maximum)
        return (Scaled(value, x.shape, lo, hi, grid, bias, dequantizing_steps(grid, bias)),)


def sum_bounds(x: Scaled, y: Scaled, n: int, m: int, pick: np.ufunc) -> NDArray[np.int64]:
    """Smallest (or largest) ``n * x + m * y`` per channel."""
    total: NDArray[np.int64] = pick(n * x.lo, n * x.hi) + pick(m * y.lo, m * y.hi)
    return total


@dataclass(frozen=True, eq=False)
class Arithmetic(SourceOp):
    """Product or quotient of two tensors that both depend on the input: the host's business."""

    symbol: str

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        x, y = inputs
        try:
            return (TensorType(np.broadcast_shapes(x.shape, y.shape)),)
        except ValueError as error:
            raise ModelError(f"shapes {list(x.shape)} and {list(y.shape)} do not broadcast") from error

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        x, y = (i.value for i in inputs)
        with np.errstate(divide="ignore", invalid="ignore"):
            value: Array = x * y if self.symbol == "*" else x / y
        return (Real(value),)

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        return ctx.host(self, inputs, f"'{self.symbol}' of two tensors that both depend on the input is not supported")
