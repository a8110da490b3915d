"""Sliding windows over a stream: which words are read when, and how much must be remembered.

Shared by the layers that look at windows of an image (SWG, VVAU, MaxPool, SumPool). A frame is ``H x W`` pixels of
``folds`` words; one-dimensional streams are images of height 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.errors import FoldingError
from headrace.ir.integer import window_output
from headrace.layers.hls import buffered_cycles
from headrace.layers.memory import Int
from headrace.layers.ring import Freed, Lane, Loop, Ring, signed_bits

_NEVER = -(1 << 60)

Pair = tuple[int, int]
_T = TypeVar("_T")


def _pair(values: Sequence[_T], missing: _T) -> tuple[_T, _T]:
    """Values per spatial axis; the height of a one-dimensional image is *missing*."""
    return (missing, values[0]) if len(values) == 1 else (values[0], values[1])


@dataclass(frozen=True)
class Crop:
    """Elements at the ends of whole windows that nobody reads: ``head`` of the first word along an axis, ``tail`` of
    the last.

    The axis is that of the columns, or of the rows where a window is a column. ``whole`` is the elements of a word.
    """

    head: int = 0
    tail: int = 0
    whole: int = 1

    def part(self, first: bool, last: bool) -> tuple[int, int]:
        """``(first element, elements)`` that are read of a word at one of the ends, or between them."""
        head = self.head if first else 0
        return head, self.whole - head - (self.tail if last else 0)


@dataclass(frozen=True)
class Window(Ring):
    """Windows of ``kernel`` taps over frames of ``size`` pixels, each pixel ``folds`` words.

    ``taps`` words are read at once: 1, a row of the kernel, or the whole kernel. The order of the words is
    (window, tap, fold), or (window, fold, tap) when ``depthwise``. A ``crop`` is for whole kernels.

    Raises:
        ModelError: when the window does not fit into the padded image.
        FoldingError: when ``taps`` is none of the three, or a dense order could not be kept with it.
    """

    size: Pair
    folds: int
    kernel: Pair
    strides: Pair
    dilations: Pair
    pads: tuple[Pair, Pair]
    taps: int = 1
    depthwise: bool = False
    crop: Crop = Crop()

    def __post_init__(self) -> None:
        window_output(self.size, self.kernel, self.strides, self.dilations, self.pads)
        if self.taps not in self.tap_choices:
            raise FoldingError(f"{self.taps} taps at once of a kernel {list(self.kernel)}; valid: {self.tap_choices}")
        if self.taps > 1 and self.folds > 1 and not self.depthwise:
            raise FoldingError("several taps at once keep the order of a dense window only with whole pixels a word")

    @staticmethod
    def of(
        size: Sequence[int],
        folds: int,
        kernel: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        pads: Sequence[Pair],
        taps: int = 1,
        depthwise: bool = False,
        crop: Crop = Crop(),
    ) -> Window:
        """The windows of a one- or two-dimensional image; a one-dimensional one has height 1."""
        return Window(
            _pair(size, 1),
            folds,
            _pair(kernel, 1),
            _pair(strides, 1),
            _pair(dilations, 1),
            _pair(pads, (0, 0)),
            taps,
            depthwise,
            crop,
        )

    @property
    def tap_choices(self) -> tuple[int, ...]:
        """Numbers of taps that can be read at once, ascending."""
        return tuple(sorted({1, self.kernel[1], self.kernel_taps}))

    @property
    def kernel_taps(self) -> int:
        """Taps of one window."""
        return self.kernel[0] * self.kernel[1]

    @cached_property
    def out(self) -> Pair:
        """Windows per axis."""
        rows, cols = window_output(self.size, self.kernel, self.strides, self.dilations, self.pads)
        return rows, cols

    @property
    def in_words(self) -> int:
        return self.size[0] * self.size[1] * self.folds

    @property
    def window_words(self) -> int:
        """Words read per window."""
        return self.kernel_taps // self.taps * self.folds

    @property
    def row_words(self) -> int:
        """Words of one row of the image."""
        return self.size[1] * self.folds

    @property
    def start(self) -> Pair:
        return -self.pads[0][0], -self.pads[1][0]

    @property
    def origin(self) -> int:
        return self.pads[0][0] * self.row_words + self.pads[1][0] * self.folds

    # -- the order of reading ---------------------------------------------------------------------------------------

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        (kernel_h, kernel_w), (step_h, step_w) = self.kernel, self.strides
        (dil_h, dil_w), row, folds = self.dilations, self.row_words, self.folds
        fold = [Loop("fold", folds, 1)]
        taps = []
        if self.taps < self.kernel_taps:
            taps.append(Loop("kernel_row", kernel_h, dil_h * row, rows=dil_h))
        if self.taps == 1:
            taps.append(Loop("kernel_col", kernel_w, dil_w * folds, cols=dil_w))
        nest = [
            Loop("row", self.out[0], step_h * row, rows=step_h),
            Loop("col", self.out[1], step_w * folds, cols=step_w),
            *(fold + taps if self.depthwise else taps + fold),
        ]
        return tuple(loop for loop in nest if loop.count > 1)

    @property
    def inner(self) -> tuple[Loop, ...]:
        """The loops inside a window."""
        return tuple(loop for loop in self.loops if loop.name not in ("row", "col"))

    @property
    def reduction(self) -> tuple[Loop, ...]:
        """The loops over the taps of one result, innermost in depthwise order."""
        return tuple(loop for loop in self.inner if loop.name != "fold")

    @cached_property
    def lanes(self) -> tuple[Lane, ...]:
        rows = self.kernel[0] if self.taps == self.kernel_taps else 1
        cols = self.kernel[1] if self.taps > 1 else 1
        dil_h, dil_w = self.dilations
        grid = [(i * dil_h, j * dil_w) for i in range(rows) for j in range(cols)]
        across = self.kernel[1] > 1
        last = (cols - 1) * dil_w if across else (rows - 1) * dil_h
        lanes = []
        for k, (row, col) in enumerate(grid):
            at = col if across else row
            part = self.crop.part(at == 0, at == last)
            lanes.append(Lane(k, row * self.row_words + col * self.folds, row, col, part, self.crop.whole))
        return tuple(lanes)

    # -- what must be remembered ------------------------------------------------------------------------------------

    @cached_property
    def base(self) -> Int:
        """Oldest word that a window or any later one of the frame reads, ``(rows, cols)`` of windows; never falls."""
        first_row, first_col = self._taps(0)[:, 0], self._taps(1)[:, 0]
        base = first_row[:, None] * self.row_words + np.clip(first_col, 0, self.size[1] - 1) * self.folds
        base[first_row < 0] = 0  # later rows of windows may still read row 0
        base[first_row >= self.size[0]] = self.in_words - self.folds
        oldest: Int = base
        return oldest

    def _taps(self, axis: int) -> Int:
        """Positions of the taps of every window along one axis, ``(windows, taps)``."""
        first = np.arange(self.out[axis]) * self.strides[axis] - self.pads[axis][0]
        position: Int = first[:, None] + np.arange(self.kernel[axis]) * self.dilations[axis]
        return position

    def _inside(self, axis: int) -> NDArray[np.bool_]:
        """Which of these lie inside the image."""
        position = self._taps(axis)
        inside: NDArray[np.bool_] = (position >= 0) & (position < self.size[axis])
        return inside

    @cached_property
    def _lead(self) -> Int:
        """Per window: the most by which a tap's word, counted from 1, is ahead of the time at which it is read.

        Time counts the words read since the start of the frame. Within a tap both grow alike, so its first fold is
        enough; over the taps of a window the maximum separates into rows and columns of the kernel.
        """
        kernel_h, kernel_w = self.kernel
        fold_time = 1 if self.depthwise else self.folds
        col_time = fold_time if self.taps == 1 else 0
        row_time = {1: kernel_w * fold_time, self.kernel_taps: 0}.get(self.taps, 1)
        at_rows = self._taps(0) * self.row_words - np.arange(kernel_h) * row_time
        at_cols = self._taps(1) * self.folds - np.arange(kernel_w) * col_time
        rows = np.where(self._inside(0), at_rows, _NEVER).max(axis=1)
        cols = np.where(self._inside(1), at_cols, _NEVER).max(axis=1)
        start = np.arange(self.out[0] * self.out[1]).reshape(self.out) * self.window_words
        lead = rows[:, None] + cols[None, :] + 1 - start
        lead[0, 0] = max(lead[0, 0], 1)  # padding is read when the frame has begun
        flat: Int = lead.ravel()
        return flat

    @property
    def _newest(self) -> Int:
        """Per window: the newest word that it reads; negative when it reads only padding."""
        rows = np.where(self._inside(0), self._taps(0) * self.row_words, _NEVER).max(axis=1)
        cols = np.where(self._inside(1), self._taps(1) * self.folds, _NEVER).max(axis=1)
        newest: Int = (rows[:, None] + cols[None, :] + self.folds - 1).ravel()
        return newest

    @cached_property
    def depth(self) -> int:
        lead, base = self._lead, self.base.ravel()
        windows, slack = lead.size, abs(self.in_words - self.out_words)
        if self.out_words >= self.in_words:
            # A word is read in every cycle. When a window begins, the words written must have reached `written`, or
            # a later word comes too late, as only one is written a cycle. The window before still holds its words.
            ahead = np.maximum(np.maximum.accumulate(lead[::-1])[::-1], lead.max() - slack)
            written = np.arange(windows) * self.window_words + ahead
            after = np.append(written[1:], self.in_words + written[0])
            return int((np.maximum(after, self._newest + 1) - base).max())
        # A word is written in every cycle, and read as soon as it is there.
        behind = np.maximum(np.maximum.accumulate(lead), lead.max() - slack)
        end = np.arange(1, windows + 1) * self.window_words - 1 + behind
        return int((end + 1 - base).max())

    @cached_property
    def newest_so_far(self) -> Int:
        rows = np.where(self._inside(0), self._taps(0) * self.row_words, _NEVER)
        cols = np.where(self._inside(1), self._taps(1) * self.folds, _NEVER)
        if self.taps > 1:
            cols = cols.max(axis=1, keepdims=True)
        if self.taps == self.kernel_taps:
            rows = rows.max(axis=1, keepdims=True)
        taps = rows[:, None, :, None] + cols[None, :, None, :]
        fold = np.arange(self.folds)
        words = taps[:, :, None] + fold[:, None, None] if self.depthwise else taps[..., None] + fold
        newest: Int = np.maximum.accumulate(np.maximum(words, 0).ravel())
        return newest

    @property
    def last_reads(self) -> Int:
        # The move to a window gives up what lies before its base, with the last word of the window before.
        begins = np.searchsorted(self.base.ravel(), np.arange(self.in_words), side="right")
        last: Int = begins * self.window_words - 1
        return last

    # -- constants of the RTL ---------------------------------------------------------------------------------------

    @cached_property
    def padded(self) -> bool:
        return not (self._inside(0).all() and self._inside(1).all())

    @property
    def has_empty(self) -> bool:
        """Whether a window reads nothing but padding."""
        return not all(bool(self._inside(axis).any(axis=1).all()) for axis in (0, 1))

    def position_bits(self, axis: int) -> int:
        end = int(self._taps(axis)[-1, -1]) + 1
        reach = (self.lanes[-1].row, self.lanes[-1].col)[axis]
        moves = [(move.rows, move.cols)[axis] for move in self.moves]  # back over an image that is mostly padding
        return signed_bits(min(-self.pads[axis][0] - 1, -reach - 1, *moves), max(end + 1, self.size[axis] + 1, *moves))

    @property
    def settled(self) -> Loop | None:
        return self.inner[0] if self.inner else None

    # -- constants of the HLS template --------------------------------------------------------------------------------

    @property
    def hls_parameters(self) -> tuple[tuple[str, int], ...]:
        """The configuration of ``window.hpp``."""
        rows = self.kernel[0] if self.taps == self.kernel_taps else 1
        names = {
            "height": self.size[0],
            "width": self.size[1],
            "folds": self.folds,
            "kernel_h": self.kernel[0],
            "kernel_w": self.kernel[1],
            "stride_h": self.strides[0],
            "stride_w": self.strides[1],
            "dilation_h": self.dilations[0],
            "dilation_w": self.dilations[1],
            "pad_top": self.pads[0][0],
            "pad_left": self.pads[1][0],
            "out_h": self.out[0],
            "out_w": self.out[1],
            "lanes_h": rows,
            "lanes_w": self.taps // rows,
            "depthwise": int(self.depthwise),
            "cycles": self.hls_cycles,
        }
        return tuple(names.items())

    @cached_property
    def hls_cycles(self) -> int:
        """Iterations of a loop over ``window.hpp``, which holds as many rows as a window spans."""
        span = (self.kernel[0] - 1) * self.dilations[0] + 1, (self.kernel[1] - 1) * self.dilations[1] + 1
        first = [np.arange(self.out[axis]) * self.strides[axis] - self.pads[axis][0] for axis in (0, 1)]
        last_y, last_x = (np.minimum(first[axis] + span[axis], self.size[axis]) - 1 for axis in (0, 1))
        groups = self.folds if self.depthwise else 1  # of a window, each ready by itself
        ends = np.arange(groups) if self.depthwise else self.folds - 1
        newest = (last_y[:, None] * self.row_words + last_x * self.folds)[..., None] + ends
        newest[(last_y[:, None] < 0) | (last_x < 0)] = -1
        oldest = first[0][:, None] * self.row_words + np.clip(first[1], 0, self.size[1] - 1) * self.folds
        oldest[first[0] < 0] = 0
        oldest[first[0] >= self.size[0]] = self.in_words
        words, capacity = self.window_words // groups, span[0] * self.row_words
        return buffered_cycles(newest.ravel(), oldest.ravel().repeat(groups), words, capacity, self.in_words)

    @property
    def hls_held(self) -> int:
        """Words of the buffer of ``window.hpp``."""
        return ((self.kernel[0] - 1) * self.dilations[0] + 1) * self.row_words

    @property
    def frees(self) -> tuple[Freed, ...]:
        loops = {loop.name: loop for loop in self.loops}
        frees = []
        if "col" in loops:
            inside = self._inside(0)[:, 0]
            steps = np.diff(self.base[np.argmax(inside)]).tolist() if inside.any() else [0]
            outside = tuple(int(k) for k in np.flatnonzero(~inside))  # moving along these rows frees nothing
            frees.append(Freed.table(loops["col"], steps, (loops["row"], outside) if "row" in loops else None))
        if "row" in loops:
            frees.append(Freed.table(loops["row"], (self.base[1:, 0] - self.base[:-1, -1]).tolist()))
        return (*frees, Freed(None, self.in_words - int(self.base[-1, -1])))
