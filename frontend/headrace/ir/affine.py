"""Constant integer factors and terms: zero points, rescaling before a join, float32 products kept exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ModelError
from headrace.ir.op import Array, Op
from headrace.ir.types import IntRange, TensorType

Int = NDArray[np.int64]


def to_significand(x: Int) -> Int:
    """*x* rounded to 24 significant bits, ties to even: what becomes of an integer in float32, times a power of two."""
    return x.astype(np.float32).astype(np.int64)


@dataclass(frozen=True, eq=False)
class IntAffine(Op):
    """``y = factor[c] * x + term[c]``; with ``significand``, product and sum are each rounded to 24 significant bits.

    Rounding is to nearest, ties to even (:func:`to_significand`): on a grid of powers of two that is a float32
    multiplication followed by a float32 addition. ``factor`` and ``term`` are ``(C,)`` along *axis* (batch axis not
    counted) or ``(1,)``; ``output`` is the exact range of what comes out.
    """

    factor: Int
    term: Int
    output: IntRange
    axis: int = 0
    significand: bool = False

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        for constants in (self.factor, self.term):
            if constants.size not in (1, x.shape[self.axis] if x.shape else 1):
                raise ModelError(f"{constants.size} constants for axis {self.axis} of frames {list(x.shape)}")
        return (TensorType(x.shape, self.output),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        view = (-1, *(1,) * max(x.ndim - 2 - self.axis, 0))
        factor, term = (c.reshape(view) if c.size > 1 else c.reshape(()) for c in (self.factor, self.term))
        product = x.astype(np.int64) * factor
        if not self.significand:
            return (product + term,)
        return (to_significand(to_significand(product) + term),)


@dataclass(frozen=True, eq=False)
class IntClip(Op):
    """``y = min(max(x, lo[c]), hi[c])``; bounds are ``(C,)`` along *axis* (batch axis not counted) or ``(1,)``."""

    lo: Int
    hi: Int
    output: IntRange
    axis: int = 0

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        for bounds in (self.lo, self.hi):
            if bounds.size not in (1, x.shape[self.axis] if x.shape else 1):
                raise ModelError(f"{bounds.size} bounds for axis {self.axis} of frames {list(x.shape)}")
        return (TensorType(x.shape, self.output),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        view = (-1, *(1,) * max(x.ndim - 2 - self.axis, 0))
        lo, hi = (b.reshape(view) if b.size > 1 else b.reshape(()) for b in (self.lo, self.hi))
        return (np.minimum(np.maximum(x.astype(np.int64), lo), hi),)
