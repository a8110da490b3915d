"""Bounds on what a file can make the compiler compute: a few bytes can ask for terabytes, or for endless work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod

import numpy as np
import onnx

from headrace.errors import ModelError
from headrace.ingest.operands import Node
from headrace.ir.grid import Constant
from headrace.ir.op import Array
from headrace.ir.types import MOST_ELEMENTS

GROWTH = 32
"""Elements that all computed constants of a model may have for each one of its initializers, beyond a fixed number."""

MOST_NODES = 1_000_000
"""Nodes of a model whose local functions are inlined."""

_CONTROL = frozenset({"Loop", "Scan", "SequenceMap", "If"})
"""Operators that run graphs of their own."""

_SIZED = frozenset(
    {
        *("ConstantOfShape", "Expand", "Tile", "Range", "Resize", "Upsample", "Pad", "OneHot", "EyeLike", "Col2Im"),
        *("CenterCropPad", "AffineGrid", "MaxUnpool", "HannWindow", "HammingWindow", "BlackmanWindow", "GridSample"),
        *("MelWeightMatrix", "DFT", "STFT", "Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "DeformConv"),
        *("AveragePool", "MaxPool", "LpPool", "RoiAlign", "MaxRoiPool"),
    }
)
"""Operators whose parameters say how large the result is."""

_SMALL = 256
"""Elements of an operand that may be a shape or a number of repeats."""

_Functions = dict[tuple[str, str, str], onnx.FunctionProto]


def check_result(node: Node, values: Sequence[Array | None]) -> None:
    """Refuse a standard operator whose results on *values* would be out of proportion, before it is computed.

    Raises:
        ModelError: names the node.
    """
    operator = node.proto.op_type
    if operator in _CONTROL:
        raise node.error("it has a graph of its own (control flow), which cannot be evaluated on constants")
    limit = max(MOST_ELEMENTS, 4 * max((v.size for v in values if v is not None), default=0))
    shapes = _shapes(node, values)
    for shape in shapes:
        if shape is not None and prod(shape) > limit:
            raise too_large(node, shape)
    if operator in _SIZED and any(shape is None for shape in shapes):
        raise node.error("how large its result is cannot be told from its constants")


def check_broadcast(node: Node, values: Sequence[Array]) -> None:
    """Refuse constants that are small each, but would be large where they are broadcast to each other.

    Raises:
        ModelError: names the node.
    """
    try:
        shape = np.broadcast_shapes(*(v.shape for v in values))
    except ValueError:
        return  # whoever computes with them says so
    if prod(shape) > max(MOST_ELEMENTS, 4 * max((v.size for v in values), default=0)):
        raise too_large(node, shape)


def too_large(node: Node, shape: Sequence[int]) -> ModelError:
    """The error for a constant of *shape*."""
    return node.error(
        f"it would make a constant of shape {list(shape)}; constants of up to {MOST_ELEMENTS:,} elements are computed"
    )


def _shapes(node: Node, values: Sequence[Array | None]) -> list[tuple[int, ...] | None]:
    """Shapes of the outputs by onnx's own inference; None where it does not know."""
    infos, constants, names = [], [], []
    for k, v in enumerate(values):
        names.append("" if v is None else f"i{k}")
        if v is None:
            continue
        if v.size <= _SMALL:
            constants.append(onnx.numpy_helper.from_array(np.ascontiguousarray(v).reshape(v.shape), names[-1]))
        else:
            kind = onnx.helper.np_dtype_to_tensor_dtype(v.dtype)
            infos.append(onnx.helper.make_tensor_value_info(names[-1], kind, v.shape))
    outputs = [f"o{k}" if name else "" for k, name in enumerate(node.proto.output)]
    proto = onnx.helper.make_node(node.proto.op_type, names, outputs)
    proto.attribute.extend(node.proto.attribute)
    results = [onnx.helper.make_empty_tensor_value_info(name) for name in outputs if name]
    graph = onnx.helper.make_graph([proto], "one", infos, results, constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", node.opset)])
    try:
        found = onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output
    except Exception:  # the inferencer is compiled code with exceptions of its own; then nothing is known
        return [None for _ in results]
    return [_known_shape(info) for info in found]


def _known_shape(info: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    kind = info.type.tensor_type
    if not kind.HasField("shape") or not all(d.HasField("dim_value") for d in kind.shape.dim):
        return None
    return tuple(d.dim_value for d in kind.shape.dim)


def check_functions(model: onnx.ModelProto, file: str | None) -> None:
    """Refuse local functions that call themselves, or each other so often that inlining them would not end.

    Raises:
        ModelError: names the function.
    """
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    sizes: dict[tuple[str, str, str], int] = {}
    for key in functions:
        _measure(key, functions, sizes, file)
    total = sum(sizes.get(_called(node), 1) for node in _nodes(model.graph.node))
    if total > MOST_NODES:
        raise ModelError(
            f"its local functions stand for {_count(total)} nodes; up to {MOST_NODES:,} are read", file=file
        )


def _measure(
    key: tuple[str, str, str], functions: _Functions, sizes: dict[tuple[str, str, str], int], file: str | None
) -> None:
    """Note how many nodes a function stands for, after those that it calls."""
    open_, path = [key], set()
    while open_:
        here = open_[-1]
        called = [c for c in map(_called, _nodes(functions[here].node)) if c in functions]
        waiting = [c for c in called if c not in sizes]
        if here in sizes or not waiting:
            sizes.setdefault(here, sum(sizes.get(_called(n), 1) for n in _nodes(functions[here].node)))
            path.discard(here)
            open_.pop()
            continue
        path.add(here)
        if any(c in path for c in waiting):
            raise ModelError(f"its local function '{here[1]}' calls itself", file=file)
        open_.append(waiting[0])


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**15 else "more than 10^15"


def _called(node: onnx.NodeProto) -> tuple[str, str, str]:
    return node.domain, node.op_type, node.overload


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _nodes(graph.node)


def check_numbers(node: Node) -> None:
    """Refuse constants that are text or complex numbers, which no rule reads.

    Raises:
        ModelError: names the constant.
    """
    for name, x in zip(node.proto.input, node.inputs, strict=True):
        if isinstance(x, Constant) and x.value.dtype.kind in "cOSU":
            what = "complex numbers" if x.value.dtype.kind == "c" else "text"
            raise node.error(f"its constant '{name}' holds {what}; real numbers are read")
