"""Operators that work pixel by pixel, and those that move pixels and channels, on blocks of pixels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from headrace.ir import Op, Shape, TensorType
from headrace.ir.integer import (
    Activation,
    Concat,
    Gather,
    IntAdd,
    IntPad,
    IntSelect,
    IntUpsample,
    IntZeroInsert,
    PerChannel,
    Slice,
)
from headrace.passes.pixels.places import BlockAxis, Int, Tap, WindowAxis, selection
from headrace.passes.pixels.rules import Choice, blocked, blocks_of, choices, follows, single_axes
from headrace.passes.pixels.windows import seen_in, window_choices


def _same_choices(reads: Sequence[Shape], made: Shape) -> Iterator[Choice]:
    """Every block, in which operands come and the result leaves."""
    return (Choice((block,) * len(reads), block) for block in blocks_of(made[1:]))


@choices.register
def _per_channel_choices(op: PerChannel, reads: Sequence[Shape], made: Shape) -> Iterator[Choice]:
    if op.axis == 0 or op.channels == 1:
        yield from _same_choices(reads, made)


@choices.register
def _activation_choices(op: Activation, reads: Sequence[Shape], made: Shape) -> Iterator[Choice]:
    """None where the thresholds are written at run time, which a channel has once."""
    if not op.writable:
        yield from _per_channel_choices(op, reads, made)


@blocked.register
def _per_channel(op: PerChannel, choice: Choice, reads: Sequence[TensorType], made: TensorType) -> Sequence[Op]:
    return (op.with_constants(lambda constant: _tiled(constant, math.prod(choice.made)), 0),)


def _tiled(constant: Int, m: int) -> Int:
    """Constants for each of *m* pixels; those that all channels share stay."""
    return constant if constant.shape[0] == 1 else np.tile(constant, (m, *(1,) * (constant.ndim - 1)))


@choices.register
def _add_choices(op: IntAdd, reads: Sequence[Shape], made: Shape) -> Iterator[Choice]:
    return _same_choices(reads, made)


@blocked.register
def _add(op: IntAdd, choice: Choice, reads: Sequence[TensorType], made: TensorType) -> Sequence[Op]:
    return (op,)


@follows.register(PerChannel)
@follows.register(IntAdd)
@follows.register(Concat)
@follows.register(Slice)
@follows.register(Gather)
def _follows(op: Op) -> bool:
    return True


# -- channels -------------------------------------------------------------------------------------------------------


@choices.register(Concat)
@choices.register(Slice)
@choices.register(Gather)
def _channel_choices(op: Concat | Slice | Gather, reads: Sequence[Shape], made: Shape) -> Iterator[Choice]:
    if op.axis == 0:
        yield from _same_choices(reads, made)


@blocked.register
def _concat(op: Concat, choice: Choice, reads: Sequence[TensorType], made: TensorType) -> Sequence[Op]:
    """The blocks one after the other, and their channels in order."""
    m, rank = math.prod(choice.made), len(choice.made)
    blocks, start = [], 0
    for x in reads:
        blocks.append(start + np.arange(m * x.shape[0]).reshape(m, -1))
        start += m * x.shape[0]
    return (op, _moved(np.concatenate(blocks, axis=1).ravel(), rank))


@blocked.register(Slice)
@blocked.register(Gather)
def _chosen(op: Slice | Gather, choice: Choice, reads: Sequence[TensorType], made: TensorType) -> Sequence[Op]:
    channels = reads[0].shape[0]
    (kept,) = op.execute(np.arange(channels)[np.newaxis])
    elements = np.arange(math.prod(choice.made))[:, np.newaxis] * channels + kept[0]
    return (_moved(elements.ravel(), len(choice.made)),)


def _moved(elements: Int, rank: int) -> IntSelect:
    """The *elements* of each block, in this order."""
    return IntSelect(elements[:, np.newaxis], (1,) * rank, ((0, 0),) * rank)


# -- pixels ---------------------------------------------------------------------------------------------------------


@choices.register
def _pad_choices(op: IntPad, reads: Sequence[Shape], made: Shape) -> Iterator[Choice]:
    padded = any(p for pair in op.pads for p in pair)
    if op.pads[:1] == ((0, 0),) and padded and (op.fill == op.fill.flat[0]).all():
        yield from window_choices(_pad_axes(op, reads[0], made))


def _pad_axes(op: IntPad, read: Shape, made: Shape) -> list[WindowAxis]:
    """Windows of a pixel."""
    return [WindowAxis(n, m, 1, 1, 1, pads) for n, m, pads in zip(read[1:], made[1:], op.pads[1:], strict=True)]


@blocked.register
def _pad(op: IntPad, choice: Choice, reads: Sequence[TensorType], made: TensorType) -> Sequence[Op]:
    seen = seen_in(_pad_axes(op, reads[0].shape, made.shape), choice)
    return (selection(seen, reads[0].shape[0], int(op.fill.flat[0])),)


@choices.register
def _upsample_choices(op: IntUpsample, reads: Sequence[Shape], made: Shape) -> Iterator[Choice]:
    for block in blocks_of(made[1:]):
        factors = [1 if single else factor for single, factor in zip(single_axes(block), op.factors, strict=True)]
        read = tuple(m // f for m, f in zip(block, factors, strict=True))
        if all(m % f == 0 and n % r == 0 for m, f, n, r in zip(block, factors, reads[0][1:], read, strict=False)):
            yield Choice((read,), block)


@blocked.register
def _upsample(op: IntUpsample, choice: Choice, reads: Sequence[TensorType], made: TensorType) -> Sequence[Op]:
    """Rows are repeated by the operator where blocks are parts of a row, pixels of a block by choosing them."""
    within = [m // r for m, r in zip(choice.made, choice.read[0], strict=True)]
    left = tuple(factor // f for factor, f in zip(op.factors, within, strict=True))
    axes = [
        BlockAxis(read, tuple((Tap(0, 0, k // f),) for k in range(read * f)))
        for read, f in zip(choice.read[0], within, strict=True)
    ]
    chosen = selection(axes, reads[0].shape[0])
    return (chosen,) if set(left) == {1} else (IntUpsample(left), chosen)


@choices.register
def _zero_insert_choices(op: IntZeroInsert, reads: Sequence[Shape], made: Shape) -> Iterator[Choice]:
    """Whole rows, or the whole image: what one block makes of its pixels must be what any other does."""
    if (op.fill == op.fill.flat[0]).all() and reads[0] != made:
        row = (*(1,) * (len(made) - 2), made[-1])
        for m, read in dict.fromkeys(((row, (*row[:-1], reads[0][-1])), (made[1:], reads[0][1:]))):
            yield Choice((read,), m)


@blocked.register
def _zero_insert(op: IntZeroInsert, choice: Choice, reads: Sequence[TensorType], made: TensorType) -> Sequence[Op]:
    axes, left = [], []
    for read, size, stride in zip(choice.read[0], choice.made, op.strides, strict=True):
        plain = read == size == 1
        places = [() if k % stride else (Tap(0, 0, k // stride),) for k in range(size)]
        axes.append(BlockAxis.same(1) if plain else BlockAxis(read, tuple(places)))
        left.append(stride if plain else 1)
    chosen = selection(axes, reads[0].shape[0], int(op.fill.flat[0]))
    return (chosen,) if set(left) == {1} else (IntZeroInsert(tuple(left), op.fill[:1]), chosen)
