"""SWG: sliding window generator. An image becomes the stream of its windows, so that a convolution is a product."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headrace.errors import FoldingError
from headrace.ir import Array, IntRange
from headrace.ir.integer import sliding_windows
from headrace.ir.resampling import with_fill
from headrace.layers.base import Layer, Resources, RtlModule, StreamType, divisors
from headrace.layers.hls import HlsCall
from headrace.layers.line_buffer import LineBuffer
from headrace.layers.memory import Int, packed_words
from headrace.layers.programme import Programme
from headrace.layers.recode import Recode
from headrace.layers.ring import Lane
from headrace.layers.window import Crop, Window


@dataclass(frozen=True, eq=False)
class SWG(Layer):
    """Windows of an image ``(H, W, C)`` or ``(L, C)``, as pixels of ``kernel * C`` elements, (tap, channel).

    Padding is the integer ``fill``, 0 in a convolution. When the input range does not hold it (0 in a bipolar one), the
    output range is widened by it.
    ``simd`` elements travel a word: a divisor of C, or all channels of a row of the kernel, or a whole window. With a
    ``crop``, the elements that nobody reads, ``head`` of the first pixel and ``tail`` of the last along an axis
    (:class:`~headrace.layers.window.Crop`), are not written; a word is then a whole window.

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
    crop: tuple[int, int] = (0, 0)

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
        elements = self.inputs[0].elements
        taps = int(np.prod(self.kernel)) if self.cropped else self.simd // elements
        return Window.of(
            self.shape[:-1],
            self.channels // elements,
            self.kernel,
            self.strides,
            self.dilations,
            self.pads,
            taps=taps,
            crop=Crop(*self.crop, elements),
        )

    @property
    def cropped(self) -> bool:
        """Whether some elements are not written."""
        return self.crop != (0, 0)

    def cropped_to(self, crop: tuple[int, int]) -> SWG:
        """The same windows, whole, without what *crop* leaves out; as they are where that is nothing."""
        if crop == (0, 0):
            return self
        rows = 1 if crop_axis(self.kernel) == 0 else int(np.prod(self.kernel[:-1]))
        left = self.channels * int(np.prod(self.kernel)) - rows * sum(crop)
        return replace(self, crop=crop, simd=left)

    @cached_property
    def kept(self) -> Int:
        """The elements of a window that are written, as indices of (tap, channel)."""
        inside = np.ones((*self.kernel, self.channels), bool)
        along = np.moveaxis(inside, crop_axis(self.kernel), 0)
        along[0, ..., : self.crop[0]] = False
        along[-1, ..., self.channels - self.crop[1] :] = False
        return np.flatnonzero(inside)

    @property
    def inputs(self) -> tuple[StreamType, ...]:
        elements = self.channels if self.cropped else min(self.simd, self.channels)
        return (StreamType(self.shape, self.element, elements),)

    @property
    def outputs(self) -> tuple[StreamType, ...]:
        spatial = self.window.out[2 - len(self.kernel) :]
        return (StreamType((*spatial, self.kept.size), self.out_element, self.simd),)

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
        if self.cropped:
            return {"SIMD": (self.kept.size,)}
        whole = {self.channels * self.kernel[-1], self.channels * int(np.prod(self.kernel))}
        return {"SIMD": tuple(sorted({*divisors(self.channels), *whole}))}

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        windows = sliding_windows(
            np.moveaxis(x, -1, 1), self.kernel, self.strides, self.dilations, self.pads, self.fill
        )
        # (N, C, *out, *kernel) -> (N, *out, kernel * C)
        out = self.outputs[0].shape[:-1]
        return (np.moveaxis(windows, 1, -1).reshape(x.shape[0], *out, -1)[..., self.kept],)

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
            "lanes": self._lanes,
            "cropped": self.cropped,
            "fill": self.fill,
            "fill_code": packed_words(np.array([[self.fill]]), self.out_element)[0] if self.window.padded else 0,
        }
        return RtlModule("swg_lines.sv.j2" if self.lines else "swg.sv.j2", context)

    @property
    def _lanes(self) -> list[tuple[Lane, int]]:
        """The words read at once, and at which element of the output each begins."""
        counts = [lane.part[1] for lane in self.window.lanes]
        return list(zip(self.window.lanes, [0, *np.cumsum(counts).tolist()], strict=False))

    def hls(self) -> HlsCall:
        cycles = self.window.hls_cycles
        across = int(self.window.kernel[1] > 1)
        crop = (("across", across), ("head", self.crop[0]), ("tail", self.crop[1]))
        parameters = (*self.window.hls_parameters, ("fill", self.fill), *crop)
        return HlsCall("swg.hpp", "swg", parameters, cycles, held=self.window.hls_held)


def crop_axis(kernel: tuple[int, ...]) -> int:
    """The axis along which windows are cropped: the last, or the one before where a window is a column."""
    return len(kernel) - (2 if kernel[-1] == 1 and len(kernel) > 1 else 1)


def unread(used: NDArray[np.bool_]) -> tuple[int, int]:
    """The crop of windows of which only some elements are *used*, ``(*kernel, C)``."""
    axis, channels = crop_axis(used.shape[:-1]), used.shape[-1]
    if used.shape[axis] == 1:
        return 0, 0
    ends = [np.any(used.take(at, axis).reshape(-1, channels), axis=0).tolist() for at in (0, -1)]
    return _falses(ends[0]), _falses(ends[1][::-1])


def _falses(flags: list[bool]) -> int:
    """How many of *flags* come before the first that is set; 0 when none is."""
    return flags.index(True) if True in flags else 0
