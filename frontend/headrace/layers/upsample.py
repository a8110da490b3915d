"""Upsample: every pixel of an image repeated, the nearest-neighbour resize by whole factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from headrace.errors import FoldingError
from headrace.ir import Array
from headrace.ir.integer import IntUpsample
from headrace.layers.base import Layer, Resources, RtlModule, StreamType, divisors, lowers
from headrace.layers.hls import HlsCall
from headrace.layers.memory import Int
from headrace.layers.programme import Programme
from headrace.layers.ring import Freed, Loop, Ring


@dataclass(frozen=True)
class Repeats(Ring):
    """Every pixel of ``size``, of ``folds`` words, ``factors`` times along rows and columns."""

    size: tuple[int, int]
    folds: int
    factors: tuple[int, int]

    @property
    def in_words(self) -> int:
        return self.size[0] * self.size[1] * self.folds

    @cached_property
    def _nest(self) -> dict[str, Loop]:
        (height, width), (tall, wide) = self.size, self.factors
        loops = [
            Loop("row", height, width * self.folds),
            Loop("row_copy", tall, 0),
            Loop("col", width, self.folds),
            Loop("col_copy", wide, 0),
            Loop("fold", self.folds, 1),
        ]
        return {loop.name: loop for loop in loops if loop.count > 1}

    @property
    def loops(self) -> tuple[Loop, ...]:
        return tuple(self._nest.values())

    @property
    def depth(self) -> int:
        pixel = self.folds + 1  # the next one must have begun
        return max(self.size[1] * self.folds, pixel) if self.factors[0] > 1 else pixel

    @cached_property
    def newest_so_far(self) -> Int:
        pixel = np.arange(self.size[0] * self.size[1]).reshape(self.size) * self.folds
        words = pixel[:, None, :, None, None] + np.arange(self.folds)
        shape = (self.size[0], self.factors[0], self.size[1], self.factors[1], self.folds)
        newest: Int = np.maximum.accumulate(np.broadcast_to(words, shape).ravel())
        return newest

    @property
    def last_reads(self) -> Int:
        # Whole pixels are given up, after the last copy in the last copy of their row.
        (height, width), (tall, wide) = self.size, self.factors
        row, col = np.divmod(np.arange(height * width), width)
        pixels = ((row + 1) * tall - 1) * width + col + 1
        last: Int = np.repeat(pixels * wide * self.folds - 1, self.folds)
        return last

    @property
    def settled(self) -> Loop | None:
        return self._nest.get("col_copy", self._nest.get("fold"))

    @property
    def frees(self) -> tuple[Freed, ...]:
        copies, col = self._nest.get("row_copy"), self._nest.get("col")
        frees = []
        if col:  # the last copy of a row frees it, pixel by pixel
            never = (copies, tuple(range(copies.last))) if copies else None
            frees.append(Freed(col, self.folds, never=never))
        if copies:
            frees.append(Freed(copies, 0))
        return (*frees, Freed(None, self.folds))


@dataclass(frozen=True, eq=False)
class Upsample(Layer):
    """``y[i, j, c] = x[i // factors[0], j // factors[1], c]`` on ``(H, W, C)``, likewise on ``(L, C)``.

    Args:
        stream: the image; its ``elements`` are replaced by ``simd``.
        factors: copies per spatial axis, at least 1.

    Raises:
        FoldingError: when ``simd`` does not divide the channels.
    """

    kind: ClassVar[str] = "Upsample"

    stream: StreamType
    factors: tuple[int, ...]
    simd: int = 1

    def __post_init__(self) -> None:
        if self.simd not in self.folding_choices["SIMD"]:
            valid = ", ".join(map(str, self.folding_choices["SIMD"]))
            raise FoldingError(f"Upsample: SIMD={self.simd} does not divide {self.stream.shape[-1]}; valid: {valid}")

    @cached_property
    def ring(self) -> Repeats:
        """The words read, in order."""
        size, folds = self.stream.shape[:-1], self.stream.shape[-1] // self.simd
        if len(size) == 1:
            return Repeats((1, size[0]), folds, (1, self.factors[0]))
        return Repeats((size[0], size[1]), folds, (self.factors[0], self.factors[1]))

    @property
    def inputs(self) -> tuple[StreamType, ...]:
        return (replace(self.stream, elements=self.simd),)

    @property
    def outputs(self) -> tuple[StreamType, ...]:
        size = tuple(n * factor for n, factor in zip(self.stream.shape[:-1], self.factors, strict=True))
        return (StreamType((*size, self.stream.shape[-1]), self.stream.range, self.simd),)

    @property
    def cycles(self) -> int:
        return self.ring.cycles

    @property
    def latency(self) -> int:
        return 2

    @property
    def folding(self) -> dict[str, int]:
        return {"SIMD": self.simd}

    @property
    def folding_choices(self) -> dict[str, tuple[int, ...]]:
        return {"SIMD": divisors(self.stream.shape[-1])}

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        for axis, factor in enumerate(self.factors):
            x = np.repeat(x, factor, axis=1 + axis)
        return (x,)

    def programme(self) -> Programme:
        """When words move in steady state."""
        taken, read, freed = self.ring.times()
        return Programme((taken,), (read,), (freed,), (self.ring.depth,))

    def resources(self) -> Resources:
        """An estimate: a ring whose words are given up in whole rows, so that less is computed."""
        ring = self.ring.resources(self.inputs[0].word_bits)
        return replace(ring, lut=0.74 * ring.lut)

    def rtl(self) -> RtlModule:
        context = {
            **self.ring.context(self.inputs[0].word_bits),
            "factors": self.ring.factors,
            "channels": self.stream.shape[-1],
            "simd": self.simd,
            "cycles": self.cycles,
        }
        return RtlModule("upsample.sv.j2", context)

    def hls(self) -> HlsCall:
        (height, width), (tall, wide) = self.ring.size, self.ring.factors
        parameters = (("height", height), ("width", width), ("folds", self.ring.folds), ("tall", tall), ("wide", wide))
        return HlsCall("upsample.hpp", "upsample", parameters, self.outputs[0].words)


@lowers(IntUpsample)
def lower_upsample(op: IntUpsample, stream: StreamType) -> Sequence[Layer]:
    """Pixels repeated are one Upsample."""
    return (Upsample(stream, op.factors),)
