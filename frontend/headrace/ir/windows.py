"""Sliding windows over images, and the pools."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ModelError
from headrace.ir.exact import largest, narrowest
from headrace.ir.op import Array, Op
from headrace.ir.resampling import holding, surrounded, with_fill
from headrace.ir.types import Element, IntRange, Shape, TensorType, check_frame

Int = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class IntPool(Op):
    """Base of the pools: one value of every window of an image, channel by channel."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]

    def element(self, x: TensorType) -> Element:
        """Element type of the result."""
        raise NotImplementedError(type(self).__name__)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        spatial = window_output(x.shape[1:], self.kernel, self.strides, self.dilations, self.pads)
        check_padded(x.shape, self.pads)
        return (TensorType((x.shape[0], *spatial), self.element(x)),)

    def reduced(self, x: Array, fill: float, combine: np.ufunc) -> Array:
        """*combine* over every window of images padded with *fill*."""
        window_output(x.shape[2:], self.kernel, self.strides, self.dilations, self.pads)  # refuses what does not fit
        y = _padded(x, self.pads, fill)
        for axis, (k, s, d) in enumerate(zip(self.kernel, self.strides, self.dilations, strict=True)):
            y = reduce_runs(y, 2 + axis, k, s, d, combine)
        return y


@dataclass(frozen=True, eq=False)
class IntMaxPool(IntPool):
    """Largest value in each window of an image; padding never wins."""

    def element(self, x: TensorType) -> Element:
        return x.element

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        lowest = int(np.iinfo(x.dtype).min) if x.dtype.kind in "iu" else -np.inf
        return (self.reduced(x, lowest, np.maximum),)


@dataclass(frozen=True, eq=False)
class IntSumPool(IntPool):
    """Sum of each window of an image, padded with the integer 0: average pooling before its division."""

    def element(self, x: TensorType) -> Element:
        taps, r = int(np.prod(self.kernel)), x.int_range
        low, high = taps * r.lo, taps * r.hi
        if any(p for pair in self.pads for p in pair):  # a border window has fewer taps
            low, high = min(low, 0), max(high, 0)
        return IntRange(low, high)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        bound = largest(x) * math.prod(self.kernel)
        return (self.reduced(x.astype(narrowest(bound)), 0, np.add),)


def _padded(x: Array, pads: tuple[tuple[int, int], ...], fill: float) -> Array:
    """Images ``(N, C, *size)`` with *fill* around them."""
    return surrounded(x, ((0, 0), *pads), fill, x.dtype) if any(p for pair in pads for p in pair) else x


def reduce_runs(x: Array, axis: int, length: int, stride: int, dilation: int, combine: np.ufunc) -> Array:
    """*combine* (associative) over runs of *length* elements along *axis*, *dilation* apart, one run every *stride*."""
    reach = x.shape[axis] - dilation * (length - 1)  # starts of runs
    if length <= 2 * stride * length.bit_length():
        starts = range(0, dilation * length, dilation)
        return reduce(combine, (_part(x, axis, slice(k, k + reach, stride)) for k in starts))
    total: Array | None = None
    run, covered = x, 0  # of 1, 2, 4, ... elements from every start; put together as the length has bits
    for bit in range(length.bit_length()):
        if length >> bit & 1:
            rest = _part(run, axis, slice(covered * dilation, None))
            total = rest if total is None else combine(_part(total, axis, slice(rest.shape[axis])), rest)
            covered += 1 << bit
        if length >> (bit + 1):
            step = dilation << bit
            run = combine(_part(run, axis, slice(-step)), _part(run, axis, slice(step, None)))
    assert total is not None
    return _part(total, axis, slice(None, None, stride))


def _part(x: Array, axis: int, pick: slice) -> Array:
    return x[(*(slice(None),) * axis, pick)]


@dataclass(frozen=True, eq=False)
class IntSelect(Op):
    """``y[o] = max_k window[index[o, k]]``: the largest of some elements of every window, so that one just selects.

    Windows are ``kernel`` neighbouring positions of an image, ``(tap, channel)``, one at every position of the image
    padded with the constant ``fill``; index -1 is that constant as well.

    Args:
        index: ``(O, K)``, in each row one element or more, those of a shorter row repeated.
    """

    index: Int
    kernel: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    fill: int = 0

    @property
    def filled(self) -> bool:
        """Whether the constant can come out."""
        return bool((self.index < 0).any()) or any(p for pair in self.pads for p in pair)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        last = int(np.prod(self.kernel)) * x.shape[0] - 1
        if self.index.min() < -1 or self.index.max() > last:
            raise ModelError(f"elements {self.index.min()} to {self.index.max()} of windows of {last + 1}")
        ones = (1,) * len(self.kernel)
        spatial = window_output(x.shape[1:], self.kernel, ones, ones, self.pads)
        element = with_fill(x.int_range, np.array([self.fill])) if self.filled else x.int_range
        return (TensorType((self.index.shape[0], *spatial), element),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        ones = (1,) * len(self.kernel)
        view = sliding_windows(x, self.kernel, ones, ones, self.pads, self.fill)
        windows = np.moveaxis(view, 1, -1).reshape(x.shape[0], *view.shape[2 : 2 + len(ones)], -1)  # (tap, channel)
        return (np.moveaxis(largest_selected(windows, self.index, self.fill), -1, 1),)


def largest_selected(x: Array, index: Int, fill: int) -> Array:
    """``y[..., o] = max_k x[..., index[o, k]]``, *fill* where the index is -1."""
    best: Array | None = None
    for column in index.T:
        term = np.where(column < 0, fill, x[..., column])
        best = term if best is None else np.maximum(best, term)
    assert best is not None
    return best


def check_padded(shape: Shape, pads: tuple[tuple[int, int], ...]) -> None:
    """Refuse frames ``(C, *size)`` that are too large once they are padded, whatever is left of them after it.

    Raises:
        ModelError: names the shape.
    """
    check_frame((shape[0], *(n + sum(pair) for n, pair in zip(shape[1:], pads, strict=True))), "padded frames")


def window_output(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: tuple[tuple[int, int], ...],
) -> tuple[int, ...]:
    """Spatial output shape of a sliding window.

    Raises:
        ModelError: when the window does not fit into the padded image.
    """
    out = []
    for n, k, s, d, (begin, end) in zip(size, kernel, strides, dilations, pads, strict=True):
        span = n + begin + end - (d * (k - 1) + 1)
        if span < 0:
            raise ModelError(f"a window of {d * (k - 1) + 1} does not fit an image axis of {n + begin + end}")
        out.append(span // s + 1)
    return tuple(out)


def sliding_windows(
    x: Array,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: tuple[tuple[int, int], ...],
    fill: int,
) -> Array:
    """All windows of images ``(N, C, *size)`` as a view ``(N, C, *out, *kernel)``, of a type that holds *fill*."""
    x = _padded(x.astype(holding(x, np.array(fill)), copy=False), pads, fill)
    reach = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True))
    axes = tuple(range(2, 2 + len(kernel)))
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=axes)
    pick = (slice(None), slice(None), *(slice(None, None, s) for s in strides))
    return windows[(*pick, *(slice(None, None, d) for d in dilations))]
