"""Pad: constants around a frame and between its pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import gcd
from typing import ClassVar

import numpy as np

from headrace.errors import FoldingError
from headrace.ir import Array, IntRange
from headrace.ir.integer import IntPad, IntZeroInsert
from headrace.ir.resampling import with_fill
from headrace.layers.base import Layer, Resources, RtlModule, StreamType, divisors, lowers
from headrace.layers.hls import HlsCall, HlsTable
from headrace.layers.memory import Int, index_bits, memory_text, packed_words
from headrace.layers.programme import Programme
from headrace.layers.recode import Recode


@dataclass(frozen=True)
class PadAxis:
    """Positions ``0 .. count - 1`` along one axis; those at ``begin + step * k``, k < ``real``, come from the input."""

    name: str
    begin: int
    real: int
    step: int
    count: int

    @property
    def bits(self) -> int:
        """Width of the counter."""
        return index_bits(self.count)

    @property
    def last(self) -> int:
        """Last position."""
        return self.count - 1

    @property
    def end(self) -> int:
        """Position after the last real one."""
        return self.begin + (self.real - 1) * self.step + 1

    @property
    def phase(self) -> int:
        """Distance of position 0 from the last position of the grid of real ones before it."""
        return -self.begin % self.step

    @property
    def phase_bits(self) -> int:
        """Width of a counter of ``step``."""
        return index_bits(self.step)

    @property
    def mask(self) -> Int:
        """Which positions are real."""
        mask = np.zeros(self.count, np.int64)
        mask[self.begin : self.end : self.step] = 1
        return mask


@dataclass(frozen=True, eq=False)
class Pad(Layer):
    """Every axis of a frame of n becomes ``begin + (n - 1) * step + 1 + end`` long; new places hold a constant.

    Args:
        stream: the input; its ``elements`` are replaced by ``simd``.
        pads: ``(begin, end)`` per axis.
        steps: distance of neighbours per axis; 1 for the channels.
        fill: the constant, ``(1,)``, or one per channel of the output, ``(C,)``.

    Raises:
        FoldingError: when ``simd`` does not divide the channels and their padding.
    """

    kind: ClassVar[str] = "Pad"

    stream: StreamType
    pads: tuple[tuple[int, int], ...]
    steps: tuple[int, ...]
    fill: Int
    simd: int = 1

    def __post_init__(self) -> None:
        if self.steps[-1] != 1 or self.fill.size not in (1, self.out_shape[-1]):
            raise ValueError(f"steps {self.steps} and {self.fill.size} constants for {self.stream.shape}")
        if self.simd not in self.folding_choices["SIMD"]:
            valid = ", ".join(map(str, self.folding_choices["SIMD"]))
            raise FoldingError(f"Pad: SIMD={self.simd} does not divide the channels and their padding; valid: {valid}")

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Frame that leaves."""
        ends = zip(self.stream.shape, self.pads, self.steps, strict=True)
        return tuple(begin + (n - 1) * step + 1 + end for n, (begin, end), step in ends)

    @cached_property
    def axes(self) -> tuple[PadAxis, ...]:
        """The axes in words, innermost first, those with a single position left out."""
        axes = []
        for k, (n, (begin, _), step, count) in enumerate(
            zip(self.stream.shape, self.pads, self.steps, self.out_shape, strict=True)
        ):
            unit = self.simd if k == len(self.steps) - 1 else 1
            axes.append(PadAxis(f"axis{k}", begin // unit, n // unit, step, count // unit))
        return tuple(axis for axis in reversed(axes) if axis.count > 1)

    @property
    def element(self) -> IntRange:
        """Range of what leaves."""
        filled = self.out_shape != self.stream.shape
        return with_fill(self.stream.range, self.fill) if filled else self.stream.range

    @property
    def inputs(self) -> tuple[StreamType, ...]:
        return (replace(self.stream, elements=self.simd),)

    @property
    def outputs(self) -> tuple[StreamType, ...]:
        return (StreamType(self.out_shape, self.element, self.simd),)

    @property
    def cycles(self) -> int:
        return self.outputs[0].words

    @property
    def latency(self) -> int:
        return 1

    @property
    def folding(self) -> dict[str, int]:
        return {"SIMD": self.simd}

    @property
    def folding_choices(self) -> dict[str, tuple[int, ...]]:
        return {"SIMD": divisors(gcd(self.stream.shape[-1], *self.pads[-1]))}

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        y = np.empty((x.shape[0], *self.out_shape), np.int64)
        y[...] = self.fill
        real = [
            slice(begin, begin + (n - 1) * step + 1, step)
            for n, (begin, _), step in zip(self.stream.shape, self.pads, self.steps, strict=True)
        ]
        y[(slice(None), *real)] = x
        return (y,)

    def programme(self) -> Programme:
        """When words move in steady state."""
        real = reduce(np.multiply.outer, [axis.mask for axis in reversed(self.axes)], np.ones((), np.int64))
        taken = np.flatnonzero(real)
        taken[0] = 0
        return Programme((taken,), (np.arange(1, self.cycles + 1),))

    def resources(self) -> Resources:
        counters = sum(axis.bits + (axis.phase_bits if axis.step > 1 else 0) for axis in self.axes)
        word = self.outputs[0].word_bits
        return Resources(lut=2 * counters + word, ff=counters + self.inputs[0].word_bits + 2)

    @property
    def _fill_words(self) -> Int:
        """Constants by word of a pixel, one word when all are equal."""
        fill = self.fill if self.out_shape != self.stream.shape else np.array([self.element.hi])  # nothing to fill
        words: Int = np.broadcast_to(fill, self.out_shape[-1:]).reshape(-1, self.simd)
        return words[:1] if bool((words == words[0]).all()) else words

    def rtl(self) -> RtlModule:
        words = self._fill_words
        constant = words.shape[0] == 1
        context = {
            "axes": self.axes,
            "shape": self.stream.shape,
            "out_shape": self.out_shape,
            "x": self.stream.range,
            "y": self.element,
            "simd": self.simd,
            "recode": Recode(self.stream.range, self.element),
            "in_bits": self.inputs[0].word_bits,
            "out_bits": self.outputs[0].word_bits,
            "fill_words": words.shape[0],
            "fill": packed_words(words[:1], self.element)[0] if constant else None,
            "cycles": self.cycles,
        }
        return RtlModule("pad.sv.j2", context, {} if constant else {"fill": memory_text(words, self.element)})

    def hls(self) -> HlsCall:
        axes: dict[str, PadAxis] = {}
        for name, axis in zip("cwh", reversed(range(len(self.steps))), strict=False):
            unit = self.simd if name == "c" else 1
            begin, n = self.pads[axis][0] // unit, self.stream.shape[axis] // unit
            axes[name] = PadAxis(name, begin, n, self.steps[axis], self.out_shape[axis] // unit)
        parameters = []
        for name in "hwc":
            axis_ = axes.get(name, PadAxis(name, 0, 1, 1, 1))
            parameters += [(f"count_{name}", axis_.count), (f"begin_{name}", axis_.begin)]
            parameters += [(f"real_{name}", axis_.real), (f"step_{name}", axis_.step)]
        table = HlsTable(self._fill_words, self.element, together=(2,))
        return HlsCall("pad.hpp", "pad", tuple(parameters), self.cycles, {"fill": table})


@lowers(IntPad)
def lower_pad(op: IntPad, stream: StreamType) -> Sequence[Layer]:
    """Constants around a frame are one Pad; the operator's axes are those of the stream."""
    return (Pad(stream, op.pads, (1,) * len(op.pads), op.fill),)


@lowers(IntZeroInsert)
def lower_zero_insert(op: IntZeroInsert, stream: StreamType) -> Sequence[Layer]:
    """Constants between pixels are one Pad."""
    return (Pad(stream, ((0, 0),) * len(stream.shape), (*op.strides, 1), op.fill),)
