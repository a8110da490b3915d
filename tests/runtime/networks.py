"""A network with every kind of layer that can be written, of the same form for every seed."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from headrace.build.design import Design
from headrace.ingest import from_proto
from headrace.ir import Array

Shapes = dict[str, tuple[int, ...]]
QONNX = "qonnx.custom_op.general"
ALL = {
    "Defaults": {
        "runtime_writeable_weights": [1, ["MVAU", "VVAU", "Thresholding"]],
        "weightDataType": ["INT4", ["MVAU", "VVAU"]],
    }
}
"""Everything is written at run time."""


class Network:
    """Nodes and constants of a model under way, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: object) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def quant(self, x: str, name: str, scale: float, bits: int, signed: int, narrow: int = 0) -> str:
        values = {"scale": scale, "zero": 0, "bits": bits}
        inputs = [x, *(self.constant(f"{name}_{key}", value) for key, value in values.items())]
        options = {"signed": signed, "narrow": narrow, "rounding_mode": "ROUND"}
        self.nodes.append(helper.make_node("Quant", inputs, [f"{name}_out"], name, domain=QONNX, **options))
        return f"{name}_out"

    def bipolar(self, x: str, name: str) -> str:
        scale = self.constant(f"{name}_scale", 1.0)
        self.nodes.append(helper.make_node("BipolarQuant", [x, scale], [f"{name}_out"], name, domain=QONNX))
        return f"{name}_out"

    def product(self, kind: str, x: str, name: str, shape: tuple[int, ...], **options: object) -> str:
        weights = self.constant(f"{name}_weight", self.rng.integers(-8, 8, shape) * 0.5)
        matrix = self.quant(weights, f"{name}_quant", 0.5, 4, 1)
        self.nodes.append(helper.make_node(kind, [x, matrix], [f"{name}_out"], name, **options))
        return f"{name}_out"

    def affine(self, x: str, name: str, channels: int) -> str:
        """A factor and a term a channel, as of a batch norm: some factors are negative."""
        signs = self.rng.choice([-1, 1], (channels, 1, 1))
        factor = self.constant(f"{name}_factor", self.rng.uniform(0.02, 0.2, (channels, 1, 1)) * signs)
        term = self.constant(f"{name}_term", self.rng.normal(0, 2, (channels, 1, 1)))
        self.nodes.append(helper.make_node("Mul", [x, factor], [f"{name}_mul"], f"{name}_mul"))
        self.nodes.append(helper.make_node("Add", [f"{name}_mul", term], [f"{name}_out"], f"{name}_add"))
        return f"{name}_out"

    def model(self, name: str, inputs: Shapes, outputs: Shapes) -> onnx.ModelProto:
        """The model of all nodes, by the shapes of its frames."""
        ends = [
            [helper.make_tensor_value_info(end, TensorProto.FLOAT, ["N", *shape]) for end, shape in side.items()]
            for side in (inputs, outputs)
        ]
        graph = helper.make_graph(self.nodes, name, *ends, self.constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(QONNX, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def network(seed: int) -> onnx.ModelProto:
    """Convolution, depthwise convolution, pointwise one and a matrix; unsigned, signed and bipolar activations."""
    n = Network(seed)
    x = n.quant("x", "quant_in", 0.25, 3, 1)
    x = n.product("Conv", x, "conv", (4, 2, 3, 3), pads=[1, 1, 1, 1])
    x = n.quant(n.affine(x, "norm0", 4), "act0", 0.5, 3, 0)
    x = n.product("Conv", x, "depthwise", (4, 1, 3, 3), pads=[1, 1, 1, 1], group=4)
    x = n.quant(n.affine(x, "norm1", 4), "act1", 0.5, 4, 1, narrow=1)
    x = n.product("Conv", x, "pointwise", (6, 4, 1, 1))
    x = n.bipolar(n.affine(x, "norm2", 6), "act2")
    n.nodes.append(helper.make_node("Flatten", [x], ["flat"], "flatten"))
    x = n.product("MatMul", "flat", "fc", (6 * 4 * 4, 5))
    return n.model("network", {"x": (2, 4, 4)}, {x: (5,)})


def two_ends(seed: int) -> onnx.ModelProto:
    """Two inputs that meet, and two outputs."""
    n = Network(seed)
    a = n.product("MatMul", n.quant("a", "quant_a", 0.25, 3, 1), "fc_a", (6, 4))
    b = n.product("MatMul", n.quant("b", "quant_b", 0.25, 3, 1), "fc_b", (3, 4))
    n.nodes.append(helper.make_node("Add", [a, b], ["sum"], "add"))
    y = n.quant("sum", "act", 2.0, 4, 1)
    z = n.product("MatMul", y, "fc_z", (4, 2))
    return n.model("two_ends", {"a": (6,), "b": (3,)}, {y: (4,), z: (2,)})


def core_outputs(model: onnx.ModelProto, feeds: dict[str, Array]) -> dict[str, Array]:
    """What the integer graph of *model* computes, with constants as they are."""
    plain = Design(from_proto(model))
    return plain.parts.core.run(plain.core_feeds(feeds))
