"""Where the pixels that an operator reads are, seen in blocks: axis by axis, and as tables over several axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.ir.integer import IntSelect

Int = NDArray[np.int64]


@dataclass(frozen=True)
class Tap:
    """A pixel that is read: the number of the tap, the block (from the first of the window), the place in it."""

    tap: int
    block: int
    place: int


@dataclass(frozen=True)
class BlockAxis:
    """One axis of an operator over windows, seen in blocks.

    Attributes:
        read: pixels of a block that is read.
        taps: what is read for each pixel of a block that is made; pixels that lie in the padding for sure are left out.
        count: blocks of a window.
        pads: blocks of padding.
    """

    read: int
    taps: tuple[tuple[Tap, ...], ...]
    count: int = 1
    pads: tuple[int, int] = (0, 0)

    @property
    def made(self) -> int:
        """Pixels of a block that is made."""
        return len(self.taps)

    @staticmethod
    def same(block: int) -> BlockAxis:
        """Every pixel as it is."""
        return BlockAxis(block, tuple((Tap(0, 0, k),) for k in range(block)))


@dataclass(frozen=True)
class WindowAxis:
    """Windows along one axis, pixel by pixel: of ``kernel`` taps on ``read`` pixels, ``made`` of them."""

    read: int
    made: int
    kernel: int
    stride: int
    dilation: int
    pads: tuple[int, int]

    def position(self, pixel: int, tap: int) -> int:
        """Where *tap* of the window *pixel* lies."""
        return pixel * self.stride + tap * self.dilation - self.pads[0]

    @property
    def has_empty(self) -> bool:
        """Whether a window lies in the padding alone."""
        taps = range(self.kernel)
        return any(all(not 0 <= self.position(p, t) < self.read for t in taps) for p in range(self.made))

    def in_blocks(self, made: int) -> BlockAxis | None:
        """The axis in blocks of *made* windows; None where these do not fit."""
        if made == self.made:
            return self._whole()
        size = made * self.stride
        if self.made % made or self.read % size:
            return None
        first = -self.pads[0] // size
        last = self.position(made - 1, self.kernel - 1) // size
        end = self.made // made + last - self.read // size
        if end < 0:
            return None
        taps = []
        for pixel in range(made):
            places = ((tap, *divmod(self.position(pixel, tap), size)) for tap in range(self.kernel))
            taps.append(tuple(Tap(tap, block - first, place) for tap, block, place in places))
        return BlockAxis(size, tuple(taps), last - first + 1, (-first, end))

    def in_pixels(self) -> BlockAxis:
        """The axis pixel by pixel: a block is a pixel, and a window as many as it has taps."""
        return BlockAxis(1, (tuple(Tap(tap, tap, 0) for tap in range(self.kernel)),), self.kernel, self.pads)

    def _whole(self) -> BlockAxis:
        """The axis as one block, in which it is known what lies in the padding."""
        taps = []
        for pixel in range(self.made):
            places = ((tap, self.position(pixel, tap)) for tap in range(self.kernel))
            taps.append(tuple(Tap(tap, 0, at) for tap, at in places if 0 <= at < self.read))
        return BlockAxis(self.read, tuple(taps))


def tap_products(axes: Sequence[BlockAxis]) -> list[tuple[tuple[int, ...], tuple[Tap, ...]]]:
    """All pixels of a block that is made, each with all that it reads, axis by axis."""
    along = [[(pixel, tap) for pixel, taps in enumerate(axis.taps) for tap in taps] for axis in axes]
    return [(tuple(p for p, _ in pair), tuple(t for _, t in pair)) for pair in itertools.product(*along)]


def index_table(axes: Sequence[BlockAxis], channels: int) -> Int:
    """For every element of a block that is made, the elements of the window that it reads, ``(O, K)``; -1 for none.

    Elements of a block are ordered (place, channel), those of a window (block, element); a row with fewer elements than
    others repeats its first.
    """
    found: dict[tuple[int, ...], list[int]] = {}
    reads, counts = [axis.read for axis in axes], [axis.count for axis in axes]
    for pixel, taps in tap_products(axes):
        block = int(np.ravel_multi_index([t.block for t in taps], counts))
        place = int(np.ravel_multi_index([t.place for t in taps], reads))
        found.setdefault(pixel, []).append(block * math.prod(reads) + place)
    most = max((len(terms) for terms in found.values()), default=1)
    rows = []
    for pixel in np.ndindex(*(axis.made for axis in axes)):
        terms = found.get(pixel, [-1])
        rows.append(terms + terms[:1] * (most - len(terms)))
    first = np.array(rows, np.int64)[:, np.newaxis]
    return np.where(first < 0, -1, first * channels + np.arange(channels)[:, np.newaxis]).reshape(-1, most)


def selection(axes: Sequence[BlockAxis], channels: int, fill: int = 0) -> IntSelect:
    """The operator that makes each pixel the largest of those that it reads."""
    kernel, pads = tuple(axis.count for axis in axes), tuple(axis.pads for axis in axes)
    return IntSelect(index_table(axes, channels), kernel, pads, fill)
