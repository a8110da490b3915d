"""Models that several suites use, made with nothing but onnx."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

QONNX = "qonnx.custom_op.general"


def quantized_mlp(widths: tuple[int, ...], bits: int, seed: int, argmax: bool = True) -> onnx.ModelProto:
    """A QONNX network: quantized input, then per layer MatMul, Relu and quantizer; logits or ArgMax at the end."""
    rng = np.random.default_rng(seed)
    constants: list[onnx.TensorProto] = []
    nodes: list[onnx.NodeProto] = []

    def constant(name: str, value: object) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def quant(source: str, name: str, scale: float, signed: int) -> str:
        inputs = [source, constant(f"{name}_scale", scale), constant(f"{name}_zp", 0), constant(f"{name}_bits", bits)]
        attributes = {"signed": signed, "narrow": 0, "rounding_mode": "ROUND"}
        nodes.append(helper.make_node("Quant", inputs, [f"{name}_out"], name, domain=QONNX, **attributes))
        return f"{name}_out"

    value = quant("x", "quant_in", 0.25, 1)
    for index, (rows, columns) in enumerate(itertools.pairwise(widths)):
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1)
        weights = constant(f"fc{index}_weight", rng.integers(low, high, (rows, columns)) * 0.5)
        matrix = quant(weights, f"fc{index}_quant", 0.5, 1)
        nodes.append(helper.make_node("MatMul", [value, matrix], [f"fc{index}_out"], f"fc{index}"))
        value = f"fc{index}_out"
        if index + 2 < len(widths):
            nodes.append(helper.make_node("Relu", [value], [f"relu{index}_out"], f"relu{index}"))
            value = quant(f"relu{index}_out", f"act{index}", 0.75, 0)
    shape, kind = ["N", widths[-1]], TensorProto.FLOAT
    if argmax:
        nodes.append(helper.make_node("ArgMax", [value], ["label"], "argmax", axis=1, keepdims=1))
        value, shape, kind = "label", ["N", 1], TensorProto.INT64
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", widths[0]])],
        [helper.make_tensor_value_info(value, kind, shape)],
        constants,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(QONNX, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)
