"""Pooling over images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ModelError
from headrace.ir import integer
from headrace.ir.grid import Grid, compact, zero_point
from headrace.ir.op import Array
from headrace.ir.ops.base import SourceOp
from headrace.ir.ops.elementwise import Div
from headrace.ir.ops.linear import DOUBLE, centred, dequantizing_steps
from headrace.ir.ops.offset import shifted
from headrace.ir.real import Real, single
from headrace.ir.scaled import Abstract, Floating, Joined, Lowering, NotExact, Scaled
from headrace.ir.types import IntRange, Shape, TensorType

Int = NDArray[np.int64]
Pads = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class MaxPool(SourceOp):
    """Largest value of each window; padding never wins. Commutes with every rising function, so with the scale."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: Pads

    @property
    def _pool(self) -> integer.IntMaxPool:
        return integer.IntMaxPool(self.kernel, self.strides, self.dilations, self.pads)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        shape = self._pool.infer(*inputs)[0].shape
        refuse_empty_windows(inputs[0].shape[1:], self._pool)
        return (TensorType(shape),)

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        (x,) = inputs
        (value,) = self._pool.execute(x.value)
        grid = x.tight_grid
        if grid is None or np.any(grid.scale < 0) or varies_over_image(grid.scale) or varies_over_image(grid.bias):
            return (Real(value),)
        return (Real(value, Grid(self._pool.execute(grid.q)[0], grid.scale, grid.bias)),)

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        (x,) = inputs
        if isinstance(x, Floating):
            return ctx.host(self, inputs)
        x = ctx.tensor(x)
        if not _rises_alike(x):
            x = replace(ctx.fixed(x), scale=None, bias=None)
        value = ctx.emit(self._pool, x.value)
        shape = self._pool.infer(TensorType(x.shape))[0].shape
        lo, hi = (_per_channel(a, pick) for a, pick in ((x.lo, np.min), (x.hi, np.max)))
        return (replace(x, value=value, shape=shape, lo=lo, hi=hi),)


def refuse_empty_windows(size: Shape, pool: integer.IntPool) -> None:
    """Raise where a window sees padding only: it has no largest value and no mean.

    Raises:
        ModelError: names the axis.
    """
    for axis, (n, (begin, end)) in enumerate(zip(size, pool.pads, strict=True)):
        k, s, d = pool.kernel[axis], pool.strides[axis], pool.dilations[axis]
        starts = np.arange(0, n + begin + end - d * (k - 1), s) - begin
        skipped = np.maximum(-(starts // d), 0)  # taps before the image
        if np.any((skipped >= k) | (starts + d * skipped >= n)):
            raise ModelError(f"its pads {[begin, end]} leave a window of image axis {axis} without any pixel")


def _rises_alike(x: Scaled) -> bool:
    """Whether real values never fall as the integers rise, by one function per channel."""
    if any(n > 1 for step in x.steps for n in step.parameter_shape()[1 - len(x.shape) :]):
        return False
    if x.scale is not None:
        return not np.any(x.scale < 0)
    directions = [step.direction() for step in x.steps]
    signs = [np.asarray(d) for d in directions if d is not None]
    return len(signs) == len(directions) and bool(np.all(reduce(np.multiply, signs, np.ones((), np.int64)) > 0))


def varies_over_image(a: Array) -> bool:
    """Whether a parameter of channels-first frames has more than one value per channel."""
    return any(n > 1 for n in a.shape[1:])


def _per_channel(a: Array, pick: Callable[..., Array]) -> Array:
    """Bounds over the whole image, per channel."""
    reduced: Array = pick(a, axis=tuple(range(1, a.ndim)), keepdims=True)
    return reduced


@dataclass(frozen=True, eq=False)
class AveragePool(SourceOp):
    """Mean of each window: the sum on integers, one scale multiplication, then one division by the tap count.

    Args:
        count_include_pad: whether padding counts as taps.
        uncounted: part of *pads* that never does (what ceil_mode adds), per axis and end.
        average: False for the sum alone.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: Pads
    count_include_pad: bool = False
    uncounted: Pads = ()
    average: bool = True

    @property
    def _pool(self) -> integer.IntSumPool:
        return integer.IntSumPool(self.kernel, self.strides, self.dilations, self.pads)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        shape = self._pool.infer(TensorType(inputs[0].shape, _BIT))[0].shape
        if self.average and not self.count_include_pad:
            refuse_empty_windows(inputs[0].shape[1:], self._pool)
        return (TensorType(shape),)

    def _taps(self, shape: Shape, padding: bool) -> Int:
        """Taps of each window that see a pixel of frames of *shape* (or padding that counts), ``(1, *out)``."""
        counted = np.ones((1, 1, *shape[1:]), np.int64)
        if padding:
            beyond = self.uncounted or ((0, 0),) * len(self.pads)
            own = [(b - x, e - y) for (b, e), (x, y) in zip(self.pads, beyond, strict=True)]
            counted = np.pad(np.pad(counted, ((0, 0), (0, 0), *own), constant_values=1), ((0, 0), (0, 0), *beyond))
            pool = replace(self._pool, pads=((0, 0),) * len(self.pads))
            taps: Int = pool.execute(counted)[0][0]
            return compact(taps)
        return compact(self._pool.execute(counted)[0][0])

    def _finish(self, shape: Shape) -> Div | None:
        return Div(single(self._taps(shape, self.count_include_pad))) if self.average else None

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        x = centred(inputs[0])
        if x.grid is not None and not varies_over_image(x.grid.scale) and not np.any(x.grid.bias):
            total = self._pool.execute(x.grid.q)[0]
            value = single(total)
            for step in dequantizing_steps(x.grid.scale, x.grid.bias):
                value = step.apply(value)
            summed = Real(value, Grid(total, x.grid.scale, x.grid.bias))
        else:
            summed = Real(single(self._pool.reduced(x.value.astype(np.float64), 0, np.add)))
        finish = self._finish(x.value.shape[1:])
        return (summed,) if finish is None else finish.evaluate(summed)

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        (x,) = inputs
        if isinstance(x, Floating):
            return ctx.host(self, inputs)
        integers, zero = self._integers(ctx, x)
        before = varies_over_image(zero) or any(p for pair in self.pads for p in pair)
        if before:
            integers = shifted(ctx, integers, -zero)
        value = ctx.emit(self._pool, integers.value)
        taps = self._taps(x.shape, False)
        lo, hi = (_per_channel(a, pick) for a, pick in ((integers.lo, np.min), (integers.hi, np.max)))
        few, many = int(taps.min()), int(taps.max())
        low, high = np.minimum(few * lo, many * lo), np.maximum(few * hi, many * hi)
        scale, bias = integers.scale, integers.bias
        if bias is None and max(-int(low.min()), int(high.max())) >= DOUBLE:
            raise NotExact("the sums of its float32 input pass 2^53; put a quantizer before it")
        assert scale is not None
        total = Scaled(value, ctx.shape(value), low, high, scale, bias, dequantizing_steps(scale, np.zeros(())))
        if not before:
            total = shifted(ctx, total, -many * zero)
        if bias is None:
            total = replace(total, scale=None)
        finish = self._finish(x.shape)
        return (total if finish is None else ctx.step(total, finish),)

    def _integers(self, ctx: Lowering, x: Scaled | Joined) -> tuple[Scaled, Int]:
        """Integers to sum, and those that stand for real 0; without a bias when they are none of the model's grid."""
        zero: Int | None
        try:
            integers = ctx.integers(x)
            scale, bias = integers.affine
            zero = None if varies_over_image(scale) else zero_point(scale, bias)
        except NotExact:
            zero = None
        if zero is not None:
            return replace(integers, bias=np.zeros((1,) * len(x.shape))), compact(zero)
        return replace(ctx.fixed(x), bias=None), np.zeros((1,) * len(x.shape), np.int64)


_BIT = IntRange(0, 1)
"""Any integer type: only shapes are asked for."""
