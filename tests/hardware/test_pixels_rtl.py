"""Convolutions that make several pixels at once, in simulation: exact, at the rate that was asked for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import headrace
from headrace.errors import FoldingError
from headrace.ir import Graph
from headrace.passes.pixels import pixels_for
from headrace.schedule.streams import layers

from .cores import INT4, Core, random_frames
from .simulated import Settings, check_rtl

pytestmark = pytest.mark.sim


def network(seed: int = 0) -> Graph:
    """Two convolutions, the second with a stride, and a matrix product."""
    core = Core(seed)
    x = core.conv(core.input((2, 6, 8), INT4), 3, (3, 3), "conv0", pad=1)
    x = core.activation(x, name="act0")
    core.output(core.activation(core.conv(x, 4, (2, 2), "conv1", stride=2), name="act1"))
    return core.graph


@pytest.mark.parametrize("cycles", [24, 12, 6])
@pytest.mark.parametrize("stalls", [0.0, 0.3])
def test_a_frame_in_fewer_cycles_than_pixels(cycles: int, stalls: float, tmp_path: Path) -> None:
    core = network()
    pixels = pixels_for(core, cycles)
    assert pixels["conv0"] == 48 // cycles
    settings = Settings(target_fps=200e6 / cycles)
    options = {"stall_in": stalls, "stall_out": stalls} if stalls else {}
    design = check_rtl(core, random_frames(core, 5), tmp_path / "d", settings, pixels=pixels, **options)
    assert max(layer.cycles for layer in layers(design.graph).values()) <= cycles


def model(folder: Path) -> Path:
    """A QONNX convolution of 3-bit weights on a 1 x 6 x 8 image, and an activation."""
    rng = np.random.default_rng(0)
    numbers = {"s": 0.5, "z": 0.0, "b": 3.0, "w": rng.integers(-3, 4, (3, 1, 3, 3)) * 0.5}
    constants = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in numbers.items()]
    quant = {"domain": "qonnx.custom_op.general", "narrow": 0, "rounding_mode": "ROUND"}
    nodes = [
        helper.make_node("Quant", ["x", "s", "z", "b"], ["q"], "q", signed=1, **quant),
        helper.make_node("Quant", ["w", "s", "z", "b"], ["wq"], "wq", signed=1, **quant),
        helper.make_node("Conv", ["q", "wq"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Quant", ["r", "s", "z", "b"], ["y"], "act", signed=0, **quant),
    ]
    ends = [
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, 6, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3, 6, 8])],
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("qonnx.custom_op.general", 1)]
    graph = helper.make_graph(nodes, "image", *ends, constants)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "image.onnx")
    return folder / "image.onnx"


def test_builds_reach_such_a_rate_and_open_again(tmp_path: Path) -> None:
    path = model(tmp_path)
    design = headrace.build(path, tmp_path / "out", target_fps=200e6 / 24)
    assert design.performance.interval <= 24
    written = json.loads((tmp_path / "out" / "folding.json").read_text())
    assert written["MVAU_0"]["M"] == 2
    x = np.random.default_rng(1).normal(size=(4, 1, 6, 8)).astype(np.float32)
    expected = design.run({"x": x}, mode="float")["y"]
    again = headrace.load(tmp_path / "out")
    assert again.plan.digest == design.plan.digest
    simulated = again.simulate({"x": x})
    assert np.array_equal(simulated.outputs["y"], expected)
    assert max(simulated.result.interval.values()) <= 24
    asked = headrace.build(path, tmp_path / "asked", folding={"MVAU_0": {"M": 2, "layer": "conv"}})
    assert asked.hardware.pixels == {"conv": 2}
    assert np.array_equal(asked.run({"x": x}, mode="rtl")["y"], expected)
    assert np.array_equal(asked.run({"x": x}, mode="hls")["y"], expected)
    copied = headrace.build(path, tmp_path / "copied", folding=tmp_path / "out" / "folding.json")
    assert copied.plan.digest == design.plan.digest


@pytest.mark.parametrize(
    ("folding", "message"),
    [
        ({"conv": {"M": 3}}, r"layer 'conv': M=3 pixels at once do not fit; valid: 1, 2, 4, 8"),
        ({"MVAU_0": {"M": 0}}, r'key "MVAU_0": M=0 must be a number of pixels, 1 or more'),
        ({"MVAU_0": {"M": "2"}}, r"M='2' must be a number of pixels"),
        ({"act": {"M": 2}}, r"layer 'act': M=2 pixels at once do not fit; valid: 1$"),
    ],
)
def test_what_does_not_fit_is_refused(folding: dict[str, dict[str, object]], message: str, tmp_path: Path) -> None:
    with pytest.raises(FoldingError, match=message):
        headrace.build(model(tmp_path), tmp_path / "out", folding=folding)
    assert not (tmp_path / "out").exists()
