"""Short ways to write ONNX models and to run them elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]
Shape = Sequence[int | str | None]

QONNX = "qonnx.custom_op.general"


def node(
    op: str, inputs: Sequence[str], outputs: Sequence[str] = ("y",), name: str | None = None, **attributes: Any
) -> Any:
    """One node; custom operators find their domain by themselves."""
    domain = attributes.pop("domain", QONNX if op in ("Quant", "BipolarQuant", "Trunc", "MultiThreshold") else "")
    return helper.make_node(op, list(inputs), list(outputs), name or f"make_{outputs[0]}", domain=domain, **attributes)


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Shape],
    constants: Mapping[str, object] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 17,
    kinds: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """A model of float inputs and outputs, unless *kinds* says otherwise; Python numbers are float32 constants."""
    kinds = kinds or {}
    initializers = []
    for name, value in (constants or {}).items():
        array = np.asarray(value)
        array = array if isinstance(value, np.ndarray | np.generic) else array.astype(np.float32)
        initializers.append(numpy_helper.from_array(array, name))
    graph = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), None) for n in outputs],
        initializers,
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(QONNX, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8 if opset < 21 else 10)


def onnxruntime_outputs(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs by ONNX Runtime, without the optimizations that change results."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))
