"""Padding, resizing, gathering and interleaving against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from operators.models import Model, frames, operators, same_as_onnxruntime, same_in_both_modes

COORDINATES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners", "half_pixel_symmetric")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@pytest.mark.parametrize("transform", COORDINATES)
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("factor", [2, 3])
def test_resize_by_whole_factors(transform: str, rounding: str, factor: int) -> None:
    m = Model(2, 3, 5, opset=19)
    scales = m.constant([1, 1, factor, 2])
    attributes = {"coordinate_transformation_mode": transform, "nearest_mode": rounding}
    y = m.node("Resize", m.qdq(m.x), "", scales, mode="nearest", **attributes)
    m.output(y)
    integer = same_as_onnxruntime(m, {"x": frames(2, 3, 5)})
    if (transform, rounding) in (("asymmetric", "floor"), ("half_pixel", "round_prefer_floor")):
        assert set(operators(integer)) == {"IntUpsample"}


@pytest.mark.parametrize("sizes", [[1, 2, 6, 10], [1, 2, 4, 3], [1, 2, 1, 1]])
def test_resize_to_sizes(sizes: list[int]) -> None:
    """Other ratios gather rows and columns."""
    m = Model(2, 3, 5)
    y = m.node("Resize", m.qdq(m.x), "", "", m.constant(sizes, np.int64), nearest_mode="floor",
               coordinate_transformation_mode="asymmetric")  # fmt: skip
    m.output(y)
    same_as_onnxruntime(m, {"x": frames(2, 3, 5)[2:3]})


@pytest.mark.parametrize("opset", [9, 10])
def test_old_upsampling(opset: int) -> None:
    m = Model(2, 3, 3, opset=opset)
    x = m.quant(m.x)
    y = m.node("Upsample" if opset == 9 else "Resize", x, m.constant([1, 1, 2, 2]), mode="nearest")
    m.output(m.quant(y, 0.5))
    integer = same_in_both_modes(m, {"x": frames(2, 3, 3)})
    assert operators(integer) == ["IntUpsample", "Activation"]


def test_linear_resizing_stays_on_the_host() -> None:
    m = Model(2, 3, 3)
    y = m.node("Resize", m.qdq(m.x), "", m.constant([1, 1, 2, 2]), mode="linear")
    m.output(y)
    same_in_both_modes(m, {"x": frames(2, 3, 3)}, blockers=1)


PADS: dict[str, dict[str, Any]] = {
    "zero": {"pads": [0, 0, 1, 2, 0, 0, 0, 1]},
    "value": {"pads": [0, 0, 1, 0, 0, 0, 0, 1], "value": -1.5},
    "channels": {"pads": [0, 1, 0, 0, 0, 2, 0, 0]},
    "crop": {"pads": [0, 0, -1, 1, 0, 0, 0, -2]},
    "edge": {"pads": [0, 0, 1, 2, 0, 0, 0, 1], "mode": "edge"},
    "reflect": {"pads": [0, 0, 1, 2, 0, 0, 0, 1], "mode": "reflect"},
}


@pytest.mark.parametrize("case", PADS)
@pytest.mark.parametrize("zero", [0, 5])
def test_pad(case: str, zero: int) -> None:
    m = Model(2, 3, 4)
    given = dict(PADS[case])
    inputs = [m.constant(given.pop("pads"), np.int64)]
    if "value" in given:
        inputs.append(m.constant(given.pop("value")))
    y = m.node("Pad", m.qdq(m.x, 0.25, zero), *inputs, **given)
    m.output(m.qdq(y, 0.5))
    integer = same_as_onnxruntime(m, {"x": frames(2, 3, 4)})
    expected = {"crop": "IntPad", "edge": "Gather", "reflect": "Gather"}.get(case, "IntPad")
    assert expected in operators(integer)


def test_padding_before_a_window_costs_nothing() -> None:
    m = Model(2, 4, 4)
    y = m.node("Pad", m.quant(m.x), m.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    z = m.node("Conv", y, m.quant(m.constant(np.ones((3, 2, 3, 3))), 1.0))
    m.output(m.quant(z, 2.0))
    assert operators(same_in_both_modes(m, {"x": frames(2, 4, 4)})) == ["IntConv", "Activation"]
    m.output(m.quant(y, 0.5))  # another reader: the padded tensor is needed
    assert "IntPad" in operators(same_in_both_modes(m, {"x": frames(2, 4, 4)}))


def test_padding_with_a_value_off_the_grid() -> None:
    """0.1 is no multiple of 0.25, nor of any power of two that the values would share with it in few bits."""
    m = Model(2, 4)
    y = m.node("Pad", m.quant(m.x), m.constant([0, 0, 1, 0, 0, 2], np.int64), m.constant(0.1))
    m.output(m.quant(y, 0.5))
    integer = same_in_both_modes(m, {"x": frames(2, 4)}, blockers=2)
    assert "pads with 0.1, for which its input has no integer" in integer.blockers[0].reason


def test_padding_after_functions() -> None:
    for function in ("Relu", "Sigmoid"):
        m = Model(2, 4)
        pads = m.constant([0, 0, 1, 0, 0, 2], np.int64)
        y = m.node("Pad", m.node(function, m.quant(m.x, 0.3)), pads)
        m.output(m.quant(m.node("MaxPool", y, kernel_shape=[2]), 0.17))
        same_in_both_modes(m, {"x": frames(2, 4)})


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_and_space(mode: str) -> None:
    m = Model(8, 2, 3)
    deep = m.node("DepthToSpace", m.qdq(m.x), blocksize=2, mode=mode)
    m.output(m.qdq(deep, 0.5))
    m.output(m.qdq(m.node("SpaceToDepth", deep, blocksize=2), 0.5))
    same_as_onnxruntime(m, {"x": frames(8, 2, 3)})


def test_channel_shuffle_by_gather() -> None:
    m = Model(6, 2, 2)
    order = np.arange(6).reshape(2, 3).T.reshape(-1)
    m.output(m.qdq(m.node("Gather", m.qdq(m.x), m.constant(order, np.int64), axis=1), 0.5))
    integer = same_as_onnxruntime(m, {"x": frames(6, 2, 2)})
    assert operators(integer) == ["Reshape", "Transpose", "Reshape", "Activation"]


@pytest.mark.parametrize("indices", [[1, 2], [3, -1, 0], 2, [[0, 1], [1, 0]], [0, 2]])
def test_gather(indices: object) -> None:
    m = Model(4, 3)
    m.output(m.node("Gather", m.qdq(m.x), m.constant(indices, np.int64), axis=1))
    same_as_onnxruntime(m, {"x": frames(4, 3)})


def test_expand_and_tile() -> None:
    m = Model(3, 1, 2)
    x = m.qdq(m.x)
    m.output(m.node("Expand", x, m.constant([1, 3, 4, 2], np.int64)))
    m.output(m.node("Tile", x, m.constant([1, 2, 3, 2], np.int64)))
    same_as_onnxruntime(m, {"x": frames(3, 1, 2)})


@pytest.mark.parametrize("operator", ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("axes", [[2, 3], [-1], [1], [1, 3], [1, 2, 3]])
@pytest.mark.parametrize("keep", [0, 1])
def test_reductions(operator: str, axes: list[int], keep: int) -> None:
    m = Model(4, 2, 4)
    x = m.qdq(m.x, 0.25, 3)
    if operator == "ReduceSum":
        y = m.node(operator, x, m.constant(axes, np.int64), keepdims=keep)
    else:
        y = m.node(operator, x, axes=axes, keepdims=keep)
    m.output(m.qdq(y, 0.125))
    same_as_onnxruntime(m, {"x": frames(4, 2, 4)})


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("ceil", [0, 1])
def test_average_pools(include: int, ceil: int) -> None:
    """Zero points, padding that counts or not, and windows that reach beyond it."""
    m = Model(2, 5, 6, opset=19)
    y = m.node("AveragePool", m.qdq(m.x, 0.25, 7), kernel_shape=[2, 4], strides=[2, 2], pads=[1, 1, 0, 1],
               count_include_pad=include, ceil_mode=ceil)  # fmt: skip
    m.output(m.qdq(y, 0.125))
    feeds = {"x": frames(2, 5, 6)}
    if ceil and include:
        same_in_both_modes(m, feeds)  # onnxruntime counts what ceil_mode adds; ONNX and PyTorch do not
    else:
        same_as_onnxruntime(m, feeds)


def test_average_pools_of_values_off_the_grid() -> None:
    m = Model(2, 4, 4)
    y = m.node("AveragePool", m.node("Tanh", m.quant(m.x, 0.3)), kernel_shape=[2, 2])
    m.output(m.quant(y, 0.1))
    same_in_both_modes(m, {"x": frames(2, 4, 4)})


def test_minimum_and_maximum() -> None:
    m = Model(3, 2, dtype=np.float32)
    x, y = m.qdq(m.x, 0.5), m.qdq(m.input("y", 3, 2), 0.25)
    rows = m.constant([[[0.5], [-1.0], [2.25]]])
    m.output(m.node("Max", x, m.constant(0.75)))
    m.output(m.node("Min", m.node("Max", x, rows), m.constant(3.0), rows))
    m.output(m.qdq(m.node("Max", x, y), 0.25))
    m.output(m.qdq(m.node("Mean", x, y, m.constant(0.5)), 0.25))
    m.output(m.qdq(m.node("Sum", x, y, rows, x), 0.25))
    same_as_onnxruntime(m, {"x": frames(3, 2), "y": frames(3, 2, seed=1)})


def test_argmax_of_channels_of_different_scale() -> None:
    m = Model(5)
    w = np.random.default_rng(0).normal(size=(5, 4))
    y = m.node("MatMul", m.quant(m.x, 0.3), m.quant(m.constant(w), np.abs(w).max(axis=0, keepdims=True) / 7))
    y = m.node("Add", y, m.constant([0.1, -0.2, 0.3, 0.4]))
    m.output(m.node("ArgMax", y, axis=1), TensorProto.INT64)
    assert "IntTopK" in operators(same_in_both_modes(m, {"x": frames(5, count=500)}))
