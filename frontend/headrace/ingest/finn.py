"""Import rules of FINN's and qonnx's own operators that are no quantizers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headrace.ingest.linear import moved
from headrace.ingest.operands import Node, Operand
from headrace.ingest.rules import CHANNELS_LAST, ONNX, QONNX, find_rule, imports
from headrace.ir import Value
from headrace.ir.grid import Constant, Grid
from headrace.ir.integer import Transpose
from headrace.ir.ops import MatMul, Move, Offset

WRAPPED_OPSET = 13
"""The operator set whose meaning wrapped operators have."""


@imports("XnorPopcountMatMul", domain=QONNX)
def xnor_popcount(node: Node) -> Sequence[Operand]:
    """Equal bits of 0/1 vectors and 0/1 columns: ``x @ (2 w - 1)`` plus the number of zeros in the column."""
    x = node.value(0)
    bits = node.constant(1, "weights")
    if bits.ndim != 2 or not np.all((bits == 0) | (bits == 1)):
        raise node.error(f"its weights {list(bits.shape)} must be a matrix of zeros and ones")
    signs = 2 * bits.astype(np.int64) - 1
    ones = np.ones((1, 1))
    weights = Constant(signs.astype(np.float32), Grid(signs, ones, np.zeros_like(ones)))
    product = node.add(MatMul(weights), x, suffix="signs")
    zeros = (bits == 0).sum(axis=0).astype(np.int64)
    return [node.add(Offset(zeros.reshape((1,) * (len(node.shape(product)) - 1) + (-1,))), product)]


@imports("Conv", "MaxPool", "BatchNormalization", domain=CHANNELS_LAST, ignores=("momentum",))
def channels_last(node: Node) -> Sequence[Operand]:
    """The standard operator between two transpositions."""
    x = node.value(0)
    rank = len(node.shape(x))
    first = node.add(Move(Transpose((rank - 1, *range(rank - 1)))), x, suffix="in")
    inputs: list[Operand | None] = [first, *node.inputs[1:]]
    if node.proto.op_type == "Conv" and isinstance(inputs[1], Constant):
        weights = inputs[1]
        axes = weights.value.ndim
        inputs[1] = moved(weights, (0, axes - 1, *range(1, axes - 1)))
    rule = find_rule(ONNX, node.proto.op_type)
    assert rule is not None
    (y,) = rule(replace(node, inputs=tuple(inputs), opset=WRAPPED_OPSET))
    assert isinstance(y, Value)
    return [node.add(Move(Transpose((*range(1, rank), 0))), y, suffix="out")]


@imports("MaxPoolNHWC", domain=QONNX)
def max_pool_nhwc(node: Node) -> Sequence[Operand]:
    """A max pool of images with their channels last."""
    x = node.add(Move(Transpose((2, 0, 1))), node.value(0), suffix="in")
    rule = find_rule(ONNX, "MaxPool")
    assert rule is not None
    (y,) = rule(replace(node, inputs=(x,), opset=WRAPPED_OPSET))
    assert isinstance(y, Value)
    return [node.add(Move(Transpose((1, 2, 0))), y, suffix="out")]
