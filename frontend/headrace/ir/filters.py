"""Convolutions of packed images: every window a row of a matrix product, or one multiplication a kernel position."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headrace.ir.digits import Digits
from headrace.ir.op import Array
from headrace.ir.windows import sliding_windows

WINDOW_BYTES = 3 * 2**19
"""Memory for the windows of one block and their sums: what stays in the cache between gathering and multiplying."""

IMAGE_BYTES = 2**22
"""Memory for the padded images of numbers that are convolved before the next ones are packed."""

SMALL_SUMS = 2**15
"""Sums below this are of 16-bit integers where one is multiplied at a time: as fast as two in a float, with no need to
put those together and take them apart."""

SUM_BYTES = 2**20
"""Memory for the sums of one block where each is passed over for every kernel position."""


@dataclass(frozen=True)
class Filter:
    """The window of a convolution and the number type of its images.

    Images are ``(numbers, *padded size, C)``, channels last, of the numbers from *start* on, and results
    ``(N, *out, O)``; one or two spatial axes.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    out: tuple[int, ...]
    digits: Digits

    def dense(self, image: Array, start: int, columns: Array, result: Array) -> None:
        """Convolve with the weights *columns* ``(groups, prod(kernel) * C/groups, O/groups)``, in that many groups.

        Rows of *columns* are ordered (kernel position, channel); they are of the type of *image*.
        """
        groups, depth, outputs = columns.shape
        spatial, unpadded = len(self.kernel), ((0, 0),) * len(self.kernel)
        views = sliding_windows(np.moveaxis(image, -1, 1), self.kernel, self.strides, self.dilations, unpadded, 0)
        views = np.moveaxis(views, 1, -1)  # (numbers, *out, *kernel, C)
        views = views.reshape(*views.shape[:-1], groups, -1) if groups > 1 else views[..., None, :]
        views = np.moveaxis(views, -2, 0)
        for first, top in self._blocks(len(image), groups * (depth + outputs) * image.itemsize, WINDOW_BYTES):
            window = views[:, first, top]
            product = window.reshape(groups, -1, depth) @ columns
            pixels = product[0] if groups == 1 else np.moveaxis(product, 0, 1)
            self.digits.unpack(pixels.reshape(*window.shape[1 : 2 + spatial], -1), start + first.start, result[:, top])

    def depthwise(self, image: Array, start: int, columns: Array, result: Array) -> None:
        """Convolve each channel with filters of its own, *columns* ``(C, prod(kernel), O/C)``."""
        channels, taps, multiple = columns.shape
        for m in range(multiple):
            weights = np.tile(columns[:, :, m].T, (1, self.out[-1])).reshape(taps, self.out[-1], channels)
            for first, top in self._blocks(len(image), channels * image.itemsize, SUM_BYTES):
                total, term = None, None
                for k, tap in enumerate(np.ndindex(*self.kernel)):
                    term = np.multiply(image[(first, *self._pixels(tap, top))], weights[k], out=term)
                    total, term = (term, None) if total is None else (np.add(total, term, out=total), term)
                assert total is not None
                self.digits.unpack(total, start + first.start, result[:, top, ..., m::multiple])

    def _blocks(self, numbers: int, pixel_bytes: int, budget: int) -> Iterator[tuple[slice, slice]]:
        """Frames of numbers, and output positions along the first spatial axis, that fit *budget* together."""
        line = max(math.prod(self.out[1:]) * pixel_bytes, 1)
        lines = min(max(budget // line, 1), self.out[0])
        frames = max(budget // (line * self.out[0]), 1)
        for top in range(0, self.out[0], lines):
            for first in range(0, numbers, frames):
                yield slice(first, first + frames), slice(top, min(top + lines, self.out[0]))

    def _pixels(self, tap: tuple[int, ...], top: slice) -> tuple[slice, ...]:
        """The pixels that one kernel position reads, for all windows at the positions *top* of the first axis."""
        starts, counts = (top.start, *(0,) * (len(self.out) - 1)), (top.stop - top.start, *self.out[1:])
        geometry = zip(tap, starts, counts, self.strides, self.dilations, strict=True)
        return tuple(slice(o * s + t * d, (o + n - 1) * s + t * d + 1, s) for t, o, n, s, d in geometry)
