"""Operators of FINN and of qonnx against qonnx's own executor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operators.models import QONNX, Model, frames, operators, same_in_both_modes
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.transformation.infer_shapes import InferShapes
from qonnx.transformation.lower_convs_to_matmul import LowerConvsToMatMul

from headrace.errors import ModelError
from headrace.ingest import from_proto
from headrace.ir.integer import IntConv
from headrace.passes.to_integer import to_integer

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


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("dense", {"strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1]}),
        ("dense", {"strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2]}),
        ("depthwise", {"strides": [1, 2], "pads": [1, 1, 1, 1], "dilations": [1, 1]}),
        ("pointwise", {"strides": [2, 2], "pads": [0, 0, 0, 0], "dilations": [1, 1]}),
    ],
)
def test_convolutions_that_qonnx_has_lowered(kind: str, how: dict[str, list[int]]) -> None:
    """LowerConvsToMatMul, a step of most build scripts for FINN, leaves the same integers and the same layers."""
    rng = np.random.default_rng(3)
    outputs, groups, kernel = {"dense": (5, 1, 3), "depthwise": (4, 4, 3), "pointwise": (3, 1, 1)}[kind]
    m = Model(4, 8, 9)
    w = m.quant(m.constant(rng.normal(size=(outputs, 4 // groups, kernel, kernel))), 0.25)
    y = m.node("Conv", m.quant(m.x), w, kernel_shape=[kernel, kernel], group=groups, **how)
    m.output(m.quant(m.node("Relu", y), 0.5))
    plain = m.proto()
    plain.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    lowered = ModelWrapper(plain).transform(InferShapes()).transform(LowerConvsToMatMul()).model
    assert "Im2Col" in [node.op_type for node in lowered.graph.node]
    x = frames(4, 8, 9)
    one, other = (to_integer(from_proto(proto)) for proto in (plain, lowered))
    (expected,), (got,) = (integer.graph.run({"x": x}).values() for integer in (one, other))
    assert np.array_equal(expected, got)
    convolutions = [
        [op for op in map(graph.op, graph) if isinstance(op, IntConv)] for graph in (one.graph, other.graph)
    ]
    assert [c.groups for c in convolutions[1]] == [c.groups for c in convolutions[0]] == [groups]
    assert np.array_equal(convolutions[1][0].weights, convolutions[0][0].weights)


def lowered_by_hand(**attributes: Any) -> Model:
    m = Model(4, 4, 2)
    windows = m.node("Im2Col", m.quant(m.x), domain=QONNX, **attributes)
    product = m.node("MatMul", windows, m.quant(m.constant(np.random.default_rng(0).normal(size=(8, 3))), 0.25))
    m.output(m.quant(product, 0.5))
    return m


def test_windows_of_early_files_have_one_number_for_both_axes() -> None:
    x, results = frames(4, 4, 2), []
    for k in ([2, 2], 2):
        pads = [1, 1, 1, 1] if isinstance(k, list) else 1
        stride = [2, 2] if isinstance(k, list) else 2
        m = lowered_by_hand(kernel_size=k, stride=stride, pad_amount=pads, input_shape="(1,4,4,2)", depthwise=0)
        results += same_in_both_modes(m, {"x": x}).graph.run({"x": x}).values()
    assert np.array_equal(*results)


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        (
            {"kernel_size": [3, 3], "stride": [1, 1]},
            r"windows \[3, 3\] of frames \[4, 4, 2\] do not fit weights",
        ),
        ({"kernel_size": [2, 2], "stride": [0, 1]}, "'stride' must be one or two positive numbers"),
        ({"kernel_size": [2, 2], "pad_amount": [1, 1]}, "'pad_amount' must be one number or four"),
        ({"kernel_size": [2, 2], "pad_value": 3}, "pads with another number than 0"),
    ],
)
def test_windows_that_fit_nothing(attributes: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelError, match=says):
        from_proto(lowered_by_hand(**attributes).proto())


def test_windows_that_something_else_reads() -> None:
    m = Model(4, 4, 2)
    windows = m.node("Im2Col", m.quant(m.x), domain=QONNX, kernel_size=[2, 2], stride=[1, 1])
    m.output(m.node("MatMul", windows, m.quant(m.constant(np.ones((8, 3))), 0.25)))
    m.output(m.node("Relu", windows))
    with pytest.raises(ModelError, match="it is a part of a convolution where it is read by MatMuls alone"):
        from_proto(m.proto())


def averaged(layout: str, signed: int, kernel: int, stride: int, obits: int) -> Model:
    m = Model(*((3, 6, 5) if layout == "NCHW" else (6, 5, 3)))
    x = m.node("Mul", m.quant(m.x, 0.25, signed=bool(signed)), m.constant(4.0))
    sizes = {"kernel": kernel, "stride": stride, "ibits": 4, "obits": obits}
    m.output(m.node("QuantAvgPool2d", x, domain=QONNX, **sizes, signed=signed, data_layout=layout))
    return m


@pytest.mark.parametrize(("kernel", "stride", "obits"), [(2, 2, 4), (3, 1, 2), (2, 1, 9)])
@pytest.mark.parametrize("signed", [0, 1])
def test_average_pools_of_brevitas(kernel: int, stride: int, obits: int, signed: int) -> None:
    x = frames(3, 6, 5)
    first = same_as_qonnx(averaged("NCHW", signed, kernel, stride, obits), x)
    assert "IntSumPool" in operators(first)
    last = same_in_both_modes(averaged("NHWC", signed, kernel, stride, obits), {"x": x.transpose(0, 2, 3, 1)})
    (expected,) = first.graph.run({"x": x}).values()
    (got,) = last.graph.run({"x": x.transpose(0, 2, 3, 1)}).values()
    assert np.array_equal(got, expected.transpose(0, 2, 3, 1))


def test_average_pools_that_are_none() -> None:
    for wrong in ({"kernel": 0}, {"obits": 0}, {"stride": -1}):
        sizes = {"kernel": 2, "stride": 2, "obits": 4, **wrong}
        with pytest.raises(ModelError, match="must be 1 or more"):
            from_proto(averaged("NCHW", 1, **sizes).proto())
    with pytest.raises(ModelError, match="data_layout 'CHWN'"):
        from_proto(averaged("CHWN", 1, 2, 2, 4).proto())
