"""Constants around a frame: padding as an operator of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.ir import integer
from headrace.ir.grid import Grid
from headrace.ir.op import Array
from headrace.ir.ops.base import SourceOp
from headrace.ir.ops.elementwise import Elementwise
from headrace.ir.real import Real, single
from headrace.ir.scaled import Abstract, Floating, Lowering, NotExact, Scaled
from headrace.ir.types import TensorType

Int = NDArray[np.int64]
Double = NDArray[np.float64]

SEARCHED = 2**16
"""Largest range that is searched for an integer that stands for a padding constant."""


@dataclass(frozen=True, eq=False)
class Pad(SourceOp):
    """The constant ``value`` around a frame; ``pads`` holds ``(begin, end)`` per frame axis."""

    pads: tuple[tuple[int, int], ...]
    value: float = 0.0

    def _pad(self, fill: Int) -> integer.IntPad:
        return integer.IntPad(self.pads, fill)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return (TensorType(self._pad(np.zeros(1, np.int64)).infer(TensorType(inputs[0].shape))[0].shape),)

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        (x,) = inputs
        value = np.pad(x.value, ((0, 0), *self.pads), constant_values=np.float32(self.value))
        grid = x.tight_grid
        fill = None if grid is None else self._grid_fill(grid.scale, grid.bias)
        if grid is None or fill is None:
            return (Real(value),)
        return (Real(value, Grid(self._pad(fill).execute(grid.q)[0], grid.scale, grid.bias)),)

    def _grid_fill(self, scale: Double, bias: Double) -> Int | None:
        """The integers that stand for the constant on the grid, when the grid does not change along a padded axis."""
        return None if self._varies(scale) or self._varies(bias) else _integer_of(self.value, scale, bias)

    def _varies(self, a: Array) -> bool:
        """Whether *a* has more than one value along a padded axis, or along any but the first."""
        padded = [axis for axis, pair in enumerate(self.pads) if pair != (0, 0)]
        return any(n > 1 and (axis > 0 or axis in padded) for axis, n in enumerate(a.shape))

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        (x,) = inputs
        if isinstance(x, Floating):
            return ctx.host(self, inputs)
        try:
            x = ctx.tensor(x)
            fill = self._fill(x)
        except NotExact as reason:
            if x.scale is not None and x.bias is not None and self._grid_fill(x.scale, x.bias) is not None:
                raise
            try:
                x = replace(ctx.fixed(x), scale=None, bias=None)
                fill = self._fill(x)
            except NotExact:
                raise reason from None
        value = ctx.emit(self._pad(fill), x.value)
        shape = self.infer(TensorType(x.shape))[0].shape
        around = fill.reshape(-1, *(1,) * (len(shape) - 1))
        gone = tuple(axis for axis in range(len(shape)) if axis > 0 or self.pads[0] != (0, 0))
        lo = np.minimum(x.lo.min(axis=gone, keepdims=True), around)
        hi = np.maximum(x.hi.max(axis=gone, keepdims=True), around)
        bipolar = x.bipolar and bool(np.all(np.abs(fill) == 1))
        return (replace(x, value=value, shape=shape, lo=lo, hi=hi, bipolar=bipolar),)

    def _fill(self, x: Scaled) -> Int:
        """The integers that *x* reads as the padding constant, exactly; one, or one per channel."""
        if any(self._varies(np.empty(step.parameter_shape())) for step in x.steps):
            raise NotExact("it pads along an axis over which the scale of its input varies; quantize it per tensor")
        if x.scale is not None and x.bias is not None:
            fill = self._grid_fill(x.scale, x.bias)
            if fill is not None and self._reads_as_value(x.steps, fill.reshape(-1, *(1,) * (len(x.shape) - 1))):
                return fill
        if self.value == 0 and self._reads_as_value(x.steps, np.zeros((1,) * len(x.shape), np.int64)):
            return np.zeros(1, np.int64)
        low, high = int(x.lo.min()), int(x.hi.max())
        if high - low < SEARCHED:
            for q in sorted(range(low, high + 1), key=abs):
                if self._reads_as_value(x.steps, np.full((1,) * len(x.shape), q)):
                    return np.array([q])
        raise NotExact(
            f"it pads with {self.value:g}, for which its input has no integer; pad before the offset or function, or "
            "choose a quantizer whose grid holds this value"
        )

    def _reads_as_value(self, steps: Sequence[Elementwise], q: Int) -> bool:
        real = single(q)
        with np.errstate(all="ignore"):
            for step in steps:
                real = step.apply(real)
        return bool(np.all(real == np.float32(self.value)))


def _integer_of(value: float, scale: Double, bias: Double) -> Int | None:
    """The integers ``(1,)`` or ``(C,)`` that stand for *value* on the grid ``scale * q + bias``, if there are any."""
    if not np.all(scale):
        return None
    q = np.rint((float(np.float32(value)) - bias) / scale)
    if not np.all(np.abs(q) < 2.0**31) or np.any(scale * q + bias != float(np.float32(value))):
        return None
    flat = q.astype(np.int64).reshape(-1)
    return flat[:1] if np.all(flat == flat[0]) else flat
