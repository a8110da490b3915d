"""Weights and thresholds written to simulated hardware: it then computes another model, in every bit."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from layers.conformance import Bench
from layers.test_conformance import run_yosys
from models import quantized_mlp

from headrace.build.config import BuildConfig
from headrace.build.design import Design
from headrace.build.verify import random_frames, verify_stages
from headrace.ingest import from_proto
from headrace.schedule.streams import layers
from headrace_sim import ControlScript, Read, SimResult, Write, load, simulate
from headrace_sim.linting import lint

from .networks import ALL, core_outputs, network, two_ends

FOLDED = {
    **ALL,
    "conv": {"PE": 4, "SIMD": 9},
    "act0": {"PE": 2, "style": "parallel"},
    "depthwise": {"PE": 4, "SIMD": 9},
    "act1": {"PE": 4, "style": "search"},
    "pointwise": {"PE": 6, "SIMD": 4},
    "act2": {"PE": 3, "style": "search"},
    "fc": {"PE": 1, "SIMD": 24},
}
"""Wide memory words, one of all weights, and each activation in its other style."""


NO_ICARUS = pytest.mark.skipif(not shutil.which("iverilog"), reason="no iverilog")
BESIDE = [
    pytest.param(ALL, {"optimize": "0"}, id="narrow"),
    pytest.param(FOLDED, {"optimize": "0"}, id="wide"),
    pytest.param(ALL, {"engine": "cocotb", "simulator": "icarus"}, id="icarus", marks=NO_ICARUS),
]


def designed(model: Any, **settings: Any) -> Design:
    return Design(from_proto(model), BuildConfig.checked(name="net", **settings))


def written(design: Design, model: Any) -> tuple[Write, ...]:
    return tuple(Write(*place) for entry in design.runtime_weights(model).values() for place in entry.writes)


@pytest.mark.sim
@pytest.mark.parametrize("stalls", [0.0, 0.5])
@pytest.mark.parametrize("folding", [ALL, FOLDED], ids=["narrow", "wide"])
def test_another_model_in_the_same_hardware(folding: Any, stalls: float) -> None:
    design = designed(network(0), folding=folding)
    assert {layer.kind for layer in layers(design.hardware.graph).values() if layer.parameters} == {
        "MVAU",
        "VVAU",
        "Thresholding",
    }
    verify_stages(design, 4, 0)
    feeds = random_frames(design.source, 5, 0)
    for seed in (0, 1):
        writes = written(design, network(seed))
        script = ControlScript(before=writes, after=tuple(Read(w.address) for w in writes))
        run = design.simulate(feeds, control=script, stall_in=stalls, stall_out=stalls, optimize="0")
        for name, values in core_outputs(network(seed), feeds).items():
            np.testing.assert_array_equal(run.core[name], values)
        answers = run.result.control
        assert answers is not None
        assert not any(answer.error for answer in (*answers.before, *answers.after))
        assert [answer.data for answer in answers.after] == [w.data for w in writes]


@pytest.mark.sim
def test_outputs_of_another_model_are_in_its_own_scales() -> None:
    """Its quantizer before the hardware and its scales behind it are on the host, and are its too."""
    first, second = (quantized_mlp((6, 5, 3), 3, seed=1, argmax=False) for _ in range(2))
    for tensor in second.graph.initializer:
        if tensor.name in ("quant_in_scale", "act0_scale", "fc1_quant_scale"):
            scale = onnx.numpy_helper.to_array(tensor)
            tensor.CopyFrom(onnx.numpy_helper.from_array(scale * np.float32(2), tensor.name))
    design = designed(first, folding=ALL)
    feeds = random_frames(design.source, 6, 0)
    expected = Design(from_proto(second)).run(feeds, mode="float")
    script = ControlScript(before=written(design, second))
    run = design.simulate(feeds, model=second, control=script, optimize="0")
    assert any((values != design.run(feeds, mode="float")[name]).any() for name, values in expected.items())
    for name, values in expected.items():
        np.testing.assert_array_equal(run.outputs[name], values)


@pytest.mark.sim
@pytest.mark.parametrize(("folding", "engine"), BESIDE)
def test_accesses_beside_frames_disturb_none(folding: Any, engine: dict[str, Any]) -> None:
    """Words read, and written as they are, while frames move and stall: every value is as without."""
    design = designed(network(0), folding=folding)
    feeds = random_frames(design.source, 20, 0)
    values = core_outputs(network(0), feeds)
    writes = written(design, None)
    during: list[Read | Write] = []
    for w in writes:
        during += [w, Read(w.address)]
    for stalls in (0.0, 0.3):
        run = design.simulate(
            feeds, control=ControlScript(during=tuple(during)), stall_in=stalls, stall_out=stalls, trace=True, **engine
        )
        for name, array in values.items():
            np.testing.assert_array_equal(run.core[name], array)
        answers = run.result.control
        assert answers is not None
        assert [a.data for a in answers.during[1::2]] == [w.data for w in writes]
        ends = [int(stamps.max()) for stamps in run.result.time_stamps.values()]
        assert answers.during[len(during) // 2].cycle < max(ends)  # they were in each other's way


@pytest.mark.sim
def test_weights_may_change_under_frames() -> None:
    """Every frame comes out, whole and once, whatever it was computed with; later ones are those of the new model."""
    design = designed(network(0), folding=ALL)
    feeds = random_frames(design.source, 40, 0)
    run = design.simulate(
        feeds, control=ControlScript(during=written(design, network(1))), stall_in=0.2, stall_out=0.2, optimize="0"
    )
    answers = run.result.control
    assert answers is not None
    done = answers.during[-1].cycle
    (source,), (target,) = design.hardware.inputs, design.hardware.outputs
    stamps = run.result.time_stamps
    new = stamps[source.name][:, 0] > done + 2  # went in when all was written
    old = stamps[target.name][:, -1] < answers.during[0].cycle
    assert new.sum() > 2
    for name, values in core_outputs(network(1), feeds).items():
        np.testing.assert_array_equal(run.core[name][new], values[new])
    for name, values in core_outputs(network(0), feeds).items():
        np.testing.assert_array_equal(run.core[name][old], values[old])


@pytest.mark.sim
def test_several_inputs_and_outputs(tmp_path: Path) -> None:
    model = two_ends(0)
    design = designed(model, folding=ALL, performance_counters=True)
    assert (len(design.hardware.inputs), len(design.hardware.outputs)) == (2, 2)
    design.plan.write(tmp_path / "net")
    assert lint(load(tmp_path / "net")) == []
    feeds = random_frames(design.source, 5, 0)
    ends = [stream for stream in design.address_map["counters"]["streams"] if stream["port"]]
    reads = (*(Read(stream["frames"]) for stream in ends), Read(0x14))
    script = ControlScript(written(design, two_ends(1)), (), reads)
    run = design.simulate(feeds, control=script, stall_in=0.3, stall_out=0.3, optimize="0")
    for name, values in core_outputs(two_ends(1), feeds).items():
        np.testing.assert_array_equal(run.core[name], values)
    assert run.result.control is not None
    assert [answer.data for answer in run.result.control.after] == [5, 5, 5, 5, 1]


@pytest.mark.sim
def test_engines_agree(tmp_path: Path) -> None:
    design = designed(quantized_mlp((12, 8, 5), 3, seed=1), folding=ALL, performance_counters=True)
    design.plan.write(tmp_path)
    feeds = design.hardware.pack_frames(design.core_feeds(random_frames(design.source, 6, 0)))
    script = ControlScript(
        (Read(0), Write(0x1C, 0x12345678), Write(0x1C, 0xAABBCCDD, 5), Read(0x1C), Read(0xFFC)),
        (Read(0x14), *written(design, None)[:20]),
        (Read(0x14), Read(0x100), Read(0x108)),
    )
    engines: list[dict[str, Any]] = [{"engine": "cpp"}, {"engine": "cocotb"}]
    if shutil.which("iverilog"):
        engines.append({"engine": "cocotb", "simulator": "icarus"})
    results: list[SimResult] = []
    for engine in engines:
        results.append(simulate(tmp_path, feeds, control=script, stall_in=0.3, stall_out=0.3, seed=5, **engine))
        assert results[-1].control == results[0].control
        assert results[-1].cycles == results[0].cycles
    answers = results[0].control
    assert answers is not None
    assert [a.data for a in answers.before] == [0x43524448, 0, 0, 0x12BB56DD, 0]
    assert [a.error for a in answers.before] == [False, False, False, False, True]
    assert answers.after[0].data == 1


@pytest.mark.sim
def test_counters_are_those_of_the_bench() -> None:
    design = designed(quantized_mlp((12, 8, 5), 3, seed=1), performance_counters=True)
    frames = 7
    feeds = random_frames(design.source, frames, 0)
    table = design.address_map["counters"]
    names = ("words", "stalled", "starved", "frames")
    places = [stream[name] for stream in table["streams"] for name in names if name in stream]
    reads = (Read(table["span"]), Read(table["span"] + 4), *map(Read, places))
    for stalls in (0.0, 0.4):
        script = ControlScript(before=(Write(0x10, 3),), after=(Write(0x10, 0), *reads))
        result = design.simulate(feeds, control=script, stall_in=stalls, stall_out=stalls, trace=True).result
        assert result.control is not None
        span, high, *counts = [answer.data for answer in result.control.after[1:]]
        found = dict(zip(places, counts, strict=True))
        stamps = result.time_stamps
        first, last = (design.hardware.inputs[0].name, design.hardware.outputs[0].name)
        assert (span, high) == (int(stamps[last].max()) - int(stamps[first].min()) + 1, 0)
        for stream in table["streams"]:
            assert found[stream["words"]] == stamps[stream["stream"]].size
        ends = [stream for stream in table["streams"] if stream["port"]]
        assert [found[stream["frames"]] for stream in ends] == [frames, frames]


@pytest.mark.sim
@pytest.mark.parametrize("folding", [ALL, FOLDED], ids=["narrow", "wide"])
def test_tools_accept_the_design(folding: Any, tmp_path: Path) -> None:
    design = designed(network(0), folding=folding, performance_counters=folding is not ALL)
    design.plan.write(tmp_path / "net")
    manifest = load(tmp_path / "net")
    assert lint(manifest) == []
    (tmp_path / "yosys").mkdir()
    run_yosys(Bench(manifest, {}, {}), "hierarchy -check -top net; proc; check -assert", tmp_path / "yosys")
