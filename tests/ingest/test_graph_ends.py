"""What a file may hold at its ends and between its frames: constant outputs, attributes left as they are by default."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ingest.onnx_files import model, node, onnxruntime_outputs
from onnx import TensorProto

from headrace.errors import ModelError, UnsupportedError
from headrace.ingest import from_proto
from headrace.passes import to_integer

X = np.float32([[1, -2, 3, 0.5], [0, 7, -1, 2]])
QUANT = node("Quant", ["x", "s", "z", "b"], ["q"], signed=1, narrow=0)
CONSTANTS = {"s": np.float32([0.5]), "z": 0.0, "b": 4.0, "w": np.float32(np.eye(4) * 3)}


def test_outputs_that_are_constants() -> None:
    """TorchScript writes scale, zero point and bit width of a returned QuantTensor as graph outputs."""
    nodes = [QUANT, node("MatMul", ["q", "w"]), node("Mul", ["s", "s"], ["t"])]
    source = from_proto(model(nodes, {"x": ["N", 4]}, CONSTANTS, ("y", "s", "b", "t")))
    assert (source.outputs, sorted(source.constant_outputs)) == (("y",), ["b", "s", "t"])
    integer = to_integer(source)
    parts = integer.partition()
    known = {**(feeds := {"x": X}), **parts.head.run(feeds)}
    known |= parts.core.run({name: known[name] for name in parts.core.inputs})
    for got in (source.run(feeds), integer.graph.run(feeds), parts.tail.run({n: known[n] for n in parts.tail.inputs})):
        assert (got["s"].tolist(), got["s"].dtype, got["t"].tolist()) == ([0.5], np.float32, [0.25])
        assert (got["b"].shape, float(got["b"])) == ((), 4.0)
        assert len(got["y"]) == 2
    assert source.live().constant_outputs.keys() == source.constant_outputs.keys()


def test_a_constant_output_of_the_batch_size() -> None:
    nodes = [node("Relu", ["x"]), node("Shape", ["x"], ["n"])]
    with pytest.raises(ModelError, match="graph output 'n' is computed from the batch size, which is symbolic"):
        from_proto(model(nodes, {"x": ["N", 4]}, {}, ("y", "n"), kinds={"n": TensorProto.INT64}))
    fixed = from_proto(model(nodes, {"x": [2, 4]}, {}, ("y", "n"), kinds={"n": TensorProto.INT64}))
    assert fixed.constant_outputs["n"].tolist() == [2, 4]


DEFAULTS: list[tuple[str, list[str], dict[str, Any], int]] = [
    ("ReduceMean", ["x", "axes"], {"noop_with_empty_axes": 0, "keepdims": 1}, 18),
    ("ReduceMean", ["x", "axes"], {"noop_with_empty_axes": 1, "keepdims": 0}, 18),
    ("ReduceSum", ["x"], {"noop_with_empty_axes": 1, "keepdims": 0}, 13),
    ("MaxPool", ["image"], {"kernel_shape": [2, 1], "storage_order": 0, "ceil_mode": 0, "auto_pad": "NOTSET"}, 17),
    ("BatchNormalization", ["image", *"cccc"], {"epsilon": 1e-5, "momentum": 0.9, "training_mode": 0}, 15),
    ("Reshape", ["x", "shape"], {"allowzero": 0}, 14),
    ("Cast", ["x"], {"to": TensorProto.FLOAT, "saturate": 1}, 19),
]


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "opset"), DEFAULTS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_attributes_that_say_what_holds_anyway(
    op: str, inputs: list[str], attributes: dict[str, Any], opset: int
) -> None:
    constants = {"axes": np.int64([1]), "shape": np.int64([-1, 2, 2]), "c": np.float32([1, 2])}
    x = X if "x" in inputs else X.reshape(2, 2, 2, 1)
    name = "x" if "x" in inputs else "image"
    proto = model([node(op, inputs, **attributes)], {name: ["N", *x.shape[1:]]}, constants, opset=opset)
    got = from_proto(proto).run({name: x})["y"]
    assert np.allclose(got, onnxruntime_outputs(proto, {name: x})["y"], rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("Softmax", {"axis": 0}),
        ("Softmax", {"axis": -2}),
        ("LogSoftmax", {"axis": 0}),
        ("Hardmax", {"axis": 0}),
        ("LpNormalization", {"axis": 0}),
        ("Trilu", {}),
        ("MeanVarianceNormalization", {"axes": [0]}),
    ],
)
def test_host_operators_that_mix_frames(op: str, attributes: dict[str, Any]) -> None:
    """Their results have the right shape, but not the same values for a frame in another batch."""
    with pytest.raises(UnsupportedError, match=rf"{op} does not keep frames apart: .* \(axis 0\); choose an axis"):
        from_proto(model([node(op, ["x"], **attributes)], {"x": ["N", 4]}))


def test_initializers_among_the_inputs_may_be_constant_outputs() -> None:
    proto = model([node("Relu", ["x"])], {"x": ["N", 4], "c": []}, {"c": 2.0}, ("y", "c"))
    assert float(from_proto(proto).run({"x": X})["c"]) == 2.0


def test_scales_that_are_computed_from_data() -> None:
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], "dynamic"),
        node("DequantizeLinear", ["q", "s", "z"]),
    ]
    with pytest.raises(
        UnsupportedError, match=r"node 'dynamic' .*only a static scale .* QuantizeLinear with a constant"
    ):
        from_proto(model(nodes, {"x": ["N", 4]}))
