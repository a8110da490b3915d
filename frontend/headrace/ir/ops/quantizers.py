"""Quantizers: real tensors to integers, and the real numbers those stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ModelError
from headrace.ir.exact import narrowest
from headrace.ir.grid import Grid
from headrace.ir.op import Array, Op
from headrace.ir.ops.base import SourceOp
from headrace.ir.real import Real, Single, as_real, single
from headrace.ir.scaled import Abstract, Floating, Lowering
from headrace.ir.types import IntRange, TensorType
from headrace.numerics.rounding import rounding_function

Int = NDArray[np.int64]
Double = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Quantizer(SourceOp):
    """Base: ``codes`` gives the integers q, whose real value is ``scale * q + bias``."""

    @property
    def scale(self) -> Double:
        """Scale of the output integers; broadcasts against a frame."""
        raise NotImplementedError

    @property
    def bias(self) -> Double:
        """Offset of the output; zero for every quantizer whose zero point is an integer."""
        return np.zeros((1,) * self.scale.ndim)

    @property
    def levels(self) -> IntRange:
        """The integers that can come out."""
        raise NotImplementedError

    def codes(self, x: Single) -> Int:
        """The integers, in canonical float32 arithmetic."""
        raise NotImplementedError

    def exact_codes(self, x: Double) -> Int:
        """The integers when *x* and the arithmetic are (as good as) exact."""
        raise NotImplementedError

    def rising(self) -> bool:
        """Whether codes never fall as x rises."""
        return True

    def parameter_shape(self) -> tuple[int, ...]:
        """Shape that the array parameters broadcast to."""
        arrays = [getattr(self, f.name) for f in fields(self)]
        return np.broadcast_shapes(*(a.shape for a in arrays if isinstance(a, np.ndarray)))

    def map_parameters(self, move: Callable[[Array], Array]) -> Self:
        """The same quantizer with *move* applied to every array parameter."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{n: move(a) for n, a in arrays.items() if isinstance(a, np.ndarray)})

    def dequantize(self, q: Int) -> Real:
        """The real tensor that integers *q* stand for: one multiplication, and one addition where there is a bias."""
        value = single(q) * single(self.scale)
        if np.any(self.bias != 0):
            value = value + single(self.bias)
        return Real(value, Grid(q, self.scale, self.bias))

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return (TensorType(np.broadcast_shapes(inputs[0].shape, self.parameter_shape())),)

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        return (self.dequantize(self.codes(numbers(inputs[0].value))),)

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        """A function of integers becomes an exact table or threshold set; on real data the host quantizes."""
        (x,) = inputs
        if isinstance(x, Floating):
            return (ctx.enter(x, self),)
        return (ctx.quantize(x, self),)


def numbers(x: Single) -> Single:
    """*x*, which a quantizer is about to read.

    Raises:
        ModelError: when some of it is NaN.
    """
    if np.isnan(np.max(x, initial=0)):
        raise ModelError("it quantizes what is not a number (NaN), as infinity minus infinity is")
    return x


@dataclass(frozen=True, eq=False)
class IntQuant(Quantizer):
    """``q = clamp(round(fl32(fl32(x / step) + zero_point)), lo, hi) - zero_point``; value ``fl32(q * step)``.

    ``step`` (float32) and ``zero_point`` (integers as float32) broadcast against a frame; ``lo`` and ``hi`` bound the
    code before the zero point is taken off. ``rounding`` is a QONNX rounding mode.
    """

    step: Single
    zero_point: Single
    lo: int
    hi: int
    rounding: str = "ROUND"

    @property
    def scale(self) -> Double:
        return self.step.astype(np.float64)

    @property
    def levels(self) -> IntRange:
        return IntRange(self.lo - int(self.zero_point.max()), self.hi - int(self.zero_point.min()))

    def _finish(self, y: Array) -> Int:
        rounded = rounding_function(self.rounding)(y)
        if max(-self.lo, self.hi) >= 2**24:  # such bounds are no float32 numbers
            rounded = rounded.astype(np.float64)
        codes: Int = np.clip(rounded, self.lo, self.hi).astype(np.int64)
        return codes - self.zero_point.astype(np.int64) if np.any(self.zero_point) else codes

    def codes(self, x: Single) -> Int:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            y = x / self.step
            return self._finish(_no_zero_by_zero(y + self.zero_point if np.any(self.zero_point) else y, self.step))

    def exact_codes(self, x: Double) -> Int:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            return self._finish(_no_zero_by_zero(x / self.scale + self.zero_point.astype(np.float64), self.step))


def _no_zero_by_zero(y: Array, step: Single) -> Array:
    """A zero step marks a pruned channel: it codes as 0 (callers have checked that its values are all 0)."""
    return y if np.all(step) else np.where(np.broadcast_to(step == 0, y.shape), 0, y)


@dataclass(frozen=True, eq=False)
class RawCodes(IntQuant):
    """ONNX QuantizeLinear: the code itself, zero point included, is the value.

    Unlike QONNX, ONNX rounds before it adds the zero point: its parity decides no tie. ``zero_first`` turns that round,
    as ONNX Runtime does in its QLinearAdd and QLinearMul.
    """

    zero_first: bool = False

    @property
    def scale(self) -> Double:
        return np.ones((1,) * self.step.ndim)

    @property
    def levels(self) -> IntRange:
        return IntRange(self.lo, self.hi)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return (TensorType(super().infer(*inputs)[0].shape, self.levels),)

    def _code(self, y: Array) -> Int:
        rounding = rounding_function(self.rounding)
        before, after = (self.zero_point.astype(y.dtype), 0) if self.zero_first else (0, self.zero_point)
        whole = rounding(y + before).astype(np.float64) + after
        codes: Int = np.clip(whole, self.lo, self.hi).astype(np.int64)
        return codes

    def codes(self, x: Single) -> Int:
        with np.errstate(over="ignore"):
            return self._code(x / self.step)

    def exact_codes(self, x: Double) -> Int:
        return self._code(x / self.step.astype(np.float64))


@dataclass(frozen=True, eq=False)
class BipolarQuant(Quantizer):
    """``q = +1 where x >= 0, else -1``; value ``fl32(q * step)``."""

    step: Single

    @property
    def scale(self) -> Double:
        return self.step.astype(np.float64)

    @property
    def levels(self) -> IntRange:
        return IntRange(-1, 1, bipolar=True)

    def codes(self, x: Single) -> Int:
        return np.where(np.broadcast_to(x >= 0, np.broadcast_shapes(x.shape, self.step.shape)), 1, -1)

    def exact_codes(self, x: Double) -> Int:
        return np.where(np.broadcast_to(x >= 0, np.broadcast_shapes(x.shape, self.step.shape)), 1, -1)


@dataclass(frozen=True, eq=False)
class Sign(Quantizer):
    """-1, 0 or +1 as *x* is below, at or above zero; *rank* is that of a frame."""

    rank: int

    @property
    def scale(self) -> Double:
        return np.ones((1,) * self.rank)

    @property
    def levels(self) -> IntRange:
        return IntRange(-1, 1)

    def codes(self, x: Single) -> Int:
        return self.exact_codes(x.astype(np.float64))

    def exact_codes(self, x: Double) -> Int:
        signs: Int = np.sign(x).astype(np.int64)
        return signs


@dataclass(frozen=True, eq=False)
class MultiThreshold(Quantizer):
    """``out_scale * #{k : x >= thresholds[c, k]} + out_bias`` (FINN), thresholds float32 ``(C or 1, T)`` along *axis*.

    The output integers are ``multiple * count + offset`` and stand for ``unit * q + shift``: on the grid of
    ``out_scale`` and ``out_bias`` where they share one (then *shift* is 0), otherwise on that of ``out_scale`` alone.
    """

    thresholds: Double
    unit: float
    multiple: int
    offset: int
    axis: int
    rank: int
    shift: float = 0.0

    @property
    def scale(self) -> Double:
        return np.full((1,) * self.rank, self.unit)

    @property
    def bias(self) -> Double:
        return np.full((1,) * self.rank, self.shift)

    @property
    def levels(self) -> IntRange:
        ends = sorted((self.offset, self.offset + self.multiple * self.thresholds.shape[1]))
        bipolar = self.thresholds.shape[1] == 1 and ends == [-1, 1]
        return IntRange(ends[0], ends[1], bipolar)

    def rising(self) -> bool:
        return self.multiple >= 0

    def parameter_shape(self) -> tuple[int, ...]:
        shape = [1] * self.rank
        shape[self.axis] = self.thresholds.shape[0]
        return tuple(shape)

    def map_parameters(self, move: Callable[[Array], Array]) -> Self:
        """Thresholds keep their own layout; only per-tensor ones survive a data movement.

        Raises:
            NotImplementedError: for per-channel thresholds.
        """
        if self.thresholds.shape[0] > 1:
            raise NotImplementedError("per-channel MultiThreshold under a data movement")
        return self

    def codes(self, x: Single) -> Int:
        return self.exact_codes(x.astype(np.float64))

    def exact_codes(self, x: Double) -> Int:
        channels = np.moveaxis(x, self.axis - self.rank, 0)
        count = np.empty(channels.shape, np.int64)
        for c, channel in enumerate(channels):
            row = self.thresholds[c if self.thresholds.shape[0] > 1 else 0]
            count[c] = np.searchsorted(row, channel, side="right")
        codes: Int = np.moveaxis(self.multiple * count + self.offset, 0, self.axis - self.rank)
        return codes


@dataclass(frozen=True, eq=False)
class Trunc(Quantizer):
    """QONNX Trunc: ``q = clamp(round_to(rint(x / step) / 2**shift))``; value ``fl32(q * out_step)``.

    ``lo``/``hi`` are None where the operator's version does not clamp; zero points are refused by the importer.
    """

    step: Single
    shift: int
    out_step: Single
    rounding: str
    lo: int | None = None
    hi: int | None = None
    reach: int = 2**31

    @property
    def scale(self) -> Double:
        return self.out_step.astype(np.float64)

    @property
    def levels(self) -> IntRange:
        return IntRange(-self.reach if self.lo is None else self.lo, self.reach if self.hi is None else self.hi)

    def _finish(self, y: Array) -> Int:
        rounded = rounding_function(self.rounding)(np.rint(y) / np.asarray(2.0**self.shift, y.dtype))
        if self.lo is not None or self.hi is not None:
            rounded = np.clip(rounded, self.lo, self.hi)
        codes: Int = rounded.astype(np.int64)
        return codes

    def codes(self, x: Single) -> Int:
        return self._finish(x / self.step)

    def exact_codes(self, x: Double) -> Int:
        return self._finish(x / self.step.astype(np.float64))


QUANTIZED_ELEMENTS = 2**17
"""Elements that are quantized before the next ones are: what stays in the cache meanwhile."""


@dataclass(frozen=True, eq=False)
class Codes(Op):
    """The host's side of a quantizer on real data: float tensor in, integers out; first operator of the hardware."""

    quantizer: Quantizer

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (shape,) = (t.shape for t in self.quantizer.infer(*inputs))
        return (TensorType(shape, self.quantizer.levels),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        x = as_real(inputs[0]).value
        levels = self.quantizer.levels
        shape = np.broadcast_shapes(x.shape[1:], self.quantizer.parameter_shape())
        y = np.empty((len(x), *shape), narrowest(max(-levels.lo, levels.hi)))
        frames = max(1, QUANTIZED_ELEMENTS // max(y[:1].size, 1))
        for first in range(0, len(x), frames):
            part = slice(first, first + frames)
            y[part] = self.quantizer.codes(numbers(x[part]))
        return (y,)
