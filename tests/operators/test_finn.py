"""Operators of FINN and of qonnx against qonnx's own executor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operators.models import QONNX, Model, frames, operators, same_in_both_modes
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.transformation.infer_shapes import InferShapes

CHANNELS_LAST = "qonnx.custom_op.channels_last"


def same_as_qonnx(model: Model, x: Any) -> Any:
    """Frame by frame, for qonnx wants static shapes."""
    integer = same_in_both_modes(model, {"x": x})
    proto = model.proto()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    wrapped = ModelWrapper(proto).transform(InferShapes())
    got = integer.graph.run({"x": x})
    for k in range(0, len(x), 7):
        for name, values in execute_onnx(wrapped, {"x": x[k : k + 1]}).items():
            assert np.array_equal(values[0], got[name][k])
    return integer


def test_xnor_popcount() -> None:
    rng = np.random.default_rng(0)
    m = Model(19)
    bits = m.node("MultiThreshold", m.x, m.constant([[0.25]]), domain=QONNX, out_dtype="BINARY")
    w = m.constant(rng.integers(0, 2, (19, 7)))
    y = m.node("XnorPopcountMatMul", bits, w, domain=QONNX)
    m.output(m.node("MultiThreshold", y, m.constant(np.arange(7, 13)[None]), domain=QONNX, out_dtype="UINT4"))
    integer = same_as_qonnx(m, frames(19))
    assert operators(integer) == ["IntMatMul", "Activation"]


@pytest.mark.parametrize("operator", ["Conv", "MaxPool", "MaxPoolNHWC", "BatchNormalization"])
def test_channels_last(operator: str) -> None:
    """The same as the standard operator between two transpositions (qonnx transposes the weights too)."""
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(4, 3, 3, 3))
    parameters = [rng.uniform(1, 2, 3) for _ in range(4)]
    x, results = frames(5, 6, 3), []
    for wrapped in (True, False):
        m = Model(5, 6, 3)
        y = m.quant(m.x)
        y = y if wrapped else m.node("Transpose", y, perm=[0, 3, 1, 2])
        name = operator if wrapped else operator.removesuffix("NHWC")
        domain = "" if not wrapped else QONNX if operator.endswith("NHWC") else CHANNELS_LAST
        if operator == "Conv":
            w = m.quant(m.constant(weights.transpose(0, 2, 3, 1) if wrapped else weights), 0.25)
            y = m.node(name, y, w, domain=domain, kernel_shape=[3, 3], pads=[1, 0, 1, 1])
        elif operator == "BatchNormalization":
            y = m.node(name, y, *(m.constant(p) for p in parameters), domain=domain)
        else:
            y = m.node(name, y, domain=domain, kernel_shape=[2, 2], strides=[2, 2])
        y = y if wrapped else m.node("Transpose", y, perm=[0, 2, 3, 1])
        m.output(m.quant(y, 0.5))
        integer = same_in_both_modes(m, {"x": x})
        results += integer.graph.run({"x": x}).values()
    assert np.array_equal(*results)
