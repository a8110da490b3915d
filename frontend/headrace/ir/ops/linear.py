"""Products with constant weights: integers accumulate, the scale multiplies once (rule E1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ModelError
from headrace.ir import integer
from headrace.ir.exact import accumulator_range
from headrace.ir.graph import Value
from headrace.ir.grid import Constant, Grid, common_grid, compact
from headrace.ir.op import Array
from headrace.ir.ops.base import SourceOp
from headrace.ir.ops.elementwise import Add, Elementwise, Mul
from headrace.ir.real import Real, single
from headrace.ir.scaled import Abstract, Lowering, NotExact, Scaled
from headrace.ir.types import Shape, TensorType

Int = NDArray[np.int64]
Double = NDArray[np.float64]

WIDEST_MULTIPLE = 2**40
"""Largest integer that aligning different input scales may multiply a weight by."""


@dataclass(frozen=True, eq=False)
class Product:
    """The integer form of a product: weights to use, and the scale and offset of the accumulator.

    ``weights`` has the shape of the constant operand; ``scale`` and ``offset`` one value per output channel.
    """

    weights: Int
    scale: Double
    offset: Double


def align(weights: Grid, inputs: int, scale: Double, bias: Double, in_axis: int, out_axis: int) -> Product:
    """Bring a product of a scaled-integer tensor and constant weights onto one integer grid.

    Args:
        weights: constant operand; its scale may vary along any axis.
        inputs: length of the summed channel axis of the tensor.
        scale, bias: of the tensor, one value per input channel (or one for all).
        in_axis: axis of *weights* over which channels are summed.
        out_axis: axis of *weights* that becomes the output channel.

    Raises:
        NotExact: when scales differ along the summed axis and share no integer grid.
    """
    view = [1] * weights.q.ndim
    view[in_axis] = -1
    per_input = np.broadcast_to(scale, (inputs,)).reshape(view) if scale.size > 1 else scale.reshape((1,) * len(view))
    # The scale of every weight times that of its input; what is common to an output channel leaves the sum.
    factors = compact(np.asarray(per_input * weights.scale))
    others = [n for axis, n in enumerate(factors.shape) if axis != out_axis]
    q = weights.q
    if any(n > 1 for n in others):
        rows = np.moveaxis(np.broadcast_to(factors, (*factors.shape,)), out_axis, 0)
        grids = [common_grid(row, WIDEST_MULTIPLE) for row in rows]
        if any(g is None for g in grids):
            raise NotExact(
                "the scales of its input channels (or of its weights along the summed axis) share no integer grid; "
                "use one scale per tensor, or scales that are multiples of a common one"
            )
        found = [g for g in grids if g is not None]
        multiples = np.moveaxis(np.stack([g[1] for g in found]), 0, out_axis)
        if np.max(np.abs(q.astype(np.float64) * multiples)) * (q.size // q.shape[out_axis]) >= 2.0**62:
            raise NotExact("the scales of its input channels differ so much that their common grid passes 62 bits")
        q = q * multiples
        out_scale = np.array([g[0] for g in found])
    else:
        out_scale = factors.reshape(-1)
    out_scale = np.broadcast_to(out_scale, (weights.q.shape[out_axis],))
    offset = np.zeros(out_scale.shape)
    if np.any(bias != 0):
        per_bias = np.broadcast_to(bias.reshape(-1), (inputs,)).reshape(view)
        real = per_bias * (weights.q * weights.scale)
        offset = real.sum(axis=tuple(a for a in range(real.ndim) if a != out_axis))
    return Product(q, out_scale, offset)


def dequantizing_steps(scale: Double, offset: Double) -> tuple[Elementwise, ...]:
    """Canonical steps from an accumulator to its real value: one multiplication, then one addition if needed."""
    steps: list[Elementwise] = []
    if np.any(single(scale) != 1):
        steps.append(Mul(scale))
    if np.any(offset != 0):
        steps.append(Add(offset))
    return tuple(steps)


def accumulate(acc: Int, scale: Double, offset: Double) -> Real:
    """The real value of accumulators, as the steps of :func:`dequantizing_steps` give it."""
    value = single(acc)
    for step in dequantizing_steps(scale, offset):
        value = step.apply(value)
    return Real(value, Grid(acc, scale, offset))


def channel_values(a: Array, axis: int, what: str) -> Array:
    """The values of *a* along *axis* of a frame, when they vary along no other.

    Raises:
        NotExact: when they do vary elsewhere.
    """
    if any(n > 1 for k, n in enumerate(a.shape) if k != axis % a.ndim):
        raise NotExact(f"{what} varies along an axis other than the channels that are summed")
    return a.reshape(-1)


@dataclass(frozen=True, eq=False)
class MatMul(SourceOp):
    """``x @ W`` over the last axis of a frame, with constant ``W`` of shape ``(K, M)``."""

    weights: Constant

    @property
    def _matrix(self) -> Array:
        return self.weights.value

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        depth, width = self._matrix.shape
        if not x.shape or x.shape[-1] != depth:
            raise ModelError(f"cannot multiply frames {list(x.shape)} by weights [{depth}, {width}]")
        return (TensorType((*x.shape[:-1], width)),)

    def _product(self, scale: Double, bias: Double) -> Product:
        assert self.weights.grid is not None
        s = channel_values(scale, -1, "the input scale")
        b = channel_values(bias, -1, "the input offset")
        return align(self.weights.grid, self._matrix.shape[0], s, b, 0, 1)

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        (x,) = inputs
        if x.grid is not None and self.weights.grid is not None:
            try:
                product = self._product(x.grid.scale, x.grid.bias)
            except NotExact:
                product = None
            if product is not None:
                acc = integer.IntMatMul(product.weights, np.zeros((2, 1), np.int64)).execute(x.grid.q)[0]
                view = (1,) * (acc.ndim - 2) + (-1,)
                return (accumulate(acc, product.scale.reshape(view), product.offset.reshape(view)),)
        value = x.value.astype(np.float64) @ self._matrix.astype(np.float64)
        return (Real(single(value)),)

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        (x,) = inputs
        if not isinstance(x, Scaled):
            return ctx.host(self, inputs)
        if self.weights.grid is None:
            raise NotExact("its weights are not quantized; put a quantizer on them")
        x = ctx.integers(x)
        product = self._product(*x.affine)
        depth = self._matrix.shape[0]
        lo, hi = (_over_channels(a, -1, depth, pick) for a, pick in ((x.lo, np.min), (x.hi, np.max)))
        ranges = np.stack(accumulator_range(product.weights, lo, hi))
        value = ctx.emit(integer.IntMatMul(product.weights, ranges), x.value)
        return (_accumulator(value, (*x.shape[:-1], ranges.shape[1]), -1, ranges, product),)


@dataclass(frozen=True, eq=False)
class Conv(SourceOp):
    """Convolution with constant weights ``(O, I/groups, *kernel)``, one or two spatial axes, zero padding."""

    weights: Constant
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    groups: int = 1

    def _integer(self, weights: Int, ranges: Int) -> integer.IntConv:
        return integer.IntConv(weights, ranges, self.strides, self.dilations, self.pads, self.groups)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        shape = self.weights.value.shape
        if len(inputs[0].shape) != len(shape) - 1 or inputs[0].shape[0] != shape[1] * self.groups:
            raise ModelError(
                f"cannot convolve frames {list(inputs[0].shape)} with weights {list(shape)}, groups {self.groups}"
            )
        spatial = integer.window_output(inputs[0].shape[1:], shape[2:], self.strides, self.dilations, self.pads)
        return (TensorType((shape[0], *spatial)),)

    def _product(self, scale: Double, bias: Double) -> Product:
        """Group by group: an output channel only sees the scales of its own input channels."""
        assert self.weights.grid is not None
        channels = self.weights.value.shape[1] * self.groups
        s = channel_values(scale, 0, "the input scale")
        b = channel_values(bias, 0, "the input offset")
        if np.any(b != 0) and any(p for pair in self.pads for p in pair):
            raise NotExact("its padding is real 0, which the offset input has no integer for; pad before the offset")
        if self.groups == 1 or (s.size == 1 and b.size == 1):
            return align(self.weights.grid, channels if self.groups == 1 else 1, s, b, 1, 0)
        s, b = np.broadcast_to(s, (channels,)), np.broadcast_to(b, (channels,))
        per_in, per_out = channels // self.groups, self.weights.value.shape[0] // self.groups
        wide = np.broadcast_to(self.weights.grid.scale, self.weights.value.shape)
        parts = []
        for g in range(self.groups):
            ins, outs = slice(g * per_in, (g + 1) * per_in), slice(g * per_out, (g + 1) * per_out)
            grid = Grid(self.weights.grid.q[outs], wide[outs], np.zeros((1,) * wide.ndim))
            parts.append(align(grid, per_in, s[ins], b[ins], 1, 0))
        return Product(
            np.concatenate([p.weights for p in parts]),
            np.concatenate([p.scale for p in parts]),
            np.concatenate([p.offset for p in parts]),
        )

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        (x,) = inputs
        if x.grid is not None and self.weights.grid is not None:
            try:
                product = self._product(x.grid.scale, x.grid.bias)
            except NotExact:
                product = None
            if product is not None:
                acc = self._integer(product.weights, np.zeros((2, 1), np.int64)).execute(x.grid.q)[0]
                view = (-1,) + (1,) * (acc.ndim - 2)
                return (accumulate(acc, product.scale.reshape(view), product.offset.reshape(view)),)
        value = conv_float(x.value, self.weights.value, self.strides, self.dilations, self.pads, self.groups)
        return (Real(single(value)),)

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        (x,) = inputs
        if not isinstance(x, Scaled):
            return ctx.host(self, inputs)
        if self.weights.grid is None:
            raise NotExact("its weights are not quantized; put a quantizer on them")
        x = ctx.integers(x)
        product = self._product(*x.affine)
        channels = x.shape[0]
        lo, hi = (_over_channels(a, 0, channels, pick) for a, pick in ((x.lo, np.min), (x.hi, np.max)))
        ranges = conv_ranges(self._integer(product.weights, np.zeros((2, 1), np.int64)), x.shape[1:], lo, hi)
        op = self._integer(product.weights, ranges)
        value = ctx.emit(op, x.value)
        return (_accumulator(value, op.infer(TensorType(x.shape))[0].shape, 0, ranges, product),)


def conv_float(
    x: Array,
    weights: Array,
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: tuple[tuple[int, int], ...],
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


def conv_ranges(op: integer.IntConv, size: Shape, lo: Int, hi: Int) -> Int:
    """Exact bounds ``(2, O)`` of a convolution: border windows see fewer taps, each distinct set is evaluated."""
    valid = []
    for n, k, s, d, (begin, end) in zip(size, op.kernel, op.strides, op.dilations, op.pads, strict=True):
        starts = np.arange(0, n + begin + end - d * (k - 1), s) - begin
        taps = starts[:, None] + d * np.arange(k)
        valid.append(np.unique((taps >= 0) & (taps < n), axis=0))
    per_in, per_out = op.weights.shape[1], op.weights.shape[0] // op.groups
    low = np.full(op.weights.shape[0], np.iinfo(np.int64).max)
    high = np.full(op.weights.shape[0], np.iinfo(np.int64).min)
    for index in np.ndindex(*(len(v) for v in valid)):
        mask = np.ones((), bool)
        for rows, k in zip(valid, index, strict=True):
            mask = mask[..., None] & rows[k]
        for g in range(op.groups):
            outs = slice(g * per_out, (g + 1) * per_out)
            taps_kept = op.weights[outs][:, :, mask]  # (outs, per_in, taps)
            columns = taps_kept.reshape(per_out, -1).T
            spread = [np.repeat(a[g * per_in : (g + 1) * per_in], taps_kept.shape[2]) for a in (lo, hi)]
            a, b = accumulator_range(columns, spread[0], spread[1])
            low[outs], high[outs] = np.minimum(low[outs], a), np.maximum(high[outs], b)
    return np.stack([low, high])


def _over_channels(a: Int, axis: int, channels: int, pick: Callable[..., Array]) -> Int:
    """Bounds per channel of *axis*: the extreme over all other axes."""
    axis %= a.ndim
    reduced = pick(a, axis=tuple(k for k in range(a.ndim) if k != axis))
    return np.broadcast_to(reduced, (channels,))


def _accumulator(value: Value, shape: Shape, axis: int, ranges: Int, product: Product) -> Scaled:
    """Annotation of a product: one scale, offset and range per output channel along *axis*."""
    view = [1] * len(shape)
    view[axis] = -1
    scale, offset = compact(product.scale.reshape(view)), compact(product.offset.reshape(view))
    steps = dequantizing_steps(scale, offset)
    return Scaled(value, shape, ranges[0].reshape(view), ranges[1].reshape(view), scale, offset, steps)
