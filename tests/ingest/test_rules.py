"""Import rules of standard operators against ONNX Runtime: defaults left out, constants on either side, opsets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from ingest.onnx_files import Array, model, node, onnxruntime_outputs
from onnx import TensorProto

from headrace.ingest import from_proto
from headrace.passes import to_integer

INT64 = TensorProto.INT64
C = [[0.5], [-2.0], [0.25]]
RNG = np.random.default_rng(0)
W34, W43, W4 = (RNG.integers(-8, 8, shape).astype(np.float32) for shape in ((3, 4), (4, 3), (4,)))
IMAGE = (3, 5, 6)
KERNEL = RNG.integers(-4, 5, (4, 3, 3, 2)).astype(np.float32)
GROUPED = RNG.integers(-4, 5, (6, 1, 3, 3)).astype(np.float32)
LINE = RNG.integers(-4, 5, (2, 3, 3)).astype(np.float32)
NORM = {"g": [0.5, -1.5, 0.0], "b": [0.1, 0.0, 2.0], "m": [0.3, -0.3, 1.0], "v": [0.5, 2.0, 1.0]}


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


@dataclass(frozen=True)
class Case:
    """One operator: its inputs (x is the tensor, other names are constants), attributes and opsets."""

    op: str
    inputs: tuple[str, ...] = ("x",)
    constants: dict[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] = (3, 2)
    attributes: dict[str, Any] = field(default_factory=dict)
    opsets: tuple[int, ...] = (13, 17, 21)
    outputs: tuple[str, ...] = ("y",)
    integer: bool = False
    exact: bool = True

    def __str__(self) -> str:
        shown = [f"{k}={v.tolist() if isinstance(v, np.ndarray) else v}" for k, v in self.attributes.items()]
        return "-".join([self.op, ",".join(self.inputs), str(list(self.shape)), *shown])


ALL = (7, 9, 11, 13, 17, 21)
CASES = [
    *(Case(op, ("x", "c"), {"c": C}, opsets=ALL) for op in ("Add", "Sub", "Mul", "Div")),
    *(Case(op, ("c", "x"), {"c": C}) for op in ("Add", "Sub", "Mul", "Div")),
    *(Case(op, ("x", "c"), {"c": 3.0}) for op in ("Add", "Sub", "Mul", "Div")),
    *(Case(op, ("x", "c"), {"c": [[C]]}, (1, 3, 2)) for op in ("Add", "Mul")),
    *(Case(op, ("x", "x")) for op in ("Add", "Sub", "Mul")),
    Case("Sum", ("x", "c"), {"c": [1.0, 2.0]}),
    Case("Pow", ("x", "c"), {"c": 2.0}),
    Case("Neg"),
    Case("Abs"),
    Case("Relu", opsets=ALL),
    Case("Identity"),
    Case("Sign"),
    Case("Floor"),
    Case("Ceil"),
    Case("Round", opsets=(11, 22)),
    Case("Clip", attributes={"min": -0.5, "max": 1.0}, opsets=(7, 9)),
    Case("Clip", attributes={"max": 1.0}, opsets=(7,)),
    Case("Clip", opsets=(7, 13)),
    Case("Clip", ("x", "lo", "hi"), {"lo": -0.5, "hi": 1.0}, opsets=(11, 13, 21)),
    Case("Clip", ("x", "", "hi"), {"hi": 1.0}),
    Case("Clip", ("x", "lo"), {"lo": -0.5}),
    Case("Clip", ("x", "lo", "hi"), {"lo": 2.0, "hi": 1.0}),
    Case("LeakyRelu", opsets=ALL, exact=False),
    Case("LeakyRelu", attributes={"alpha": 0.25}),
    Case("PRelu", ("x", "s"), {"s": [[0.5], [0.25], [-1.0]]}, opsets=(7, 9, 16)),
    Case("PRelu", ("x", "s"), {"s": [0.5, 0.25]}, opsets=(9, 16)),
    Case("PRelu", ("x", "s"), {"s": 0.5}),
    *(Case(op, exact=False) for op in ("Sigmoid", "Tanh", "Softplus", "Softsign", "Erf", "Exp", "Elu", "Selu")),
    *(
        Case(op, exact=False)
        for op in ("Atan", "Sinh", "Asinh", "Sin", "Cos", "HardSigmoid", "Celu", "ThresholdedRelu")
    ),
    Case("HardSwish", opsets=(14, 22), exact=False),
    Case("Mish", opsets=(18, 22), exact=False),
    Case("Gelu", opsets=(20, 21), exact=False),
    Case("Gelu", attributes={"approximate": "tanh"}, opsets=(20, 21), exact=False),
    Case("Gelu", attributes={"approximate": "none"}, opsets=(20,), exact=False),
    Case("Elu", attributes={"alpha": 0.3}, exact=False),
    Case("Selu", attributes={"alpha": 1.2, "gamma": 0.9}, exact=False),
    Case("Celu", attributes={"alpha": 0.3}, exact=False),
    Case("ThresholdedRelu", attributes={"alpha": 0.25}),
    Case("ThresholdedRelu", attributes={"alpha": -0.25}),
    Case("HardSigmoid", attributes={"alpha": 0.5, "beta": 0.25}),
    Case("Sqrt", exact=False),
    Case("Log", exact=False),
    Case("BatchNormalization", ("x", "g", "b", "m", "v"), NORM, (3, 2), opsets=(7, 9, 14, 15, 21), exact=False),
    Case("BatchNormalization", ("x", "g", "b", "m", "v"), NORM, (3,), {"epsilon": 0.01, "momentum": 0.5}, exact=False),
    Case("Dropout", opsets=(7, 10)),
    Case("Dropout", attributes={"ratio": 0.3}, opsets=(7, 10)),
    Case("Dropout", ("x", "r"), {"r": np.float32(0.3)}, attributes={"seed": 3}, opsets=(13, 22)),
    Case("Dropout", ("x", "", "t"), {"t": np.bool_(False)}, opsets=(13,)),
    Case("Cast", attributes={"to": TensorProto.FLOAT}),
    # products
    *(Case("MatMul", ("x", "w"), {"w": W34}, shape, opsets=(9, 13, 21)) for shape in ((3,), (2, 3), (2, 2, 3))),
    Case("MatMul", ("x", "w"), {"w": W34[None]}, (2, 3)),
    Case("MatMul", ("x", "w"), {"w": W4}, (2, 4)),
    Case("MatMul", ("w", "x"), {"w": W43}, (3, 2)),
    Case("MatMul", ("w", "x"), {"w": W4}, (4, 2)),
    Case("MatMul", ("w", "x"), {"w": W4}, (3, 4, 2)),
    Case("Gemm", ("x", "w"), {"w": W34}, (3,), opsets=(11, 13)),
    Case("Gemm", ("x", "w", "c"), {"w": W34, "c": W4}, (3,), opsets=(7, 9, 11, 13)),
    Case("Gemm", ("x", "w", "c"), {"w": W43, "c": W4}, (3,), {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    Case("Gemm", ("x", "w", "c"), {"w": W34, "c": 0.5}, (3,), {"transA": 0, "beta": 0.0}),
    Case("Conv", ("x", "w"), {"w": KERNEL}, IMAGE, opsets=(7, 11, 21)),
    Case("Conv", ("x", "w", "b"), {"w": KERNEL, "b": W4}, IMAGE),
    Case("Conv", ("x", "w"), {"w": KERNEL}, IMAGE, {"kernel_shape": [3, 2], "pads": [1, 0, 2, 1], "strides": [2, 1]}),
    Case("Conv", ("x", "w"), {"w": KERNEL}, IMAGE, {"dilations": [1, 2], "strides": [1, 3]}),
    *(
        Case("Conv", ("x", "w"), {"w": KERNEL}, IMAGE, {"auto_pad": pad, "strides": strides})
        for pad in ("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
        for strides in ([1, 1], [2, 3])
    ),
    Case("Conv", ("x", "w"), {"w": GROUPED}, IMAGE, {"group": 3, "pads": [1, 1, 1, 1]}),
    Case("Conv", ("x", "w"), {"w": LINE}, (3, 7), {"strides": [2], "pads": [1, 2]}),
    # pools
    Case("MaxPool", shape=IMAGE, attributes={"kernel_shape": [2, 3]}, opsets=(8, 10, 12, 21)),
    Case("MaxPool", shape=IMAGE, attributes={"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    Case("MaxPool", shape=IMAGE, attributes={"kernel_shape": [2, 2], "dilations": [2, 1], "storage_order": 1}),
    Case("MaxPool", shape=IMAGE, attributes={"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    Case("MaxPool", shape=(3, 7), attributes={"kernel_shape": [3], "strides": [2]}),
    Case("AveragePool", shape=IMAGE, attributes={"kernel_shape": [2, 3]}, exact=False),
    Case("AveragePool", shape=IMAGE, attributes={"kernel_shape": [2, 2], "pads": [1, 0, 0, 1]}, exact=False),
    Case(
        "AveragePool",
        shape=IMAGE,
        attributes={"kernel_shape": [2, 2], "pads": [1, 0, 0, 1], "count_include_pad": 1},
        exact=False,
    ),
    Case("GlobalAveragePool", shape=IMAGE, exact=False),
    Case("GlobalMaxPool", shape=IMAGE),
    # movement
    Case("Flatten", shape=IMAGE, opsets=(9, 11, 21)),
    Case("Flatten", shape=IMAGE, attributes={"axis": -3}, opsets=(11,)),
    Case("Reshape", ("x", "s"), {"s": ints(0, -1)}, IMAGE, opsets=(7, 13, 14, 21)),
    Case("Reshape", ("x", "s"), {"s": ints(-1, 30, 3)}, IMAGE),
    Case("Reshape", ("x", "s"), {"s": ints(-1, 0, 2, 15)}, IMAGE),
    Case("Reshape", ("x", "s"), {"s": ints(-1, 90)}, IMAGE, {"allowzero": 1}, opsets=(14,)),
    Case("Transpose", shape=IMAGE, attributes={"perm": [0, 2, 3, 1]}),
    Case("Transpose", shape=IMAGE, attributes={"perm": [0, 1, 2, 3]}),
    Case("Squeeze", shape=(1, 3, 1), attributes={"axes": [1, -1]}, opsets=(11,)),
    Case("Squeeze", ("x", "a"), {"a": ints(3)}, (1, 3, 1), opsets=(13, 21)),
    Case("Squeeze", shape=(1, 3, 1), opsets=(11, 13)),
    Case("Unsqueeze", shape=(3, 2), attributes={"axes": [2, 4]}, opsets=(11,)),
    Case("Unsqueeze", ("x", "a"), {"a": ints(1, -1)}, (3, 2)),
    Case("Concat", ("x", "x"), shape=(3, 2), attributes={"axis": 1}),
    Case("Concat", ("x", "x", "x"), shape=(3, 2), attributes={"axis": -1}),
    Case("Concat", ("x",), shape=(3, 2), attributes={"axis": 2}),
    Case("Slice", shape=IMAGE, attributes={"starts": [1, 0], "ends": [3, 4], "axes": [2, 3]}, opsets=(9,)),
    Case("Slice", ("x", "s", "e"), {"s": ints(0, 1), "e": ints(2**31 - 1, 3)}, IMAGE, opsets=(10, 11, 13)),
    Case("Slice", ("x", "s", "e", "a", "t"), {"s": ints(-5), "e": ints(2**62), "a": ints(-1), "t": ints(2)}, IMAGE),
    Case("Slice", ("x", "s", "e", "a"), {"s": ints(0), "e": ints(2**62), "a": ints(0)}, IMAGE),
    Case("Slice", ("x", "s", "e", "a", "t"), {"s": ints(-1), "e": ints(-(2**31)), "a": ints(1), "t": ints(-1)}, IMAGE),
    Case("Slice", ("x", "s", "e", "a", "t"), {"s": ints(4), "e": ints(0), "a": ints(-1), "t": ints(-2)}, IMAGE),
    Case("Split", shape=IMAGE, attributes={"axis": 1, "split": [1, 2]}, opsets=(9, 11), outputs=("y", "z")),
    Case("Split", ("x", "p"), {"p": ints(1, 2)}, IMAGE, {"axis": 1}, outputs=("y", "z")),
    Case("Split", shape=IMAGE, attributes={"axis": -1}, opsets=(13,), outputs=("y", "z")),
    Case("Split", shape=IMAGE, attributes={"axis": 2, "num_outputs": 2}, opsets=(18,), outputs=("y", "z")),
    # selection
    Case("ArgMax", shape=(3, 4), attributes={"axis": 1}, integer=True, opsets=(11, 13)),
    Case("ArgMax", shape=(3, 4), attributes={"axis": -1, "keepdims": 0}, integer=True),
    Case("ArgMin", shape=(3, 4), attributes={"axis": 2, "select_last_index": 0}, integer=True),
]


def feeds_of(case: Case) -> dict[str, Array]:
    rng = np.random.default_rng(1)
    x = np.round(rng.normal(size=(4, *case.shape)) * 16) / 8
    x[0] = np.round(x[0])  # ties for the selections, halves for the roundings
    if case.op in ("Sqrt", "Log"):
        x = np.abs(x) + 0.5
    return {"x": x.astype(np.float32)}


@pytest.mark.parametrize(("case", "opset"), [(c, opset) for c in CASES for opset in c.opsets], ids=str)
def test_rule(case: Case, opset: int) -> None:
    """Exact operators give the same bits; where ONNX Runtime approximates a function, the same to its precision."""
    proto = model(
        [node(case.op, case.inputs, case.outputs, **case.attributes)],
        {"x": ["N", *case.shape]},
        case.constants,
        case.outputs,
        opset,
        dict.fromkeys(case.outputs, INT64) if case.integer else None,
    )
    feeds = feeds_of(case)
    source = from_proto(proto)
    got = source.run(feeds)
    expected = onnxruntime_outputs(proto, feeds)
    assert list(got) == list(case.outputs)
    for name in case.outputs:
        assert got[name].dtype == expected[name].dtype
        assert got[name].shape == expected[name].shape
        if case.exact:
            assert np.array_equal(got[name], expected[name])
        else:
            assert np.allclose(got[name], expected[name], rtol=3e-6, atol=3e-7)
    integer = to_integer(source).graph.run(feeds)
    assert all(np.array_equal(integer[name], got[name]) for name in case.outputs)


def test_integer_casts() -> None:
    """Integers may be cast to any type that holds them."""
    nodes = [node("ArgMax", ["x"], ["i"], axis=1), node("Cast", ["i"], ["y"], to=TensorProto.INT8)]
    proto = model(nodes, {"x": ["N", 4]}, kinds={"y": TensorProto.INT8})
    x = np.float32([[0, 3, 1, 2], [5, 5, 0, 0]])
    got = from_proto(proto).run({"x": x})["y"]
    assert got.dtype == np.int8
    assert np.array_equal(got, onnxruntime_outputs(proto, {"x": x})["y"])


def test_a_cast_to_half_precision_rounds() -> None:
    nodes = [node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16), node("Cast", ["h"], ["y"], to=TensorProto.FLOAT)]
    proto = model(nodes, {"x": ["N", 3]})
    x = np.float32([[1 + 2**-12, 1e6, 0.1]])
    got = from_proto(proto).run({"x": x})["y"]
    assert np.array_equal(got, onnxruntime_outputs(proto, {"x": x})["y"])
    assert got.tolist() == [[1.0, np.inf, float(np.float16(0.1))]]


def test_cast_like() -> None:
    proto = model([node("CastLike", ["x", "like"])], {"x": ["N", 3]}, {"like": np.float32([1])})
    x = np.float32([[1.5, 2.0, -1.0]])
    assert np.array_equal(from_proto(proto).run({"x": x})["y"], x)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.FLOAT])
def test_inputs_and_outputs_of_other_float_types(kind: int) -> None:
    proto = model([node("Relu", ["x"])], {"x": ["N", 3]}, kinds={"x": kind, "y": kind})
    x = np.array([[1.5, -2.0, 0.25]], {1: np.float32, 10: np.float16, 11: np.float64}[kind])
    got = from_proto(proto).run({"x": x})["y"]
    assert got.dtype == x.dtype
    assert got.tolist() == [[1.5, 0.0, 0.25]]


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("ordered", [0, 1])
def test_top_k(k: int, largest: int, ordered: int) -> None:
    """Both outputs, in the order that is always allowed; ties go to the lower index."""
    attributes = {"largest": largest, "sorted": ordered}
    proto = model(
        [node("TopK", ["x", "k"], ["y", "i"], **attributes)],
        {"x": ["N", 2, 6]},
        {"k": ints(k)},
        ("y", "i"),
        kinds={"i": INT64},
    )
    x = np.round(np.random.default_rng(0).normal(size=(5, 2, 6)) * 2).astype(np.float32)
    got = from_proto(proto).run({"x": x})
    order = np.argsort(-x if largest else x, axis=-1, kind="stable")[..., :k]
    assert np.array_equal(got["i"], order)
    assert np.array_equal(got["y"], np.take_along_axis(x, order, -1))


@pytest.mark.parametrize(("axis", "keepdims"), [(1, 1), (2, 0), (3, 1)])
def test_top_k_and_arg_along_any_axis(axis: int, keepdims: int) -> None:
    nodes = [
        node("TopK", ["x", "k"], ["y", "i"], axis=axis),
        node("ArgMin", ["x"], ["a"], axis=axis, keepdims=keepdims),
    ]
    proto = model(nodes, {"x": ["N", 3, 4, 5]}, {"k": ints(2)}, ("y", "i", "a"), kinds={"i": INT64, "a": INT64})
    x = np.random.default_rng(0).permutation(2 * 60).reshape(2, 3, 4, 5).astype(np.float32)
    got, expected = from_proto(proto).run({"x": x}), onnxruntime_outputs(proto, {"x": x})
    assert all(np.array_equal(got[name], expected[name]) for name in expected)


def test_old_parametric_relu_has_a_slope_per_channel() -> None:
    proto = model([node("PRelu", ["x", "s"])], {"x": ["N", 2, 2]}, {"s": [0.5, 0.25]}, opset=6)
    x = np.float32([[[-4, 4], [-8, 8]]])
    assert from_proto(proto).run({"x": x})["y"].tolist() == [[[-2.0, 4.0], [-2.0, 8.0]]]


def test_old_arithmetic_with_its_broadcast_flag() -> None:
    nodes = [node("Add", ["x", "c"], ["s"], broadcast=1), node("Relu", ["s"], consumed_inputs=[0])]
    proto = model(nodes, {"x": ["N", 2]}, {"c": [1.0, -1.0]}, opset=6)
    assert from_proto(proto).run({"x": np.float32([[0, 0]])})["y"].tolist() == [[1.0, 0.0]]


def test_swish() -> None:
    proto = model([node("Swish", ["x"])], {"x": ["N", 2]}, opset=24)
    x = np.float32([[1.0, -2.0]])
    expected = [float(np.float32(v / (1 + np.exp(-v)))) for v in (1.0, -2.0)]
    assert from_proto(proto).run({"x": x})["y"].tolist() == [expected]
