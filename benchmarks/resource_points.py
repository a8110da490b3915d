"""Layers of the sweep of ``resource_model.py`` that work word by word or move words, in sizes of real networks.

A row is a kind and how a layer of it is made from numbers; the shapes that the model was fitted to, and those held out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.ir import IntRange
from headrace.ir.per_channel import IntAffine, IntClip
from headrace.layers import Layer, StreamType
from headrace.layers.add_streams import AddStreams
from headrace.layers.affine import Affine
from headrace.layers.clip import Clip
from headrace.layers.concat import Concat
from headrace.layers.duplicate_streams import DuplicateStreams
from headrace.layers.fifo import FIFO
from headrace.layers.gather import Gather
from headrace.layers.label_select import LabelSelect
from headrace.layers.lookup import Lookup
from headrace.layers.max_pool import MaxPool
from headrace.layers.pad import Pad
from headrace.layers.slice import Slice
from headrace.layers.sum_pool import SumPool
from headrace.layers.upsample import Upsample

NONE = ((0, 0), (0, 0))
SAME = ((1, 1), (1, 1))


@dataclass(frozen=True)
class Row:
    """Shapes of one kind of layer: what ``make`` is called with."""

    name: str
    make: Callable[..., Layer]
    fit: Sequence[tuple[int, ...]]
    held_out: Sequence[tuple[int, ...]]


def unsigned(bits: int) -> IntRange:
    return IntRange(0, (1 << bits) - 1)


def signed(bits: int) -> IntRange:
    return IntRange(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def image(size: int, channels: int, bits: int) -> StreamType:
    return StreamType((size, size, channels), unsigned(bits))


def add(channels: int, pe: int, bits: int, a: int, b: int) -> AddStreams:
    """Sums with factors *a* and *b*."""
    stream = StreamType((channels,), signed(bits))
    return AddStreams((stream, stream), (a, b), pe)


def affine(channels: int, pe: int, bits: int, factor: int, rounded: int) -> Affine:
    """Factors and terms of every channel of *factor* bits; *rounded* to 24 bits or not."""
    x, rng = signed(bits), np.random.default_rng(channels)
    factors = rng.integers(1 << (factor - 1), 1 << factor, channels)
    terms = rng.integers(-(1 << (bits + factor - 2)), 1 << (bits + factor - 2), channels)
    ends = np.array([[x.lo], [x.hi]]) * np.ones((1, channels), np.int64)
    (y,) = IntAffine(factors, terms, x, 0, bool(rounded)).execute(ends)
    output = IntRange(int(y.min()), int(y.max()))
    return Affine(StreamType((channels,), x), factors, terms, output, bool(rounded), pe)


def clip(channels: int, pe: int, bits: int, shared: int) -> Clip:
    """Bounds that all channels share, or of every channel."""
    x, rng = signed(bits), np.random.default_rng(channels)
    count = 1 if shared else channels
    lo, hi = rng.integers(x.lo + 1, x.lo // 2, count), rng.integers(x.hi // 2, x.hi, count)
    ends = np.array([[x.lo], [x.hi]]) * np.ones((1, channels), np.int64)
    (y,) = IntClip(lo, hi, x, 0).execute(ends)
    return Clip(StreamType((channels,), x), lo, hi, IntRange(int(y.min()), int(y.max())), pe)


def concat(simd: int, bits: int, *channels: int) -> Concat:
    return Concat(tuple(StreamType((8, n), unsigned(bits)) for n in channels), simd)


def gather(groups: int, each: int, bits: int, simd: int) -> Gather:
    """A shuffle of *groups* of channels."""
    indices = np.arange(groups * each).reshape(groups, each).T.ravel()
    return Gather(StreamType((8, groups * each), unsigned(bits)), tuple(indices.tolist()), simd)


def scattered(channels: int, bits: int) -> Gather:
    """Channels in no order."""
    indices = np.random.default_rng(channels).permutation(channels)
    return Gather(StreamType((8, channels), unsigned(bits)), tuple(indices.tolist()))


def lookup(channels: int, pe: int, bits: int, out: int, shared: int) -> Lookup:
    """Any function of *bits* to *out* bits, one for all channels or one for each."""
    rows = 1 if shared else channels
    table = np.random.default_rng(bits).integers(-(1 << (out - 1)), 1 << (out - 1), (rows, 1 << bits))
    return Lookup(table, StreamType((channels,), signed(bits)), signed(out), pe)


def pad(size: int, channels: int, bits: int, simd: int, step: int) -> Pad:
    """A ring around an image, with *step* - 1 pixels between its own."""
    pads = ((1, 1), (1, 1), (0, 0))
    return Pad(image(size, channels, bits), pads, (step, step, 1), np.zeros(1, np.int64), simd)


def pool(kind: type[MaxPool] | type[SumPool]) -> Callable[..., Layer]:
    """Makes 2 x 2 or 3 x 3 windows, or sees the whole image."""

    def make(size: int, channels: int, bits: int, kernel: int, pe: int) -> Layer:
        pads = SAME if kernel == 3 else NONE
        stride = 2 if kernel < size else 1
        window, strides = (kernel, kernel), (stride, stride)
        return kind(image(size, channels, bits), window, strides, (1, 1), pads, pe)

    return make


def fork(copies: int, bits: int) -> DuplicateStreams:
    return DuplicateStreams(StreamType((8,), unsigned(bits)), copies)


def best(channels: int, bits: int, k: int, pe: int) -> LabelSelect:
    """The largest *k*."""
    return LabelSelect(StreamType((channels,), signed(bits)), k, True, pe)


def cut(channels: int, bits: int, start: int, stop: int, simd: int) -> Slice:
    return Slice(StreamType((8, channels), unsigned(bits)), start, stop, 1, simd)


def upsample(size: int, channels: int, bits: int, simd: int) -> Upsample:
    """Twice as high and wide."""
    return Upsample(image(size, channels, bits), (2, 2), simd)


def fifo(style: str) -> Callable[..., Layer]:
    return lambda depth, bits: FIFO(StreamType((4,), unsigned(bits)), depth, style)


ROWS = (
    Row(
        "AddStreams",
        add,
        [(16, 4, 4, 1, 1), (64, 8, 8, 3, 5), (32, 1, 12, 1, 1), (32, 8, 6, 1, 1), (64, 2, 9, 1, 7)],
        [(48, 6, 7, 1, 1), (24, 3, 10, 5, 9)],
    ),
    Row(
        "Affine",
        affine,
        [(16, 2, 8, 6, 0), (32, 4, 12, 5, 0), (16, 1, 16, 10, 1), (32, 2, 10, 6, 0), (8, 1, 20, 9, 1)],
        [(24, 3, 9, 7, 0), (12, 2, 18, 8, 1)],
    ),
    Row(
        "Clip",
        clip,
        [(16, 4, 8, 1), (32, 2, 12, 0), (64, 8, 10, 0), (16, 8, 12, 1), (32, 4, 9, 0)],
        [(24, 6, 10, 1), (48, 3, 14, 0)],
    ),
    Row(
        "Concat",
        concat,
        [(4, 4, 16, 32), (8, 2, 16, 16, 16), (1, 8, 5, 7), (8, 4, 16, 64), (2, 6, 6, 10, 4)],
        [(4, 6, 24, 40), (3, 3, 9, 12, 6)],
    ),
    Row("DuplicateStreams", fork, [(2, 8), (3, 40), (2, 32)], [(4, 20)]),
    Row("Gather", gather, [(4, 8, 4, 1), (2, 32, 8, 1), (4, 16, 4, 64), (8, 8, 6, 1)], [(4, 12, 3, 1), (3, 16, 5, 1)]),
    Row("Gather scattered", scattered, [(16, 4), (64, 8), (32, 6)], [(48, 5)]),
    Row(
        "LabelSelect",
        best,
        [(10, 16, 1, 1), (32, 10, 5, 1), (100, 12, 1, 4), (16, 12, 1, 2), (50, 14, 3, 1)],
        [(20, 13, 1, 2), (40, 9, 4, 1)],
    ),
    Row(
        "Lookup",
        lookup,
        [(16, 4, 5, 4, 1), (16, 2, 6, 8, 0), (64, 8, 8, 4, 1), (32, 8, 6, 4, 1), (8, 1, 8, 6, 0), (8, 4, 7, 5, 1)],
        [(24, 6, 6, 5, 1), (12, 2, 7, 4, 0), (16, 2, 8, 7, 1)],
    ),
    Row(
        "MaxPool",
        pool(MaxPool),
        [(8, 16, 4, 2, 4), (16, 8, 2, 3, 8), (8, 32, 4, 8, 8), (12, 32, 4, 2, 8), (14, 16, 3, 3, 4)],
        [(10, 24, 5, 2, 6), (12, 8, 4, 3, 2)],
    ),
    Row(
        "SumPool",
        pool(SumPool),
        [(8, 16, 4, 2, 4), (8, 32, 4, 8, 8), (7, 64, 4, 7, 1), (12, 32, 4, 2, 8), (8, 64, 3, 8, 4)],
        [(10, 24, 5, 2, 6), (6, 48, 4, 6, 2)],
    ),
    Row(
        "Pad",
        pad,
        [
            (8, 16, 4, 4, 1),
            (14, 32, 4, 8, 1),
            (16, 8, 8, 8, 1),
            (8, 16, 4, 4, 2),
            (12, 32, 4, 8, 1),
            (28, 16, 2, 4, 1),
            (7, 8, 4, 8, 2),
        ],
        [(10, 24, 6, 6, 1), (20, 12, 3, 3, 1), (9, 16, 3, 8, 2)],
    ),
    Row(
        "Slice",
        cut,
        [(32, 4, 0, 16, 4), (64, 8, 16, 32, 8), (9, 8, 3, 6, 1), (48, 4, 16, 32, 4), (32, 3, 0, 16, 16)],
        [(60, 5, 12, 36, 6), (24, 6, 8, 24, 8)],
    ),
    Row(
        "Upsample",
        upsample,
        [(4, 16, 4, 4), (8, 32, 4, 8), (16, 8, 2, 1), (8, 16, 4, 16), (7, 32, 2, 4)],
        [(6, 24, 5, 6), (9, 16, 3, 8)],
    ),
    Row(
        "FIFO srl",
        fifo("srl"),
        [(4, 16), (32, 8), (64, 12), (17, 1), (100, 6), (20, 300)],
        [(12, 9), (50, 33), (90, 14)],
    ),
    Row(
        "FIFO distributed",
        fifo("distributed"),
        [(17, 48), (64, 48), (256, 12), (40, 100), (300, 8), (6, 512)],
        [(28, 60), (120, 20), (200, 16)],
    ),
    Row("FIFO block", fifo("block"), [(512, 36), (600, 9), (2000, 40), (200, 512)], [(1500, 24), (700, 100)]),
    Row("FIFO registers", fifo("registers"), [(4, 7), (8, 48), (5, 20)], [(6, 12)]),
)
"""Every kind but those of products, thresholds and windows, which ``resource_model.py`` makes itself."""
