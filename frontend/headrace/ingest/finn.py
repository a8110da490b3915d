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
from headrace.ir.ops import AveragePool, MatMul, Move, Mul, Offset
from headrace.ir.ops.quantizers import RawCodes

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


@imports("QuantAvgPool2d", domain=QONNX, ignores=("signed",))
def quant_average_pool(node: Node) -> Sequence[Operand]:
    """Sums of square windows, without the low bits that ``obits`` has no room for: ``floor(sum / 2**shift)``."""
    x = node.value(0)
    last = node.text("data_layout", "NCHW")
    if last not in ("NCHW", "NHWC") or len(node.shape(x)) != 3:
        raise node.error(f"its data_layout '{last}' of frames {list(node.shape(x))} must be NCHW or NHWC, of images")
    kernel, stride, given, kept = (node.integer(name, 0) for name in ("kernel", "stride", "ibits", "obits"))
    if min(kernel, stride, given, kept) < 1 or max(given, kept) > _MOST_BITS:
        raise node.error(f"its kernel, stride, ibits and obits must be 1 or more, and bits {_MOST_BITS} at most")
    shift = max(((2**given - 1) * kernel * kernel).bit_length() - kept, 0)
    y = node.add(Move(Transpose((2, 0, 1))), x, suffix="in") if last == "NHWC" else x
    y = node.add(AveragePool((kernel,) * 2, (stride,) * 2, (1, 1), ((0, 0),) * 2), y, suffix="mean")
    y = node.add(Mul(np.full((1, 1, 1), float(kernel * kernel))), y, suffix="sum")
    y = node.add(_whole(1.0, "ROUND"), y, suffix="whole")
    y = node.add(_whole(2.0**shift, "FLOOR"), y)
    return [node.add(Move(Transpose((1, 2, 0))), y, suffix="out") if last == "NHWC" else y]


_MOST_BITS = 32


def _whole(step: float, rounding: str) -> RawCodes:
    """``x / step`` as an integer of any size."""
    one = np.ones((1, 1, 1), np.float32)
    return RawCodes(np.float32(step) * one, np.float32(0) * one, -(2**31), 2**31 - 1, rounding)
