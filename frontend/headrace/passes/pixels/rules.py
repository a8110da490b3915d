"""What a class of operators says about blocks of pixels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatch
from itertools import accumulate
from operator import and_

from headrace.ir import Op, Shape, TensorType
from headrace.layers.base import divisors

Block = tuple[int, ...]
"""Pixels at once, by spatial axis: a pixel, neighbours of a row, or whole rows."""

MAX_CONSTANTS = 1 << 24
"""Most weights of a blocked operator; blocks that need more are not offered."""


@dataclass(frozen=True)
class Choice:
    """Blocks in which an operator reads its operands, and makes its result."""

    read: tuple[Block, ...]
    made: Block

    @property
    def pixels(self) -> int:
        """``M`` of folding files: the pixels made at once, or read at once where only one is made."""
        made = math.prod(self.made)
        return made if made > 1 else max(math.prod(block) for block in self.read)

    def cycles(self, reads: Sequence[Shape], made: Shape) -> int:
        """Blocks of the operand, or of the result, that has most."""
        pairs = zip((*self.read, self.made), (*reads, made), strict=True)
        return max(math.prod(shape[1:]) // math.prod(block) for block, shape in pairs)


@singledispatch
def choices(op: Op, reads: Sequence[Shape], made: Shape) -> Iterable[Choice]:
    """Blocks in which *op* can work, besides single pixels: none unless its class has a rule.

    Args:
        reads: frames of the operands, ``(C, *size)``.
        made: frame of the result.
    """
    return ()


@singledispatch
def blocked(op: Op, choice: Choice, reads: Sequence[TensorType], made: TensorType) -> Sequence[Op]:
    """*op* on blocks: a chain of operators; the first takes all operands, each ``(block * C, *blocks)``.

    Args:
        choice: one of :func:`choices`.
        reads: tensors of the operands before, pixel for pixel.
        made: tensor of the result before.
    """
    raise NotImplementedError(type(op).__name__)


@singledispatch
def follows(op: Op) -> bool:
    """Whether *op* works pixel by pixel, so that it takes blocks as they come when nobody says otherwise."""
    return False


def single_axes(block: Block) -> list[bool]:
    """By axis of *block*, whether it goes pixel by pixel there: up to the first axis with several pixels."""
    return list(accumulate((m == 1 for m in block), and_))


def blocks_of(size: Shape) -> Iterator[Block]:
    """Blocks into which an image of *size* can be cut, smallest first: parts of a row, then whole rows."""
    if not size:
        return
    *outer, width = size
    for m in divisors(width):
        yield (*(1,) * len(outer), m)
    if outer:
        for rows in divisors(outer[-1])[1:]:
            yield (*(1,) * (len(outer) - 1), rows, width)
