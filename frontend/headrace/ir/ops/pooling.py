"""Pooling over images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from headrace.errors import ModelError
from headrace.ir import integer
from headrace.ir.grid import Grid
from headrace.ir.op import Array
from headrace.ir.ops.base import SourceOp
from headrace.ir.ops.elementwise import Div
from headrace.ir.ops.linear import conv_float, dequantizing_steps
from headrace.ir.real import Real, single
from headrace.ir.scaled import Abstract, Lowering, NotExact, Scaled
from headrace.ir.types import IntRange, Shape, TensorType

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
        padded = np.pad(x.value, ((0, 0), (0, 0), *self.pads), constant_values=-np.inf)
        unpadded = tuple((0, 0) for _ in self.pads)
        windows = integer.sliding_windows(padded, self.kernel, self.strides, self.dilations, unpadded, 0)
        value = windows.max(axis=tuple(range(-len(self.kernel), 0)))
        grid = x.grid
        if grid is None or np.any(grid.scale < 0) or varies_over_image(grid.scale) or varies_over_image(grid.bias):
            return (Real(value),)
        return (Real(value, Grid(self._pool.execute(grid.q)[0], grid.scale, grid.bias)),)

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        (x,) = inputs
        if not isinstance(x, Scaled):
            return ctx.host(self, inputs)
        rising = all(d is not None and np.all(d > 0) for d in (s.direction() for s in x.steps))
        if not rising:
            raise NotExact("it follows a function that falls; put a quantizer before the pool")
        shapes = [s.parameter_shape() for s in x.steps]
        if any(n > 1 for shape in shapes for n in shape[1 - len(x.shape) :]):
            raise NotExact("it follows parameters that vary over the image; put a quantizer before the pool")
        value = ctx.emit(self._pool, x.value)
        shape = self._pool.infer(TensorType(x.shape))[0].shape
        lo, hi = (_per_channel(a, pick) for a, pick in ((x.lo, np.min), (x.hi, np.max)))
        return (replace(x, value=value, shape=shape, lo=lo, hi=hi),)


def refuse_empty_windows(size: Shape, pool: integer.IntMaxPool | integer.IntSumPool) -> None:
    """Raise where a window sees padding only: it has no largest value and no mean.

    Raises:
        ModelError: names the axis.
    """
    for axis, (n, (begin, end)) in enumerate(zip(size, pool.pads, strict=True)):
        k, s, d = pool.kernel[axis], pool.strides[axis], pool.dilations[axis]
        starts = np.arange(0, n + begin + end - d * (k - 1), s) - begin
        taps = starts[:, None] + d * np.arange(k)
        if not np.all(np.any((taps >= 0) & (taps < n), axis=1)):
            raise ModelError(f"its pads {[begin, end]} leave a window of image axis {axis} without any pixel")


def varies_over_image(a: Array) -> bool:
    """Whether a parameter of channels-first frames has more than one value per channel."""
    return any(n > 1 for n in a.shape[1:])


def _per_channel(a: Array, pick: Callable[..., Array]) -> Array:
    """Bounds over the whole image, per channel."""
    reduced: Array = pick(a, axis=tuple(range(1, a.ndim)), keepdims=True)
    return reduced


@dataclass(frozen=True, eq=False)
class AveragePool(SourceOp):
    """Mean of each window: the sum on integers, one scale multiplication, then one division by the tap count."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: Pads
    count_include_pad: bool = False

    @property
    def _pool(self) -> integer.IntSumPool:
        return integer.IntSumPool(self.kernel, self.strides, self.dilations, self.pads)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        shape = self._pool.infer(TensorType(inputs[0].shape, _BIT))[0].shape
        if not self.count_include_pad:
            refuse_empty_windows(inputs[0].shape[1:], self._pool)
        return (TensorType(shape),)

    def _counts(self, shape: tuple[int, ...]) -> Array:
        """Taps that count in each window, ``(1, *out)`` or ``(1, 1, ...)`` when all windows agree."""
        taps = int(np.prod(self.kernel))
        padded = any(p for pair in self.pads for p in pair)
        if self.count_include_pad or not padded:
            return np.full((1,) * len(shape), taps, np.float32)
        ones = np.ones((1, 1, *shape[1:]), np.int64)
        return single(self._pool.execute(ones)[0][0])

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        (x,) = inputs
        divide = Div(self._counts(x.value.shape[1:]))
        if x.grid is not None and not varies_over_image(x.grid.scale) and not np.any(x.grid.bias):
            total = self._pool.execute(x.grid.q)[0]
            value = single(total)
            if np.any(single(x.grid.scale) != 1):
                value = value * single(x.grid.scale)
            return divide.evaluate(Real(value, Grid(total, x.grid.scale, x.grid.bias)))
        ones = np.ones((x.value.shape[1], 1, *self.kernel))
        summed = conv_float(x.value, ones, self.strides, self.dilations, self.pads, x.value.shape[1])
        return divide.evaluate(Real(single(summed)))

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        (x,) = inputs
        if not isinstance(x, Scaled):
            return ctx.host(self, inputs)
        x = ctx.integers(x)
        scale, bias = x.affine
        if np.any(bias) or varies_over_image(scale):
            raise NotExact("its input carries an offset or a scale that varies over the image; quantize it first")
        value = ctx.emit(self._pool, x.value)
        shape = self._pool.infer(TensorType(x.shape, _BIT))[0].shape
        taps = int(np.prod(self.kernel))
        lo, hi = taps * _per_channel(x.lo, np.min), taps * _per_channel(x.hi, np.max)
        if any(p for pair in self.pads for p in pair):
            lo, hi = np.minimum(lo, 0), np.maximum(hi, 0)
        total = Scaled(value, shape, lo, hi, scale, bias, dequantizing_steps(scale, bias))
        return (ctx.step(total, Div(self._counts(x.shape))),)


_BIT = IntRange(0, 1)
"""Any integer type: only shapes are asked for."""
