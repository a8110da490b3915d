"""Import rules of elementwise operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headrace.ingest.operands import Node, Operand
from headrace.ingest.rules import imports
from headrace.ir import Value
from headrace.ir.grid import Constant
from headrace.ir.op import Array
from headrace.ir.ops import (
    Add,
    AddTensors,
    Arithmetic,
    BatchNorm,
    Celu,
    Clip,
    Div,
    Elementwise,
    Elu,
    Function,
    HardSigmoid,
    Mul,
    Power,
    PRelu,
    RawCodes,
    Reciprocal,
    Sign,
    ThresholdedRelu,
)


@imports("Add", "Sub", "Mul", "Div", ignores=("broadcast",))  # opset 6 had to ask for it; "axis" is refused
def binary(node: Node) -> Sequence[Operand]:
    """Arithmetic with a constant on either side, or of two tensors."""
    left, right = node.operand(0), node.operand(1)
    if isinstance(left, Value) and isinstance(right, Value):
        return [_two_tensors(node, left, right)]
    if isinstance(left, Value):
        assert isinstance(right, Constant)
        c = _parameter(node, right, left)
        return [node.add(_with_constant(node, c), left)]
    assert isinstance(left, Constant)
    assert isinstance(right, Value)
    return [_constant_first(node, _parameter(node, left, right), right)]


def _parameter(node: Node, c: Constant, x: Value) -> Array:
    array = node.frame_parameter(c.value, node.shape(x), "its constant").astype(np.float32)
    if not np.all(np.isfinite(array)):
        raise node.error("its constant holds values that are not finite numbers")
    return array


def _with_constant(node: Node, c: Array) -> Elementwise:
    kind = node.proto.op_type
    if kind == "Mul":
        return Mul(c.astype(np.float64))
    if kind == "Div":
        if not np.all(c):
            raise node.error("it divides by zero")
        return Div(c)
    return Add((-c if kind == "Sub" else c).astype(np.float64))


def _constant_first(node: Node, c: Array, x: Value) -> Value:
    kind = node.proto.op_type
    if kind == "Div":
        return node.add(Reciprocal(c), x)
    if kind == "Sub":  # c - x and (-x) + c round alike
        x = node.add(Mul(np.full((1,) * c.ndim, -1.0)), x, suffix="neg")
        return node.add(Add(c.astype(np.float64)), x)
    return node.add(_with_constant(node, c), x)


def _two_tensors(node: Node, left: Value, right: Value) -> Value:
    kind = node.proto.op_type
    if kind in ("Mul", "Div"):
        return node.add(Arithmetic("*" if kind == "Mul" else "/"), left, right)
    if kind == "Sub":
        rank = len(node.shape(right))
        right = node.add(Mul(np.full((1,) * rank, -1.0)), right, suffix="neg")
    return node.add(AddTensors(), left, right)


@imports("Neg")
def negate(node: Node) -> Sequence[Operand]:
    """``-x``."""
    x = node.value(0)
    return [node.add(Mul(np.full((1,) * len(node.shape(x)), -1.0)), x)]


@imports("Relu")
def relu(node: Node) -> Sequence[Operand]:
    """``max(x, 0)``."""
    return [node.add(Clip(0.0), node.value(0))]


@imports("Clip")
def clip(node: Node) -> Sequence[Operand]:
    """Bounds from attributes (opset 6) or from constant inputs."""
    lo, hi = node.number("min", float("-inf"), True), node.number("max", float("inf"), True)
    if node.has(1):
        lo = node.one_number(1, "lower bound")
    if node.has(2):
        hi = node.one_number(2, "upper bound")
    x = node.value(0)
    lo = min(lo, hi)  # ONNX: all values become hi where lo is above it
    codes = node.graph.op(x.node)
    if isinstance(codes, RawCodes):  # QCDQ: a quantizer of fewer levels
        low, high = max(lo, codes.lo), min(hi, codes.hi)
        if low <= high and low == int(low) and high == int(high):
            return [node.add(replace(codes, lo=int(low), hi=int(high)), *node.graph.sources(x.node))]
    return [node.add(Clip(lo, hi), x)]


@imports("LeakyRelu")
def leaky_relu(node: Node) -> Sequence[Operand]:
    """One slope for negative values."""
    x = node.value(0)
    slope = np.full((1,) * len(node.shape(x)), node.number("alpha", 0.01), np.float32)
    return [node.add(PRelu(slope), x)]


@imports("PRelu")
def prelu(node: Node) -> Sequence[Operand]:
    """A constant slope per channel."""
    x = node.value(0)
    given, shape = node.finite(1, "slope"), node.shape(x)
    if node.opset < 7 and given.ndim == 1:  # one slope per channel, before general broadcasting
        given = given.reshape(-1, *(1,) * (len(shape) - 1))
    slope = node.frame_parameter(given, shape, "its slope")
    if np.broadcast_shapes(slope.shape, shape) != shape:
        raise node.error(f"its slope of shape {list(given.shape)} is larger than its input")
    return [node.add(PRelu(slope.astype(np.float32)), x)]


@imports("HardSigmoid")
def hard_sigmoid(node: Node) -> Sequence[Operand]:
    """``clip(alpha * x + beta, 0, 1)``."""
    return [node.add(HardSigmoid(node.number("alpha", 0.2), node.number("beta", 0.5)), node.value(0))]


@imports("Elu", "Selu", "Celu")
def elu(node: Node) -> Sequence[Operand]:
    """Exponential linear units."""
    if node.proto.op_type == "Selu":
        selu = Elu(node.number("alpha", 1.6732631921768188), node.number("gamma", 1.0507010221481323))
        return [node.add(selu, node.value(0))]
    alpha = node.number("alpha", 1.0)
    if node.proto.op_type == "Elu":
        return [node.add(Elu(alpha), node.value(0))]
    if alpha == 0:
        raise node.error("its alpha is 0, which it divides by")
    return [node.add(Celu(alpha), node.value(0))]


@imports("ThresholdedRelu")
def thresholded_relu(node: Node) -> Sequence[Operand]:
    """Zero up to a threshold."""
    return [node.add(ThresholdedRelu(node.number("alpha", 1.0)), node.value(0))]


@imports("Pow")
def power(node: Node) -> Sequence[Operand]:
    """``x ** c``."""
    x = node.value(0)
    exponent = node.frame_parameter(node.finite(1, "exponent"), node.shape(x), "its exponent")
    return [node.add(Power(exponent.astype(np.float32)), x)]


@imports(*(name for name in Function.names() if name not in ("GeluTanh", "Float16", "Silu")))
def function(node: Node) -> Sequence[Operand]:
    """Functions of one tensor by name."""
    name = node.proto.op_type
    if name == "Gelu":
        kind = node.text("approximate", "none")
        if kind not in ("none", "tanh"):
            raise node.error(f"its approximate '{kind}' is none of none, tanh")
        name = "Gelu" if kind == "none" else "GeluTanh"
    return [node.add(Function(name), node.value(0))]


@imports("Swish")
def swish(node: Node) -> Sequence[Operand]:
    """``x * sigmoid(x)``."""
    if node.number("alpha", 1.0) != 1.0:
        raise node.unsupported("Swish with alpha other than 1")
    return [node.add(Function("Silu"), node.value(0))]


@imports("Sign")
def sign(node: Node) -> Sequence[Operand]:
    """A quantizer to -1, 0 and 1."""
    x = node.value(0)
    return [node.add(Sign(len(node.shape(x))), x)]


@imports("BatchNormalization", ignores=("momentum", "is_test"))
def batch_norm(node: Node) -> Sequence[Operand]:
    """One multiplication and one addition by constants computed in float64."""
    x = node.value(0)
    shape = node.shape(x)
    outputs = sum(1 for name in node.proto.output if name)
    if node.integer("training_mode", 0) or (node.opset < 14 and outputs > 1):  # then a second output told the mode
        raise node.error("it is in training mode; export the model in eval mode")
    if not node.integer("spatial", 1):
        raise node.unsupported("statistics per position (spatial=0)")
    names = ("scale", "bias", "mean", "variance")
    gamma, beta, mean, var = (node.constant(k + 1, name).astype(np.float64) for k, name in enumerate(names))
    channels = shape[0] if shape else 0
    for name, array in zip(names, (gamma, beta, mean, var), strict=True):
        if array.shape != (channels,):
            raise node.error(f"its {name} has shape {list(array.shape)}, but its input has {channels} channels")
    variance = var + float(np.float32(node.number("epsilon", 1e-5)))
    if np.any(variance <= 0) or not all(np.all(np.isfinite(a)) for a in (gamma, beta, mean, variance)):
        raise node.error("its variance plus epsilon must be positive and all its parameters finite")
    a = gamma / np.sqrt(variance)
    view = (-1,) + (1,) * (len(shape) - 1)
    return [node.add(BatchNorm(a.reshape(view), (beta - mean * a).reshape(view)), x)]
