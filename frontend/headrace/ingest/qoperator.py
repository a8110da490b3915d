"""Import rules of operators on integers: ONNX's own and those of com.microsoft.

Every one is taken apart: zero points off the integers, an integer product, an integer bias, one float32 multiplication
by ``scale_a * scale_b / scale_y`` (each rounded to float32, as onnxruntime computes it), rounding, the zero point on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from headrace.ingest.linear import rearranged, window
from headrace.ingest.operands import Node, Operand, frame_axis
from headrace.ingest.quantizers import INTEGERS
from headrace.ingest.rules import MICROSOFT, imports
from headrace.ir import Shape, Value
from headrace.ir.grid import Constant, Grid
from headrace.ir.integer import Transpose
from headrace.ir.op import Array
from headrace.ir.ops import (
    Add,
    AddTensors,
    Arithmetic,
    AveragePool,
    Concat,
    Conv,
    Function,
    MatMul,
    Move,
    Mul,
    Offset,
    PRelu,
    RawCodes,
)

Single = NDArray[np.float32]

# -- operands -------------------------------------------------------------------------------------------------------


def _zero(node: Node, position: int) -> Array:
    """A constant zero point; 0 when it is left out."""
    return node.constant(position, "zero point").astype(np.int64) if node.has(position) else np.zeros((), np.int64)


def _scale(node: Node, position: int) -> Single:
    scale = node.constant(position, "scale").astype(np.float32)
    if not np.all(np.isfinite(scale)) or np.any(scale <= 0):
        raise node.error("its scale must be finite and positive")
    return scale


def _one(node: Node, values: Array) -> Any:
    """The one element of *values*."""
    if values.size != 1:
        raise node.unsupported(f"{values.size} scales or zero points for its output; one is supported")
    return values.reshape(-1)[0]


def _codes(node: Node, position: int, zero: Array, suffix: str = "zero") -> Value:
    """The integers of an operand that depends on the input, with one zero point taken off."""
    x = node.value(position)
    if zero.size != 1:
        raise node.unsupported(f"{zero.size} zero points for its input {position}; one is supported")
    if not np.any(zero):
        return x
    return node.add(Add(np.full((1,) * len(node.shape(x)), -float(zero.reshape(-1)[0]))), x, suffix=suffix)


def _weights(node: Node, position: int, zero: Array, axis: int) -> Constant:
    """Constant integers with their zero point taken off: one, or one per index of *axis*."""
    operand = node.operand(position)
    if isinstance(operand, Value):
        raise node.unsupported(f"its input {position} depends on the input; constant weights are supported")
    values = operand.value
    if values.dtype.kind not in "iu" or values.size == 0:
        raise node.error(f"its weights must be integers, not {values.dtype}")
    q = values.astype(np.int64) - _along(node, zero, values.shape, axis, "zero points")
    ones = np.ones((1,) * q.ndim)
    return Constant(q.astype(np.float32), Grid(q, ones, np.zeros_like(ones)))


def _along(node: Node, parameter: Array, shape: Shape, axis: int, what: str) -> Array:
    """*parameter* as it broadcasts along *axis* of *shape*."""
    if parameter.size == 1:
        return parameter.reshape((1,) * len(shape))
    if parameter.size != shape[axis]:
        raise node.error(f"it has {parameter.size} {what} for {shape[axis]} channels")
    view = [1] * len(shape)
    view[axis] = -1
    return parameter.reshape(view)


def _quantized(node: Node, y: Value, scale: Array, zero: int, where: int, zero_first: bool = False) -> Value:
    """Codes ``saturate(round(y / scale) + zero)`` of the type of the constant at input *where*.

    *zero_first*: ``saturate(round(y / scale + zero))`` instead.
    """
    rank = len(node.shape(y))
    kind = node.constant(where, "output zero point").dtype if node.has(where) else np.dtype(np.uint8)
    if kind.kind not in "iu":
        raise node.error(f"its output zero point must be an integer, not {kind}")
    lo, hi = INTEGERS[onnx.helper.np_dtype_to_tensor_dtype(kind)]
    one = np.ones((1,) * rank, np.float32)
    return node.add(RawCodes(one * np.float32(scale), one * zero, lo, hi, zero_first=zero_first), y)


def _rescaled(node: Node, acc: Value, factor: Single, axis: int, where: int) -> Value:
    """Accumulators times *factor*, rounded and given the zero point at input *where*."""
    shape = node.shape(acc)
    scaled = node.add(Mul(_along(node, factor, shape, axis, "scales").astype(np.float64)), acc, suffix="scale")
    return _quantized(node, scaled, np.ones(()), int(_one(node, _zero(node, where))), where)


def _with_bias(node: Node, acc: Value, position: int, axis: int) -> Value:
    """Accumulators plus a constant integer bias, if there is one."""
    if not node.has(position):
        return acc
    bias = node.constant(position, "bias")
    if bias.dtype.kind not in "iu":
        raise node.error(f"its bias must be integers, not {bias.dtype}")
    term = _along(node, bias.astype(np.int64).reshape(-1), node.shape(acc), axis, "biases")
    return node.add(Offset(term), acc, suffix="bias") if np.any(term) else acc


# -- products -------------------------------------------------------------------------------------------------------


def _convolution(node: Node, x: int, w: int, x_zero: int, w_zero: int) -> Value:
    """The integer convolution of inputs *x* and *w* with zero points at *x_zero* and *w_zero*."""
    weights = _weights(node, w, _zero(node, w_zero), 0)
    codes = _codes(node, x, _zero(node, x_zero))
    shape, kernel = node.shape(codes), tuple(weights.value.shape[2:])
    if len(kernel) not in (1, 2) or len(shape) != len(kernel) + 1:
        raise node.unsupported(
            f"a convolution of frames {list(shape)} with weights {list(weights.value.shape)}; 1-D and 2-D are supported"
        )
    given = node.integers("kernel_shape")
    if given is not None and given != kernel:
        raise node.error(f"its kernel_shape {list(given)} contradicts its weights {list(weights.value.shape)}")
    strides, dilations, pads = window(node, shape[1:], kernel)
    groups = node.integer("group", 1)
    if groups < 1 or weights.value.shape[0] % groups:
        raise node.error(f"group={groups} does not divide its {weights.value.shape[0]} output channels")
    return node.add(Conv(weights, strides, dilations, pads, groups), codes, suffix="sum" if w == 3 else "")


@imports("ConvInteger")
def conv_integer(node: Node) -> Sequence[Operand]:
    """Accumulators of a convolution of integers."""
    return [_convolution(node, 0, 1, 2, 3)]


@imports("QLinearConv")
def qlinear_conv(node: Node) -> Sequence[Operand]:
    """A convolution of codes, requantized; ``channels_last`` is an extension that is not supported."""
    acc = _with_bias(node, _convolution(node, 0, 3, 2, 5), 8, 0)
    factor = _scale(node, 1).reshape(-1) * _scale(node, 4).reshape(-1) / _scale(node, 6).reshape(-1)
    return [_rescaled(node, acc, factor, 0, 7)]


def _product(node: Node, a: int, b: int, a_zero: int, b_zero: int, transposed: bool = False) -> Value:
    """The integer product of inputs *a* and *b*, the second constant, or the first for operands of two frame axes."""
    left, right = node.operand(a), node.operand(b)
    if isinstance(left, Value) and isinstance(right, Value):
        raise node.unsupported(
            "it multiplies two tensors that both depend on the input; constant weights on one side are supported"
        )
    if isinstance(left, Constant):
        if left.value.ndim != 2 or len(node.shape(node.value(b))) < 2:
            raise node.unsupported(f"constant weights of shape {list(left.value.shape)} on the left")
        rank = len(node.shape(node.value(b)))
        swap = (*range(rank - 2), rank - 1, rank - 2)
        weights = rearranged(_weights(node, a, _zero(node, a_zero), 0), lambda w: w.T)
        x = node.add(Move(Transpose(swap)), _codes(node, b, _zero(node, b_zero)), suffix="in")
        return node.add(Move(Transpose(swap)), node.add(MatMul(weights), x, suffix="sum"), suffix="out")
    weights = _weights(node, b, _zero(node, b_zero), 0 if transposed else 1)
    if weights.value.ndim != 2:
        raise node.unsupported(f"weights of shape {list(weights.value.shape)}; a matrix is supported")
    if transposed:
        weights = rearranged(weights, lambda w: w.T)
    return node.add(MatMul(weights), _codes(node, a, _zero(node, a_zero)), suffix="sum")


@imports("MatMulInteger")
def matmul_integer(node: Node) -> Sequence[Operand]:
    """Accumulators of a product of integers."""
    return [_product(node, 0, 1, 2, 3)]


@imports("QLinearMatMul")
def qlinear_matmul(node: Node) -> Sequence[Operand]:
    """A product of codes, requantized."""
    acc = _product(node, 0, 3, 2, 5)
    factor = _scale(node, 1).reshape(-1) * _scale(node, 4).reshape(-1) / _scale(node, 6).reshape(-1)
    axis = len(node.shape(acc)) - (2 if isinstance(node.operand(0), Constant) else 1)
    return [_rescaled(node, acc, factor, axis, 7)]


@imports("QGemm", domain=MICROSOFT)
def qgemm(node: Node) -> Sequence[Operand]:
    """``alpha * A @ B + C`` on codes; real where no output scale is given."""
    if node.integer("transA", 0):
        raise node.unsupported("transA=1 would sum over the batch axis")
    acc = _product(node, 0, 3, 2, 5, transposed=bool(node.integer("transB", 0)))
    acc = _with_bias(node, acc, 6, len(node.shape(acc)) - 1)
    factor = np.float32(node.number("alpha", 1.0)) * _scale(node, 1).reshape(-1) * _scale(node, 4).reshape(-1)
    if not node.has(7):
        scale = _along(node, factor, node.shape(acc), len(node.shape(acc)) - 1, "scales")
        return [node.add(Mul(scale.astype(np.float64)), acc)]
    return [_rescaled(node, acc, factor / _scale(node, 7).reshape(-1), len(node.shape(acc)) - 1, 8)]


# -- elementwise operators and pools on codes: dequantize, compute in float32, quantize -------------------------------


def _real(node: Node, position: int) -> Value | Constant:
    """The real tensor of the codes at *position*, with scale and zero point in the next two inputs."""
    scale, zero = _scale(node, position + 1), _zero(node, position + 2)
    if scale.size != 1 or zero.size != 1:
        raise node.unsupported("a scale per channel; one for the whole tensor is supported")
    operand = node.operand(position)
    if isinstance(operand, Constant):
        q = operand.value.astype(np.int64) - zero.reshape(-1)[0]
        return Constant(q.astype(np.float32) * scale.reshape(-1)[0])
    codes = _codes(node, position, zero, suffix=f"zero{position}")
    factor = np.full((1,) * len(node.shape(codes)), float(scale.reshape(-1)[0]))
    return node.add(Mul(factor), codes, suffix=f"real{position}")


def _real_value(node: Node, position: int) -> Value:
    found = _real(node, position)
    if isinstance(found, Constant):
        raise node.error(f"input {position} is a constant where a tensor that depends on the input is expected")
    return found


def _requantized(node: Node, y: Value, scale: int, zero: int, zero_first: bool = False) -> list[Operand]:
    step, offset = _one(node, _scale(node, scale)), int(_one(node, _zero(node, zero)))
    return [_quantized(node, y, step, offset, zero, zero_first)]


@imports("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def qlinear_binary(node: Node) -> Sequence[Operand]:
    """Sum or product of two dequantized tensors; ONNX Runtime rounds them with the zero point added."""
    left, right = _real(node, 0), _real(node, 3)
    adds = node.proto.op_type == "QLinearAdd"
    if isinstance(left, Constant):
        left, right = right, left
    if isinstance(left, Constant):
        raise node.error("both operands are constant")
    if isinstance(right, Constant):
        c = node.frame_parameter(right.value, node.shape(left), "its constant").astype(np.float64)
        y = node.add(Add(c) if adds else Mul(c), left, suffix="real")
    else:
        y = node.add(AddTensors() if adds else Arithmetic("*"), left, right, suffix="real")
    return _requantized(node, y, 6, 7, zero_first=True)


@imports("QLinearSigmoid", "QLinearLeakyRelu", domain=MICROSOFT)
def qlinear_unary(node: Node) -> Sequence[Operand]:
    """A function of a dequantized tensor."""
    x = _real_value(node, 0)
    if node.proto.op_type == "QLinearSigmoid":
        return _requantized(node, node.add(Function("Sigmoid"), x, suffix="real"), 3, 4)
    slope = np.full((1,) * len(node.shape(x)), node.number("alpha", 0.01), np.float32)
    return _requantized(node, node.add(PRelu(slope), x, suffix="real"), 3, 4)


@imports("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(node: Node) -> Sequence[Operand]:
    """Dequantized tensors joined; the output's scale and zero point come first."""
    parts = [_real_value(node, k) for k in range(2, len(node.inputs), 3)]
    axis = frame_axis(node, node.integer("axis", 1), len(node.shape(parts[0])))
    y = parts[0] if len(parts) == 1 else node.add(Concat(axis), *parts, suffix="real")
    return _requantized(node, y, 0, 1)


@imports("QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_global_average(node: Node) -> Sequence[Operand]:
    """The mean of a dequantized image."""
    if node.integer("channels_last", 0):
        raise node.unsupported("channels_last=1")
    x = _real_value(node, 0)
    size = node.shape(x)[1:]
    ones, none = (1,) * len(size), ((0, 0),) * len(size)
    return _requantized(node, node.add(AveragePool(size, ones, ones, none), x, suffix="real"), 3, 4)
