"""What can be asked for, what is refused by name, and what is written beside the design."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from models import quantized_mlp
from vivado import Vivado

import headrace
from headrace.board.bitstream import board_files
from headrace.board.boards import find_board
from headrace.build.config import BuildConfig
from headrace.build.design import Design
from headrace.codegen.design import generate
from headrace.errors import FoldingError, HeadraceError, InputError, UnsupportedError
from headrace.ingest import from_proto
from headrace.ir import IntRange
from headrace.schedule.streams import layers
from headrace.synth.units import units_of

from .networks import ALL, network

MLP = quantized_mlp((12, 8, 5), 3, seed=1)


def designed(model: Any = MLP, **settings: Any) -> Design:
    return Design(from_proto(model), BuildConfig.checked(name="net", **settings))


def writable(design: Design) -> list[str]:
    return [node for node, layer in layers(design.hardware.graph).items() if layer.parameters]


def test_one_layer_by_number_name_or_kind() -> None:
    one = {"runtime_writeable_weights": 1}
    assert writable(designed(folding={"MVAU_1": one})) == ["fc1"]
    assert writable(designed(folding={"act0": one})) == ["act0"]
    assert writable(designed(folding={"Defaults": {"runtime_writeable_weights": [1, ["MVAU"]]}})) == ["fc0", "fc1"]
    assert writable(designed(folding={"Defaults": one, "fc1": {"runtime_writeable_weights": 0}})) == ["fc0", "act0"]
    finn = {"MVAU_hls_0": {**one, "mem_mode": "internal_decoupled", "PE": 2}, "MVAU_hls_7": one}
    design = designed(folding=finn, finn_compatible=True)
    assert writable(design) == ["fc0"]
    assert any("MVAU_hls_7" in note for note in design.hardware.notes)
    assert writable(designed(folding={"fc0": {"runtime_writeable_weights": 0}})) == []


def test_widths_hold_for_any_constants() -> None:
    """Sums are as wide as weights of the type and inputs can make them, whatever the weights are now."""
    folding = {"fc0": {"runtime_writeable_weights": 1, "weightDataType": "INT6"}}
    found = layers(designed(folding=folding).hardware.graph)
    assert found["fc0"].outputs[0].range == IntRange(-12 * 4 * 31, 12 * 4 * 32)
    assert found["fc0"].runtime_settings == {"runtime_writeable_weights": 1, "weightDataType": "INT6"}
    levels = layers(designed(folding={"act0": {"runtime_writeable_weights": 1}}).hardware.graph)["act0"]
    assert levels.outputs[0].range == IntRange(0, 7)
    assert {p.name: p.values.shape for p in levels.parameters} == {"thresholds": (8, 7), "falling": (8,)}


@pytest.mark.parametrize(
    ("folding", "message"),
    [
        ({"argmax": {"runtime_writeable_weights": 1}}, r"'argmax' \(LabelSelect\).*accepted: MVAU, Thresholding, VVAU"),
        ({"fc0": {"runtime_writeable_weights": 2}}, r"'fc0' \(MVAU\): runtime_writeable_weights=2 must be 0 or 1"),
        (
            {"fc0": {"runtime_writeable_weights": 1, "mem_mode": "internal_embedded"}},
            "mem_mode='internal_embedded' exclude each other; accepted: 'internal_decoupled'",
        ),
        ({"fc0": {"runtime_writeable_weights": 1, "weightDataType": "INT2"}}, "INT2 does not hold its weights.*INT3"),
        ({"fc0": {"runtime_writeable_weights": 1, "weightDataType": "INT3.5"}}, "is no type; accepted: BIPOLAR"),
        ({"fc0": {"runtime_writeable_weights": 1, "weightDataType": "FLOAT32"}}, "cannot be written; accepted"),
        (
            {"fc0": {"runtime_writeable_weights": 1, "PE": 8, "SIMD": 12, "style": "graph"}},
            "style 'graph' does not fit weights that are written at run time; possible: .*table, multiply",
        ),
        ({"act0": {"runtime_writeable_weights": 1, "style": "table"}}, "possible: parallel, search"),
        ({"fc0": {"runtime_writable_weights": 1}}, "did you mean 'runtime_writeable_weights'"),
    ],
)
def test_refused_by_name(folding: Any, message: str) -> None:
    with pytest.raises(FoldingError, match=message):
        _ = designed(folding=folding).hardware


def test_several_pixels_are_refused() -> None:
    with pytest.raises(FoldingError, match=r"layer 'conv': M=2 .* do not fit; valid: 1 .layers.*at run time"):
        _ = designed(network(0), folding={**ALL, "conv": {"M": 2}}).hardware


def test_ternary_weights_are_kept_in_two_bits() -> None:
    """All four codes of the memory are counted with, the ternary ones and -2."""
    model = quantized_mlp((12, 8, 5), 2, seed=1)
    folding = {"fc0": {"runtime_writeable_weights": 1, "weightDataType": "TERNARY"}}
    fc = layers(designed(model, folding=folding).hardware.graph)["fc0"]
    assert fc.runtime_settings["weightDataType"] == "INT2"
    assert fc.outputs[0].range == IntRange(-12 * 2, 12 * 4)


def test_type_without_the_setting_is_noted() -> None:
    design = designed(folding={"fc0": {"weightDataType": "INT4"}})
    assert any("weightDataType has no effect without runtime_writeable_weights=1" in n for n in design.hardware.notes)
    assert writable(design) == []


def test_cpp_is_refused_by_name() -> None:
    """Before anything is generated; what is left for the generator says it, too."""
    refused = r"'fc0': runtime_writeable_weights=1 is not possible: the backend is 'hls'.*folding dictionary, key \"fc0"
    with pytest.raises(FoldingError, match=refused):
        _ = designed(folding={"fc0": {"runtime_writeable_weights": 1}}, backend="hls").integer
    with pytest.raises(FoldingError, match=r"'act0': .* the backend is 'both'.*accepted: backend 'rtl'"):
        _ = designed(folding={"Defaults": {"runtime_writeable_weights": [1, ["Thresholding"]]}}, backend="both").integer
    mixed = {"act0": {"runtime_writeable_weights": 1, "backend": "hls"}}
    with pytest.raises(FoldingError, match=r"'act0' \(Threshold.*made in SystemVerilog only.*dictionary, key \"act0"):
        _ = designed(folding=mixed).folded
    with pytest.raises(UnsupportedError, match=r"'fc0'.*runtime_writeable_weights=1 is made in SystemVerilog only"):
        generate(designed(folding={"fc0": {"runtime_writeable_weights": 1}}).hardware, backend="hls")
    with pytest.raises(InputError, match="'performance_counters' and 'backend' exclude each other"):
        _ = designed(performance_counters=True, backend="hls").plan
    both = designed(performance_counters=True, backend="both").plan
    assert "control.json" in both.files


@pytest.mark.parametrize(
    ("setting", "file", "text"),
    [
        ({"backend": "hls"}, "folding.json", '{"fc0": {"runtime_writeable_weights": 1}}'),
        ({}, "layers.json", '{"MVAU_0": {"preferred_impl_style": "hls"}}'),
    ],
)
def test_cpp_is_refused_before_anything_is_written(setting: Any, file: str, text: str, tmp_path: Path) -> None:
    folding, layers_file = tmp_path / "folding.json", tmp_path / "layers.json"
    folding.write_text('{"fc0": {"runtime_writeable_weights": 1}}')
    layers_file.write_text("{}")
    (tmp_path / file).write_text(text)
    settings = {"folding_config_file": folding, "specialize_layers_config_file": layers_file, **setting}
    with pytest.raises(FoldingError, match=rf"layer 'fc0'.*Set in .*{file}, key"):
        headrace.build(MLP, tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("folding", "message"),
    [
        ({"runtime_writeable_weights": 1, "weightDataType": "INT2"}, "INT2 does not hold its weights"),
        ({"runtime_writeable_weights": 1, "weightDataType": "INT40"}, "'INT40' cannot be written"),
        ({"runtime_writeable_weights": 1, "weightDataType": "int"}, "'int' is no type"),
    ],
)
def test_what_refuses_a_type_names_its_file(folding: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"MVAU_0": folding}))
    with pytest.raises(FoldingError, match=rf"layer 'fc0'.*{message}.*\. Set in {path}, key \"MVAU_0\"\.$"):
        _ = designed(folding=path).integer


def test_a_style_is_named_once() -> None:
    folding = {"fc0": {"runtime_writeable_weights": 1, "PE": 8, "SIMD": 12, "style": "graph"}}
    with pytest.raises(FoldingError, match=r"^layer 'fc0' \(MVAU\): style 'graph' does not fit"):
        _ = designed(folding=folding).hardware
    with pytest.raises(FoldingError, match=r"^layer 'fc0' \(MVAU\): ram_style='blok' is not one of"):
        _ = designed(folding={"fc0": {"ram_style": "blok"}}).hardware
    with pytest.raises(FoldingError, match=r"^layer 'act0' \(Thresholding\): style 'lines' is not known; possible:"):
        _ = designed(folding={"act0": {"style": "lines"}}).hardware
    with pytest.raises(FoldingError, match=r"^layer 'fc0' \(MVAU\): style=3 must be a word"):
        _ = designed(folding={"fc0": {"style": 3}}).hardware


def test_a_board_without_a_way_in_is_refused() -> None:
    with pytest.raises(InputError, match="no way to the control interface of 'net'"):
        board_files(designed(performance_counters=True), find_board("ulx3s-85f"), 115_200)


def test_another_model_must_differ_in_what_is_written_only() -> None:
    design = designed(folding={"fc0": {"runtime_writeable_weights": 1, "weightDataType": "INT4"}})
    with pytest.raises(InputError, match="layer 'fc1' is another, and is not written at run time"):
        design.runtime_weights(quantized_mlp((12, 8, 5), 3, seed=2))
    with pytest.raises(InputError, match="does not fit the design 'net'"):
        design.runtime_weights(quantized_mlp((12, 9, 5), 3, seed=1))
    with pytest.raises(InputError, match="does not hold its weights"):
        design.runtime_weights(quantized_mlp((12, 8, 5), 6, seed=1))
    with pytest.raises(InputError, match="has no layer that can be written"):
        designed(performance_counters=True).runtime_weights()
    with pytest.raises(InputError, match="has no control interface"):
        _ = designed().address_map


def test_settings_are_kept(tmp_path: Path) -> None:
    """What a build writes makes the same design again: reopened, resumed, and from its folding file."""
    out = tmp_path / "out"
    settings: Any = {"name": "net", "folding": ALL, "performance_counters": True}
    built = headrace.build(network(0), out, **settings, stop_step="estimate")
    plan = built.plan
    assert headrace.build(None, out, **settings, start_step="generate").plan.files == plan.files
    assert headrace.load(out).plan.files == plan.files
    again = designed(network(0), folding=out / "folding.json", performance_counters=True)
    assert again.plan.files == plan.files
    graph = built.integer.graph
    graph.save(tmp_path / "integer.graph")
    assert str(type(graph).load(tmp_path / "integer.graph")) == str(graph)


def test_what_is_beside_the_design(tmp_path: Path) -> None:
    out = tmp_path / "out"
    design = headrace.build(
        network(0),
        out,
        name='n"; rm /*\n',
        folding=ALL,
        performance_counters=True,
        generate_outputs=["stitched_ip", "estimate_reports"],
    )
    folder, table = out / "stitched_ip", design.address_map
    assert json.loads((folder / "control.json").read_text()) == table
    header = (folder / "control.h").read_text()
    if compiler := shutil.which("gcc"):
        (tmp_path / "use.c").write_text('#include "control.h"\nint main(void) { return N_RM_MAGIC; }\n')
        command = [compiler, "-Wall", "-Werror", "-std=c99", "-fsyntax-only", "-I", folder, tmp_path / "use.c"]
        subprocess.run(command, check=True)
    found = dict(line.split()[1:3] for line in header.splitlines() if line.startswith("#define") and "0x" in line)
    for layer in table["layers"]:
        assert int(found[f"N_RM_{layer['layer'].upper()}_BASE"].rstrip("u"), 16) == layer["base"]
        assert layer["base"] % layer["size"] == 0
    packager = Vivado()
    packager.run(folder / "package_ip.tcl")
    assert all(core["block"]["range"] == str(1 << table["address_bits"]) for core in packager.cores)
    core = yaml.safe_load(next(folder.glob("*.core")).read_text().removeprefix("CAPI=2:\n"))
    assert core["filesets"]["software"]["files"] == [{"control.h": {"is_include_file": True}}]
    resources = json.loads((out / "report" / "estimate_layer_resources.json").read_text())
    assert resources["control"]["FF"] > 1000
    page = (out / "report" / "index.html").read_text()
    assert "Control interface" in page
    assert "0x01000" in page
    assert "rm /*" not in header
    units = {unit.name: unit for unit in units_of(design.hardware, design.name, design.plan)}
    assert units["fc"].inputs["cfg_wdata"] == 32
    assert units["(top)"].outputs["s_axi_control_rdata"] == 32


def test_names_that_differ_in_nothing_but_signs(tmp_path: Path) -> None:
    """Layers whose names become one identifier have windows and files of their own."""
    model = quantized_mlp((12, 8, 5), 3, seed=1)
    for node in model.graph.node:
        node.name = {"fc0": "a/../b", "fc1": "a/./b"}.get(node.name, node.name)
    design = designed(model, folding=ALL)
    weights = design.runtime_weights()
    assert {"a/../b", "a/./b"} <= weights.keys()
    files = [entry.file for entry in weights.values()]
    assert len({*files}) == len(files)
    assert all("/" not in file for file in files)
    assert np.unique([entry.base for entry in weights.values()]).size == len(files)


def test_estimates_count_the_second_way_in() -> None:
    plain, written = (layers(designed(folding=f).folded.graph) for f in (None, ALL))
    for node in ("fc0", "fc1", "act0"):
        same = written[node]
        assert same.resources().lut + same.resources().ff > plain[node].resources().lut + plain[node].resources().ff
    fc = written["fc0"]
    assert replace(fc, writable=None).resources().lut < fc.resources().lut


def test_every_refusal_is_one_of_headrace() -> None:
    with pytest.raises(HeadraceError):
        _ = designed(folding={"fc0": {"runtime_writeable_weights": "yes"}}).hardware
