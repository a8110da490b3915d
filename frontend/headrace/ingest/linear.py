"""Import rules of products with constant weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from headrace.ingest.operands import Node, Operand
from headrace.ingest.rules import imports
from headrace.ir import Value
from headrace.ir.grid import Constant, Grid, compact, find_grid
from headrace.ir.integer import Reshape, Transpose
from headrace.ir.op import Array
from headrace.ir.ops import Add, Conv, MatMul, Move, Mul


def checked(node: Node, weights: Constant) -> Constant:
    """*weights*, if there are any and all of them are numbers.

    Raises:
        ModelError: otherwise.
    """
    if weights.value.size == 0 or (weights.value.dtype.kind == "f" and not np.all(np.isfinite(weights.value))):
        raise node.error(
            f"its weights {list(weights.value.shape)} must hold at least one value, and finite numbers only"
        )
    return weights


def with_grid(weights: Constant, axis: int) -> Constant:
    """*weights* with the integer grid they lie on, found from their values when no quantizer gave it."""
    if weights.grid is not None:
        return weights
    return Constant(weights.value, find_grid(weights.value, axis))


def rearranged(weights: Constant, by: Callable[[Array], Array]) -> Constant:
    """*weights* with elements moved, grid included."""
    grid = weights.grid
    if grid is not None:
        scale, bias = (compact(by(np.broadcast_to(a, grid.q.shape))) for a in (grid.scale, grid.bias))
        grid = Grid(by(grid.q), scale, bias)
    return Constant(by(weights.value), grid)


def moved(weights: Constant, by: tuple[int, ...]) -> Constant:
    """*weights* with axes permuted, grid included."""
    return rearranged(weights, lambda a: a.transpose(by))


def as_matrix(node: Node, weights: Constant) -> Constant:
    """Weights as a matrix: leading axes of one dropped, a vector made a column."""
    shape = checked(node, weights).value.shape
    if weights.value.ndim == 1:
        wanted: tuple[int, ...] = (shape[0], 1)
    elif not shape:
        raise node.error("its weights are one number; expected a matrix")
    elif all(n == 1 for n in shape[:-2]):
        wanted = shape[-2:]
    else:
        raise node.unsupported(f"weights of shape {list(shape)}: a different matrix per batch entry")
    return rearranged(weights, lambda a: a.reshape(wanted))


@imports("MatMul")
def matmul(node: Node) -> Sequence[Operand]:
    """A product with constant weights on either side."""
    left, right = node.operand(0), node.operand(1)
    if isinstance(left, Value) and isinstance(right, Value):
        raise node.unsupported(
            "it multiplies two tensors that both depend on the input; MatMul is supported with constant weights on "
            "one side"
        )
    if isinstance(left, Value):
        assert isinstance(right, Constant)
        result = node.add(MatMul(with_grid(as_matrix(node, right), 1)), left)
        if right.value.ndim == 1:
            result = node.add(Move(Reshape(node.shape(result)[:-1])), result, suffix="squeeze")
        return [result]
    assert isinstance(left, Constant)
    assert isinstance(right, Value)
    rank = len(node.shape(right))
    if rank < 2:
        raise node.unsupported("constant weights on the left of a vector per frame would sum over the batch axis")
    swap = (*range(rank - 2), rank - 1, rank - 2)
    matrix = as_matrix(node, left)  # a vector comes back as the column it multiplies by after the swap
    weights = with_grid(matrix if left.value.ndim == 1 else moved(matrix, (1, 0)), 1)
    y = node.add(MatMul(weights), node.add(Move(Transpose(swap)), right, suffix="in"))
    if left.value.ndim == 1:
        return [node.add(Move(Reshape(node.shape(y)[:-1])), y, suffix="squeeze")]
    return [node.add(Move(Transpose(swap)), y, suffix="out")]


@imports("Gemm", ignores=("broadcast",))  # opset 6 had to ask for it
def gemm(node: Node) -> Sequence[Operand]:
    """``alpha * A @ B + beta * C`` with constant B and C."""
    x = node.value(0)
    if node.integer("transA", 0):
        raise node.unsupported("transA=1 would sum over the batch axis")
    weights = node.operand(1)
    if isinstance(weights, Value):
        raise node.unsupported("its B depends on the input; constant weights are supported")
    if checked(node, weights).value.ndim != 2 or len(node.shape(x)) != 1:
        raise node.error(
            f"its operands have shapes {['N', *node.shape(x)]} and {list(weights.value.shape)}; matrices are needed"
        )
    if node.integer("transB", 0):
        weights = moved(weights, (1, 0))
    y = node.add(MatMul(with_grid(weights, 1)), x)
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    if alpha != 1.0:
        y = node.add(Mul(np.full((1,), np.float32(alpha), np.float64)), y, suffix="alpha")
    if node.has(2) and beta != 0.0:
        term = node.frame_parameter(node.constant(2, "bias"), node.shape(y), "its bias").astype(np.float32)
        y = add_bias(node, (term * np.float32(beta)) if beta != 1.0 else term, y)
    return [y]


def add_bias(node: Node, term: Array, y: Value) -> Value:
    """*y* plus a constant *term*, if that is not zero."""
    if not np.all(np.isfinite(term)):
        raise node.error("its bias holds values that are not finite numbers")
    return node.add(Add(term.astype(np.float64)), y, suffix="bias") if np.any(term) else y


def window(
    node: Node, size: tuple[int, ...], kernel: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...]]:
    """Strides, dilations and pads of a convolution or pool, with ONNX's defaults and auto_pad."""
    rank = len(kernel)
    if min(kernel) < 1:
        raise node.error(f"its kernel {list(kernel)} must hold positive numbers")
    strides = node.integers("strides") or (1,) * rank
    dilations = node.integers("dilations") or (1,) * rank
    if len(strides) != rank or len(dilations) != rank or min(strides) < 1 or min(dilations) < 1:
        raise node.error(f"its strides {list(strides)} and dilations {list(dilations)} must be {rank} positive numbers")
    auto = node.text("auto_pad", "NOTSET")
    flat = node.integers("pads") or (0,) * (2 * rank)
    if auto in ("NOTSET", ""):
        if len(flat) != 2 * rank or min(flat) < 0:
            raise node.error(f"its pads {list(flat)} must be {2 * rank} numbers, none negative")
        return strides, dilations, tuple(zip(flat[:rank], flat[rank:], strict=True))
    if auto == "VALID":
        return strides, dilations, ((0, 0),) * rank
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        raise node.error(f"its auto_pad '{auto}' is none of NOTSET, VALID, SAME_UPPER, SAME_LOWER")
    pads = []
    for n, k, s, d in zip(size, kernel, strides, dilations, strict=True):
        total = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
        small, large = total // 2, total - total // 2
        pads.append((small, large) if auto == "SAME_UPPER" else (large, small))
    return strides, dilations, tuple(pads)


@imports("Conv")
def conv(node: Node) -> Sequence[Operand]:
    """Convolution with constant weights and one or two spatial axes."""
    x = node.value(0)
    weights = node.operand(1)
    if isinstance(weights, Value):
        raise node.unsupported("its weights depend on the input; constant weights are supported")
    shape, kernel = node.shape(x), tuple(checked(node, weights).value.shape[2:])
    if len(kernel) not in (1, 2) or len(shape) != len(kernel) + 1:
        raise node.unsupported(
            f"a convolution of frames {list(shape)} with weights {list(weights.value.shape)}; 1-D and 2-D ones are "
            "supported"
        )
    given = node.integers("kernel_shape")
    if given is not None and given != kernel:
        raise node.error(f"its kernel_shape {list(given)} contradicts its weights {list(weights.value.shape)}")
    strides, dilations, pads = window(node, shape[1:], kernel)
    groups = node.integer("group", 1)
    if groups < 1 or weights.value.shape[0] % groups:
        raise node.error(f"group={groups} does not divide its {weights.value.shape[0]} output channels")
    y = node.add(Conv(with_grid(weights, 0), strides, dilations, pads, groups), x)
    if node.has(2):
        bias = node.constant(2, "bias").astype(np.float32)
        if bias.shape != (weights.value.shape[0],):
            raise node.error(f"its bias has shape {list(bias.shape)} for {weights.value.shape[0]} output channels")
        y = add_bias(node, bias.reshape(-1, *(1,) * len(kernel)), y)
    return [y]
