"""Import rules of reductions over frame axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.ingest.operands import Node, Operand, frame_axis
from headrace.ingest.rules import imports
from headrace.ir import Value
from headrace.ir.integer import Reshape, Transpose
from headrace.ir.ops import AveragePool, MaxPool, Move, Mul


@imports("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
def reduce(node: Node) -> Sequence[Operand]:
    """One window over the reduced axes: spatial ones as they are, others after a transposition."""
    x = node.value(0)
    shape = node.shape(x)
    given, nothing = node.integers("axes"), bool(node.integer("noop_with_empty_axes", 0))
    if given is None and node.has(1):
        given = tuple(int(a) for a in node.constant(1, "axes").reshape(-1))
    keep = bool(node.integer("keepdims", 1))
    if not given:
        if not nothing:
            raise node.unsupported("a reduction over all axes, the batch axis among them; state the axes of the frame")
        return [x]
    axes = sorted({frame_axis(node, a, len(shape)) for a in given})
    if len(shape) in (2, 3) and axes[0] > 0:
        y = _pooled(node, x, tuple(n if k in axes else 1 for k, n in enumerate(shape[1:], 1)))
    else:
        rest = [k for k in range(len(shape)) if k not in axes]
        x = node.add(Move(Transpose((*rest, *axes))), x, suffix="in")
        rows, depth = int(np.prod([shape[k] for k in rest])), int(np.prod([shape[k] for k in axes]))
        y = _pooled(node, node.add(Move(Reshape((rows, depth))), x, suffix="rows"), (depth,))
    target = tuple(1 if k in axes else n for k, n in enumerate(shape) if keep or k not in axes)
    return [y if node.shape(y) == target else node.add(Move(Reshape(target)), y, suffix="shape")]


def _pooled(node: Node, x: Value, kernel: tuple[int, ...]) -> Value:
    """One window per channel."""
    ones, none = (1,) * len(kernel), ((0, 0),) * len(kernel)
    kind = node.proto.op_type
    if kind == "ReduceMax":
        return node.add(MaxPool(kernel, ones, ones, none), x)
    if kind == "ReduceMin":
        flip = Mul(np.full((1,) * (len(kernel) + 1), -1.0))
        largest = node.add(MaxPool(kernel, ones, ones, none), node.add(flip, x, suffix="neg"), suffix="max")
        return node.add(flip, largest)
    return node.add(AveragePool(kernel, ones, ones, none, average=kind == "ReduceMean"), x)
