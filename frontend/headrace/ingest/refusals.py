"""What a file holds that cannot be imported: everything at once, not only the first of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx

from headrace.errors import ModelError, UnsupportedError
from headrace.ingest.operands import Node, Operand
from headrace.ingest.rules import DOMAINS, ONNX, QONNX
from headrace.ir import Op, TensorType, Value
from headrace.ir.grid import Constant
from headrace.ir.types import MOST_ELEMENTS


@dataclass(frozen=True, eq=False)
class StandIn(Op):
    """In place of a node that was refused, so that what follows it can be looked at too; never run."""

    type: TensorType

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return (self.type,)


def stand_ins(node: Node) -> Sequence[Operand | None]:
    """Tensors in place of the outputs of a refused node, as far as their shapes are known; None for the others."""
    dynamic = [x for x in node.inputs if isinstance(x, Value)]
    if not dynamic:
        return [None for _ in node.proto.output]
    domain = DOMAINS.get(node.proto.domain)
    if domain == QONNX:  # quantizers keep the shape
        return [node.add(StandIn(TensorType(node.shape(dynamic[0])))), *(None for _ in node.proto.output[1:])]
    shapes = _inferred(node) if domain == ONNX else [None for _ in node.proto.output]
    return [None if s is None else node.add(StandIn(TensorType(s))) for s in shapes]


def _inferred(node: Node) -> list[tuple[int, ...] | None]:
    """Frame shapes of the outputs, by onnx's own inference on this node alone."""
    batch = 2
    infos, constants = [], []
    for name, x in zip(node.proto.input, node.inputs, strict=True):
        if isinstance(x, Constant):
            constants.append(onnx.numpy_helper.from_array(np.ascontiguousarray(x.value), name))
        elif x is not None:
            infos.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [batch, *node.shape(x)]))
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.proto.output if name]
    graph = onnx.helper.make_graph([node.proto], "one", infos, outputs, constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", node.opset)])
    try:
        found = onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output
    except Exception:  # the inferencer is compiled code with exceptions of its own; then nothing is known
        return [None for _ in node.proto.output]
    known = {info.name: [d.dim_value for d in info.type.tensor_type.shape.dim] for info in found}
    result: list[tuple[int, ...] | None] = []
    for name in node.proto.output:
        dims = known.get(name, [])
        usable = dims and dims[0] == batch and min(dims) > 0 and prod(dims[1:]) <= MOST_ELEMENTS
        result.append(tuple(dims[1:]) if usable else None)
    return result


def together(problems: Sequence[ModelError], file: str | None) -> ModelError:
    """One error that lists all *problems*, each with its node."""
    if len(problems) == 1:
        return problems[0]
    kind = UnsupportedError if all(isinstance(p, UnsupportedError) for p in problems) else ModelError
    listed = (p.message if p.node is None else f"node {p.node}: {p.message}" for p in problems)
    return kind("; ".join(dict.fromkeys(listed)), file=file)
