"""Import rules of elementwise operators."""

from __future__ import annotations

from collections.abc import Sequence

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
    Clip,
    Div,
    Elementwise,
    Elu,
    Function,
    HardSigmoid,
    Mul,
    Power,
    PRelu,
    Reciprocal,
)


@imports("Add", "Sub", "Mul", "Div", "Sum")
def binary(node: Node) -> Sequence[Operand]:
    """Arithmetic with a constant on either side, or of two tensors."""
    if len(node.inputs) != 2:
        raise node.unsupported(f"{node.proto.op_type} of {len(node.inputs)} operands; two are supported")
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
    lo, hi = node.number("min", float("-inf")), node.number("max", float("inf"))
    if node.has(1):
        lo = float(node.constant(1, "lower bound").reshape(-1)[0])
    if node.has(2):
        hi = float(node.constant(2, "upper bound").reshape(-1)[0])
    if not lo <= hi:
        raise node.error(f"its lower bound {lo} is above its upper bound {hi}")
    return [node.add(Clip(lo, hi), node.value(0))]


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
    slope = node.frame_parameter(node.constant(1, "slope"), node.shape(x), "its slope")
    return [node.add(PRelu(slope.astype(np.float32)), x)]


@imports("HardSigmoid")
def hard_sigmoid(node: Node) -> Sequence[Operand]:
    """``clip(alpha * x + beta, 0, 1)``."""
    return [node.add(HardSigmoid(node.number("alpha", 0.2), node.number("beta", 0.5)), node.value(0))]


@imports("Elu", "Selu", "Celu")
def elu(node: Node) -> Sequence[Operand]:
    """Exponential linear units."""
    kind = node.proto.op_type
    if kind == "Selu":
        op = Elu(node.number("alpha", 1.6732631921768188), node.number("gamma", 1.0507010221481323))
    else:
        op = Elu(node.number("alpha", 1.0))
        if kind == "Celu" and op.alpha != 1.0:
            raise node.unsupported("Celu with alpha other than 1")
    return [node.add(op, node.value(0))]


@imports("Pow")
def power(node: Node) -> Sequence[Operand]:
    """``x ** c``."""
    x = node.value(0)
    exponent = node.frame_parameter(node.constant(1, "exponent"), node.shape(x), "its exponent")
    return [node.add(Power(exponent.astype(np.float32)), x)]


@imports(*Function.names())
def function(node: Node) -> Sequence[Operand]:
    """Functions of one tensor by name."""
    return [node.add(Function(node.proto.op_type), node.value(0))]


@imports("BatchNormalization")
def batch_norm(node: Node) -> Sequence[Operand]:
    """One multiplication and one addition by constants computed in float64."""
    x = node.value(0)
    shape = node.shape(x)
    if node.integer("training_mode", 0):
        raise node.error("it is in training mode; export the model in eval mode")
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
