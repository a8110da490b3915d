"""Convolutions with constant weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ModelError, UnsupportedError
from headrace.ir import integer
from headrace.ir.exact import any_weights_range
from headrace.ir.graph import Value
from headrace.ir.grid import Constant, Grid
from headrace.ir.op import Array
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
from headrace.ir.types import IntRange, Shape, TensorType, check_frame
from headrace.ir.windows import check_padded

Int = NDArray[np.int64]
Double = NDArray[np.float64]
Pads = tuple[tuple[int, int], ...]

_NO_RANGES = np.zeros((2, 1), np.int64)


@dataclass(frozen=True, eq=False)
class Conv(SourceOp):
    """Convolution with constant weights ``(O, I/groups, *kernel)``, one or two spatial axes, zero padding."""

    weights: Constant
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: Pads
    groups: int = 1

    def integer_op(self, weights: Int, ranges: Int) -> integer.IntConv:
        """The same convolution on integers."""
        return integer.IntConv(weights, ranges, self.strides, self.dilations, self.pads, self.groups)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        shape = self.weights.value.shape
        if len(inputs[0].shape) != len(shape) - 1 or inputs[0].shape[0] != shape[1] * self.groups:
            raise ModelError(
                f"cannot convolve frames {list(inputs[0].shape)} with weights {list(shape)}, groups {self.groups}"
            )
        spatial = integer.window_output(inputs[0].shape[1:], shape[2:], self.strides, self.dilations, self.pads)
        check_padded(inputs[0].shape, self.pads)
        return (TensorType((shape[0], *spatial)),)

    def product(self, scale: Double, bias: Double) -> Product:
        """The integer form for a tensor of *scale* and *bias*; an output channel only sees its own group's channels.

        Raises:
            NotExact: see :func:`align`; or when padding is no integer.
        """
        assert self.weights.grid is not None
        if np.any(bias != 0) and any(p for pair in self.pads for p in pair):
            raise NotExact("its padding is real 0, which the offset input has no integer for; pad before the offset")
        s, b = (self._per_weight(a, what) for a, what in ((scale, "the input scale"), (bias, "the input offset")))
        return align(self.weights.grid, s, b, 0)

    def _per_weight(self, a: Double, what: str) -> Double:
        """Values of the input channels as they broadcast against the weights."""
        outputs, per_group = self.weights.value.shape[:2]
        flat = channel_values(np.atleast_1d(a), 0, what)
        ones = (1,) * (self.weights.value.ndim - 2)
        if flat.size == 1:
            return flat.reshape(1, 1, *ones)
        groups = np.repeat(flat.reshape(self.groups, per_group), outputs // self.groups, axis=0)
        return (groups if self.groups > 1 else groups[:1]).reshape(-1, per_group, *ones)

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        x = centred(inputs[0])
        if x.grid is not None and self.weights.grid is not None:
            try:
                product = self.product(x.grid.scale, x.grid.bias)
            except NotExact:
                product = None
            if product is not None:
                acc = self.integer_op(product.weights, _NO_RANGES).execute(x.grid.q)[0]
                return (accumulate(acc, product, 0),)
        total = self.conv_float(x.value, unscaled(self.weights, 0))
        return (scaled_once(total, self.weights, 0, 0),)

    def conv_float(self, x: Array, weights: Double) -> Double:
        """The convolution of real tensors in double precision."""
        return conv_float(x, weights, self.strides, self.dilations, self.pads, self.groups)

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        (x,) = inputs
        if isinstance(x, Floating):
            return ctx.host(self, inputs)
        operands = integer_operands(ctx, x, self.weights, 0, self.product)
        live = [np.ones(n, bool) for n in x.shape[1:]]
        blocks = in_blocks(ctx, operands, 0, lambda value, part: emit_conv(ctx, self, part, value, live))
        return (blocks or emit_conv(ctx, self, operands, operands.x.value, live),)


def emit_conv(ctx: Lowering, conv: Conv, operands: Operands, value: Value, live: Sequence[NDArray[np.bool_]]) -> Scaled:
    """Emit *conv* on the integers *value* and annotate the result.

    Padding is an operator of its own where real 0 is another integer than 0.

    Args:
        live: per spatial axis, which positions of *value* hold data; the others hold the zero point.
    """
    weights, zero = operands.product.weights, operands.zero
    size = tuple(len(mask) for mask in live)
    writable = _writable_weights(ctx, conv, operands)
    if writable is None:
        ranges = conv_ranges(conv.integer_op(weights, _NO_RANGES), size, operands.lo, operands.hi, live)
    else:
        ranges = _any_weights_ranges(conv, writable, operands)
    if np.any(zero) and any(p for pair in conv.pads for p in pair):
        fill = zero[:1] if np.all(zero == zero[0]) else zero
        value = ctx.emit(integer.IntPad(((0, 0), *conv.pads), fill), value)
        conv = replace(conv, pads=((0, 0),) * len(conv.pads))
    result = ctx.emit(replace(conv.integer_op(weights, ranges + zero_sum(operands)), writable=writable), value)
    return accumulator(ctx, result, ctx.shape(result), 0, operands, ranges)


def _writable_weights(ctx: Lowering, conv: Conv, operands: Operands) -> IntRange | None:
    """As :func:`~headrace.ir.ops.linear.writable_weights`, which a layer of groups has not."""
    asked, inputs = ctx.writable(), operands.lo.size
    if asked is not None and conv.groups not in (1, inputs):
        raise asked.refused(
            f"its {conv.groups} groups become one matrix whose zeros between them are weights too",
            f"a convolution of one group, or of {inputs} (depthwise)",
        )
    return writable_weights(ctx, operands)


def _any_weights_ranges(conv: Conv, writable: IntRange, operands: Operands) -> Int:
    """Bounds ``(2, O)`` of *conv* whatever its weights are; padding leaves taps out."""
    outputs, per_group, *kernel = conv.weights.value.shape
    taps = int(np.prod(kernel))
    bounds = (np.repeat(a.reshape(conv.groups, per_group), taps, axis=1) for a in (operands.lo, operands.hi))
    ends = [any_weights_range(writable, lo, hi) for lo, hi in zip(*bounds, strict=True)]
    return np.repeat(np.array(ends, np.int64).T, outputs // conv.groups, axis=1)


@dataclass(frozen=True, eq=False)
class ConvTranspose(SourceOp):
    """Transposed convolution: pixels spread ``strides`` apart with zeros between, then a convolution.

    Args:
        weights: of that convolution, ``(O, I/groups, *kernel)``: those of the transposed one mirrored along the
            kernel, input and output channels exchanged.
        strides: distance of the spread pixels.
        dilations: of the convolution.
        pads: ``(begin, end)`` of the spread image; negative ones crop it.
        groups: of both.
    """

    weights: Constant
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: Pads
    groups: int = 1

    @property
    def _conv(self) -> Conv:
        ones = (1,) * len(self.strides)
        grow = tuple((max(begin, 0), max(end, 0)) for begin, end in self.pads)
        return Conv(self.weights, ones, self.dilations, grow, self.groups)

    def _spread(self, fill: Int) -> integer.IntZeroInsert:
        return integer.IntZeroInsert(self.strides, fill)

    def _crops(self, size: Shape) -> list[integer.Slice]:
        """What negative pads take off a spread image of spatial shape *size*."""
        return [
            integer.Slice(1 + axis, max(-begin, 0), n - max(-end, 0))
            for axis, (n, (begin, end)) in enumerate(zip(size, self.pads, strict=True))
            if begin < 0 or end < 0
        ]

    def _spread_and_crop(self, x: Array) -> Array:
        x = self._spread(np.zeros(1, np.int64)).execute(x)[0]
        for crop in self._crops(x.shape[2:]):
            x = crop.execute(x)[0]
        return x

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = self._spread(np.zeros(1, np.int64)).infer(TensorType(inputs[0].shape))
        check_frame(x.shape, "spread frames")
        for crop in self._crops(x.shape[1:]):
            (x,) = crop.infer(x)
        return self._conv.infer(x)

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        x = centred(inputs[0])
        grid = x.grid
        if grid is not None and not np.any(grid.bias) and not any(n > 1 for n in grid.scale.shape[1:]):
            grid = Grid(self._spread_and_crop(grid.q), grid.scale, grid.bias)
        else:
            grid = None
        return self._conv.evaluate(Real(self._spread_and_crop(x.value), grid))

    def _product(self, scale: Double, bias: Double) -> Product:
        if np.any(bias != 0):
            raise NotExact("the zeros that it inserts are no integers of its offset input; quantize it before")
        return self._conv.product(scale, bias)

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        (x,) = inputs
        if isinstance(x, Floating):
            return ctx.host(self, inputs)
        operands = integer_operands(ctx, x, self.weights, 0, self._product)
        zero = operands.zero
        value = operands.x.value
        live = [np.arange((n - 1) * s + 1) % s == 0 for n, s in zip(x.shape[1:], self.strides, strict=True)]
        if any(s > 1 for s in self.strides):
            value = ctx.emit(self._spread(zero[:1] if np.all(zero == zero[0]) else zero), value)
        for crop in self._crops(tuple(len(m) for m in live)):
            value = ctx.emit(crop, value)
            live[crop.axis - 1] = live[crop.axis - 1][crop.start : crop.stop]
        return (emit_conv(ctx, self._conv, operands, value, live),)


def conv_float(
    x: Array,
    weights: Array,
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: Pads,
    groups: int,
) -> Double:
    """Convolution of real tensors in double precision."""
    kernel = weights.shape[2:]
    windows = integer.sliding_windows(x.astype(np.float64), kernel, strides, dilations, pads, 0)
    parts = np.split(windows, groups, axis=1)
    filters = np.split(weights.astype(np.float64), groups, axis=0)
    taps = tuple(range(2 + len(kernel), 2 + 2 * len(kernel)))
    results = [
        np.tensordot(p, f, axes=((1, *taps), tuple(range(1, f.ndim)))) for p, f in zip(parts, filters, strict=True)
    ]
    y: Double = np.moveaxis(np.concatenate(results, axis=-1), -1, 1)
    return y


def conv_ranges(
    op: integer.IntConv, size: Shape, lo: Int, hi: Int, live: Sequence[NDArray[np.bool_]] | None = None
) -> Int:
    """Exact bounds ``(2, O)`` of a convolution: windows that see different sets of pixels are told apart.

    Args:
        op: the convolution; pixels outside the image are 0.
        size: spatial shape of the image.
        lo, hi: bounds of the data per input channel.
        live: per spatial axis, which positions hold data; the others are 0 as well. All when left out.

    Raises:
        UnsupportedError: when an accumulator could pass 2^62.
    """
    masks = np.ones((1, 1), bool)
    alive = live or [np.ones(n, bool) for n in size]
    for n, here, k, s, d, (begin, end) in zip(size, alive, op.kernel, op.strides, op.dilations, op.pads, strict=True):
        taps = np.arange(0, n + begin + end - d * (k - 1), s)[:, None] - begin + d * np.arange(k)
        inside = (taps >= 0) & (taps < n)
        seen = np.unique(inside & here[np.clip(taps, 0, n - 1)], axis=0)
        masks = (masks[:, None, :, None] & seen[None, :, None, :]).reshape(masks.shape[0] * seen.shape[0], -1)
    low, high = tap_ranges(op, lo, hi)
    return np.stack([(masks @ low.T).min(axis=0), (masks @ high.T).max(axis=0)])


def tap_ranges(op: integer.IntConv, lo: Int, hi: Int) -> tuple[Int, Int]:
    """Smallest and largest sum over the input channels, per output channel and kernel position, ``(O, taps)``.

    Raises:
        UnsupportedError: when they could add up to 2^62.
    """
    outputs, per_group = op.weights.shape[:2]
    w = op.weights.reshape(op.groups, outputs // op.groups, per_group, -1)
    up = np.maximum(w, 0)
    down = w - up
    if np.all(lo == lo[0]) and np.all(hi == hi[0]):
        ups, downs = up.sum(axis=2), down.sum(axis=2)
        low, high = lo[0] * ups + hi[0] * downs, hi[0] * ups + lo[0] * downs
        reach = np.maximum(abs(float(lo[0])), abs(float(hi[0]))) * (ups - downs).astype(np.float64)
    else:
        below, above = (a.reshape(op.groups, per_group) for a in (lo, hi))
        low = np.einsum("goit,gi->got", up, below) + np.einsum("goit,gi->got", down, above)
        high = np.einsum("goit,gi->got", up, above) + np.einsum("goit,gi->got", down, below)
        largest = np.maximum(np.abs(below), np.abs(above)).astype(np.float64)
        reach = np.einsum("goit,gi->got", (up - down).astype(np.float64), largest)
    if float(reach.sum(axis=2).max(initial=0)) >= 2.0**62:
        raise UnsupportedError("an accumulator could reach 2^62; narrower weights or activations are needed")
    return low.reshape(outputs, -1), high.reshape(outputs, -1)
