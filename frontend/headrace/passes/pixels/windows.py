"""Operators that read windows: convolutions and pools on blocks of pixels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from headrace.ir import IntRange, Op, Shape, TensorType
from headrace.ir.integer import IntConv, IntMaxPool, IntPool, IntSumPool
from headrace.passes.pixels.places import BlockAxis, Int, Tap, WindowAxis, index_table, selection, tap_products
from headrace.passes.pixels.rules import MAX_CONSTANTS, Block, Choice, blocked, blocks_of, choices, single_axes

Pool = TypeVar("Pool", bound=IntPool)


def window_choices(axes: Sequence[WindowAxis]) -> Iterator[Choice]:
    """Blocks for windows along *axes*; only a whole image for one that becomes a single pixel."""
    if math.prod(axis.made for axis in axes) == 1:
        yield Choice((tuple(axis.read for axis in axes),), (1,) * len(axes))
        return
    for block in blocks_of(tuple(axis.made for axis in axes)):
        rows = zip(axes, block, single_axes(block), strict=True)
        seen = [axis.in_pixels() if single else axis.in_blocks(made) for axis, made, single in rows]
        read = tuple(fit.read for fit in seen if fit is not None)
        if len(read) == len(axes):
            yield Choice((read,), block)


def _window_axes(op: IntConv | IntPool, read: Shape, made: Shape) -> list[WindowAxis]:
    rows = zip(read[1:], made[1:], op.kernel, op.strides, op.dilations, op.pads, strict=True)
    return [WindowAxis(*row) for row in rows]


def _fits(axes: Sequence[WindowAxis], choice: Choice) -> list[BlockAxis | None]:
    """The axes in the blocks of *choice*; None for those that stay pixel by pixel."""
    sizes = zip(axes, choice.read[0], choice.made, strict=True)
    return [None if read == made == 1 else axis.in_blocks(made) for axis, read, made in sizes]


def seen_in(axes: Sequence[WindowAxis], choice: Choice) -> list[BlockAxis]:
    """The axes in the blocks of *choice*, or pixel by pixel."""
    return [fit or axis.in_pixels() for fit, axis in zip(_fits(axes, choice), axes, strict=True)]


# -- convolutions ---------------------------------------------------------------------------------------------------


@choices.register
def _conv_choices(op: IntConv, reads: Sequence[Shape], made: Shape) -> Iterator[Choice]:
    if op.writable is not None:  # the weights of a pixel would stand several times, among zeros
        return
    axes = _window_axes(op, reads[0], made)
    for choice in window_choices(axes):
        counts = (axis.count for axis in seen_in(axes, choice))
        if math.prod((*choice.made, made[0], *choice.read[0], reads[0][0], *counts)) <= MAX_CONSTANTS:
            yield choice


@blocked.register
def _conv(op: IntConv, choice: Choice, reads: Sequence[TensorType], made: TensorType) -> Sequence[Op]:
    """The weights of every pixel of a block in their rows, among zeros; groups become zeros too."""
    axes = _window_axes(op, reads[0].shape, made.shape)
    fits, seen = _fits(axes, choice), seen_in(axes, choice)
    dense = _ungrouped(op)
    outputs, inputs = dense.shape[:2]
    counts = tuple(axis.count for axis in seen)
    weights = np.zeros((*choice.made, outputs, *choice.read[0], inputs, *counts), np.int64)
    for pixel, taps in tap_products(seen):
        places, blocks, at = zip(*((t.place, t.block, t.tap) for t in taps), strict=True)
        weights[(*pixel, slice(None), *places, slice(None), *blocks)] = dense[(slice(None), slice(None), *at)]
    count = math.prod(choice.made)
    wide = replace(
        op,
        weights=weights.reshape(count * outputs, math.prod(choice.read[0]) * inputs, *counts),
        ranges=np.tile(op.ranges, (1, count)),
        strides=tuple(1 if fit else n for fit, n in zip(fits, op.strides, strict=True)),
        dilations=tuple(1 if fit else n for fit, n in zip(fits, op.dilations, strict=True)),
        pads=tuple(axis.pads for axis in seen),
        groups=1,
        scattered=True,
    )
    return (wide,)


def _ungrouped(op: IntConv) -> Int:
    """Weights ``(O, I, *kernel)`` of all inputs, 0 between channels of different groups."""
    outputs, members, *kernel = op.weights.shape
    dense = np.zeros((op.groups, outputs // op.groups, op.groups, members, *kernel), np.int64)
    for group, weights in enumerate(op.weights.reshape(op.groups, -1, members, *kernel)):
        dense[group, :, group] = weights
    return dense.reshape(outputs, op.groups * members, *kernel)


# -- pools ----------------------------------------------------------------------------------------------------------

Reduction = Callable[[Sequence[BlockAxis], int, IntRange, IntRange], Op]
"""``(axes, channels, range of the elements, range of the results) -> operator`` that reduces what a pixel reads."""


@choices.register
def _pool_choices(op: IntPool, reads: Sequence[Shape], made: Shape) -> Iterator[Choice]:
    (read,) = reads
    axes = _window_axes(op, read, made)
    if any(axis.has_empty for axis in axes):
        return
    if _is_whole(op, read):
        yield from (Choice((block,), made[1:]) for block in blocks_of(read[1:]))
    else:
        yield from window_choices(axes)


def _is_whole(op: IntPool, read: Shape) -> bool:
    return op.kernel == read[1:] and not any(p for pair in op.pads for p in pair)


@blocked.register
def _max_pool(op: IntMaxPool, choice: Choice, reads: Sequence[TensorType], made: TensorType) -> Sequence[Op]:
    return _pooled(op, choice, reads[0], made.shape, lambda axes, channels, x, y: selection(axes, channels, x.lo))


@blocked.register
def _sum_pool(op: IntSumPool, choice: Choice, reads: Sequence[TensorType], made: TensorType) -> Sequence[Op]:
    return _pooled(op, choice, reads[0], made.shape, _summed)


def _summed(axes: Sequence[BlockAxis], channels: int, x: IntRange, y: IntRange) -> Op:
    """The sum of what each pixel reads, as a convolution with ones."""
    counts, rank = tuple(axis.count for axis in axes), len(axes)
    made, read = (math.prod(sizes) * channels for sizes in ((a.made for a in axes), (a.read for a in axes)))
    weights = np.zeros((made, math.prod(counts) * read), np.int64)
    index = index_table(axes, channels)
    for column in index.T:
        weights[np.arange(made), column] = 1  # every pixel reads a place once; a short row repeats its first
    weights = np.moveaxis(weights.reshape(made, -1, read), 1, -1).reshape(made, read, *counts)
    ranges = np.repeat([[y.lo], [y.hi]], made, axis=1)
    return IntConv(weights, ranges, (1,) * rank, (1,) * rank, tuple(axis.pads for axis in axes), scattered=True)


def _pooled(op: Pool, choice: Choice, x: TensorType, made: Shape, reduction: Reduction) -> Sequence[Op]:
    """Axis by axis, the last first: those in blocks by *reduction*, the others by a pool along them."""
    if _is_whole(op, x.shape):
        return _whole(op, choice.read[0], x, reduction)
    axes = _window_axes(op, x.shape, made)
    chain: list[Op] = []
    block, element = list(choice.read[0]), x.int_range
    for at, fit in reversed(list(enumerate(_fits(axes, choice)))):
        along = _along(op, at)
        (result,) = along.infer(TensorType(x.shape, element))
        if fit is not None:
            seen = [fit if k == at else BlockAxis.same(n) for k, n in enumerate(block)]
            chain.append(reduction(seen, x.shape[0], element, result.int_range))
            block[at] = fit.made
        elif (along.kernel[at], along.strides[at], along.pads[at]) != (1, 1, (0, 0)):
            chain.append(along)
        element = result.int_range
    return chain


def _along(op: Pool, axis: int) -> Pool:
    """The part of a pool that goes along *axis*: its windows are those of one axis after those of the other."""
    ones, none = [1] * len(op.kernel), [(0, 0)] * len(op.kernel)
    kernel, strides, dilations, pads = ones[:], ones[:], ones[:], none[:]
    kernel[axis], strides[axis] = op.kernel[axis], op.strides[axis]
    dilations[axis], pads[axis] = op.dilations[axis], op.pads[axis]
    return replace(op, kernel=tuple(kernel), strides=tuple(strides), dilations=tuple(dilations), pads=tuple(pads))


def _whole(op: Pool, block: Block, x: TensorType, reduction: Reduction) -> Sequence[Op]:
    """A block at a time, and what comes of the blocks."""
    rank, count = len(block), math.prod(block)
    # As one axis: all places of a block are alike, whatever their axes.
    every = BlockAxis(count, (tuple(Tap(k, 0, k) for k in range(count)),))
    ones = (1,) * rank
    within = replace(op, kernel=block, strides=ones, dilations=ones)
    (result,) = within.infer(TensorType((x.shape[0], *block), x.int_range))
    first = reduction((every, *(BlockAxis.same(1) for _ in ones[1:])), x.shape[0], x.int_range, result.int_range)
    grid = tuple(n // b for n, b in zip(x.shape[1:], block, strict=True))
    return (first,) if math.prod(grid) == 1 else (first, replace(op, kernel=grid, strides=ones, dilations=ones))
