"""Import rules against ONNX Runtime: resampling, padding, reductions, joins, integer dialects."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from ingest.onnx_files import Array, Shape, model, node, onnxruntime_outputs
from ingest.test_rules import IMAGE, Case, ints, test_rule
from onnx import TensorProto, helper

from headrace.errors import UnsupportedError
from headrace.ingest import from_proto
from headrace.passes import to_integer

MICROSOFT = "com.microsoft"
RNG = np.random.default_rng(0)
TRANSPOSED = RNG.integers(-4, 5, (3, 2, 3, 2)).astype(np.float32)
SMALL = (2, 3, 4)
E = np.float32([])


def resize(**attributes: Any) -> list[Case]:
    """Up by whole factors, by broken ones, and down; by scales and by sizes."""
    scales = ([1, 1, 2, 3], [1, 1, 1.5, 2], [1, 1, 0.5, 0.75], [1, 2, 1, 1])
    sizes = ([6, 8], [5, 3])
    axes = {"axes": [2, 3]}
    return [
        *(Case("Resize", ("x", "", "s"), {"s": np.float32(s)}, SMALL, attributes, (13, 19)) for s in scales),
        *(Case("Resize", ("x", "", "", "s"), {"s": ints(*s)}, SMALL, attributes | axes, (18, 19)) for s in sizes),
    ]


TRANSFORMS = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
CASES = [
    # transposed convolutions
    Case("ConvTranspose", ("x", "w"), {"w": TRANSPOSED}, IMAGE, opsets=(11, 17)),
    Case("ConvTranspose", ("x", "w"), {"w": TRANSPOSED}, IMAGE, {"strides": [2, 3], "pads": [1, 0, 2, 1]}),
    Case("ConvTranspose", ("x", "w"), {"w": TRANSPOSED}, IMAGE, {"strides": [2, 3], "output_padding": [1, 2]}),
    Case("ConvTranspose", ("x", "w"), {"w": TRANSPOSED}, IMAGE, {"dilations": [2, 1], "strides": [1, 2]}),
    Case("ConvTranspose", ("x", "w", "b"), {"w": TRANSPOSED, "b": [1.0, -2.0]}, IMAGE, {"kernel_shape": [3, 2]}),
    Case("ConvTranspose", ("x", "w"), {"w": TRANSPOSED[:, :1]}, IMAGE, {"group": 3}),
    Case("ConvTranspose", ("x", "w"), {"w": TRANSPOSED}, IMAGE, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    Case("ConvTranspose", ("x", "w"), {"w": TRANSPOSED}, IMAGE, {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    Case("ConvTranspose", ("x", "w"), {"w": TRANSPOSED}, IMAGE, {"output_shape": [10, 12], "strides": [2, 2]}),
    Case("ConvTranspose", ("x", "w"), {"w": TRANSPOSED[..., 0]}, (3, 5), {"strides": [2]}),
    # resampling
    *(c for t in TRANSFORMS for c in resize(mode="nearest", coordinate_transformation_mode=t)),
    *(
        c
        for n in ("floor", "ceil", "round_prefer_ceil", "round_prefer_floor")
        for c in resize(nearest_mode=n, coordinate_transformation_mode="half_pixel")
    ),
    *(c for c in resize(coordinate_transformation_mode="half_pixel_symmetric") if c.opsets == (18, 19)),
    Case(
        "Resize",
        ("x", "", "s"),
        {"s": np.float32([1, 1, 1.9, 2.3])},
        SMALL,
        {"coordinate_transformation_mode": "half_pixel_symmetric"},
        (19,),
    ),
    Case("Resize", ("x", "s"), {"s": np.float32([1, 1, 2, 2])}, SMALL, {"mode": "nearest"}, (10,)),
    Case("Resize", ("x", "", "s"), {"s": np.float32([2, 3])}, SMALL, {"axes": [2, 3]}, (18,)),
    Case("Upsample", ("x", "s"), {"s": np.float32([1, 1, 2, 3])}, SMALL, {"mode": "nearest"}, (9,)),
    Case("Upsample", shape=SMALL, attributes={"mode": "nearest", "scales": [1.0, 1.0, 2.0, 3.0]}, opsets=(7,)),
    # padding
    Case("Pad", ("x", "p"), {"p": ints(0, 0, 1, 2, 0, 0, 0, 3)}, SMALL, opsets=(11, 13, 18)),
    Case("Pad", ("x", "p", "v"), {"p": ints(0, 1, 1, 0, 0, 2, 0, 3), "v": np.float32(1.5)}, SMALL),
    Case("Pad", ("x", "p", "", "a"), {"p": ints(1, 2, 0, 1), "a": ints(2, -1)}, SMALL, opsets=(18,)),
    Case("Pad", ("x", "p"), {"p": ints(0, 0, -1, 2, 0, 0, 0, -1)}, SMALL),
    Case("Pad", ("x", "p"), {"p": ints(0, 0, 1, 2, 0, 0, 2, 3)}, SMALL, {"mode": "reflect"}),
    Case("Pad", ("x", "p"), {"p": ints(0, 1, 1, 5, 0, 0, 2, 3)}, SMALL, {"mode": "edge"}),
    Case("Pad", ("x", "p"), {"p": ints(0, 0, 1, 2, 0, 0, 2, 3)}, SMALL, {"mode": "wrap"}, (19,)),
    Case("Pad", shape=SMALL, attributes={"pads": [0, 0, 1, 0, 0, 0, 0, 2], "value": -0.5}, opsets=(7,)),
    # gathering and repeating
    Case("Gather", ("x", "i"), {"i": ints(2, 0, 0, -1)}, SMALL, {"axis": 2}),
    Case("Gather", ("x", "i"), {"i": ints(1)[0]}, SMALL, {"axis": 3}),
    Case("Gather", ("x", "i"), {"i": ints(0, 1, 1, 0).reshape(2, 2)}, SMALL, {"axis": -1}),
    Case("Gather", ("x", "i"), {"i": ints(0, 2, 1, 3)}, (4, 2), {"axis": 1}),
    Case("Tile", ("x", "r"), {"r": ints(1, 2, 1, 3)}, SMALL),
    Case("Expand", ("x", "s"), {"s": ints(1, 2, 3, 4)}, (1, 3, 1)),
    Case("Expand", ("x", "s"), {"s": ints(5, 1)}, (2, 1, 1)),
    Case("Expand", ("x", "s"), {"s": ints(3, 1)}, (2, 3, 4)),
    Case("DepthToSpace", shape=(8, 2, 3), attributes={"blocksize": 2}),
    Case("DepthToSpace", shape=(8, 2, 3), attributes={"blocksize": 2, "mode": "CRD"}, opsets=(11, 13)),
    Case("SpaceToDepth", shape=(2, 4, 6), attributes={"blocksize": 2}),
    # reductions
    *(
        Case(op, shape=shape, attributes={"axes": axes, "keepdims": keep}, opsets=(11,), exact=op != "ReduceMean")
        for op in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum")
        for shape, axes in (
            ((3,), [1]),
            (IMAGE, [2, 3]),
            (IMAGE, [-1]),
            (IMAGE, [1]),
            (IMAGE, [1, 3]),
            ((2, 3), [1, 2]),
        )
        for keep in (0, 1)
    ),
    Case("ReduceSum", ("x", "a"), {"a": ints(2)}, IMAGE, opsets=(13,)),
    Case("ReduceMax", ("x", "a"), {"a": ints(2, 3)}, IMAGE, {"keepdims": 0}, (18,)),
    Case("ReduceSum", shape=IMAGE, attributes={"noop_with_empty_axes": 1}, opsets=(13,)),
    # pools
    *(
        Case("MaxPool", shape=(2, 7, 8), attributes={"kernel_shape": [3, 2], "strides": s, "pads": p, "ceil_mode": 1})
        for s in ([2, 2], [3, 3])
        for p in ([0, 0, 0, 0], [1, 0, 1, 1])
    ),
    *(
        Case(
            "AveragePool",
            shape=(2, 7, 8),
            attributes={"kernel_shape": [3, 2], "strides": s, "ceil_mode": 1},
            exact=False,
        )
        for s in ([2, 2], [3, 3])
    ),
    # joins
    *(Case(op, ("x", "x")) for op in ("Max", "Min")),
    *(Case(op, ("x", "c"), {"c": [[0.5], [-1.0], [0.25]]}) for op in ("Max", "Min", "Sum")),
    *(Case(op, ("c", "x", "d"), {"c": 0.5, "d": [[-1.0], [0.75], [0.0]]}) for op in ("Max", "Min", "Sum")),
    Case("Mean", ("x", "x", "c"), {"c": 0.5}, exact=False),
    Case("Sum", ("x", "x", "x")),
    Case("Max", ("x",)),
]


@pytest.mark.parametrize(("case", "opset"), [(c, opset) for c in CASES for opset in c.opsets], ids=str)
def test_another_rule(case: Case, opset: int) -> None:
    """As in test_rules, whose check this is."""
    test_rule(case, opset)


@pytest.mark.parametrize("batch", [1, 3])
def test_resize_by_sizes_with_the_batch(batch: int) -> None:
    proto = model([node("Resize", ["x", "", "", "s"])], {"x": [batch, *SMALL]}, {"s": ints(batch, 2, 6, 5)})
    x = np.arange(batch * 24, dtype=np.float32).reshape(batch, *SMALL)
    assert np.array_equal(from_proto(proto).run({"x": x})["y"], onnxruntime_outputs(proto, {"x": x})["y"])


def test_tensors_that_broadcast() -> None:
    for op in ("Add", "Sub", "Mul", "Max", "Min"):
        nodes = [node("GlobalMaxPool", ["x"], ["g"]), node(op, ["x", "g"])]
        proto = model(nodes, {"x": ["N", *IMAGE]})
        x = np.round(np.random.default_rng(0).normal(size=(3, *IMAGE)) * 8).astype(np.float32) / 4
        got = from_proto(proto).run({"x": x})["y"]
        assert np.array_equal(got, onnxruntime_outputs(proto, {"x": x})["y"])


# -- integers -----------------------------------------------------------------------------------------------------


def integers(
    op: str,
    inputs: list[str],
    constants: dict[str, Any],
    kinds: dict[str, int],
    shapes: dict[str, Shape],
    **attributes: Any,
) -> onnx.ModelProto:
    """One operator on integers, possibly one of ONNX Runtime's own."""
    domain = MICROSOFT if op in _MICROSOFT else ""
    proto = model([node(op, inputs, domain=domain, **attributes)], shapes, constants, kinds=kinds)
    proto.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    return proto


_MICROSOFT = (
    "QGemm",
    "QLinearAdd",
    "QLinearMul",
    "QLinearSigmoid",
    "QLinearLeakyRelu",
    "QLinearConcat",
    "QLinearGlobalAveragePool",
)
KINDS = {np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8}


def codes(shape: tuple[int, ...], kind: type, count: int = 6) -> Array:
    """Random codes, one frame of the smallest and one of the largest."""
    limits = np.iinfo(kind)
    x = np.random.default_rng(0).integers(limits.min, limits.max + 1, (count, *shape))
    x[0], x[-1] = limits.min, limits.max
    return x.astype(kind)


def check(proto: onnx.ModelProto, feeds: dict[str, Array]) -> None:
    """ONNX Runtime's integers, in both modes, with nothing left to the host."""
    source = from_proto(proto)
    got, expected = source.run(feeds)["y"], onnxruntime_outputs(proto, feeds)["y"]
    assert got.dtype == expected.dtype
    assert np.array_equal(got, expected)
    integer = to_integer(source)
    assert np.array_equal(integer.graph.run(feeds)["y"], got)
    assert integer.blockers == ()


@pytest.mark.parametrize("x_kind", KINDS)
@pytest.mark.parametrize("w_kind", KINDS)
@pytest.mark.parametrize("zeros", [False, True])
def test_matmul_integer(x_kind: type, w_kind: type, zeros: bool) -> None:
    w = codes((5,), w_kind, 4)
    constants: dict[str, Any] = {"w": w} | ({"a": x_kind(3), "b": w_kind(7)} if zeros else {})
    kinds = {"x": KINDS[x_kind], "y": TensorProto.INT32}
    proto = integers("MatMulInteger", ["x", "w", *("ab" if zeros else "")], constants, kinds, {"x": ["N", 4]})
    check(proto, {"x": codes((4,), x_kind)})


@pytest.mark.parametrize("x_kind", [np.uint8])
@pytest.mark.parametrize("w_kind", KINDS)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("attributes", [{}, {"pads": [1, 1, 0, 2], "strides": [2, 1]}, {"group": 3}], ids=str)
def test_conv_integer(x_kind: type, w_kind: type, zeros: bool, attributes: dict[str, Any]) -> None:
    w = codes((3 // attributes.get("group", 1), 2, 3), w_kind, 6)
    constants: dict[str, Any] = {"w": w} | ({"a": x_kind(130), "b": w_kind(0)} if zeros else {})
    kinds = {"x": KINDS[x_kind], "y": TensorProto.INT32}
    shapes: dict[str, Shape] = {"x": ["N", *IMAGE]}
    proto = integers("ConvInteger", ["x", "w", *("ab" if zeros else "")], constants, kinds, shapes, **attributes)
    check(proto, {"x": codes(IMAGE, x_kind)})


def qlinear(kind: type, w: Array, channels: int | None = None) -> dict[str, Any]:
    """Scales and zero points of a product; one weight scale, or one per channel."""
    scale = (
        np.float32(0.013)
        if channels is None
        else np.random.default_rng(1).uniform(0.001, 0.03, channels).astype(np.float32)
    )
    zero = w.dtype.type(0) if channels is None else np.zeros(channels, w.dtype)
    return {
        "xs": np.float32(0.021),
        "xz": kind(5),
        "w": w,
        "ws": scale,
        "wz": zero,
        "ys": np.float32(0.37),
        "yz": kind(11),
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_qlinear_conv(kind: type, per_channel: bool, bias: bool) -> None:
    w = codes((3, 2, 3), np.int8, 4)
    constants = qlinear(kind, w, 4 if per_channel else None)
    inputs = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    if bias:
        constants["b"] = np.array([1000, -3, 0, 70000], np.int32)
        inputs.append("b")
    kinds = {"x": KINDS[kind], "y": KINDS[kind]}
    proto = integers("QLinearConv", inputs, constants, kinds, {"x": ["N", *IMAGE]}, pads=[1, 0, 0, 1])
    check(proto, {"x": codes(IMAGE, kind)})


@pytest.mark.parametrize("kind", KINDS)
def test_qlinear_matmul(kind: type) -> None:
    constants = qlinear(kind, codes((4,), kind, 5))
    constants["wz"] = kind(3)
    inputs = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    proto = integers("QLinearMatMul", inputs, constants, {"x": KINDS[kind], "y": KINDS[kind]}, {"x": ["N", 5]})
    check(proto, {"x": codes((5,), kind)})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("transposed", [0, 1])
def test_qgemm(kind: type, real: bool, transposed: int) -> None:
    w = codes((4,), np.int8, 5)
    constants = qlinear(kind, w.T.copy() if transposed else w) | {"c": np.array([5, -500, 0, 9], np.int32)}
    inputs = ["x", "xs", "xz", "w", "ws", "wz", "c"] + ([] if real else ["ys", "yz"])
    kinds = {"x": KINDS[kind], "y": TensorProto.FLOAT if real else KINDS[kind]}
    proto = integers("QGemm", inputs, constants, kinds, {"x": ["N", 5]}, transB=transposed)
    feeds = {"x": codes((5,), kind)}
    if real:
        got, expected = from_proto(proto).run(feeds)["y"], onnxruntime_outputs(proto, feeds)["y"]
        assert np.allclose(got, expected, rtol=1e-6)
        assert np.array_equal(to_integer(from_proto(proto)).graph.run(feeds)["y"], got)
    else:
        check(proto, feeds)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("constant", [False, True])
def test_qlinear_arithmetic(kind: type, op: str, constant: bool) -> None:
    """Dequantize, one float32 operation, quantize: exact with these scales, whatever the order of operations."""
    constants: dict[str, Any] = {"s": np.float32(0.5), "t": np.float32(0.25), "u": np.float32(1.0), "z": kind(3)}
    shapes: dict[str, Shape] = {"x": ["N", 4]}
    kinds = {"x": KINDS[kind], "y": KINDS[kind]}
    if constant:
        constants["w"] = codes((4,), kind, 1)
    else:
        shapes["w"], kinds["w"] = ["N", 4], KINDS[kind]
    proto = integers(op, ["x", "s", "z", "w", "t", "z", "u", "z"], constants, kinds, shapes)
    feeds = {"x": codes((4,), kind)} | ({} if constant else {"w": codes((4,), kind)[::-1].copy()})
    check(proto, feeds)


@pytest.mark.parametrize("kind", KINDS)
def test_qlinear_functions(kind: type) -> None:
    constants = {"s": np.float32(0.03), "z": kind(3), "t": np.float32(1 / 256), "u": kind(0)}
    for op, attributes in (("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.25})):
        proto = integers(
            op,
            ["x", "s", "z", "t", "u"],
            constants,
            {"x": KINDS[kind], "y": KINDS[kind]},
            {"x": ["N", 4]},
            **attributes,
        )
        feeds = {"x": codes((4,), kind, 60)}
        source = from_proto(proto)
        got, expected = source.run(feeds)["y"], onnxruntime_outputs(proto, feeds)["y"]
        assert np.max(np.abs(got.astype(int) - expected)) <= 1, "a table of ONNX Runtime's own may be one off"
        assert np.mean(got != expected) < 0.02
        assert np.array_equal(to_integer(source).graph.run(feeds)["y"], got)


def test_cast_of_a_constant_to_the_type_of_the_data() -> None:
    """Only the type of the second input matters, so that the constant stays one."""
    nodes = [node("CastLike", ["c", "x"], ["k"]), node("Add", ["x", "k"])]
    proto = model(nodes, {"x": ["N", 3]}, {"c": np.array([1, -2, 2**24], np.int64)})
    feeds = {"x": np.float32([[0.5, 1, -1], [2, -3, 0.25]])}
    assert np.array_equal(from_proto(proto).run(feeds)["y"], onnxruntime_outputs(proto, feeds)["y"])
    proto = model([node("CastLike", ["x", "x"])], {"x": ["N", 3]})
    assert np.array_equal(from_proto(proto).run(feeds)["y"], feeds["x"])


@pytest.mark.parametrize("values", [[1, -129, 3], [1.0, 2.0, 3.0]])
def test_cast_of_a_constant_that_the_data_type_may_not_hold(values: list[float]) -> None:
    nodes = [node("CastLike", ["c", "x"], ["k"], "culprit"), node("Add", ["x", "k"])]
    proto = model(nodes, {"x": ["N", 3]}, {"c": np.array(values)}, kinds={"x": onnx.TensorProto.INT8})
    with pytest.raises(UnsupportedError, match=r"'culprit' .* integers from -128 to 127"):
        from_proto(proto)
