"""Functions of one integer, element by element, with constants per channel: activations, tables, factors, clips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ModelError
from headrace.ir.counting import Thresholds
from headrace.ir.exact import largest, narrowest
from headrace.ir.op import QUIET, Array, Op
from headrace.ir.types import IntRange, TensorType

Int = NDArray[np.int64]


class PerChannel(Op):
    """Base of the functions of one integer: a frozen dataclass whose arrays are the constants.

    Constants are ``(C, ...)``, one row for each index of *axis* (batch axis not counted), or ``(1, ...)`` for all.

    Attributes:
        axis: along which they vary.
        output: the exact range of what comes out.
    """

    axis: int
    output: IntRange

    @property
    def constants(self) -> dict[str, Int]:
        """The constants by the names of their fields."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    @property
    def channels(self) -> int:
        """Number of channels that the constants tell apart."""
        return max(int(c.shape[0]) for c in self.constants.values())

    def with_constants(self, change: Callable[[Int], Int], axis: int) -> Self:
        """The same function with *change* applied to all constants, which then vary along *axis*."""
        changed: dict[str, Any] = {name: change(c) for name, c in self.constants.items()} | {"axis": axis}
        return replace(self, **changed)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        size = x.shape[self.axis] if x.shape else 1
        for name, constant in self.constants.items():
            if constant.shape[0] not in (1, size):
                raise ModelError(f"{constant.shape[0]} rows of {name} for {size} channels, axis {self.axis}")
        return (TensorType(x.shape, self.output),)

    def against(self, x: Array, constant: Int) -> Int:
        """A constant of one number a channel as it broadcasts against a batch *x*."""
        return (
            constant.reshape(-1, *(1,) * max(x.ndim - 2 - self.axis, 0)) if constant.size > 1 else constant.reshape(())
        )


@dataclass(frozen=True, eq=False)
class Activation(PerChannel):
    """``y = base[c] + step[c] * #{k : x >= thresholds[c, k]}``: an exact monotone integer function per channel.

    Thresholds ``(C, T)`` ascend along T and lie in ``lo + 1 .. hi`` of the input; a threshold that can never be
    reached is ``hi + 1``. C is the size of *axis*, or 1 when all channels share them. ``axis`` is counted without the
    batch axis. ``disagreements`` counts the inputs for which float32 and exact real arithmetic decide differently.
    ``writable`` says that any other thresholds may take the place of these at run time, rising or falling, with results
    in ``output``.
    """

    thresholds: Int
    base: Int
    step: Int
    output: IntRange
    axis: int = 0
    disagreements: int = 0
    writable: bool = field(default=False, metadata=QUIET)

    @cached_property
    def _counted(self) -> Thresholds:
        return Thresholds(self.thresholds)

    @cached_property
    def _levels(self) -> tuple[Array, Array]:
        """Steps and bases, of one number where all are the same, in a type that holds every sum on the way."""
        kind = narrowest(largest(self.base) + largest(self.step) * self.thresholds.shape[1])
        step, base = ((c[:1] if (c == c[0]).all() else c).astype(kind) for c in (self.step, self.base))
        return step, base

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        if x.ndim == 1:  # one number a frame
            return (self.execute(x[:, None])[0][:, 0],)
        step, base = self._levels
        y = self._counted.count(np.moveaxis(x, 1 + self.axis, -1)).astype(step.dtype, copy=False)
        if step.size > 1 or step[0] != 1:
            y *= step
        if base.size > 1 or base[0] != 0:
            y += base
        return (np.moveaxis(y, -1, 1 + self.axis),)


@dataclass(frozen=True, eq=False)
class Lookup(PerChannel):
    """``y = table[c, x - lo]``: any exact integer function per channel; C is the size of *axis* or 1."""

    table: Int
    lo: int
    output: IntRange
    axis: int = 0
    disagreements: int = 0

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        if x.ndim == 1:  # one number a frame
            return (self.execute(x[:, None])[0][:, 0],)
        moved = np.moveaxis(x, 1 + self.axis, -1).astype(np.int64) - self.lo
        channel = np.arange(moved.shape[-1]) if self.table.shape[0] > 1 else 0
        return (np.moveaxis(self.table[channel, moved], -1, 1 + self.axis),)


def to_significand(x: Int) -> Int:
    """*x* rounded to 24 significant bits, ties to even: what becomes of an integer in float32, times a power of two."""
    return x.astype(np.float32).astype(np.int64)


@dataclass(frozen=True, eq=False)
class IntAffine(PerChannel):
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

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        factor, term = (self.against(x, c) for c in (self.factor, self.term))
        if self.significand:
            return (to_significand(to_significand(x.astype(np.int64) * factor) + term),)
        kind = narrowest(max(largest(x), 1) * largest(factor) + largest(term))
        y = np.multiply(x, factor.astype(kind), dtype=kind)
        return (np.add(y, term.astype(kind), out=y),)


@dataclass(frozen=True, eq=False)
class IntClip(PerChannel):
    """``y = min(max(x, lo[c]), hi[c])``; bounds are ``(C,)`` along *axis* (batch axis not counted) or ``(1,)``."""

    lo: Int
    hi: Int
    output: IntRange
    axis: int = 0

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        kind = narrowest(max(largest(x), largest(self.lo), largest(self.hi)))
        lo, hi = (self.against(x, bound).astype(kind) for bound in (self.lo, self.hi))
        y = np.maximum(x, lo, dtype=kind)
        return (np.minimum(y, hi, out=y),)
