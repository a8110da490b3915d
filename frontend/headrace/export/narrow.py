"""Weights in the smallest data type of the requested opset: two or four bits each instead of eight.

``DequantizeLinear`` takes 4-bit integers since opset 21 and 2-bit integers since opset 25; ``Clip`` takes neither, and
constants that are within their range have no need of it.
"""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper, numpy_helper

from headrace.export.cleanup import remove_unused

_SINCE = {"INT2": (25, -2, 1), "UINT2": (25, 0, 3), "INT4": (21, -8, 7), "UINT4": (21, 0, 15)}
"""Opset, smallest and largest value of the types below 8 bits, narrowest first."""
_SIGNED: dict[int, bool] = {TensorProto.INT8: True, TensorProto.UINT8: False}
_IR_VERSIONS = {"2": 13, "4": 10}
"""The version of ONNX's format that has the types of these widths."""


def store_narrow(model: onnx.ModelProto, opset_version: int) -> None:
    """Put constant weights that are dequantized into the narrowest type that holds them; in place.

    Args:
        model: standard ONNX at *opset_version*.
        opset_version: before 21 nothing changes.
    """
    graph = model.graph
    constants = {i.name: i for i in graph.initializer}
    producer = {node.output[0]: node for node in graph.node}
    for node in graph.node:
        if node.op_type != "DequantizeLinear":
            continue
        clip = producer.get(node.input[0])
        name = clip.input[0] if clip is not None and clip.op_type == "Clip" else node.input[0]
        weight, zero_point = constants.get(name), constants.get(node.input[2]) if len(node.input) > 2 else None
        if weight is None or zero_point is None or weight.data_type not in _SIGNED:
            continue
        narrow = _narrowest(weight, zero_point, opset_version)
        if narrow is not None:
            node.input[0] = _stored(graph, weight, narrow)
            node.input[2] = _stored(graph, zero_point, narrow)
            model.ir_version = max(model.ir_version, _IR_VERSIONS[narrow[-1]])
    remove_unused(graph)


def _narrowest(weight: TensorProto, zero_point: TensorProto, opset_version: int) -> str | None:
    """The narrowest type that holds both at the opset, ``None`` where that is the one they have."""
    values = [numpy_helper.to_array(t) for t in (weight, zero_point)]
    least, most = min(int(v.min(initial=0)) for v in values), max(int(v.max(initial=0)) for v in values)
    for name, (since, low, high) in _SINCE.items():
        fits = opset_version >= since and low <= least and most <= high
        if fits and name.startswith("INT") == _SIGNED[weight.data_type]:
            return name
    return None


def _stored(graph: onnx.GraphProto, tensor: TensorProto, kind: str) -> str:
    """The name of *tensor* in another type: a new one, because others may read the one that is there."""
    name = f"{tensor.name}_{kind.lower()}"
    if all(i.name != name for i in graph.initializer):
        data_type = TensorProto.DataType.Value(kind)
        values = numpy_helper.to_array(tensor).astype(helper.tensor_dtype_to_np_dtype(data_type))
        graph.initializer.append(numpy_helper.from_array(values, name))
    return name
