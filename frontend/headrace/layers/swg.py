"""SWG: sliding window generator. An image becomes the stream of its windows, so that a convolution is a product."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headrace.errors import FoldingError
from headrace.ir import Array, IntRange
from headrace.ir.integer import sliding_windows
from headrace.ir.resampling import with_fill
from headrace.layers.base import Layer, Resources, RtlModule, StreamType, divisors
from headrace.layers.hls import HlsCall
from headrace.layers.line_buffer import LineBuffer
from headrace.layers.memory import packed_words
from headrace.layers.programme import Programme
from headrace.layers.recode import Recode
from headrace.layers.window import Window


@dataclass(frozen=True, eq=False)
class SWG(Layer):
    """Windows of an image ``(H, W, C)`` or ``(L, C)``, as pixels of ``kernel * C`` elements, (tap, channel).

    Padding is the integer ``fill``, 0 in a convolution. When the input range does not hold it (0 in a bipolar one), the
    output range is widened by it.
    ``simd`` elements travel a word: a divisor of C, or all channels of a row of the kernel, or a whole window.

    Raises:
        ModelError: when a window does not fit into the padded image.
        FoldingError: when ``simd`` is none of the legal values.
    """

    kind = "SWG"

    shape: tuple[int, ...]
    element: IntRange
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    simd: int = 1
    fill: int = 0

    def __post_init__(self) -> None:
        if self.simd not in self.folding_choices["SIMD"]:
            raise FoldingError(f"SWG: SIMD={self.simd}; valid: {', '.join(map(str, self.folding_choices['SIMD']))}")
        self.window  # noqa: B018  (refuses windows that do not fit)

    @property
    def channels(self) -> int:
        """Channels of the image."""
        return self.shape[-1]

    @cached_property
    def window(self) -> Window:
        """The windows in words."""
        elements = min(self.simd, self.channels)
        return Window.of(
            self.shape[:-1],
            self.channels // elements,
            self.kernel,
            self.strides,
            self.dilations,
            self.pads,
            taps=self.simd // elements,
        )

    @property
    def inputs(self) -> tuple[StreamType, ...]:
        return (StreamType(self.shape, self.element, min(self.simd, self.channels)),)

    @property
    def outputs(self) -> tuple[StreamType, ...]:
        spatial = self.window.out[2 - len(self.kernel) :]
        taps = int(np.prod(self.kernel))
        return (StreamType((*spatial, taps * self.channels), self.out_element, self.simd),)

    @property
    def out_element(self) -> IntRange:
        """Range of the output: with the constant when there is padding."""
        return with_fill(self.element, np.array([self.fill])) if self.window.padded else self.element

    @property
    def cycles(self) -> int:
        return self.window.cycles

    @property
    def latency(self) -> int:
        return self.window.read_time(0) + (0 if self.lines else 1)

    @cached_property
    def lines(self) -> LineBuffer | None:
        """The line buffers that make the windows, where they can; else the windows are read from a ring."""
        return LineBuffer(self.window) if LineBuffer.fits(self.window) else None

    @property
    def folding(self) -> dict[str, int]:
        return {"SIMD": self.simd}

    @property
    def folding_choices(self) -> dict[str, tuple[int, ...]]:
        whole = {self.channels * self.kernel[-1], self.channels * int(np.prod(self.kernel))}
        return {"SIMD": tuple(sorted({*divisors(self.channels), *whole}))}

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        windows = sliding_windows(
            np.moveaxis(x, -1, 1), self.kernel, self.strides, self.dilations, self.pads, self.fill
        )
        # (N, C, *out, *kernel) -> (N, *out, kernel * C)
        return (np.moveaxis(windows, 1, -1).reshape(x.shape[0], *self.outputs[0].shape),)

    def programme(self) -> Programme:
        """When words move in steady state; line buffers take a word a cycle, and wait with it when its window does."""
        if self.lines:
            return Programme((np.arange(self.window.in_words),), (self.window.newest_so_far,))
        taken, read, freed = self.window.times()
        return Programme((taken,), (read,), (freed,), (self.window.depth,))

    def resources(self) -> Resources:
        if self.lines:
            return self.lines.resources(self.inputs[0].word_bits)
        return self.window.resources(self.inputs[0].word_bits) + Resources(lut=self.outputs[0].word_bits / 2)

    def rtl(self) -> RtlModule:
        word_bits = self.inputs[0].word_bits
        context = {
            "window": self.window,
            **(self.lines or self.window).context(word_bits),
            "channels": self.channels,
            "elements": self.inputs[0].elements,
            "out_bits": self.outputs[0].word_bits,
            "recode": Recode(self.element, self.out_element),
            "fill": self.fill,
            "fill_code": packed_words(np.array([[self.fill]]), self.out_element)[0] if self.window.padded else 0,
        }
        return RtlModule("swg_lines.sv.j2" if self.lines else "swg.sv.j2", context)

    def hls(self) -> HlsCall:
        cycles = self.window.hls_cycles
        parameters = (*self.window.hls_parameters, ("fill", self.fill))
        return HlsCall("swg.hpp", "swg", parameters, cycles, held=self.window.hls_held)
