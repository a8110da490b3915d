"""Elementwise real functions in canonical arithmetic: one correctly rounded float32 operation each.

Parameters are arrays that broadcast against a frame (same rank, batch axis left out).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headrace.ir.grid import FAR, Clamp, Grid
from headrace.ir.op import Array
from headrace.ir.ops.base import SourceOp
from headrace.ir.real import Real, Single, single
from headrace.ir.scaled import Abstract, Floating, Lowering
from headrace.ir.types import TensorType

Double = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Elementwise(SourceOp):
    """A function of one real tensor, element by element."""

    @property
    def title(self) -> str:
        """What messages call it."""
        return type(self).__name__

    def apply(self, x: Single) -> Single:
        """The function in canonical float32 arithmetic."""
        raise NotImplementedError

    def exact(self, x: Double) -> Double:
        """The same function in double precision, standing in for exact real arithmetic."""
        raise NotImplementedError

    def direction(self) -> Array | None:
        """+1 where never falling, -1 where never rising (an array that broadcasts), None when neither is proven."""
        return None

    def linear(self) -> tuple[Double, Double] | None:
        """``(a, b)`` when the function is ``a * x + b``."""
        return None

    def clamp(self, scale: Double, bias: Double) -> Clamp | None:
        """What the function does to the integers of the grid ``scale * q + bias``, when that is a clamp on the grid.

        Decided on the grid alone: the reference execution and the analysis must come to the same answer.
        """
        return None

    def neutral(self) -> dict[str, float] | None:
        """Values of the array parameters that make the function hand its input on unchanged, if there are any."""
        return None

    def map_parameters(self, move: Callable[[Array], Array]) -> Self:
        """The same function after a data movement of the tensor: *move* is applied to every array parameter."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{n: move(a) for n, a in arrays.items() if isinstance(a, np.ndarray)})

    def parameter_shape(self) -> tuple[int, ...]:
        """Shape that the array parameters broadcast to; ``()`` when there are none."""
        arrays = [getattr(self, f.name) for f in fields(self)]
        return np.broadcast_shapes(*(a.shape for a in arrays if isinstance(a, np.ndarray)))

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return (TensorType(np.broadcast_shapes(inputs[0].shape, self.parameter_shape())),)

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        (x,) = inputs
        value = self.apply(x.value)
        return (Real(value, moved_grid(x.grid, self, value), x.loose),)

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        """Record the step; it is run when a quantizer asks for the function of the integers."""
        (x,) = inputs
        if isinstance(x, Floating):
            return ctx.host(self, inputs)
        return (ctx.step(x, self),)


def moved_grid(grid: Grid | None, op: Elementwise, value: Single) -> Grid | None:
    """The grid of ``op(x)``: moved by a linear function, clamped by a clip on it, none after anything else."""
    if grid is None:
        return None
    ends = op.linear()
    if ends is not None:
        a, b = ends
        q = np.broadcast_to(grid.q, value.shape)
        return Grid(q, grid.scale * a, grid.bias * a + b)
    clamp = op.clamp(grid.scale, grid.bias)
    return None if clamp is None else Grid(clamp(grid.q), grid.scale, grid.bias)


@dataclass(frozen=True, eq=False)
class Mul(Elementwise):
    """``x * factor``; the factor may be given unrounded and is rounded once."""

    factor: Double

    def apply(self, x: Single) -> Single:
        return x * single(self.factor)

    def exact(self, x: Double) -> Double:
        return x * self.factor

    def direction(self) -> Array | None:
        return np.where(self.factor >= 0, 1, -1)

    def neutral(self) -> dict[str, float] | None:
        return {"factor": 1.0}

    def linear(self) -> tuple[Double, Double] | None:
        return self.factor, np.zeros_like(self.factor)


@dataclass(frozen=True, eq=False)
class Add(Elementwise):
    """``x + term``; the term may be given unrounded and is rounded once."""

    term: Double

    def apply(self, x: Single) -> Single:
        return x + single(self.term)

    def exact(self, x: Double) -> Double:
        return x + self.term

    def direction(self) -> Array | None:
        return np.ones((), np.int64)

    def neutral(self) -> dict[str, float] | None:
        return {"term": 0.0}

    def linear(self) -> tuple[Double, Double] | None:
        return np.ones_like(self.term), self.term


@dataclass(frozen=True, eq=False)
class Div(Elementwise):
    """``x / divisor``."""

    divisor: Single

    def apply(self, x: Single) -> Single:
        return x / self.divisor

    def exact(self, x: Double) -> Double:
        return x / self.divisor.astype(np.float64)

    def direction(self) -> Array | None:
        return np.where(self.divisor >= 0, 1, -1)

    def neutral(self) -> dict[str, float] | None:
        return {"divisor": 1.0}

    def linear(self) -> tuple[Double, Double] | None:
        return 1.0 / self.divisor.astype(np.float64), np.zeros_like(self.divisor, np.float64)


@dataclass(frozen=True, eq=False)
class Reciprocal(Elementwise):
    """``numerator / x``."""

    numerator: Single

    def apply(self, x: Single) -> Single:
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.numerator / x

    def exact(self, x: Double) -> Double:
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.numerator.astype(np.float64) / x


@dataclass(frozen=True, eq=False)
class BatchNorm(Elementwise):
    """``fl32(fl32(x * a) + b)`` with ``a`` and ``b`` computed in float64; both are given unrounded."""

    a: Double
    b: Double

    def apply(self, x: Single) -> Single:
        y: Single = x * single(self.a) + single(self.b)
        return y

    def exact(self, x: Double) -> Double:
        return x * self.a + self.b

    def direction(self) -> Array | None:
        return np.where(self.a >= 0, 1, -1)

    def neutral(self) -> dict[str, float] | None:
        return {"a": 1.0, "b": 0.0}

    def linear(self) -> tuple[Double, Double] | None:
        return self.a, self.b


@dataclass(frozen=True, eq=False)
class Clip(Elementwise):
    """``min(max(x, lo), hi)`` with ``lo <= hi``; Relu is ``Clip(0, inf)``, HardTanh ``Clip(-1, 1)``."""

    lo: float = 0.0
    hi: float = float("inf")

    def apply(self, x: Single) -> Single:
        return np.minimum(np.maximum(x, np.float32(self.lo)), np.float32(self.hi))

    def exact(self, x: Double) -> Double:
        return np.minimum(np.maximum(x, self.lo), self.hi)

    def direction(self) -> Array | None:
        return np.ones((), np.int64)

    def clamp(self, scale: Double, bias: Double) -> Clamp | None:
        lo, hi = (np.asarray(np.float32(bound), np.float64) for bound in (self.lo, self.hi))
        return clamp_between(lo, hi, scale, bias)


@dataclass(frozen=True, eq=False)
class Limit(Elementwise):
    """``min(max(x, lo), hi)`` with ``lo <= hi`` given per channel, infinite where there is none."""

    lo: Single
    hi: Single

    def apply(self, x: Single) -> Single:
        return np.minimum(np.maximum(x, self.lo), self.hi)

    def exact(self, x: Double) -> Double:
        return np.minimum(np.maximum(x, self.lo.astype(np.float64)), self.hi.astype(np.float64))

    def direction(self) -> Array | None:
        return np.ones((), np.int64)

    def neutral(self) -> dict[str, float] | None:
        return {"lo": float("-inf"), "hi": float("inf")}

    def clamp(self, scale: Double, bias: Double) -> Clamp | None:
        return clamp_between(self.lo.astype(np.float64), self.hi.astype(np.float64), scale, bias)


def clamp_between(lo: Double, hi: Double, scale: Double, bias: Double) -> Clamp | None:
    """The clamp of integers that clips ``scale * q + bias`` between *lo* and *hi*, when these lie on the grid."""
    if not (np.all(scale) and np.all(np.isfinite(scale))):
        return None
    ends = [_integers_at(bound, scale, bias) for bound in (lo, hi)]
    if ends[0] is None or ends[1] is None:
        return None
    rising = scale > 0
    return Clamp(np.where(rising, ends[0], ends[1]), np.where(rising, ends[1], ends[0]))


def _integers_at(bound: Double, scale: Double, bias: Double) -> NDArray[np.int64] | None:
    """The integers that stand for *bound*, if there are any; a far one stands for an infinite bound."""
    far = np.isinf(bound)
    q = np.rint((np.where(far, 0.0, bound) - bias) / scale)
    if not np.all(far | ((np.abs(q) < 2.0**53) & (scale * q + bias == bound))):
        return None
    return np.where(far, np.where((scale > 0) == (bound > 0), FAR, -FAR), np.where(far, 0, q)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class PRelu(Elementwise):
    """``x`` where positive, ``slope * x`` elsewhere; LeakyRelu with an array of one slope."""

    slope: Single

    def apply(self, x: Single) -> Single:
        return np.where(x >= 0, x, x * self.slope)

    def exact(self, x: Double) -> Double:
        return np.where(x >= 0, x, x * self.slope.astype(np.float64))

    def neutral(self) -> dict[str, float] | None:
        return {"slope": 1.0}

    def direction(self) -> Array | None:
        return np.ones((), np.int64) if np.all(self.slope >= 0) else None


@dataclass(frozen=True, eq=False)
class ThresholdedRelu(Elementwise):
    """``x`` where above *alpha*, 0 elsewhere."""

    alpha: float = 1.0

    def apply(self, x: Single) -> Single:
        return np.where(x > np.float32(self.alpha), x, np.float32(0))

    def exact(self, x: Double) -> Double:
        return np.where(x > self.alpha, x, 0.0)

    def direction(self) -> Array | None:
        return np.ones((), np.int64) if self.alpha >= 0 else None
