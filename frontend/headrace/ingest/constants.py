"""Folding of constant subgraphs: parameters may come from any computation on constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from headrace.errors import ModelError
from headrace.ingest.bounds import check_broadcast, check_result
from headrace.ingest.operands import Node
from headrace.ir.grid import Constant, Grid, compact
from headrace.ir.op import Array

MOVEMENT = frozenset(
    {
        "Transpose",
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Slice",
        "Split",
        "Gather",
        "Identity",
        "Expand",
        "Tile",
    }
)
"""Operators that only rearrange elements: the grid of a quantized constant moves with it."""

_LOSSLESS = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)


def fold(node: Node, constants: Sequence[Constant | None]) -> list[Constant]:
    """Evaluate *node* on constants.

    Raises:
        ModelError: when it cannot be evaluated; names the node.
    """
    values = [None if c is None else c.value for c in constants]
    results = evaluate(node, values)
    grid = constants[0].grid if constants and constants[0] is not None else None
    if grid is not None and node.proto.op_type in MOVEMENT:
        return _with_moved_grid(node, grid, values, results)
    like = constants[1] if node.proto.op_type == "CastLike" and len(constants) == 2 else None
    to = onnx.helper.np_dtype_to_tensor_dtype(like.value.dtype) if like is not None else node.integer("to", 0)
    if grid is not None and node.proto.op_type in ("Cast", "CastLike") and to in _LOSSLESS:
        return [Constant(results[0], grid)]
    return [Constant(r) for r in results]


def _with_moved_grid(node: Node, grid: Grid, values: list[Array | None], results: Sequence[Array]) -> list[Constant]:
    def move(a: Array) -> Sequence[Array]:
        return evaluate(node, [np.broadcast_to(a, grid.q.shape).copy(), *values[1:]])

    parts = zip(move(grid.q), move(grid.scale), move(grid.bias), results, strict=True)
    return [Constant(r, Grid(q, compact(scale), compact(bias))) for q, scale, bias, r in parts]


_RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
)


def evaluate(node: Node, values: Sequence[Array | None]) -> Sequence[Array]:
    """The outputs of one standard operator on arrays.

    Raises:
        ModelError: when it draws random numbers, or cannot be evaluated on these values; names the node.
    """
    if node.proto.op_type in _RANDOM:
        raise node.unsupported("it draws random numbers; a model must give the same result every time, so take it out")
    quick = _QUICK.get(node.proto.op_type)
    if {a.name for a in node.proto.attribute} - _READ.get(node.proto.op_type, set()):
        quick = None  # an attribute that only the reference implementation knows
    present = [v for v in values if v is not None]
    try:
        if quick is not None and len(present) == len(values):
            check_broadcast(node, present)
            return [quick(node, present)]
        check_result(node, values)
        with np.errstate(all="ignore"):
            return _reference(node, values)
    except ModelError:
        raise
    except Exception as error:  # the reference evaluator raises whatever its operators raise
        reason = str(error).strip().splitlines()
        raise node.error(f"it could not be evaluated on its constants: {reason[0] if reason else error!r}") from error


def _reference(node: Node, values: Sequence[Array | None]) -> Sequence[Array]:
    """The reference implementation that comes with onnx."""
    from onnx.reference import ReferenceEvaluator

    feeds = {f"i{k}": v for k, v in enumerate(values) if v is not None}
    names = [f"i{k}" if v is not None else "" for k, v in enumerate(values)]
    outputs = [f"o{k}" if name else "" for k, name in enumerate(node.proto.output)]
    proto = onnx.helper.make_node(node.proto.op_type, names, outputs)
    proto.attribute.extend(node.proto.attribute)
    infos = [
        onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in feeds.items()
    ]
    results = [onnx.helper.make_empty_tensor_value_info(name) for name in outputs if name]
    graph = onnx.helper.make_graph([proto], "fold", infos, results)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", node.opset)])
    return [np.asarray(r) for r in ReferenceEvaluator(model).run(None, feeds)]


def _constant(node: Node, values: Sequence[Array]) -> Array:
    for name, kind in (("value_float", np.float32), ("value_int", np.int64)):
        if (scalar := node.attribute(name)) is not None:
            return np.array(scalar, kind)
    for name, kind in (("value_floats", np.float32), ("value_ints", np.int64)):
        if (several := node.attribute(name)) is not None:
            return np.array(several, kind)
    tensor = node.attribute("value")
    if tensor is None:
        raise node.error("a Constant without a dense value is not supported")
    return np.asarray(onnx.numpy_helper.to_array(tensor))


def _cast(node: Node, values: Sequence[Array]) -> Array:
    return values[0].astype(onnx.helper.tensor_dtype_to_np_dtype(node.integer("to", 1)))


def _transpose(node: Node, values: Sequence[Array]) -> Array:
    return np.ascontiguousarray(values[0].transpose(node.integers("perm")))


def _divide(node: Node, values: Sequence[Array]) -> Array:
    left, right = values
    if np.result_type(left, right).kind in "iu":
        if not np.all(right):
            raise node.error("it divides integers by zero")
        return np.asarray(np.sign(left) * np.sign(right) * (np.abs(left) // np.abs(right))).astype(left.dtype)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(left / right)


def _unary(function: Callable[[Array], Array]) -> Callable[[Node, Sequence[Array]], Array]:
    return lambda node, values: np.asarray(function(values[0]))


def _same_kind(function: Callable[[Array, Array], Array]) -> Callable[[Node, Sequence[Array]], Array]:
    return lambda node, values: np.asarray(function(values[0], values[1])).astype(values[0].dtype)


_READ: dict[str, set[str]] = {
    "Constant": {"value", "value_float", "value_floats", "value_int", "value_ints", "value_string", "sparse_value"},
    "Cast": {"to", "saturate"},
    "Transpose": {"perm"},
}
"""Attributes that the quick implementations honour."""

_QUICK: dict[str, Callable[[Node, Sequence[Array]], Array]] = {
    "Constant": _constant,
    "Cast": _cast,
    "Transpose": _transpose,
    "Identity": _unary(lambda x: x),
    "Shape": _unary(lambda x: np.array(x.shape, np.int64)),
    "Abs": _unary(np.abs),
    "Neg": _unary(np.negative),
    "Sqrt": _unary(np.sqrt),
    "Add": _same_kind(np.add),
    "Sub": _same_kind(np.subtract),
    "Mul": _same_kind(np.multiply),
    "Pow": _same_kind(np.power),
    "Div": _divide,
}
