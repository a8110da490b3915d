"""A build that unrolls everything: one vector a cycle, activations inside the matrices, equal in simulation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import headrace
from headrace.errors import FoldingError
from headrace.schedule.streams import layers


def rounded_mlp() -> onnx.ModelProto:
    """Two matrices with a rounded, clamped activation between them: quantizers with scales that are powers of two."""
    rng = np.random.default_rng(0)
    constants = {
        "one": 1.0, "eighth": 8.0, "zero": 0.0, "four": 4.0,
        "w0": rng.integers(-7, 7, (8, 6)), "b0": rng.integers(-20, 20, 6), "w1": rng.integers(-7, 7, (6, 3)),
    }  # fmt: skip
    initializers = [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in constants.items()]

    def quant(x: str, y: str, scale: str, signed: int, rounding: str) -> onnx.NodeProto:
        attributes = {"signed": signed, "narrow": 0, "rounding_mode": rounding}
        return helper.make_node(
            "Quant", [x, scale, "zero", "four"], [y], None, None, "qonnx.custom_op.general", **attributes
        )

    nodes = [
        quant("x", "q", "one", 1, "ROUND"), quant("w0", "v0", "one", 1, "ROUND"), quant("w1", "v1", "one", 1, "ROUND"),
        helper.make_node("MatMul", ["q", "v0"], ["m"]), helper.make_node("Add", ["m", "b0"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]), quant("r", "h", "eighth", 0, "HALF_UP"),
        helper.make_node("MatMul", ["h", "v1"], ["y"]),
    ]  # fmt: skip
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, k]) for n, k in (("x", 8), ("y", 3))]
    graph = helper.make_graph(nodes, "mlp", ends[:1], ends[1:], initializers)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("qonnx.custom_op.general", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@pytest.mark.sim
def test_an_unrolled_network_takes_a_frame_a_cycle_and_is_equal(tmp_path: Path) -> None:
    design = headrace.build(rounded_mlp(), tmp_path / "out", unroll=True)
    kinds = [layer.kind for layer in layers(design.hardware.graph).values()]
    assert "Thresholding" not in kinds
    assert kinds.count("MVAU") == 2
    assert design.performance.interval == 1
    x = np.random.default_rng(1).integers(-8, 8, (64, 8)).astype(np.float32)
    expected = design.run({"x": x}, "float")["y"]
    assert np.array_equal(design.run({"x": x}, "rtl")["y"], expected)
    again = headrace.build(rounded_mlp(), tmp_path / "again", folding=tmp_path / "out" / "folding.json")
    assert again.plan.files["design.json"] == design.plan.files["design.json"]


def test_unroll_leaves_no_choice_for_a_rate(tmp_path: Path) -> None:
    with pytest.raises(FoldingError, match="leaves no choice for a target rate; give one"):
        headrace.build(rounded_mlp(), tmp_path / "out", unroll=True, target_fps=1000)
