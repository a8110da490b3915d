"""ONNX models of a few nodes, and what every one of them is held to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from headrace.ingest import from_proto
from headrace.passes import IntegerModel, to_integer

Array = NDArray[Any]

QONNX = "qonnx.custom_op.general"
MICROSOFT = "com.microsoft"
DOMAINS = {"": 17, QONNX: 1, MICROSOFT: 1, "qonnx.custom_op.channels_last": 1}
KINDS = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.uint8): TensorProto.UINT8,
    np.dtype(np.int8): TensorProto.INT8,
}


class Model:
    """A model under construction; tensors are names, constants are stored as they come."""

    def __init__(self, *shape: int, dtype: type = np.float32, opset: int = 17) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.opset = opset
        self.x = self.input("x", *shape, dtype=dtype) if shape else ""

    def input(self, name: str, *shape: int, dtype: type = np.float32) -> str:
        kind = KINDS[np.dtype(dtype)]
        self.inputs.append(helper.make_tensor_value_info(name, kind, ["N", *shape]))
        return name

    def constant(self, values: object, dtype: type = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def node(self, operator: str, *inputs: str, domain: str = "", outputs: int = 1, **attributes: Any) -> Any:
        stem = f"{operator.lower()}{len(self.nodes)}"
        names = [stem if k == 0 else f"{stem}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, f"n_{stem}", domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def qdq(self, x: str, scale: object = 0.25, zero: int = 0, dtype: type = np.int8) -> str:
        """Codes and back."""
        parameters = [self.constant(scale), self.constant(zero, dtype)]
        return str(self.node("DequantizeLinear", self.node("QuantizeLinear", x, *parameters), *parameters))

    def quant(self, x: str, scale: object = 0.25, bits: int = 4, signed: bool = True, zero: float = 0) -> str:
        """A QONNX quantizer."""
        parameters = [self.constant(scale), self.constant(zero), self.constant(bits)]
        return str(self.node("Quant", x, *parameters, domain=QONNX, signed=int(signed), narrow=0))

    def weights(self, q: Array, scale: object = 0.5, axis: int = 0) -> str:
        """Dequantized int8 constants."""
        zeros = np.zeros(np.shape(scale), np.int8)
        parameters = [self.constant(q, np.int8), self.constant(scale), self.constant(zeros, np.int8)]
        return str(self.node("DequantizeLinear", *parameters, **({"axis": axis} if np.ndim(scale) else {})))

    def output(self, name: str, kind: int = TensorProto.FLOAT) -> str:
        self.outputs.append(helper.make_tensor_value_info(name, kind, None))
        return name

    def proto(self) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, "net", self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid(d, self.opset if not d else v) for d, v in DOMAINS.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def frames(*shape: int, count: int = 40, size: float = 8.0, seed: int = 0) -> Array:
    """Real frames, many values of them on quarters, the first ones extreme."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-size, size, (count, *shape)).astype(np.float32)
    x[::2] = np.round(x[::2] * 4) / 4
    x[0], x[1] = -1e6, 1e6
    return x


def same_in_both_modes(model: Model, feeds: Mapping[str, Array], blockers: int = 0) -> IntegerModel:
    """Mode float, mode integer and the three parts in turn give the same bits; the integer model.

    Args:
        blockers: how many parts must stay on the host (the parts are not run then).
    """
    source = from_proto(model.proto())
    integer = to_integer(source)
    real, got = source.run(feeds), integer.graph.run(feeds)
    for name in source.outputs:
        assert got[name].dtype == real[name].dtype
        assert np.array_equal(real[name], got[name]), f"{name}: {np.sum(real[name] != got[name])} of {got[name].size}"
    assert len(integer.blockers) == blockers, integer.blockers
    if not blockers:
        parts = integer.partition()
        known = {**feeds, **parts.head.run({name: feeds[name] for name in parts.head.inputs})}
        known |= parts.core.run({name: known[name] for name in parts.core.inputs})
        results = parts.tail.run({name: known[name] for name in parts.tail.inputs})
        assert all(np.array_equal(real[name], results[name]) for name in source.outputs)
    return integer


def same_as_onnxruntime(model: Model, feeds: Mapping[str, Array], blockers: int = 0) -> IntegerModel:
    """And onnxruntime gives them too: for models whose float32 arithmetic is exact, or decides nothing."""
    integer = same_in_both_modes(model, feeds, blockers)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model.proto().SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    expected = dict(zip(names, session.run(names, dict(feeds)), strict=True))
    got = integer.graph.run(feeds)
    for name, values in expected.items():
        assert got[name].shape == values.shape
        assert np.array_equal(got[name], values), f"{name}: {np.sum(got[name] != values)} of {values.size} differ"
    return integer


def operators(model: IntegerModel) -> Sequence[str]:
    """Names of the operators of the hardware part, in order, without its ends."""
    core = model.partition().core
    names = [type(core.op(node)).__name__ for node in core]
    return [name for name in names if name not in ("Input", "Output")]
