"""Import rules of ArgMax, ArgMin and TopK."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.ingest.operands import Node, Operand, frame_axis
from headrace.ingest.rules import imports
from headrace.ir import Value
from headrace.ir.integer import Reshape, Transpose
from headrace.ir.ops import Move, TopK, TopValues


def _last(node: Node, x: Value, axis: int) -> tuple[Value, tuple[int, ...] | None]:
    """*x* with *axis* moved last, and the permutation that undoes it."""
    rank = len(node.shape(x))
    if axis == rank - 1:
        return x, None
    perm = (*(k for k in range(rank) if k != axis), axis)
    return node.add(Move(Transpose(perm)), x, suffix="in"), tuple(int(p) for p in np.argsort(perm))


def _back(node: Node, y: Value, undo: tuple[int, ...] | None) -> Value:
    return y if undo is None else node.add(Move(Transpose(undo)), y, suffix="out")


@imports("ArgMax", "ArgMin")
def arg(node: Node) -> Sequence[Operand]:
    """Index of the best value along one axis, lowest index on ties."""
    x = node.value(0)
    rank = len(node.shape(x))
    axis = frame_axis(node, node.integer("axis", 0), rank)
    if node.integer("select_last_index", 0):
        raise node.unsupported("select_last_index=1")
    moved, undo = _last(node, x, axis)
    y = _back(node, node.add(TopK(1, node.proto.op_type == "ArgMax"), moved), undo)
    if not node.integer("keepdims", 1):
        y = node.add(Move(Reshape(tuple(n for k, n in enumerate(node.shape(y)) if k != axis))), y, suffix="squeeze")
    return [y]


@imports("TopK", ignores=("sorted",))  # any order is allowed then, the sorted one too
def top_k(node: Node) -> Sequence[Operand]:
    """Values (host) and indices of the k best."""
    x = node.value(0)
    k = node.integer("k", 0) or int(node.one_number(1, "k"))
    axis = frame_axis(node, node.integer("axis", -1), len(node.shape(x)))
    size = node.shape(x)[axis]
    if not 1 <= k <= size:
        raise node.error(f"k={k} of {size} values; 1 to {size} are accepted")
    largest = bool(node.integer("largest", 1))
    moved, undo = _last(node, x, axis)
    results: list[Operand] = [x, x]
    if node.used(0):
        results[0] = _back(node, node.add(TopValues(k, largest), moved, suffix="values"), undo)
    if node.used(1):
        results[1] = _back(node, node.add(TopK(k, largest), moved), undo)
    return results
