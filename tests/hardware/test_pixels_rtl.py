"""Layers that make several pixels at once, in simulation: exact, at the rate that was asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import headrace
from headrace.codegen.design import generate
from headrace.codegen.plan import write_plan
from headrace.errors import FoldingError
from headrace.ir import Graph
from headrace.ir.integer import Concat, IntAdd, IntMaxPool, IntSumPool, IntUpsample, Reshape
from headrace.passes.pixels import pixels_for
from headrace.passes.to_hardware import to_hardware
from headrace.schedule import fastest_target, performance, schedule
from headrace.schedule.streams import layers
from headrace_sim import simulate

from .cores import INT4, Core, random_frames
from .pixel_operators import INT3, OPERATORS, add_operator
from .random_networks import RandomNetwork
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


def small_cnn(size: int = 8, channels: int = 4, seed: int = 0) -> Graph:
    """Convolution, pool, depthwise convolution, residual, global pool, matrix product."""
    core = Core(seed)
    x = core.activation(core.conv(core.input((1, size, size), INT4), channels, (3, 3), "conv", pad=1), name="act_conv")
    x = core.graph.add(IntMaxPool((2, 2), (2, 2), (1, 1), ((0, 0), (0, 0))), (x,), "pool")
    x = core.activation(core.conv(x, channels, (3, 3), "depthwise", pad=1, groups=channels), name="act_depthwise")
    y = core.activation(core.conv(x, channels, (1, 1), "pointwise"), name="act_pointwise")
    x = core.activation(core.graph.add(IntAdd((1, 1)), (x, y), "add"), name="act_add")
    whole = (size // 2, size // 2)
    x = core.graph.add(IntSumPool(whole, (1, 1), (1, 1), ((0, 0), (0, 0))), (x,), "global")
    x = core.graph.add(Reshape((channels,)), (core.activation(x, name="act_global"),), "flat")
    core.output(core.matmul(x, 5, "fc"))
    return core.graph


def u_net(size: int = 8, seed: int = 0) -> Graph:
    """Down by a stride, up by repeating pixels, joined with what was before; negative maxima at the border."""
    core = Core(seed)
    x = core.activation(
        core.conv(core.input((2, size, size), INT4), 3, (3, 3), "in", pad=1), name="act_in", output=INT4
    )
    y = core.activation(core.conv(x, 4, (3, 3), "down", stride=2, pad=1), name="act_down", output=INT4)
    y = core.graph.add(IntMaxPool((3, 3), (1, 1), (1, 1), ((1, 1), (1, 1))), (y,), "pool")
    y = core.graph.add(IntUpsample((2, 2)), (y,), "up")
    z = core.graph.add(Concat(0), (x, y), "concat")
    core.output(core.activation(core.conv(z, 2, (3, 3), "out", pad=1), name="act_out"))
    return core.graph


def sounds(length: int = 32, seed: int = 0) -> Graph:
    """One axis: a long kernel, pools, and a window over all that is left."""
    core = Core(seed)
    x = core.activation(core.conv(core.input((2, length), INT4), 4, (9,), "first", stride=2, pad=4), name="act_first")
    x = core.graph.add(IntMaxPool((2,), (2,), (1,), ((0, 0),)), (x,), "pool")
    x = core.activation(core.conv(x, 4, (3,), "second", pad=1), name="act_second")
    core.output(core.conv(x, 3, (length // 4,), "last"))
    return core.graph


def check_rate(core: Graph, cycles: int, folder: Path) -> None:
    """A design for *cycles* reaches them, bit by bit, with and without stalls, and its interval is that predicted."""
    pixels = pixels_for(core, cycles)
    settings = Settings(target_fps=200e6 / cycles)
    design = schedule(to_hardware(core, pixels), settings)
    expected = performance(design.graph)
    write_plan(generate(design, "design"), folder)
    feeds = random_frames(core, 24)
    reference = core.run(feeds)
    for stalls in ({}, {"stall_in": 0.3, "stall_out": 0.3}):
        result = simulate(folder, design.pack_frames(feeds), optimize="0", **stalls)
        outputs = design.unpack_frames(result.outputs)
        assert all(np.array_equal(outputs[name], reference[name]) for name in reference)
        if not stalls:
            assert expected.interval <= cycles
            assert max(result.interval.values()) == expected.interval
            assert result.first_frame_latency <= expected.latency


def test_a_frame_in_a_cycle(tmp_path: Path) -> None:
    check_rate(small_cnn(), 1, tmp_path / "d")


@pytest.mark.slow
@pytest.mark.parametrize("cycles", [64, 24, 16, 8, 5, 4, 2])
@pytest.mark.parametrize("network", [small_cnn, u_net, sounds])
def test_networks_at_rates(network: Callable[[], Graph], cycles: int, tmp_path: Path) -> None:
    check_rate(network(), cycles, tmp_path / "d")


@pytest.mark.slow
@pytest.mark.parametrize("network", [u_net, sounds])
def test_other_networks_in_a_cycle(network: Callable[[], Graph], tmp_path: Path) -> None:
    check_rate(network(), 1, tmp_path / "d")


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "cycles"), [(201, 5), (217, 12), (297, 3), (5, 2), (12, 4), (223, 6)])
def test_random_networks_at_rates(seed: int, cycles: int, tmp_path: Path) -> None:
    core = RandomNetwork(seed).graph
    pixels = pixels_for(core, cycles)
    fastest = max(fastest_target(to_hardware(core, pixels).graph), cycles)
    settings = Settings(target_fps=200e6 / fastest)
    check_rtl(core, random_frames(core, 8), tmp_path / "d", settings, pixels=pixels)


def test_all_operators_side_by_side(tmp_path: Path) -> None:
    """Every operator in the smallest of its blocks and in the largest, in one design, with stalls."""
    core, pixels = Graph(), {}
    for name, (op, shape, numbers) in OPERATORS.items():
        for m in sorted({*numbers[1:2], *numbers[1:][-1:]}):
            add_operator(core, op, shape, INT3, f"{name}_{m}", (f"{name}_{m}_x", f"{name}_{m}_y"))
            pixels[f"{name}_{m}"] = m
    feeds = random_frames(core, 6)
    check_rtl(core, feeds, tmp_path / "d", pixels=pixels, stall_in=0.3, stall_out=0.3)


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
        ({"act": {"M": 5}}, r"layer 'act': M=5 pixels at once do not fit; valid: 1, 2, 4, 8, 16, 24, 48$"),
    ],
)
def test_what_does_not_fit_is_refused(folding: dict[str, dict[str, object]], message: str, tmp_path: Path) -> None:
    with pytest.raises(FoldingError, match=message):
        headrace.build(model(tmp_path), tmp_path / "out", folding=folding)
    assert not (tmp_path / "out").exists()
