"""Operators of the integer graph: what the hardware computes, on integers only.

Shapes are those of the model (channels first in images); ``axis`` counts without the batch axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ModelError
from headrace.ir.affine import IntAffine as IntAffine
from headrace.ir.affine import IntClip as IntClip
from headrace.ir.exact import carrier, convolve, count_thresholds, matmul, narrowest, reduce_windows, strided
from headrace.ir.op import Array, Op
from headrace.ir.resampling import Gather as Gather
from headrace.ir.resampling import IntPad as IntPad
from headrace.ir.resampling import IntUpsample as IntUpsample
from headrace.ir.resampling import IntZeroInsert as IntZeroInsert
from headrace.ir.types import IntRange, TensorType

Int = NDArray[np.int64]


def _per_channel(values: Int, rank: int, axis: int) -> Int:
    """View ``(C, ...)`` so that it broadcasts along *axis* of a batch of *rank*-dimensional frames."""
    return values.reshape((values.shape[0],) + (1,) * (rank - 1 - axis))


@dataclass(frozen=True, eq=False)
class IntMatMul(Op):
    """``y[..., m] = sum_k x[..., k] * weights[k, m]`` with constant integer weights ``(K, M)``.

    ``ranges`` are the exact bounds of every output column, ``(2, M)``, from the range analysis.
    """

    weights: Int
    ranges: Int

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        if not x.shape or x.shape[-1] != self.weights.shape[0]:
            raise ModelError(f"cannot multiply frames {list(x.shape)} by weights {list(self.weights.shape)}")
        element = IntRange(int(self.ranges[0].min()), int(self.ranges[1].max()))
        return (TensorType((*x.shape[:-1], self.weights.shape[1]), element),)

    @cached_property
    def _reach(self) -> int:
        """Largest sum of weight magnitudes in a column."""
        return int(np.abs(self.weights).sum(axis=0).max(initial=0))

    @cached_property
    def _kept(self) -> dict[np.dtype[Any], Array]:
        """Weights by the type they were last multiplied in."""
        return {}

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        bound = self._reach * largest(x)
        kind = carrier(bound)
        if kind not in self._kept:
            self._kept[kind] = self.weights.astype(kind)
        return (matmul(x, self._kept[kind], bound),)


@dataclass(frozen=True, eq=False)
class IntConv(Op):
    """Convolution with constant integer weights ``(O, I/groups, *kernel)`` and zero padding.

    One or two spatial axes. ``pads`` holds ``(begin, end)`` per spatial axis; padded positions are the integer 0.
    ``ranges`` are the exact bounds of every output channel, ``(2, O)``.
    """

    weights: Int
    ranges: Int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    groups: int = 1

    @property
    def kernel(self) -> tuple[int, ...]:
        """Spatial kernel shape."""
        return tuple(self.weights.shape[2:])

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        if len(x.shape) != self.weights.ndim - 1 or x.shape[0] != self.weights.shape[1] * self.groups:
            raise ModelError(
                f"cannot convolve frames {list(x.shape)} with weights {list(self.weights.shape)}, groups {self.groups}"
            )
        spatial = window_output(x.shape[1:], self.kernel, self.strides, self.dilations, self.pads)
        element = IntRange(int(self.ranges[0].min()), int(self.ranges[1].max()))
        return (TensorType((self.weights.shape[0], *spatial), element),)

    @cached_property
    def _columns(self) -> Int:
        """Weights as ``(groups, kernel * I/groups, O/groups)``; rows ordered (kernel position, channel)."""
        moved = np.moveaxis(self.weights, 1, -1).reshape(self.groups, self.weights.shape[0] // self.groups, -1)
        return np.ascontiguousarray(moved.transpose(0, 2, 1))

    @cached_property
    def _reach(self) -> int:
        """Largest sum of weight magnitudes of an output channel."""
        return int(np.abs(self.weights).reshape(self.weights.shape[0], -1).sum(axis=1).max(initial=0))

    @cached_property
    def _kept(self) -> dict[np.dtype[Any], Array]:
        """Columns by the type they were last multiplied in."""
        return {}

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        bound = self._reach * largest(x)
        kind = carrier(bound)
        if kind not in self._kept:
            self._kept[kind] = self._columns.astype(kind)
        columns = self._kept[kind]
        out = window_output(x.shape[2:], self.kernel, self.strides, self.dilations, self.pads)
        image = np.ascontiguousarray(np.moveaxis(x, 1, -1), dtype=kind)
        if any(p for pair in self.pads for p in pair):
            image = np.pad(image, ((0, 0), *self.pads, (0, 0)))
        if self.groups > 1 and self.weights.shape[:2] == (self.groups, 1):
            return (np.moveaxis(self._depthwise(image, columns, out, bound), -1, 1),)
        per_group = x.shape[1] // self.groups
        results = [
            convolve(
                np.ascontiguousarray(image[..., g * per_group : (g + 1) * per_group]),
                columns[g],
                self.kernel,
                self.strides,
                self.dilations,
                out,
                bound,
            )
            for g in range(self.groups)
        ]
        y = results[0] if self.groups == 1 else np.concatenate(results, axis=-1)
        return (np.moveaxis(y, -1, 1),)  # channels first to the reader, channels last in memory

    def _depthwise(self, image: Array, columns: Array, out: tuple[int, ...], bound: int) -> Array:
        """One filter per channel: a multiply-add per kernel position over whole images."""
        total: Array | None = None
        for k, tap in enumerate(np.ndindex(*self.kernel)):
            window = image[(slice(None), *strided(tap, self.strides, self.dilations, out))]
            term = window * columns[:, k, 0]
            total = term if total is None else np.add(total, term, out=total)
        assert total is not None
        return total.astype(narrowest(bound))


@dataclass(frozen=True, eq=False)
class Activation(Op):
    """``y = base[c] + step[c] * #{k : x >= thresholds[c, k]}``: an exact monotone integer function per channel.

    Thresholds ``(C, T)`` ascend along T and lie in ``lo + 1 .. hi`` of the input; a threshold that can never be
    reached is ``hi + 1``. C is the size of *axis*, or 1 when all channels share them. ``axis`` is counted without the
    batch axis. ``disagreements`` counts the inputs for which float32 and exact real arithmetic decide differently.
    """

    thresholds: Int
    base: Int
    step: Int
    output: IntRange
    axis: int = 0
    disagreements: int = 0

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        channels, size = self.thresholds.shape[0], x.shape[self.axis] if x.shape else 1
        if channels not in (1, size):
            raise ModelError(f"{channels} threshold rows for {size} channels")
        return (TensorType(x.shape, self.output),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        if x.ndim == 1:  # one number a frame
            return (self.execute(x[:, None])[0][:, 0],)
        count = count_thresholds(np.moveaxis(x, 1 + self.axis, -1), self.thresholds)
        kind = np.int32 if max(abs(self.output.lo), abs(self.output.hi)) < 2**30 else np.int64
        y = count * self.step.astype(kind) + self.base.astype(kind)
        return (np.moveaxis(y, -1, 1 + self.axis),)


@dataclass(frozen=True, eq=False)
class Lookup(Op):
    """``y = table[c, x - lo]``: any exact integer function per channel; C is the size of *axis* or 1."""

    table: Int
    lo: int
    output: IntRange
    axis: int = 0
    disagreements: int = 0

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        return (TensorType(x.shape, self.output),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        if x.ndim == 1:  # one number a frame
            return (self.execute(x[:, None])[0][:, 0],)
        moved = np.moveaxis(x, 1 + self.axis, -1).astype(np.int64) - self.lo
        channel = np.arange(moved.shape[-1]) if self.table.shape[0] > 1 else 0
        return (np.ascontiguousarray(np.moveaxis(self.table[channel, moved], -1, 1 + self.axis)),)


@dataclass(frozen=True, eq=False)
class IntAdd(Op):
    """``y = a * x0 + b * x1`` with constant integer factors: the join of two branches on a common grid."""

    factors: tuple[int, int] = (1, 1)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        x, y = inputs
        if x.shape != y.shape:
            raise ModelError(f"cannot add frames {list(x.shape)} and {list(y.shape)}")
        ends = [sorted((f * t.int_range.lo, f * t.int_range.hi)) for f, t in zip(self.factors, inputs, strict=True)]
        return (TensorType(x.shape, IntRange(ends[0][0] + ends[1][0], ends[0][1] + ends[1][1])),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        x, y = inputs
        return (self.factors[0] * x.astype(np.int64) + self.factors[1] * y.astype(np.int64),)


@dataclass(frozen=True, eq=False)
class IntMaxPool(Op):
    """Largest value in each window of an image; padding never wins."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        spatial = window_output(x.shape[1:], self.kernel, self.strides, self.dilations, self.pads)
        return (TensorType((x.shape[0], *spatial), x.element),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        out = window_output(x.shape[2:], self.kernel, self.strides, self.dilations, self.pads)
        padded = pad_image(x, self.pads, int(np.iinfo(x.dtype).min))
        return (reduce_windows(padded, self.kernel, self.strides, self.dilations, out, np.maximum),)


@dataclass(frozen=True, eq=False)
class IntSumPool(Op):
    """Sum of each window of an image, padded with the integer 0: average pooling before its division."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        spatial = window_output(x.shape[1:], self.kernel, self.strides, self.dilations, self.pads)
        taps, r = int(np.prod(self.kernel)), x.int_range
        low, high = taps * r.lo, taps * r.hi
        if any(p for pair in self.pads for p in pair):  # a border window has fewer taps
            low, high = min(low, 0), max(high, 0)
        return (TensorType((x.shape[0], *spatial), IntRange(low, high)),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        out = window_output(x.shape[2:], self.kernel, self.strides, self.dilations, self.pads)
        padded = pad_image(x.astype(np.int64), self.pads, 0)
        return (reduce_windows(padded, self.kernel, self.strides, self.dilations, out, np.add),)


@dataclass(frozen=True, eq=False)
class IntTopK(Op):
    """Indices of the ``k`` largest (or smallest) values along the last axis, best first, ties by lowest index."""

    k: int = 1
    largest: bool = True

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        if not 1 <= self.k <= x.shape[-1]:
            raise ModelError(f"top {self.k} of {x.shape[-1]} values; k must be 1..{x.shape[-1]}")
        return (TensorType((*x.shape[:-1], self.k), IntRange(0, x.shape[-1] - 1)),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        return (top_indices(x.astype(np.int64), self.k, self.largest),)


@dataclass(frozen=True, eq=False)
class Reshape(Op):
    """The same elements, in the same order, in another frame shape."""

    shape: tuple[int, ...]

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        if int(np.prod(x.shape)) != int(np.prod(self.shape)):
            raise ModelError(f"cannot reshape frames {list(x.shape)} to {list(self.shape)}")
        return (TensorType(self.shape, x.element),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0].reshape(inputs[0].shape[0], *self.shape),)


@dataclass(frozen=True, eq=False)
class Transpose(Op):
    """Frame axes permuted: output axis ``k`` is input axis ``perm[k]`` (batch axis not counted)."""

    perm: tuple[int, ...]

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        if sorted(self.perm) != list(range(len(x.shape))):
            raise ModelError(f"permutation {list(self.perm)} does not fit frames {list(x.shape)}")
        return (TensorType(tuple(x.shape[p] for p in self.perm), x.element),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.ascontiguousarray(inputs[0].transpose(0, *(1 + p for p in self.perm))),)


@dataclass(frozen=True, eq=False)
class Concat(Op):
    """Frames joined along *axis* (batch axis not counted)."""

    axis: int

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        shapes = {t.shape[: self.axis] + t.shape[self.axis + 1 :] for t in inputs}
        if len(shapes) != 1:
            raise ModelError(f"cannot join frames {[list(t.shape) for t in inputs]} along axis {self.axis}")
        shape = list(inputs[0].shape)
        shape[self.axis] = sum(t.shape[self.axis] for t in inputs)
        if not all(t.is_integer for t in inputs):
            return (TensorType(tuple(shape)),)
        ranges = [t.int_range for t in inputs]
        bipolar = all(r.bipolar for r in ranges)
        element = IntRange(min(r.lo for r in ranges), max(r.hi for r in ranges), bipolar)
        return (TensorType(tuple(shape), element),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.concatenate(inputs, axis=1 + self.axis),)


@dataclass(frozen=True, eq=False)
class Slice(Op):
    """Elements ``start:stop:step`` along *axis* (batch axis not counted)."""

    axis: int
    start: int
    stop: int
    step: int = 1

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        shape = list(x.shape)
        shape[self.axis] = len(range(*slice(self.start, self.stop, self.step).indices(shape[self.axis])))
        if shape[self.axis] == 0:
            raise ModelError(f"slice {self.start}:{self.stop}:{self.step} of axis {self.axis} is empty")
        return (TensorType(tuple(shape), x.element),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        index: list[slice] = [slice(None)] * inputs[0].ndim
        index[1 + self.axis] = slice(self.start, self.stop, self.step)
        return (inputs[0][tuple(index)],)


# -- shared window and threshold arithmetic ---------------------------------------------------------------------


def window_output(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: tuple[tuple[int, int], ...],
) -> tuple[int, ...]:
    """Spatial output shape of a sliding window.

    Raises:
        ModelError: when the window does not fit into the padded image.
    """
    out = []
    for n, k, s, d, (begin, end) in zip(size, kernel, strides, dilations, pads, strict=True):
        span = n + begin + end - (d * (k - 1) + 1)
        if span < 0:
            raise ModelError(f"a window of {d * (k - 1) + 1} does not fit an image axis of {n + begin + end}")
        out.append(span // s + 1)
    return tuple(out)


def sliding_windows(
    x: Array,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: tuple[tuple[int, int], ...],
    fill: int,
) -> Array:
    """All windows of images ``(N, C, *size)`` as a view ``(N, C, *out, *kernel)``."""
    if any(p for pair in pads for p in pair):
        x = np.pad(x, ((0, 0), (0, 0), *pads), constant_values=fill)
    reach = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True))
    axes = tuple(range(2, 2 + len(kernel)))
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=axes)
    pick = (slice(None), slice(None), *(slice(None, None, s) for s in strides))
    return windows[(*pick, *(slice(None, None, d) for d in dilations))]


def top_indices(x: Array, k: int, largest: bool) -> Int:
    """Indices of the *k* best values along the last axis, best first, ties by lowest index."""
    order: Int = np.argsort(-x if largest else x, axis=-1, kind="stable")
    return order[..., :k]


def pad_image(x: Array, pads: tuple[tuple[int, int], ...], fill: int) -> Array:
    """Images ``(N, C, *size)`` with *fill* around them."""
    if not any(p for pair in pads for p in pair):
        return x
    return np.pad(x, ((0, 0), (0, 0), *pads), constant_values=fill)


def largest(x: Array) -> int:
    """Largest magnitude in an integer array."""
    return max(abs(int(x.min(initial=0))), abs(int(x.max(initial=0))))
