"""Operators of the integer graph that pad, spread and repeat: elements are placed anew, none is computed.

They are used on real tensors as well (the source graph moves values and annotations with them); ``axis`` counts without
the batch axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ModelError
from headrace.ir.exact import largest, narrowest
from headrace.ir.op import Array, Op
from headrace.ir.types import Element, IntRange, TensorType

Int = NDArray[np.int64]


def with_fill(r: IntRange, fill: Int) -> IntRange:
    """*r* widened to hold the constants of *fill*."""
    lo, hi = min(r.lo, int(fill.min())), max(r.hi, int(fill.max()))
    return IntRange(lo, hi, r.bipolar and bool(np.all(np.abs(fill) == 1)))


def holding(x: Array, fill: Int) -> np.dtype[Any]:
    """The type of *x*; of integers, one that holds the constants of *fill* too."""
    return np.promote_types(x.dtype, narrowest(largest(fill))) if x.dtype.kind in "iu" else x.dtype


def surrounded(x: Array, pads: Sequence[tuple[int, int]], fill: Array | float, kind: np.dtype[Any]) -> Array:
    """Frames *x* as *kind*, with *fill* around them, ``(begin, end)`` per frame axis; memory stays in its order."""
    sizes = x.shape[1:]
    y = np.empty_like(x, kind, shape=(len(x), *(n + sum(pair) for n, pair in zip(sizes, pads, strict=True))))
    y[...] = fill
    y[(slice(None), *(slice(begin, begin + n) for n, (begin, _) in zip(sizes, pads, strict=True)))] = x
    return y


def _with_fill(element: Element, fill: Int) -> Element:
    return with_fill(element, fill) if isinstance(element, IntRange) else element


@dataclass(frozen=True, eq=False)
class IntPad(Op):
    """Constants around a frame: ``pads`` holds ``(begin, end)`` per frame axis, none negative.

    ``fill`` holds the constant, one ``(1,)`` for all or one per index of axis 0, ``(C,)`` (then axis 0 is not padded).
    """

    pads: tuple[tuple[int, int], ...]
    fill: Int

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        if len(self.pads) != len(x.shape) or min(n for pair in self.pads for n in pair) < 0:
            raise ModelError(f"cannot pad frames {list(x.shape)} by {list(self.pads)}")
        if self.fill.size > 1 and (self.fill.size != x.shape[0] or self.pads[0] != (0, 0)):
            raise ModelError(f"{self.fill.size} padding constants for frames {list(x.shape)}")
        shape = tuple(n + begin + end for n, (begin, end) in zip(x.shape, self.pads, strict=True))
        return (TensorType(shape, _with_fill(x.element, self.fill)),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        fill = self.fill.reshape(-1, *(1,) * (x.ndim - 2))
        return (surrounded(x, self.pads, fill, holding(x, fill)),)


@dataclass(frozen=True, eq=False)
class IntZeroInsert(Op):
    """Pixels of an image ``(C, *size)`` moved ``strides`` apart: ``y[c, s * i] = x[c, i]``, ``fill`` in between.

    An axis of length n becomes ``(n - 1) * s + 1`` long. ``fill`` holds the constant, ``(1,)`` or one per channel.
    """

    strides: tuple[int, ...]
    fill: Int

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        if len(self.strides) != len(x.shape) - 1 or min(self.strides) < 1:
            raise ModelError(f"cannot spread frames {list(x.shape)} by strides {list(self.strides)}")
        if self.fill.size not in (1, x.shape[0]):
            raise ModelError(f"{self.fill.size} constants for frames {list(x.shape)}")
        size = tuple((n - 1) * s + 1 for n, s in zip(x.shape[1:], self.strides, strict=True))
        element = x.element if size == x.shape[1:] else _with_fill(x.element, self.fill)
        return (TensorType((x.shape[0], *size), element),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        size = tuple((n - 1) * s + 1 for n, s in zip(x.shape[2:], self.strides, strict=True))
        y = np.empty_like(x, holding(x, self.fill), shape=(*x.shape[:2], *size))
        y[...] = self.fill.reshape(-1, *(1,) * len(size))
        pixels: tuple[slice, ...] = tuple(slice(None, None, s) for s in self.strides)
        y[(slice(None), slice(None), *pixels)] = x
        return (y,)


@dataclass(frozen=True, eq=False)
class IntUpsample(Op):
    """Every pixel of an image ``(C, *size)`` repeated: ``y[c, i] = x[c, i // factor]`` on each spatial axis."""

    factors: tuple[int, ...]

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        if len(self.factors) != len(x.shape) - 1 or min(self.factors, default=1) < 1:
            raise ModelError(f"cannot repeat frames {list(x.shape)} by factors {list(self.factors)}")
        size = tuple(n * f for n, f in zip(x.shape[1:], self.factors, strict=True))
        return (TensorType((x.shape[0], *size), x.element),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        for axis, factor in enumerate(self.factors):
            if factor > 1:
                x = np.repeat(x, factor, axis=2 + axis)
        return (x,)


@dataclass(frozen=True, eq=False)
class Gather(Op):
    """Elements ``indices`` along *axis*, in that order; elements may repeat or be left out."""

    axis: int
    indices: tuple[int, ...]

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        size = x.shape[self.axis]
        if not self.indices or not all(0 <= k < size for k in self.indices):
            raise ModelError(f"indices {list(self.indices)} of an axis of {size} elements")
        shape = list(x.shape)
        shape[self.axis] = len(self.indices)
        return (TensorType(tuple(shape), x.element),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.take(inputs[0], self.indices, axis=1 + self.axis),)
