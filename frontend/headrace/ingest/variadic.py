"""Import rules of elementwise operators of any number of operands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.ingest.operands import Node, Operand
from headrace.ingest.rules import imports
from headrace.ir import Value
from headrace.ir.grid import Constant
from headrace.ir.op import Array
from headrace.ir.ops import Add, AddTensors, Arithmetic, Clip, Div, Limit


@imports("Sum", "Mean", "Max", "Min")
def variadic(node: Node) -> Sequence[Operand]:
    """Tensors are combined two by two from the left, then the constants, as one, are."""
    values = [x for x in node.inputs if isinstance(x, Value)]
    constants = [x.value for x in node.inputs if isinstance(x, Constant)]
    if len(values) + len(constants) != len(node.inputs) or not values:
        raise node.error("one of its operands is missing")
    y = values[0]
    for x in values[1:]:
        y = node.add(_JOINS.get(node.proto.op_type, AddTensors()), y, x)
    if constants:
        y = _with_constants(node, y, constants)
    if node.proto.op_type == "Mean" and len(node.inputs) > 1:
        y = node.add(Div(np.full((1,) * len(node.shape(y)), len(node.inputs), np.float32)), y)
    return [y]


_JOINS = {"Max": Arithmetic("max"), "Min": Arithmetic("min")}


def _with_constants(node: Node, y: Value, constants: Sequence[Array]) -> Value:
    parts = [node.frame_parameter(c, node.shape(y), "its constant").astype(np.float32) for c in constants]
    if not all(np.all(np.isfinite(p)) for p in parts):
        raise node.error("its constant holds values that are not finite numbers")
    kind = node.proto.op_type
    if kind in ("Sum", "Mean"):
        for part in parts:
            y = node.add(Add(part.astype(np.float64)), y)
        return y
    bound = parts[0]
    for part in parts[1:]:
        bound = np.maximum(bound, part) if kind == "Max" else np.minimum(bound, part)
    if bound.size == 1:
        c = float(bound.reshape(-1)[0])
        return node.add(Clip(c, float("inf")) if kind == "Max" else Clip(float("-inf"), c), y)
    far = np.full((1,) * bound.ndim, np.inf, np.float32)
    return node.add(Limit(bound, far) if kind == "Max" else Limit(-far, bound), y)
