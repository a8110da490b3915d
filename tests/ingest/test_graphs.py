"""Graphs as exporters write them: constants from anywhere, any order, symbolic batches, names of all kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from ingest.onnx_files import Array, model, node, onnxruntime_outputs
from onnx import TensorProto, helper, numpy_helper

from headrace.errors import UnsupportedError
from headrace.ingest import from_proto
from headrace.ir import TensorType, Value
from headrace.ir.ops import Mul

QUANT = {"signed": 1, "narrow": 0}
X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def check(proto: onnx.ModelProto, x: Array = X) -> None:
    feeds = {"x": x}
    got, expected = from_proto(proto).run(feeds), onnxruntime_outputs(proto, feeds)
    assert set(got) == set(expected)
    for name in got:
        assert np.array_equal(got[name], expected[name])


def constant(name: str, **value: Any) -> Any:
    return helper.make_node("Constant", [], [name], **value)


def test_initializers_may_be_listed_as_inputs() -> None:
    proto = model([node("Mul", ["x", "c"])], {"x": ["N", 4], "c": [4]}, {"c": [1.0, 2.0, 3.0, 4.0]})
    assert from_proto(proto).inputs == ("x",)
    check(proto)


@pytest.mark.parametrize(
    "value",
    [
        {"value": numpy_helper.from_array(np.float32([2.5]))},
        {"value": numpy_helper.from_array(np.float32(2.5))},
        {"value_float": 2.5},
        {"value_floats": [2.5]},
    ],
)
def test_constant_nodes(value: dict[str, Any]) -> None:
    check(model([constant("c", **value), node("Mul", ["x", "c"])], {"x": ["N", 4]}))


def test_integer_constants_feed_shapes() -> None:
    nodes = [constant("s", value_ints=[-1, 2, 2]), node("Reshape", ["x", "s"])]
    check(model(nodes, {"x": ["N", 4]}))
    nodes = [constant("k", value_int=1), node("Unsqueeze", ["k", "zero"], ["a"]), node("Unsqueeze", ["x", "a"])]
    check(model(nodes, {"x": ["N", 4]}, {"zero": np.array([0])}))


def test_constant_subgraphs() -> None:
    """Scale by ReduceMax, bit width by Cast, zero point by ConstantOfShape: all that exporters leave unfolded."""
    nodes = [
        node("Abs", ["v"], ["a"]),
        node("ReduceMax", ["a"], ["m"], keepdims=0),
        node("Div", ["m", "seven"], ["s"]),
        node("Cast", ["four"], ["b"], to=TensorProto.FLOAT),
        node("Shape", ["s"], ["scalar"]),
        node("ConstantOfShape", ["scalar"], ["z"]),
        node("Quant", ["v", "s", "z", "b"], ["w"], **QUANT),
        node("MatMul", ["x", "w"]),
    ]
    v = np.float32(np.random.default_rng(1).normal(size=(4, 2)))
    proto = model(nodes, {"x": ["N", 4]}, {"v": v, "seven": 7.0, "four": np.array(4)})
    grid = from_proto(proto).op("make_y").weights.grid  # type: ignore[attr-defined]
    assert np.unique(grid.scale).tolist() == [float(np.float32(np.abs(v).max()) / np.float32(7))]
    assert np.abs(grid.q).max() == 7


@pytest.mark.parametrize(
    ("op", "left", "right", "result"),
    [
        ("Div", np.array([7, -7, 6]), np.array([2, 2, -4]), [3, -3, -1]),
        ("Mul", np.array([7, -7, 6]), np.array([2, 2, -4]), [14, -14, -24]),
        ("Sub", np.float32([1.5]), np.float32([0.25]), [1.25]),
        ("Pow", np.float32([1.5]), np.float32([2.0]), [2.25]),
        ("Min", np.float32([1.5, 0.0]), np.float32([0.5, 1.0]), [0.5, 0.0]),
    ],
)
def test_folded_arithmetic(op: str, left: Array, right: Array, result: list[float]) -> None:
    nodes = [node(op, ["l", "r"], ["c"]), node("Cast", ["c"], ["f"], to=TensorProto.FLOAT), node("Mul", ["x", "f"])]
    source = from_proto(model(nodes, {"x": ["N", len(result)]}, {"l": left, "r": right}))
    op_ = source.op("make_y")
    assert isinstance(op_, Mul)
    assert op_.factor.ravel().tolist() == result


def test_folding_honours_attributes() -> None:
    """Shape has start and end since opset 15: a quick path that skips them would give another shape."""
    nodes = [
        node("Shape", ["c"], ["s"], start=1, end=-1),
        node("Concat", ["one", "s"], ["t"], axis=0),
        node("Reshape", ["x", "t"]),
    ]
    proto = model(nodes, {"x": ["N", 4]}, {"c": np.zeros((9, 2, 2, 7), np.float32), "one": np.array([-1])})
    assert from_proto(proto).run({"x": X})["y"].shape == (3, 2, 2)


@pytest.mark.parametrize("batch", ["N", None, 1, 3])
def test_flatten_by_shape_arithmetic(batch: object) -> None:
    """x.view(x.size(0), -1) as PyTorch writes it."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "first"], ["n"], axis=0),
        node("Unsqueeze", ["n", "first1"], ["n1"]),
        node("Concat", ["n1", "rest"], ["target"], axis=0),
        node("Reshape", ["x", "target"]),
    ]
    constants = {"first": np.array(0), "first1": np.array([0]), "rest": np.array([-1])}
    proto = model(nodes, {"x": [batch, 2, 2]}, constants)  # type: ignore[list-item]
    x = X.reshape(3, 2, 2)
    source = from_proto(proto)
    assert source.run({"x": x})["y"].tolist() == X.tolist()
    assert source.run({"x": x[:1]})["y"].tolist() == X[:1].tolist()


SIZE = [node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "at"], ["n"], axis=0)]


@pytest.mark.parametrize("batch", ["N", 3])
@pytest.mark.parametrize("axis", [0, 1])
def test_arithmetic_with_a_size(batch: object, axis: int) -> None:
    """A symbolic batch has no value: what is computed from it is refused, never guessed. Other sizes are constants."""
    nodes = [*SIZE, node("Cast", ["n"], ["f"], to=TensorProto.FLOAT), node("Div", ["x", "f"])]
    proto = model(nodes, {"x": [batch, 4]}, {"at": np.array(axis)})  # type: ignore[list-item]
    if axis == 0 and batch == "N":
        with pytest.raises(
            UnsupportedError, match=r"\(Div\): its input 1 is computed from the batch size, which is sym"
        ):
            from_proto(proto)
    else:
        check(proto)


@pytest.mark.parametrize("rest", [[4], [2, 2], [-1]])
def test_shapes_that_begin_with_the_batch(rest: list[int]) -> None:
    nodes = [
        *SIZE,
        node("Unsqueeze", ["n", "zero"], ["n1"]),
        node("Concat", ["n1", "rest"], ["target"], axis=0),
        node("Reshape", ["x", "target"]),
    ]
    constants = {"at": np.array(0), "zero": np.array([0]), "rest": np.array(rest)}
    check(model(nodes, {"x": ["N", 4]}, constants))


def test_shapes_that_fold_the_batch_away() -> None:
    """[1, 4 * N] makes one frame of all: for one frame it looks like an ordinary reshape."""
    nodes = [
        *SIZE,
        node("Mul", ["n", "four"], ["m"]),
        node("Unsqueeze", ["m", "zero"], ["m1"]),
        node("Concat", ["one", "m1"], ["target"], axis=0),
        node("Reshape", ["x", "target"]),
    ]
    constants = {"at": np.array(0), "four": np.array(4), "zero": np.array([0]), "one": np.array([1])}
    with pytest.raises(UnsupportedError, match=r"\(Reshape\): its input 1 is computed from the batch size"):
        from_proto(model(nodes, {"x": ["N", 4]}, constants))


def test_nodes_need_not_be_sorted() -> None:
    nodes = [
        node("Relu", ["b"]),
        node("Mul", ["a", "c"], ["b"]),
        node("Add", ["x", "c"], ["a"]),
        constant("c", value_float=2.0),
    ]
    assert from_proto(model(nodes, {"x": ["N", 4]})).run({"x": X})["y"].tolist() == np.maximum((X + 2) * 2, 0).tolist()


def test_long_graphs_in_reverse_order() -> None:
    nodes = [node("Relu", [f"t{k}"], [f"t{k + 1}"]) for k in range(1500)] + [node("Relu", ["x"], ["t0"])]
    proto = model([*nodes[::-1], node("Relu", ["t1500"])], {"x": ["N", 4]})
    proto.graph.node.sort(key=lambda n: n.output[0], reverse=True)
    assert len(from_proto(proto)) == 1504


def test_what_no_output_needs_is_left_out() -> None:
    nodes = [node("Relu", ["x"]), node("Softmax", ["x"], ["unused"]), node("Relu", ["unused"], ["unused2"])]
    assert list(from_proto(model(nodes, {"x": ["N", 4]}))) == ["x", "make_y", "y"]


def test_several_outputs_one_of_them_an_input() -> None:
    proto = model([node("Relu", ["x"])], {"x": ["N", 4]}, outputs=("y", "x"))
    got = from_proto(proto).run({"x": X})
    assert np.array_equal(got["x"], X)
    assert np.array_equal(got["y"], np.maximum(X, 0))


def test_a_tensor_read_twice_by_one_node() -> None:
    check(model([node("Add", ["x", "x"])], {"x": ["N", 4]}))
    check(model([node("Concat", ["x", "x"], axis=1)], {"x": ["N", 4]}))


NAMES = ["a/b; rm -rf", "module", "../../x", "x", "y", "", "名前", "a b\n", "Input", "'\"{{}}", "N" * 500, "a.1", "y_1"]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_all_kinds(name: str) -> None:
    """Two nodes of one name, or of a tensor's name: kept apart, and the outputs keep the names of the model."""
    nodes = [helper.make_node("Relu", ["x"], ["t"], name), helper.make_node("Neg", ["t"], ["y"], name)]
    source = from_proto(model(nodes, {"x": ["N", 4]}))
    assert len(set(source)) == 4
    assert source.outputs == ("y",)
    assert np.array_equal(source.run({"x": X})["y"], -np.maximum(X, 0))


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("", "y")])
def test_tensors_of_all_names(name: str) -> None:
    source = from_proto(model([node("Relu", [name])], {name: ["N", 4]}))
    assert source.inputs == (name,)
    assert np.array_equal(source.run({name: X})["y"], np.maximum(X, 0))


def test_local_functions_are_inlined() -> None:
    function = helper.make_function(
        "my.domain",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    proto = model([helper.make_node("Twice", ["x"], ["y"], domain="my.domain")], {"x": ["N", 4]})
    proto.functions.append(function)
    proto.opset_import.append(helper.make_opsetid("my.domain", 1))
    assert np.array_equal(from_proto(proto).run({"x": X})["y"], X + X)


def test_the_domain_may_be_spelt_out() -> None:
    proto = model([helper.make_node("Relu", ["x"], ["y"], domain="ai.onnx")], {"x": ["N", 4]})
    assert np.array_equal(from_proto(proto).run({"x": X})["y"], np.maximum(X, 0))


def test_integer_inputs_have_the_range_of_their_type() -> None:
    for kind, dtype in ((TensorProto.UINT8, np.uint8), (TensorProto.INT8, np.int8), (TensorProto.INT32, np.int32)):
        nodes = [node("Cast", ["x"], ["f"], to=TensorProto.FLOAT), node("Mul", ["f", "c"])]
        source = from_proto(model(nodes, {"x": ["N", 4]}, {"c": 0.5}, kinds={"x": kind}))
        limits = np.iinfo(dtype)
        r = source.type(Value("x")).int_range
        assert (r.lo, r.hi) == (limits.min, limits.max)
        x = np.array([[0, 1, 100, limits.max]], dtype)
        assert source.run({"x": x})["y"].tolist() == (x.astype(np.float32) * 0.5).tolist()


def test_operators_without_a_rule_run_on_the_host() -> None:
    check(model([node("Softmax", ["x"], axis=1)], {"x": ["N", 4]}), np.float32([[0, 0, 0, 0]]))
    check(
        model([node("Softmax", ["x"], ["s"], axis=-1), node("Relu", ["s"])], {"x": ["N", 4]}),
        np.zeros((2, 4), np.float32),
    )
    source = from_proto(model([node("ReduceL2", ["x"], axes=[1], keepdims=0)], {"x": ["N", 4]}, opset=13))
    assert source.type(Value("make_y")) == TensorType(())
    assert np.allclose(source.run({"x": X})["y"], np.sqrt((X * X).sum(1)))


@pytest.mark.parametrize(
    ("op", "attributes"),
    [("Shrink", {"lambd": 0.3, "bias": 0.1}), ("Hardmax", {"axis": 1}), ("LogSoftmax", {"axis": 1})],
)
def test_their_attributes_count(op: str, attributes: dict[str, Any]) -> None:
    proto = model([node(op, ["x"], **attributes)], {"x": ["N", 4]})
    got, expected = from_proto(proto).run({"x": X})["y"], onnxruntime_outputs(proto, {"x": X})["y"]
    assert np.allclose(got, expected, rtol=1e-6)


def test_a_model_wrapper_is_accepted() -> None:
    class Wrapper:
        """As qonnx's ModelWrapper holds its model."""

        model = model([node("Relu", ["x"])], {"x": ["N", 4]})

    assert np.array_equal(from_proto(Wrapper()).run({"x": X})["y"], np.maximum(X, 0))  # type: ignore[arg-type]
