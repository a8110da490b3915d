"""What it means to place an operator: to rewrite it for the order in which its operands arrive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from headrace.errors import UnsupportedError
from headrace.ir import Op, Shape
from headrace.passes.layout import Layout, Order

MAX_RANK = 3
"""Most axes of a physical frame: ``(H, W, C)``."""


class OrderError(UnsupportedError):
    """An operand arrives in an order that the operator cannot read.

    Attributes:
        operand: its number.
        wanted: the layout in which the operator could read it.
    """

    def __init__(self, message: str, operand: int, wanted: Layout) -> None:
        super().__init__(message)
        self.operand = operand
        self.wanted = wanted


@dataclass(frozen=True, eq=False)
class Placed:
    """An operator in physical order.

    Attributes:
        op: what to lower, or None when only the bookkeeping changes and the stream passes through.
        frames: physical frame per operand.
        layout: of the result.
    """

    op: Op | None
    frames: tuple[Shape, ...]
    layout: Layout


@singledispatch
def place(op: Op, layouts: Sequence[Layout], shape: Shape) -> Placed:
    """*op* as it reads operands of the given *layouts*; *shape* is its semantic result.

    Raises:
        OrderError: when the operator cannot read an operand in the order in which it arrives.
        UnsupportedError: when there is no rule for the operator.
    """
    raise UnsupportedError(f"{type(op).__name__} has no rule for the order of its stream")


@singledispatch
def wanted_axes(op: Op, rank: int) -> tuple[int, ...] | None:
    """Order of the axes in which *op* wants an operand of *rank* axes; None when any will do."""
    return None


def flat_rank(frame: Shape) -> Shape:
    """*frame* with at most :data:`MAX_RANK` axes."""
    return frame if len(frame) <= MAX_RANK else (math.prod(frame[:-1]), frame[-1])


def widest_frame(x: Layout) -> Shape:
    """The frame in which most elements of *x* can travel in a word: as it is, or as an image where it is one.

    Pixels in blocks are an image of fewer pixels with more channels, in a frame that may still be that of the pixels.
    """
    frame = flat_rank(x.frame)
    if 2 <= len(x.shape) <= MAX_RANK and x.shape[0] > frame[-1] and x.follows((*range(1, len(x.shape)), 0)):
        return (*x.shape[1:], x.shape[0])
    return frame


def pick(constants: Order, rows: Order | None) -> Order:
    """*constants* of every channel in the order *rows*; one for all channels, and no order, leave them as they are."""
    return constants if rows is None or constants.shape[0] == 1 else np.ascontiguousarray(constants[rows])
