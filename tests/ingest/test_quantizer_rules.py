"""Import of quantizers: QONNX against qonnx's own functions, QDQ against ONNX Runtime, FINN's thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from fuzz.executor import execute
from ingest.onnx_files import QONNX, Array, model, node, onnxruntime_outputs
from onnx import TensorProto, helper

from headrace.ingest import from_proto
from headrace.ir import Graph, IntRange, Value
from headrace.ir.ops import BipolarQuant, IntQuant, MatMul, MultiThreshold, Trunc
from headrace.passes import to_integer

X = np.concatenate(
    [
        np.arange(-24, 24).reshape(8, 6) / 4,
        np.random.default_rng(0).normal(size=(20, 6)) * 5,
        [[1e9, -1e9, 0, -0.0, 8, -8]],
    ]
).astype(np.float32)


def quant(constants: dict[str, Any], **attributes: Any) -> onnx.ModelProto:
    values = {"s": 0.5, "z": 0.0, "b": 4.0} | constants
    return model([node("Quant", ["x", "s", "z", "b"], **attributes)], {"x": ["N", 6]}, values)


def check(proto: onnx.ModelProto, feeds: dict[str, Array] | None = None) -> Graph:
    """Same values as the other executor, in both modes."""
    feeds = feeds or {"x": X}
    source = from_proto(proto)
    got = source.run(feeds)
    for name, expected in execute(proto, feeds).items():
        assert np.array_equal(got[name], expected)
        assert got[name].dtype == np.float32
    integer = to_integer(source).graph.run(feeds)
    assert all(np.array_equal(integer[name], got[name]) for name in got)
    return source


@pytest.mark.parametrize("mode", ["ROUND", "HALF_EVEN", "HALF_UP", "HALF_DOWN", "UP", "DOWN", "CEIL", "FLOOR", "floor"])
@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("narrow", [0, 1])
def test_quant(mode: str, signed: int, narrow: int) -> None:
    for constants in ({}, {"s": 0.1}, {"z": 3.0}, {"s": [0.5, 0.1, 1.0, 2.0, 3.0, 0.25]}, {"b": 8.0}, {"b": 2.0}):
        check(quant(constants, signed=signed, narrow=narrow, rounding_mode=mode))


def test_one_bit() -> None:
    assert isinstance(_op(check(quant({"b": 1.0}, signed=1, narrow=0))), BipolarQuant)
    unsigned = _op(check(quant({"b": 1.0}, signed=0, narrow=0)))
    assert isinstance(unsigned, IntQuant)
    assert unsigned.levels == IntRange(0, 1)


def _op(source: Graph) -> Any:
    return source.op("make_y")


def test_attributes_left_out() -> None:
    op = _op(from_proto(quant({})))
    assert (op.lo, op.hi, op.rounding) == (-8, 7, "ROUND")


@pytest.mark.parametrize("domain", [QONNX, "finn.custom_op.general", "onnx.brevitas"])
@pytest.mark.parametrize("name", ["Quant", "IntQuant"])
def test_domains_and_names(domain: str, name: str) -> None:
    nodes = [helper.make_node(name, ["x", "s", "z", "b"], ["y"], domain=domain, signed=1, narrow=0)]
    assert isinstance(from_proto(model(nodes, {"x": ["N", 6]}, {"s": 0.5, "z": 0.0, "b": 4.0})).op("y"), IntQuant)


@pytest.mark.parametrize("bits", [np.float32(3), np.int64(3), np.float64([3]), np.float32([[3]])], ids=str)
def test_the_bit_width_may_have_any_type_and_rank(bits: Any) -> None:
    nodes = [node("Quant", ["x", "s", "z", "b"], signed=1, narrow=0)]
    op = _op(from_proto(model(nodes, {"x": ["N", 6]}, {"s": 0.5, "z": 0.0, "b": bits})))
    assert op.levels == IntRange(-4, 3)


@pytest.mark.parametrize("bits", [16, 24, 25, 32])
@pytest.mark.parametrize("signed", [0, 1])
def test_wide_quantizers(bits: int, signed: int) -> None:
    """Past 24 bits, the bounds are no float32 numbers any more; codes stay in their range all the same."""
    source = from_proto(quant({"b": float(bits), "s": 1.0}, signed=signed, narrow=0))
    x = np.float32([[1e20, -1e20, 2.0**31, -(2.0**31), 5.0, -5.0]])
    codes = _op(source).codes(x)[0].tolist()
    lo, hi = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    assert codes == [min(max(int(v), lo), hi) for v in (10**20, -(10**20), 2**31, -(2**31), 5, -5)]


def test_scale_shapes() -> None:
    """Per channel of an image, with the batch axis in the scale or without it."""
    for shape in ((1, 3, 1, 1), (3, 1, 1), (1, 3, 1, 4)):
        scale = np.random.default_rng(0).uniform(0.1, 1, shape).astype(np.float32)
        nodes = [node("Quant", ["x", "s", "z", "b"], signed=1, narrow=0)]
        proto = model(nodes, {"x": ["N", 3, 2, 4]}, {"s": scale, "z": 0.0, "b": 4.0})
        check(proto, {"x": X[:4].reshape(-1, 24)[:, :24].reshape(-1, 3, 2, 4)})


def test_bipolar_quant() -> None:
    check(model([node("BipolarQuant", ["x", "s"])], {"x": ["N", 6]}, {"s": [0.5, 1.0, 2.0, 0.1, 1.0, 1.0]}))


@pytest.mark.parametrize("mode", ["FLOOR", "ROUND", "CEIL"])
def test_trunc(mode: str) -> None:
    x = np.round(X[:-1] * 4) / 2
    feeds = {"x": x}
    first = model(
        [node("Trunc", ["x", "s", "z", "i", "o"], rounding_mode=mode)],
        {"x": ["N", 6]},
        {"s": 0.5, "z": 0.0, "i": 8.0, "o": 5.0},
    )
    assert isinstance(_op(check(first, feeds)), Trunc)
    second = model(
        [node("Trunc", ["x", "s", "z", "i", "t", "o"], rounding_mode=mode, signed=1, narrow=1)],
        {"x": ["N", 6]},
        {"s": 0.5, "z": 0.0, "i": 8.0, "t": 2.0, "o": 3.0},
    )
    assert _op(check(second, feeds)).levels == IntRange(-3, 3)


@pytest.mark.parametrize(
    ("shape", "layout", "axis"),
    [
        ((3,), "", 0),
        ((3,), "NC", 0),
        ((4, 3), "", 1),
        ((3, 4), "NCW", 0),
        ((4, 3), "NWC", 1),
        ((3, 2, 4), "", 0),
        ((3, 2, 4), "NCHW", 0),
        ((2, 4, 3), "NHWC", 2),
    ],
)
def test_thresholds(shape: tuple[int, ...], layout: str, axis: int) -> None:
    rng = np.random.default_rng(0)
    for rows in (1, 3):
        for scale, bias in ((1.0, 0.0), (2.0, -1.0), (0.25, 3.0), (-1.0, 7.0)):
            attributes = {"out_dtype": "INT8", "out_scale": scale, "out_bias": bias}
            if layout:
                attributes["data_layout"] = layout
            nodes = [node("MultiThreshold", ["x", "t"], **attributes)]
            thresholds = np.round(rng.normal(size=(rows, 7)) * 8).astype(np.float32) / 4
            x = np.round(rng.normal(size=(9, *shape)) * 8).astype(np.float32) / 4
            source = check(model(nodes, {"x": ["N", *shape]}, {"t": thresholds}), {"x": x})
            assert _op(source).axis == axis


def test_thresholds_whose_offset_is_off_their_scale() -> None:
    nodes = [node("MultiThreshold", ["x", "t"], out_scale=0.1, out_bias=-0.37, out_dtype="UINT4")]
    source = from_proto(model(nodes, {"x": ["N", 6]}, {"t": [[0.0, 1.0, 2.0]]}))
    op = _op(source)
    assert isinstance(op, MultiThreshold)
    assert (op.multiple, op.offset) == (1, 0)
    count = (X[..., None] >= np.float32([0, 1, 2])).sum(-1).astype(np.float32)
    assert np.array_equal(source.run({"x": X})["y"], count * np.float32(0.1) + np.float32(-0.37))
    assert np.array_equal(to_integer(source).graph.run({"x": X})["y"], source.run({"x": X})["y"])


# -- constants ----------------------------------------------------------------------------------------------------


def grid_of(proto: onnx.ModelProto, name: str = "make_y") -> Any:
    op = from_proto(proto).op(name)
    assert isinstance(op, MatMul)
    assert op.weights.grid is not None
    return op.weights.grid


def weighted(nodes: list[Any], constants: dict[str, Any], width: int = 3) -> onnx.ModelProto:
    """``x @ w`` with w made by *nodes*."""
    return model([*nodes, node("MatMul", ["x", "w"])], {"x": ["N", width]}, constants)


W = np.round(np.random.default_rng(3).normal(size=(3, 2)) * 40) / 16


def test_weights_keep_the_integers_of_their_quantizer() -> None:
    nodes = [node("Quant", ["v", "s", "z", "b"], ["w"], signed=1, narrow=1)]
    grid = grid_of(weighted(nodes, {"v": W, "s": 0.1, "z": 0.0, "b": 3.0}))
    assert np.array_equal(grid.q, np.clip(np.round(np.float32(W) / np.float32(0.1)), -3, 3))
    assert np.all(grid.scale == np.float64(np.float32(0.1)))


@pytest.mark.parametrize(
    "via", ["Transpose", "Reshape", "Slice", "Identity", "Cast", "Squeeze", "Split", "Gather", "Expand"]
)
def test_weights_keep_their_integers_on_the_way(via: str) -> None:
    """0.1 times an integer is rounded in float32: a grid that is not carried along could not be found again."""
    shape = {
        "Transpose": (2, 3),
        "Reshape": (6,),
        "Slice": (4, 2),
        "Squeeze": (1, 3, 2),
        "Split": (5, 2),
        "Gather": (4, 2),
    }
    v = np.random.default_rng(0).normal(size=shape.get(via, (3, 2)))
    extra: dict[str, tuple[list[str], dict[str, Any], dict[str, Any]]] = {
        "Transpose": ([], {"perm": [1, 0]}, {}),
        "Reshape": (["r"], {}, {"r": np.array([3, 2])}),
        "Slice": (["a", "e"], {}, {"a": np.array([1]), "e": np.array([4])}),
        "Cast": ([], {"to": TensorProto.FLOAT}, {}),
        "Squeeze": (["r"], {}, {"r": np.array([0])}),
        "Split": (["r"], {"axis": 0}, {"r": np.array([3, 2])}),
        "Gather": (["r"], {"axis": 0}, {"r": np.array([3, 0, 2])}),
        "Expand": (["r"], {}, {"r": np.array([3, 2])}),
    }
    inputs, attributes, constants = extra.get(via, ([], {}, {}))
    nodes = [
        node("Quant", ["v", "s", "z", "b"], ["q"], signed=1, narrow=0),
        node(via, ["q", *inputs], ["w", "rest"] if via == "Split" else ["w"], **attributes),
    ]
    proto = weighted(nodes, {"v": v, "s": 0.1, "z": 0.0, "b": 8.0, **constants})
    grid = grid_of(proto)
    assert grid.q.dtype == np.int64
    assert np.all(grid.scale == np.float64(np.float32(0.1)))
    assert np.array_equal(grid.q.astype(np.float32) * np.float32(0.1), from_proto(proto).op("make_y").weights.value)  # type: ignore[attr-defined]


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_per_channel_dequantized_weights(axis: int) -> None:
    values = np.random.default_rng(0).integers(-128, 128, (3, 2)).astype(np.int8)
    count = values.shape[axis]
    scale = np.float32([0.1, 0.37, 1.3][:count])
    zero = np.array([3, -5, 0][:count], np.int8)
    nodes = [node("DequantizeLinear", ["v", "s", "z"], ["w"], axis=axis)]
    proto = weighted(nodes, {"v": values, "s": scale, "z": zero})
    grid = grid_of(proto)
    view = (-1, 1) if axis % 2 == 0 else (1, -1)
    assert np.array_equal(grid.q, values.astype(np.int64) - zero.reshape(view))
    x = {"x": np.float32(np.random.default_rng(1).normal(size=(5, 3)))}
    assert np.allclose(from_proto(proto).run(x)["y"], onnxruntime_outputs(proto, x)["y"], rtol=1e-5, atol=1e-5)


def test_int32_bias() -> None:
    """A bias of a per-channel scale, as QDQ exporters write it: 1-D, axis 0, no zero point or one of 0."""
    bias = np.array([2**24 + 1, -7], np.int32)
    scale = np.float32([0.25, 0.1])
    for zero in ([], ["z"]):
        nodes = [
            node("DequantizeLinear", ["b", "s", *zero], ["c"], axis=0),
            node("Gemm", ["x", "w", "c"]),
        ]
        constants = {"b": bias, "s": scale, "w": np.ones((3, 2), np.float32)} | dict.fromkeys(
            zero, np.zeros(2, np.int32)
        )
        proto = model(nodes, {"x": ["N", 3]}, constants)
        x = {"x": np.float32([[1, 2, 3], [0, 0, 0]])}
        assert np.array_equal(from_proto(proto).run(x)["y"], onnxruntime_outputs(proto, x)["y"])


# -- QDQ ----------------------------------------------------------------------------------------------------------

KINDS = (np.int8, np.uint8, np.int16, np.uint16)


@pytest.mark.parametrize(
    ("kind", "opset"), [(k, o) for k in KINDS for o in (13, 19, 21) if o >= 21 or k in (np.int8, np.uint8)]
)
@pytest.mark.parametrize("zero", [0, 1, 100])
def test_quantize_and_dequantize(kind: type, zero: int, opset: int) -> None:
    """Codes and values are ONNX Runtime's, ties, odd zero points and saturation included."""
    codes = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["y"])]
    constants = {"s": np.float32(0.5), "z": kind(zero)}
    proto = model(nodes, {"x": ["N", 6]}, constants, ("y", "q"), opset, {"q": codes})
    source = from_proto(proto)
    got, expected = source.run({"x": X}), onnxruntime_outputs(proto, {"x": X})
    integer = to_integer(source).graph.run({"x": X})
    for name in ("q", "y"):
        assert got[name].dtype == expected[name].dtype
        assert np.array_equal(got[name], expected[name])
        assert np.array_equal(integer[name], got[name])
    assert source.type(Value("make_q")).int_range == IntRange(int(np.iinfo(kind).min), int(np.iinfo(kind).max))


def test_quantize_without_a_zero_point_is_unsigned() -> None:
    proto = model([node("QuantizeLinear", ["x", "s"])], {"x": ["N", 6]}, {"s": 0.5}, kinds={"y": TensorProto.UINT8})
    assert np.array_equal(from_proto(proto).run({"x": X})["y"], onnxruntime_outputs(proto, {"x": X})["y"])


def test_output_type_by_attribute() -> None:
    attributes = {"output_dtype": TensorProto.INT8, "saturate": 1, "axis": 1}
    nodes = [node("QuantizeLinear", ["x", "s"], **attributes)]
    proto = model(nodes, {"x": ["N", 6]}, {"s": 0.5}, opset=21, kinds={"y": TensorProto.INT8})
    assert np.array_equal(from_proto(proto).run({"x": X})["y"], onnxruntime_outputs(proto, {"x": X})["y"])


@pytest.mark.parametrize("axis", [1, -1])
def test_activations_per_channel(axis: int) -> None:
    constants = {"s": np.float32([0.5, 0.1, 1.0, 2.0, 3.0, 0.25]), "z": np.array([0, 1, 2, 3, 4, 5], np.uint8)}
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=axis),
        node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=axis),
    ]
    proto = model(nodes, {"x": ["N", 6]}, constants)
    source = from_proto(proto)
    assert np.array_equal(source.run({"x": X})["y"], onnxruntime_outputs(proto, {"x": X})["y"])
    assert np.array_equal(to_integer(source).graph.run({"x": X})["y"], source.run({"x": X})["y"])


def test_clipped_codes_are_narrow_integers() -> None:
    """QCDQ: 4 bits inside int8, by a Clip on the codes."""
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("Clip", ["q", "lo", "hi"], ["c"]),
        node("DequantizeLinear", ["c", "s", "z"], ["d"]),
        node("MatMul", ["d", "w"]),
    ]
    constants = {
        "s": np.float32(0.5),
        "z": np.int8(0),
        "lo": np.int8(-8),
        "hi": np.int8(7),
        "w": np.ones((6, 1), np.float32),
    }
    proto = model(nodes, {"x": ["N", 6]}, constants)
    source = from_proto(proto)
    assert np.array_equal(source.run({"x": X})["y"], onnxruntime_outputs(proto, {"x": X})["y"])
    integer = to_integer(source)
    assert integer.blockers == ()
    assert integer.graph.type(Value("make_y")).int_range == IntRange(-48, 42)
    assert np.array_equal(integer.graph.run({"x": X})["y"], source.run({"x": X})["y"])
