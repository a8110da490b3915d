"""Operators of the integer graph: what the hardware computes, on integers only.

Shapes are those of the model (channels first in images); ``axis`` counts without the batch axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ModelError
from headrace.ir.digits import Digits
from headrace.ir.exact import Columns, largest, narrowest
from headrace.ir.filters import IMAGE_BYTES, SMALL_SUMS, Filter
from headrace.ir.op import QUIET, Array, Op
from headrace.ir.per_channel import Activation as Activation
from headrace.ir.per_channel import IntAffine as IntAffine
from headrace.ir.per_channel import IntClip as IntClip
from headrace.ir.per_channel import Lookup as Lookup
from headrace.ir.per_channel import PerChannel as PerChannel
from headrace.ir.resampling import Gather as Gather
from headrace.ir.resampling import IntPad as IntPad
from headrace.ir.resampling import IntUpsample as IntUpsample
from headrace.ir.resampling import IntZeroInsert as IntZeroInsert
from headrace.ir.types import IntRange, TensorType
from headrace.ir.windows import IntMaxPool as IntMaxPool
from headrace.ir.windows import IntPool as IntPool
from headrace.ir.windows import IntSelect as IntSelect
from headrace.ir.windows import IntSumPool as IntSumPool
from headrace.ir.windows import sliding_windows as sliding_windows
from headrace.ir.windows import window_output as window_output

Int = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class IntMatMul(Op):
    """``y[..., m] = sum_k x[..., k] * weights[k, m]`` with constant integer weights ``(K, M)``.

    ``ranges`` are the exact bounds of every output column, ``(2, M)``, from the range analysis; with ``writable``, the
    integers that may take the place of any weight at run time, those for all such weights.
    """

    weights: Int
    ranges: Int
    writable: IntRange | None = field(default=None, metadata=QUIET)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        if not x.shape or x.shape[-1] != self.weights.shape[0]:
            raise ModelError(f"cannot multiply frames {list(x.shape)} by weights {list(self.weights.shape)}")
        element = IntRange(int(self.ranges[0].min()), int(self.ranges[1].max()))
        return (TensorType((*x.shape[:-1], self.weights.shape[1]), element),)

    @cached_property
    def _columns(self) -> Columns:
        return Columns(self.weights)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        return (self._columns.product(inputs[0]),)


@dataclass(frozen=True, eq=False)
class IntConv(Op):
    """Convolution with constant integer weights ``(O, I/groups, *kernel)`` and zero padding.

    One or two spatial axes. ``pads`` holds ``(begin, end)`` per spatial axis; padded positions are the integer 0.
    ``ranges`` are the exact bounds of every output channel, ``(2, O)``; ``writable`` is as of :class:`IntMatMul`.
    ``scattered`` weights are shifted among zeros by construction: hardware then reads windows whole, without the parts
    at their ends that meet zeros alone.
    """

    weights: Int
    ranges: Int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    groups: int = 1
    writable: IntRange | None = field(default=None, metadata=QUIET)
    scattered: bool = field(default=False, metadata=QUIET)

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
    def _columns(self) -> Columns:
        """Weights as ``(groups, kernel * I/groups, O/groups)``; rows ordered (kernel position, channel)."""
        moved = np.moveaxis(self.weights, 1, -1).reshape(self.groups, self.weights.shape[0] // self.groups, -1)
        return Columns(np.ascontiguousarray(moved.transpose(0, 2, 1)))

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        out = window_output(x.shape[2:], self.kernel, self.strides, self.dilations, self.pads)
        bound = self._columns.bound(x)
        depthwise = self.weights.shape[1] == 1 and self.groups > 1
        if depthwise and bound < SMALL_SUMS:
            digits = Digits(np.dtype(np.int16))
        else:
            digits = self._columns.digits(bound, len(x), len(x) * math.prod(out) * self.weights.size)
        y = np.empty((len(x), *out, self.weights.shape[0]), narrowest(bound))
        filters = Filter(self.kernel, self.strides, self.dilations, out, digits)
        convolve = filters.depthwise if depthwise else filters.dense
        for start, image in self._images(x, digits):
            convolve(image, start, self._columns.of_type(digits.kind), y)
        return (np.moveaxis(y, -1, 1),)  # channels first to the reader, channels last in memory

    def _images(self, x: Array, digits: Digits) -> Iterator[tuple[int, Array]]:
        """Frames *x* as padded images of numbers, channels last, some at a time, with the number of the first; the next
        take the memory of those before."""
        numbers, moved = digits.numbers(len(x)), np.moveaxis(x, 1, -1)
        padded = [n + sum(pair) for n, pair in zip(x.shape[2:], self.pads, strict=True)]
        inside = [slice(begin, begin + n) for n, (begin, _) in zip(x.shape[2:], self.pads, strict=True)]
        bytes_each = math.prod(padded) * x.shape[1] * digits.kind.itemsize
        images = np.zeros((min(max(IMAGE_BYTES // max(bytes_each, 1), 1), numbers), *padded, x.shape[1]), digits.kind)
        for start in range(0, numbers, max(len(images), 1)):
            image = images[: numbers - start]
            digits.pack(moved, start, image[(slice(None), *inside)])
            yield start, image


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
        kind = narrowest(sum(max(abs(f), 1) * max(largest(z), 1) for f, z in zip(self.factors, inputs, strict=True)))
        x, y = (np.multiply(z, f, dtype=kind) for f, z in zip(self.factors, inputs, strict=True))
        return (np.add(x, y),)


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
        shape = list(inputs[0].shape)
        shape[1 + self.axis] = sum(x.shape[1 + self.axis] for x in inputs)
        y = np.empty_like(inputs[0], np.result_type(*inputs), shape=shape)  # memory in the order of the first
        return (np.concatenate(inputs, axis=1 + self.axis, out=y),)


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


def top_indices(x: Array, k: int, largest: bool) -> Int:
    """Indices of the *k* best values along the last axis, best first, ties by lowest index."""
    order: Int = np.argsort(-x if largest else x, axis=-1, kind="stable")
    return order[..., :k]
