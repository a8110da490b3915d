"""What max and sum pooling share: the windows of an image are read channel by channel and reduced to one value each."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import ClassVar

import numpy as np

from headrace.errors import FoldingError
from headrace.ir import IntRange
from headrace.layers.base import Layer, Resources, RtlModule, StreamType, divisors
from headrace.layers.hls import HlsCall
from headrace.layers.memory import index_bits, ram_resources
from headrace.layers.programme import Programme
from headrace.layers.window import Window


@dataclass(frozen=True, eq=False)
class Pool(Layer):
    """Reduces windows of an image ``(H, W, C)`` or ``(L, C)``, ``pe`` channels at a time.

    ``simd`` taps of ``pe`` channels are read a cycle from rings of rows; a window that is the whole image is instead
    reduced as it arrives, into one running value per channel.

    Args:
        stream: the image; its ``elements`` are replaced by ``pe``.
        simd: taps at a time: 1, a row of the kernel, or all.

    Raises:
        ModelError: when a window does not fit into the padded image.
        FoldingError: when ``pe`` does not divide the channels, or ``simd`` is none of the three.
    """

    template: ClassVar[str]

    stream: StreamType
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    pe: int = 1
    simd: int = 1

    def __post_init__(self) -> None:
        if self.pe not in self.folding_choices["PE"]:
            valid = ", ".join(map(str, self.folding_choices["PE"]))
            raise FoldingError(f"{self.kind}: PE={self.pe} does not divide {self.channels}; valid: {valid}")
        self.window  # noqa: B018  (refuses windows that do not fit, and other numbers of taps)
        if self.whole and self.simd > 1:
            raise FoldingError(f"{self.kind}: SIMD={self.simd} where pixels are reduced as they arrive; valid: 1")

    @property
    @abstractmethod
    def output(self) -> IntRange:
        """Range of the results."""

    @property
    @abstractmethod
    def neutral(self) -> int:
        """The element, as its bit pattern, that changes no result: what padding counts as."""

    @property
    def channels(self) -> int:
        """Channels of the image."""
        return self.stream.shape[-1]

    @property
    def folds(self) -> int:
        """Words of a pixel."""
        return self.channels // self.pe

    @cached_property
    def window(self) -> Window:
        """The windows in words."""
        size = self.stream.shape[:-1]
        return Window.of(
            size, self.folds, self.kernel, self.strides, self.dilations, self.pads, taps=self.simd, depthwise=True
        )

    @property
    def passes(self) -> int:
        """Words read per result."""
        return self.window.kernel_taps // self.simd

    @property
    def whole(self) -> bool:
        """Whether the only window is the whole image."""
        one = self.window.out == (1, 1) and not self.window.padded
        return one and self.window.kernel == self.window.size and self.pixels > 1

    @property
    def pixels(self) -> int:
        """Pixels of the image."""
        return prod(self.stream.shape[:-1])

    @property
    def inputs(self) -> tuple[StreamType, ...]:
        return (StreamType(self.stream.shape, self.stream.range, self.pe),)

    @property
    def outputs(self) -> tuple[StreamType, ...]:
        spatial = self.window.out[2 - len(self.kernel) :]
        return (StreamType((*spatial, self.channels), self.output, self.pe),)

    @property
    def cycles(self) -> int:
        return self.window.in_words if self.whole else self.window.cycles

    @property
    def latency(self) -> int:
        if self.whole:
            return (self.pixels - 1) * self.folds + 1
        return self.window.read_time(self.passes - 1) + 2

    @property
    def folding(self) -> dict[str, int]:
        return {"PE": self.pe} if self.whole else {"PE": self.pe, "SIMD": self.simd}

    @property
    def folding_choices(self) -> dict[str, tuple[int, ...]]:
        pe = divisors(self.channels)
        return {"PE": pe} if self.whole else {"PE": pe, "SIMD": self.window.tap_choices}

    @property
    def width_name(self) -> str:
        return "PE"

    def programme(self) -> Programme:
        """When words move in steady state."""
        if self.whole:
            taken = np.arange(self.window.in_words)
            return Programme((taken,), (taken[-self.folds :],))
        taken, read, freed = self.window.times()
        return Programme((taken,), (read[self.passes - 1 :: self.passes],), (freed,), (self.window.depth,))

    def resources(self) -> Resources:
        word, result = self.inputs[0].word_bits, self.outputs[0].word_bits
        reducer = Resources(lut=1.5 * result * self.simd, ff=result + 4)
        if self.whole:
            counters = index_bits(self.folds) + index_bits(self.pixels)
            memory = ram_resources(self.folds, result) if self.folds > 1 else Resources(ff=result)
            return reducer + memory + Resources(lut=2 * counters, ff=counters)
        return reducer + self.window.resources(word)

    def rtl(self) -> RtlModule:
        context = {
            "window": self.window,
            **self.window.context(self.inputs[0].word_bits),
            "whole": self.whole,
            "pe": self.pe,
            "channels": self.channels,
            "folds": self.folds,
            "fold_bits": index_bits(self.folds),
            "pixels": self.pixels,
            "pixel_bits": index_bits(self.pixels),
            "x": self.stream.range,
            "y": self.output,
            "out_bits": self.outputs[0].word_bits,
            "neutral": self.neutral,
            "cycles": self.cycles,
            "latency": self.latency,
        }
        return RtlModule(self.template, context)

    def hls(self) -> HlsCall:
        name = self.template.removesuffix(".sv.j2")
        if self.whole:
            parameters = (("pixels", self.pixels), ("folds", self.folds), *self.hls_extra)
            return HlsCall(f"{name}.hpp", f"{name}_whole", parameters, self.window.in_words)
        parameters = (*self.window.hls_parameters, *self.hls_extra)
        return HlsCall(f"{name}.hpp", name, parameters, self.window.hls_cycles, held=self.window.hls_held)

    @property
    def hls_extra(self) -> tuple[tuple[str, int], ...]:
        """Parameters of the HLS template besides the windows."""
        return ()
