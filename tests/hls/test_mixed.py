"""Layers in C++ between layers in SystemVerilog, simulated together."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hardware.cores import mlp, random_frames
from hardware.random_networks import random_network
from hardware.simulated import Settings

from headrace.build import build, load
from headrace.build.verify import compare_simulation
from headrace.codegen.design import generate
from headrace.codegen.plan import Plan, write_plan
from headrace.errors import FoldingError, InputError, UnsupportedError
from headrace.ir import Array, Graph
from headrace.layers.base import Layer
from headrace.layers.mvau import MVAU
from headrace.passes.hardware_design import HardwareDesign
from headrace.passes.to_hardware import to_hardware
from headrace.schedule import apply_folding, read_folding, schedule, write_folding
from headrace.schedule.streams import layers
from headrace_sim import BuildError, DeadlockError, SimResult, lint, simulate
from hls.networks import residual_network


def mixed(core: Graph, first: int, step: int) -> HardwareDesign:
    """*core* scheduled, some of its layers in C++."""
    unfolded = to_hardware(core)
    chosen = list(layers(unfolded.graph))[first::step]
    return schedule(replace(unfolded, backends=dict.fromkeys(chosen, "hls")), Settings())


def check_streams(design: HardwareDesign, plan: Plan, result: SimResult, packed: dict[str, Array]) -> None:
    """Every word between two layers is what their arithmetic gives."""
    values: dict[str, tuple[Array, ...]] = {}
    feeds = {p.node: packed[p.name].reshape(-1, *p.layout.frame) for p in design.inputs}
    design.graph.run(feeds, observe=lambda node, arrays: values.update({node: arrays}))
    for (node, port), stream in plan.streams.items():
        expected = values[node][port]
        assert np.array_equal(result.streams[stream], expected.reshape(len(expected), -1)), f"{node} differs"


def test_residual_network(tmp_path: Path) -> None:
    """Every second layer in C++: no complaint of a linter, every stream exact, whatever stalls."""
    core = residual_network()
    design = mixed(core, 0, 2)
    plan = generate(design, "net")
    write_plan(plan, tmp_path / "design")
    assert len([path for path in plan.files if path.endswith("_model.cpp")]) == 6
    assert lint(tmp_path / "design") == []
    feeds = random_frames(core, 4)
    packed = design.pack_frames(feeds)
    for stalls in ({}, {"stall_in": 0.4, "stall_out": 0.4, "seed": 7}):
        result = simulate(tmp_path / "design", packed, trace=True, **stalls)
        assert np.array_equal(design.unpack_frames(result.outputs)["y"], core.run(feeds)["y"])
        check_streams(design, plan, result, packed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_networks(tmp_path: Path, seed: int) -> None:
    core = random_network(seed)
    design = mixed(core, seed % 2, 2)
    write_plan(generate(design, "net"), tmp_path / "design")
    feeds = random_frames(core, 3)
    for stall in (0.0, 0.5):
        result = simulate(tmp_path / "design", design.pack_frames(feeds), stall_in=stall, stall_out=stall, seed=seed)
        outputs, expected = design.unpack_frames(result.outputs), core.run(feeds)
        assert all(np.array_equal(outputs[name], expected[name]) for name in core.outputs)


def test_a_build_and_its_projects(tiny_model: Path, tmp_path: Path) -> None:
    """Said in the folding, remembered by the build, run as RTL by both engines; each IP runs its own vectors."""
    x = {"x": np.random.default_rng(0).normal(size=(20, 12)).astype(np.float32)}
    folding = {
        "MVAU_0": {"backend": "hls"},
        "Thresholding_0": {"preferred_impl_style": "hls"},
        "MVAU_1": {"backend": "rtl"},
    }
    build(tiny_model, tmp_path / "out", folding=folding)
    design = load(tmp_path / "out")
    expected = design.run(x, "float")["label"]
    simulation = design.simulate(x, trace=True)
    assert np.array_equal(simulation.outputs["label"], expected)
    assert compare_simulation(design, x, simulation)
    assert np.array_equal(design.run(x, "hls")["label"], expected)  # all layers in C++, whatever the build holds
    assert np.array_equal(design.simulate(x, engine="cocotb").outputs["label"], expected)
    with pytest.raises(BuildError, match="Icarus cannot call"):
        simulate(
            tmp_path / "out", design.hardware.pack_frames(design.core_feeds(x)), engine="cocotb", simulator="icarus"
        )
    written = read_folding(tmp_path / "out" / "folding.json")
    assert [key for key, values in written.items() if values.get("backend") == "hls"] == ["MVAU_0", "Thresholding_0"]
    command = ["make", "CXXFLAGS=-O0 -Wall -Wextra -Wconversion -Werror"]
    done = subprocess.run(command, cwd=tmp_path / "out" / "ip", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("4 frames, as expected") == 2
    tcl = next((tmp_path / "out" / "ip").glob("*/project/run_hls.tcl")).read_text()
    assert "export_design -format ip_catalog" in tcl


def test_an_ip_that_stops(tmp_path: Path) -> None:
    """C++ that writes too little is a deadlock of the simulation, which names the stream."""
    core = mlp()
    design = mixed(core, 0, 100)
    plan = generate(design, "net")
    write_plan(plan, tmp_path / "design")
    (params,) = (tmp_path / "design" / "ip").glob("*/params.hpp")
    text = params.read_text()
    assert "int vectors = 1;" in text
    params.write_text(text.replace("int vectors = 1;", "int vectors = 0;"))
    with pytest.raises(DeadlockError, match=r"no word moved for .* cycles"):
        simulate(tmp_path / "design", design.pack_frames(random_frames(core, 2)), trace=True)


# -- the folding file --------------------------------------------------------------------------------------------------


def backends(settings: dict[str, dict[str, object]]) -> dict[str, str]:
    return dict(apply_folding(to_hardware(mlp()).graph, settings).backends)


def test_backends_in_the_folding_file() -> None:
    graph = to_hardware(mlp()).graph
    names = list(layers(graph))
    kinds = {name: layer.kind for name, layer in layers(graph).items()}
    units = {name for name in names if kinds[name] == "MVAU"}
    assert backends({"Defaults": {"backend": "hls"}}) == dict.fromkeys(names, "hls")
    assert backends({"Defaults": {"backend": ["hls", ["MVAU_hls"]]}}) == dict.fromkeys(units, "hls")
    mixed_up = backends({"Defaults": {"backend": "hls"}, "MVAU_0": {"backend": "rtl"}})
    assert mixed_up == {**dict.fromkeys(names, "hls"), next(n for n in names if n in units): "rtl"}
    assert backends({"MVAU_hls_0": {"PE": 1}, "MVAU_1": {"preferred_impl_style": ""}}) == {}
    written = write_folding(graph, mixed_up)
    assert dict(apply_folding(graph, written).backends) == mixed_up


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"backend": "verilog"},
            r"\(MVAU\): backend='verilog' is not one of rtl, hls\. Set in folding\.json, key \"MVAU_0\"",
        ),
        ({"backend": ["hls"]}, "is not one of rtl, hls"),
        ({"backend": "hls", "preferred_impl_style": "rtl"}, "say different things"),
        ({"back_end": "hls"}, "unknown setting 'back_end'.*backend"),
    ],
)
def test_what_the_folding_file_may_not_say(values: dict[str, object], message: str) -> None:
    with pytest.raises(FoldingError, match=message):
        backends({"MVAU_0": values})


# -- what is refused before anything is written ------------------------------------------------------------------------


def test_rtl_in_a_design_that_is_all_cpp(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(FoldingError, match="is to be RTL, but the backend 'hls'"):
        build(tiny_model, tmp_path / "out", folding={"MVAU_0": {"backend": "rtl"}}, backend="hls")
    assert not (tmp_path / "out").exists()


def test_words_too_wide(tiny_model: Path, tmp_path: Path) -> None:
    core = mlp((4100, 3))
    unfolded = to_hardware(core)
    settings = Settings(folding={"MVAU_0": {"SIMD": 4100, "backend": "hls"}})
    with pytest.raises(FoldingError, match=r"words of 8200 bits \(4100 elements\); HLS accepts at most 4096"):
        generate(schedule(unfolded, settings), "net")


def test_layer_without_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MVAU, "hls", Layer.hls)
    with pytest.raises(UnsupportedError, match="layer kind MVAU has no HLS template"):
        generate(mixed(mlp(), 0, 100), "net")


def test_synthesis_of_cpp(tiny_model: Path, tmp_path: Path) -> None:
    from headrace.build.synthesis import synthesise_build

    design = build(tiny_model, tmp_path / "out", folding={"MVAU_0": {"backend": "hls"}})
    with pytest.raises(InputError, match=r"are C\+\+, which Yosys does not read"):
        synthesise_build(design)
