"""Operators that make several pixels at once, and the numbers that they offer."""

from __future__ import annotations

import numpy as np

from headrace.ir import Graph, IntRange, Op, TensorType
from headrace.ir.integer import (
    Concat,
    Gather,
    IntAdd,
    IntConv,
    IntMaxPool,
    IntPad,
    IntSumPool,
    IntUpsample,
    IntZeroInsert,
    Slice,
)

INT3, BIPOLAR = IntRange(-4, 3), IntRange(-1, 1, bipolar=True)
ONE, NONE, SAME = (1, 1), ((0, 0), (0, 0)), ((1, 1), (1, 1))
GROUPED = IntConv(
    np.array([[[[1, -2, 1]]], [[[3, 0, 1]]], [[[-1, 1, 1]]], [[[0, 0, 2]]]]),
    np.array([[-24] * 4, [24] * 4]), ONE, ONE, ((0, 0), (1, 1)), 2,
)  # fmt: skip


OPERATORS: dict[str, tuple[Op, tuple[int, ...], tuple[int, ...]]] = {
    "max_pool": (IntMaxPool((2, 2), (2, 2), ONE, NONE), (3, 4, 8), (1, 2, 4, 8)),
    "max_pool_same": (IntMaxPool((3, 3), ONE, ONE, SAME), (2, 4, 6), (1, 2, 3, 6, 12, 24)),
    "max_pool_uneven": (IntMaxPool((3, 2), (2, 1), (1, 2), ((0, 1), (2, 0))), (2, 5, 6), (1, 2, 3, 6, 12)),
    "max_pool_rest": (IntMaxPool((2, 2), (2, 2), ONE, NONE), (3, 5, 7), (1, 3, 6)),
    "max_pool_whole": (IntMaxPool((4, 6), ONE, ONE, NONE), (3, 4, 6), (1, 2, 3, 6, 12, 24)),
    "max_pool_1d": (IntMaxPool((3,), (1,), (1,), ((1, 1),)), (2, 12), (1, 2, 3, 4, 6, 12)),
    "max_pool_empty": (IntMaxPool((1, 1), (2, 2), ONE, SAME), (2, 4, 6), (1,)),
    "sum_pool": (IntSumPool((2, 2), (2, 2), ONE, NONE), (3, 4, 8), (1, 2, 4, 8)),
    "sum_pool_same": (IntSumPool((3, 3), ONE, ONE, SAME), (2, 4, 6), (1, 2, 3, 6, 12, 24)),
    "sum_pool_whole": (IntSumPool((4, 6), ONE, ONE, NONE), (3, 4, 6), (1, 2, 3, 6, 12, 24)),
    "sum_pool_one_left": (IntSumPool((4, 4), ONE, ONE, ((0, 0), (0, 1))), (3, 4, 3), (1, 12)),
    "grouped": (GROUPED, (2, 4, 6), (1, 2, 3, 6, 12, 24)),
    "add": (IntAdd((2, -1)), (3, 2, 6), (1, 2, 3, 6, 12)),
    "concat": (Concat(0), (3, 2, 6), (1, 2, 3, 6, 12)),
    "concat_rows": (Concat(1), (3, 2, 6), (1,)),
    "slice": (Slice(0, 1, 4, 2), (4, 2, 6), (1, 2, 3, 6, 12)),
    "gather": (Gather(0, (2, 0, 0, 3)), (4, 2, 6), (1, 2, 3, 6, 12)),
    "pad": (IntPad(((0, 0), (1, 0), (2, 4)), np.array([-5])), (2, 3, 6), (1, 2, 3, 6, 12, 48)),
    "pad_channels": (IntPad(((1, 0), (1, 0), (0, 0)), np.array([0])), (2, 3, 6), (1,)),
    "upsample": (IntUpsample((2, 3)), (2, 2, 4), (1, 3, 6, 12, 24, 48)),
    "upsample_1d": (IntUpsample((2,)), (2, 6), (1, 2, 4, 6, 12)),
    "zero_insert": (IntZeroInsert((2, 2), np.array([1])), (2, 3, 4), (1, 7, 35)),
}
"""By name: the operator, the frame that it reads, and how many pixels it can make at once."""


def one_operator(op: Op, shape: tuple[int, ...], x: IntRange) -> Graph:
    """A graph of *op* alone, at the node ``op``."""
    graph = Graph()
    add_operator(graph, op, shape, x, "op", ("x", "y"))
    return graph


def add_operator(graph: Graph, op: Op, shape: tuple[int, ...], x: IntRange, node: str, ends: tuple[str, str]) -> None:
    """*op* between an input and an output of its own, both operands of a join from the same input."""
    value = graph.input(ends[0], TensorType(shape, x))
    operands = (value, value) if isinstance(op, (IntAdd, Concat)) else (value,)
    graph.output(ends[1], graph.add(op, operands, node))
