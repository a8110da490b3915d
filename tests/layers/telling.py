"""Inputs at which a layer that is wrong shows it: the ends of its sums, both sides of its thresholds, whole tables."""

from __future__ import annotations

import itertools
from functools import singledispatch
from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

from headrace.ir import IntRange
from headrace.layers import Layer
from headrace.layers.add_streams import AddStreams
from headrace.layers.clip import Clip
from headrace.layers.lookup import Lookup
from headrace.layers.mvau import MVAU
from headrace.layers.runtime_thresholding import RuntimeThresholding
from headrace.layers.thresholding import Thresholding
from headrace.layers.vvau import VVAU

Int = NDArray[np.int64]


@singledispatch
def telling_frames(layer: Layer) -> tuple[Int, ...]:
    """For every input of *layer* as many frames ``(n, *shape)``; none where random ones tell as much."""
    return tuple(np.zeros((0, *stream.shape), np.int64) for stream in layer.inputs)


def _frames(vectors: Int, shape: tuple[int, ...]) -> tuple[Int, ...]:
    """Vectors ``(n, C)`` one after the other in frames of *shape*, from the start again when the last has places."""
    count = ceil(len(vectors) / prod(shape[:-1]))
    return (np.resize(vectors, (count * prod(shape[:-1]), shape[-1])).reshape(count, *shape),)


def _either_side(thresholds: Int, stream: IntRange, channels: int) -> Int:
    """Vectors at each threshold ``(C or 1, T)`` and one below it, as far as inputs can be there."""
    values = np.concatenate([thresholds, thresholds - 1], axis=1).T
    inside = np.clip(np.broadcast_to(values, (len(values), channels)), stream.lo, stream.hi)
    return np.where(inside > 0, 1, -1) if stream.bipolar else inside


@telling_frames.register
def _(layer: MVAU) -> tuple[Int, ...]:
    """The vectors that give the largest and the smallest sum of each row of weights."""
    x, rows = layer.stream.range, layer.weights.T
    return _frames(np.concatenate([np.where(s * rows > 0, x.hi, x.lo) for s in (1, -1)]), layer.stream.shape)


@telling_frames.register
def _(layer: VVAU) -> tuple[Int, ...]:
    """Images in which one window, inside of the padding, gives the largest or the smallest sum of each kernel."""
    x, shape = layer.stream.range, layer.stream.shape
    places = []
    for size, *axis in zip(shape[:-1], layer.kernel, layer.strides, layer.dilations, layer.pads, strict=True):
        taps, stride, dilation, (before, _) = axis
        first = ceil(before / stride) * stride - before
        places.append([(k, first + dilation * k) for k in range(taps) if first + dilation * k < size])
    taps = np.ix_(*([k for k, _ in axis] for axis in places))
    pixels = np.ix_(*([at for _, at in axis] for axis in places))
    frames = []
    for m, sign in itertools.product(range(layer.weights.shape[1]), (1, -1)):
        kernel = np.moveaxis(sign * layer.weights[:, m].reshape(-1, *layer.kernel), 0, -1)
        frames.append(np.full(shape, x.lo))
        frames[-1][pixels] = np.where(kernel > 0, x.hi, x.lo)[taps]
    return (np.array(frames),)


@telling_frames.register(Thresholding)
@telling_frames.register(RuntimeThresholding)
def _(layer: Thresholding | RuntimeThresholding) -> tuple[Int, ...]:
    if not layer.thresholds.size:
        return (np.zeros((0, *layer.stream.shape), np.int64),)
    vectors = _either_side(layer.thresholds, layer.stream.range, layer.channels)
    return _frames(vectors, layer.stream.shape)


@telling_frames.register
def _(layer: Clip) -> tuple[Int, ...]:
    bounds = [np.broadcast_to(values, layer.channels) for values in (layer.lo, layer.lo + 1, layer.hi, layer.hi + 1)]
    return _frames(_either_side(np.stack(bounds, axis=1), layer.stream.range, layer.channels), layer.stream.shape)


@telling_frames.register
def _(layer: Lookup) -> tuple[Int, ...]:
    """Every value in every channel."""
    x = layer.stream.range
    values = np.arange(x.lo, x.hi + 1, 2 if x.bipolar else 1)
    return _frames(np.repeat(values[:, None], layer.channels, axis=1), layer.stream.shape)


@telling_frames.register
def _(layer: AddStreams) -> tuple[Int, ...]:
    """Every pair of ends."""
    ends = list(itertools.product(*((stream.range.lo, stream.range.hi) for stream in layer.inputs)))
    return tuple(np.array([np.full(stream.shape, end[k]) for end in ends]) for k, stream in enumerate(layer.inputs))
