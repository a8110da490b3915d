"""Slice: some of the channels of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import ClassVar

import numpy as np

from headrace.errors import FoldingError
from headrace.ir import Array
from headrace.ir import integer as ops
from headrace.layers.base import Layer, Resources, RtlModule, StreamType, divisors, lowers
from headrace.layers.hls import HlsCall
from headrace.layers.memory import index_bits
from headrace.layers.programme import Programme


@dataclass(frozen=True, eq=False)
class Slice(Layer):
    """The channels ``start``, ``start + step`` ... before ``stop``; the others are read and dropped.

    ``simd`` elements travel a word: a number that divides the channels, what is skipped and what is kept (1 when
    ``step`` is not), or all channels of the input, of which those kept leave in one word.

    Args:
        stream: the input; its ``elements`` are replaced.

    Raises:
        ValueError: when not at least one channel of those that exist is kept, in ascending order.
        FoldingError: when ``simd`` is none of the legal values.
    """

    kind: ClassVar[str] = "Slice"

    stream: StreamType
    start: int
    stop: int
    step: int = 1
    simd: int = 1

    def __post_init__(self) -> None:
        if not (0 <= self.start < self.stop <= self.channels and self.step >= 1):
            raise ValueError(f"cannot keep {self.start}:{self.stop}:{self.step} of {self.channels} channels")
        if self.simd not in self.folding_choices["SIMD"]:
            valid = ", ".join(map(str, self.folding_choices["SIMD"]))
            raise FoldingError(f"Slice: SIMD={self.simd} does not divide what is kept; valid: {valid}")

    @property
    def channels(self) -> int:
        """Channels of the input."""
        return self.stream.shape[-1]

    @property
    def kept(self) -> range:
        """Channels that are kept."""
        return range(self.start, self.stop, self.step)

    @property
    def parallel(self) -> bool:
        """Whether a word is a whole pixel."""
        return self.simd == self.channels

    @property
    def inputs(self) -> tuple[StreamType, ...]:
        return (replace(self.stream, elements=self.simd),)

    @property
    def outputs(self) -> tuple[StreamType, ...]:
        shape = (*self.stream.shape[:-1], len(self.kept))
        return (StreamType(shape, self.stream.range, len(self.kept) if self.parallel else self.simd),)

    @property
    def cycles(self) -> int:
        return self.inputs[0].words

    @property
    def latency(self) -> int:
        return self.kept_words[0] + 1

    @property
    def kept_words(self) -> range:
        """Words of a pixel that are kept."""
        if self.parallel:
            return range(1)
        return range(self.start // self.simd, (self.kept[-1] + 1 + self.simd - 1) // self.simd, self.step)

    @property
    def folding(self) -> dict[str, int]:
        return {"SIMD": self.simd}

    @property
    def folding_choices(self) -> dict[str, tuple[int, ...]]:
        common = gcd(self.channels, self.start, len(self.kept)) if self.step == 1 else 1
        return {"SIMD": tuple(sorted({*divisors(common), self.channels}))}

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0][..., self.start : self.stop : self.step],)

    def programme(self) -> Programme:
        """When words move in steady state."""
        words = np.arange(self.cycles)
        pixels = words.reshape(-1, self.channels // self.simd)
        return Programme((words,), (pixels[:, np.array(self.kept_words)].ravel(),))

    def resources(self) -> Resources:
        word, counters = self.outputs[0].word_bits, 2 * index_bits(self.channels // self.simd)
        return Resources(lut=counters + 6, ff=word + counters + 1)

    def rtl(self) -> RtlModule:
        words = self.channels // self.simd
        context = {
            "x": self.stream.range,
            "channels": self.channels,
            "start": self.start,
            "stop": self.stop,
            "step": self.step,
            "kept": self.kept,
            "simd": self.simd,
            "parallel": self.parallel,
            "words": words,
            "position_bits": index_bits(words),
            "kept_words": self.kept_words,
            "in_bits": self.inputs[0].word_bits,
            "out_bits": self.outputs[0].word_bits,
            "cycles": self.cycles,
            "latency": self.latency,
        }
        return RtlModule("slice.sv.j2", context)

    def hls(self) -> HlsCall:
        pixels = ("pixels", self.cycles * self.simd // self.channels)
        if self.parallel:
            elements = (pixels, ("first", self.start), ("step", self.step))
            return HlsCall("slice.hpp", "slice_pixels", elements, self.cycles)
        kept = ("first", self.kept_words[0]), ("last", self.kept_words[-1]), ("step", self.step)
        return HlsCall("slice.hpp", "slice", (pixels, ("words", self.channels // self.simd), *kept), self.cycles)


@lowers(ops.Slice)
def lower_slice(op: ops.Slice, stream: StreamType) -> Sequence[Layer]:
    """Part of the last axis is one Slice."""
    if op.axis != len(stream.shape) - 1:
        raise ValueError(f"a stream of {stream.shape} is cut along its last axis, not {op.axis}")
    kept = range(*slice(op.start, op.stop, op.step).indices(stream.shape[-1]))
    return (Slice(stream, kept.start, kept[-1] + 1, kept.step),)
