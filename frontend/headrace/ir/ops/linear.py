"""Products with constant weights: integers accumulate, the scale multiplies once (rule E1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.ir.graph import Value
from headrace.ir.grid import Constant, Grid, compact, zero_point
from headrace.ir.op import Array
from headrace.ir.ops.elementwise import Add, Elementwise, Mul
from headrace.ir.ops.offset import shifted
from headrace.ir.real import Real, single
from headrace.ir.scaled import Joined, Lowering, NotExact, Scaled
from headrace.ir.types import IntRange, Shape
from headrace.numerics.common_grid import WIDEST_MULTIPLE, common_grid

Int = NDArray[np.int64]
Double = NDArray[np.float64]

DOUBLE = 2**53
"""Sums of integers below this are exact in double precision, in any order."""


@dataclass(frozen=True, eq=False)
class Product:
    """The integer form of a product: weights to use, and the scale and offset of the accumulator.

    ``weights`` has the shape of the constant operand; ``scale`` and ``offset`` one value per output channel. Where
    scales of the input differ and are the same for all outputs, ``blocks`` lists the runs of input channels, ``(start,
    stop, multiple)``, and ``narrow`` holds the weights without their multiples.
    """

    weights: Int
    scale: Double
    offset: Double
    blocks: tuple[tuple[int, int, int], ...] = ()
    narrow: Int | None = None


def align(weights: Grid, scale: Double, bias: Double, out_axis: int) -> Product:
    """Bring a product of a scaled-integer tensor and constant weights onto one integer grid.

    Args:
        weights: constant operand; its scale may vary along any axis.
        scale, bias: of the tensor, as they broadcast against the weights.
        out_axis: axis of *weights* that becomes the output channel.

    Raises:
        NotExact: when scales differ along the summed axes and share no integer grid.
    """
    outputs = weights.q.shape[out_axis]
    own = per_output(weights.scale, out_axis)
    # What is common to an output channel leaves the sum; the rest must be integer multiples of something.
    summed = scale if own is not None else np.asarray(scale * weights.scale)
    rows = np.moveaxis(summed, out_axis, 0)
    q, out_scale = weights.q, rows.reshape(-1)
    blocks: tuple[tuple[int, int, int], ...] = ()
    if any(n > 1 for n in rows.shape[1:]):
        distinct, which = np.unique(rows.reshape(rows.shape[0], -1), axis=0, return_inverse=True)
        grids = [common_grid(row, WIDEST_MULTIPLE) for row in distinct]
        found = [g for g in grids if g is not None]
        if len(found) != len(grids):
            raise NotExact(
                "the scales of its input channels (or of its weights along the summed axis) share no integer grid (of "
                "multiples up to 2^26); use one scale per tensor, or scales that are multiples of a common one"
            )
        multiples = np.stack([g[1] for g in found])[which.reshape(-1)].reshape(rows.shape)
        multiples = np.moveaxis(multiples, 0, out_axis)
        if np.max(np.abs(q.astype(np.float64) * multiples)) * (q.size // outputs) >= 2.0**62:
            raise NotExact("the scales of its input channels differ so much that their common grid passes 62 bits")
        blocks = _runs(multiples) if own is not None and len(found) == 1 else ()
        q = q * multiples
        out_scale = np.array([g[0] for g in found])[which.reshape(-1)]
    out_scale = np.broadcast_to(out_scale, (outputs,)) * (1.0 if own is None else own)
    offset = np.zeros(outputs)
    if np.any(bias != 0):
        real = bias * (weights.q * weights.scale)
        offset = real.sum(axis=tuple(a for a in range(real.ndim) if a != out_axis))
    return Product(q, out_scale, offset, blocks, weights.q if blocks else None)


def _runs(multiples: Int) -> tuple[tuple[int, int, int], ...]:
    """Runs of equal *multiples* along the one axis over which they vary; none when there are several."""
    if sum(n > 1 for n in multiples.shape) != 1:
        return ()
    flat = multiples.reshape(-1)
    starts = [0, *(np.flatnonzero(np.diff(flat)) + 1).tolist()]
    return tuple((a, b, int(flat[a])) for a, b in zip(starts, [*starts[1:], flat.size], strict=True))


def per_output(scale: Double, out_axis: int) -> Double | None:
    """The weights' scales ``(O,)`` or ``(1,)`` when they vary along the output axis only."""
    own = compact(scale)
    return None if any(n > 1 for axis, n in enumerate(own.shape) if axis != out_axis) else own.reshape(-1)


def dequantizing_steps(scale: Double, offset: Double) -> tuple[Elementwise, ...]:
    """Canonical steps from an accumulator to its real value: one multiplication, then one addition if needed."""
    steps: list[Elementwise] = []
    if np.any(single(scale) != 1):
        steps.append(Mul(scale))
    if np.any(offset != 0):
        steps.append(Add(offset))
    return tuple(steps)


def accumulate(acc: Array, product: Product, axis: int) -> Real:
    """The real value of accumulators with output channels along frame *axis*, as :func:`dequantizing_steps` give it."""
    view = [1] * (acc.ndim - 1)
    view[axis] = -1
    scale, offset = product.scale.reshape(view), product.offset.reshape(view)
    acc = acc.astype(np.promote_types(acc.dtype, np.int32), copy=False)  # the integer graph may hold them in fewer bits
    value = single(acc)
    for step in dequantizing_steps(scale, offset):
        value = step.apply(value)
    return Real(value, Grid(acc, compact(scale), compact(offset)))


def scaled_once(total: Double, weights: Constant, out_axis: int, axis: int) -> Real:
    """The product of real data and weights on a grid: the sum, rounded once, times the scale of the weights.

    *total* is the sum of products with the weights that :func:`unscaled` gives, output channels along frame *axis*.
    """
    value = single(total)
    scale = None if weights.grid is None else per_output(weights.grid.scale, out_axis)
    if scale is None:
        return Real(value)
    view = [1] * (total.ndim - 1)
    view[axis] = -1
    for step in dequantizing_steps(scale.reshape(view), np.zeros(())):
        value = step.apply(value)
    return Real(value)


def unscaled(weights: Constant, out_axis: int) -> Double:
    """What real data are multiplied by: integers when :func:`scaled_once` scales after the sum, else the weights."""
    if weights.grid is not None and per_output(weights.grid.scale, out_axis) is not None:
        return weights.grid.q.astype(np.float64)
    return weights.value.astype(np.float64)


def channel_values(a: Array, axis: int, what: str) -> Array:
    """The values of *a* along *axis* of a frame, when they vary along no other.

    Raises:
        NotExact: when they do vary elsewhere.
    """
    if any(n > 1 for k, n in enumerate(a.shape) if k != axis % a.ndim):
        raise NotExact(f"{what} varies along an axis other than the channels that are summed")
    return a.reshape(-1)


@dataclass(frozen=True, eq=False)
class Operands:
    """A tensor and constant weights, brought to integers.

    Attributes:
        x: the integers of the tensor; its scale and bias are not read any more.
        zero: integers that stand for real 0, one or one per channel.
        product: weights and accumulator scale, for the integers with *zero* subtracted.
        lo, hi: bounds of those, one per channel.
        unit: where the integers are float32 values times a power of two, that power; None on the model's own grid.
    """

    x: Scaled
    zero: Int
    product: Product
    lo: Int
    hi: Int
    unit: Double | None = None


def integer_operands(
    ctx: Lowering,
    x: Scaled | Joined,
    weights: Constant,
    axis: int,
    product: Callable[[Double, Double], Product],
) -> Operands:
    """The operands of a product over frame *axis*: on the model's grid if there is one, else on that of float32.

    Raises:
        NotExact: when there is neither.
    """
    if weights.grid is None:
        raise NotExact(
            "its weights are not quantized: they are no integers times one scale, for all or for each output channel; "
            "put a quantizer on them, or write them through DequantizeLinear"
        )
    try:
        q = ctx.integers(x)
        scale, bias = q.affine
        zero = zero_point(scale, bias)
        aligned = product(scale, bias if zero is None else np.zeros(()))
        unit = None
    except NotExact as reason:
        if per_output(weights.grid.scale, 1 if axis < 0 else 0) is None:
            raise
        try:
            q = ctx.fixed(x)
        except NotExact:
            raise reason from None
        unit = q.affine[0]
        aligned = product(np.ones_like(unit), np.zeros(()))
        zero = None
    offset = np.zeros((), np.int64) if zero is None else zero
    channels = q.shape[axis]
    lo, hi = (over_channels(a - offset, axis, channels, pick) for a, pick in ((q.lo, np.min), (q.hi, np.max)))
    flat = np.broadcast_to(channel_values(np.atleast_1d(offset), axis, "the zero point"), (channels,))
    return Operands(q, flat.astype(np.int64), aligned, lo, hi, unit)


def accumulator(ctx: Lowering, value: Value, shape: Shape, axis: int, operands: Operands, ranges: Int) -> Scaled:
    """Annotation of a product: one scale, offset and range per output channel along *axis*.

    *value* accumulated the integers as they are; what the zero point adds to that is taken off here.

    Args:
        ranges: bounds ``(2, O)`` with the zero point taken off.
    """
    view = [1] * len(shape)
    view[axis] = -1
    product = operands.product
    scale, offset = compact(product.scale.reshape(view)), compact(product.offset.reshape(view))
    if operands.unit is not None and int(np.abs(ranges).max()) >= DOUBLE:
        raise NotExact("the sums of its float32 input pass 2^53; put a quantizer before it")
    term = zero_sum(operands).reshape(view)
    lo, hi = ranges[0].reshape(view), ranges[1].reshape(view)
    steps = dequantizing_steps(scale, offset)
    if operands.unit is not None:  # a step of its own: times the scale of the weights it could be too small for float32
        steps = (*dequantizing_steps(operands.unit, np.zeros(())), *steps)
    raw = Scaled(value, shape, lo + term, hi + term, scale, offset, steps)
    y = shifted(ctx, raw, -term)
    return y if operands.unit is None else replace(y, scale=None, bias=None)


def writable_weights(ctx: Lowering, operands: Operands) -> IntRange | None:
    """Integers that any weight of a product may be replaced by at run time; None where weights are constants.

    Raises:
        FoldingError: when what follows the product depends on its weights.
    """
    asked = ctx.writable()
    if asked is None:
        return None
    if np.any(operands.zero):
        raise asked.refused(
            "its input has a zero point, so that a constant after it depends on its weights",
            "a layer whose input is quantized symmetrically or without a sign",
        )
    return asked.weight_range(operands.product.weights)


def zero_sum(operands: Operands) -> Int:
    """What the zero point adds to each accumulator, ``(O,)``; a matrix has its input channels along axis 0."""
    w = operands.product.weights
    if not np.any(operands.zero):
        return np.zeros(w.shape[1] if w.ndim == 2 else w.shape[0], np.int64)
    if w.ndim == 2:
        return operands.zero @ w
    taps = w.reshape(*w.shape[:2], -1).sum(axis=2)
    groups = operands.zero.size // w.shape[1]
    per_group = np.repeat(operands.zero.reshape(groups, -1), w.shape[0] // groups, axis=0)
    total: Int = (taps * per_group).sum(axis=1)
    return total


def over_channels(a: Int, axis: int, channels: int, pick: Callable[..., Array]) -> Int:
    """Bounds per channel of *axis*: the extreme over all other axes."""
    axis %= a.ndim
    reduced = pick(a, axis=tuple(k for k in range(a.ndim) if k != axis))
    return np.broadcast_to(reduced, (channels,))


def centred(x: Real) -> Real:
    """*x* with the zero point taken off the integers of its grid, where the offset is that of a zero point."""
    if x.grid is None or not np.any(x.grid.bias):
        return x
    zero = zero_point(x.grid.scale, x.grid.bias)
    if zero is None:
        return x
    return Real(x.value, Grid(x.grid.q.astype(np.int64) - zero, x.grid.scale, np.zeros_like(x.grid.bias)))
