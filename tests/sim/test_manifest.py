"""The manifest: round trip, and one clear sentence for everything that can be wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headrace_sim import ArrayError, ControlScript, ManifestError, Read, SimulationError, Write, load, simulate
from headrace_sim.manifest import from_dict
from sim import designs


@pytest.fixture
def data(tmp_path: Path) -> dict[str, object]:
    designs.register_slice(tmp_path, bits=3, epw=5, frame=10)
    loaded: dict[str, object] = json.loads((tmp_path / "design.json").read_text())
    return loaded


def check(folder: Path, data: object) -> None:
    (folder / "design.json").write_text(json.dumps(data))
    load(folder)


def test_round_trip(tmp_path: Path) -> None:
    manifest = designs.dot_product(tmp_path, [1, 2])
    assert load(tmp_path) == manifest
    data = json.loads(manifest.to_json())
    assert data["format"] == "headrace-design"
    assert data["version"] == 1
    assert data["inputs"] == [
        {
            "bits": 8,
            "encoding": "signed",
            "elements_per_word": 1,
            "frame_elements": 2,
            "port": "s_axis_0",
            "tensor": "x",
            "tdata_bits": 8,
        }
    ]
    assert "root" not in data


def test_optional_keys(tmp_path: Path, data: dict[str, object]) -> None:
    needed = {"format", "version", "name", "top", "sources", "inputs", "outputs"}
    check(tmp_path, {key: value for key, value in data.items() if key in needed})


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (["format"], "other", "expected format 'headrace-design' version 1, got format 'other' version 1"),
        (["version"], 2, "got format 'headrace-design' version 2"),
        (["top"], "a b", "top 'a b' is not a plain SystemVerilog identifier"),
        (["top"], 3, "manifest.top: expected a string, got 3"),
        (["sources"], [], "sources: expected at least one file"),
        (["sources"], ["../up.sv"], "path '../up.sv' must be relative and stay inside"),
        (["sources"], ["/up.sv"], "path '/up.sv' must be relative"),
        (["sources"], ["-o.sv"], "path '-o.sv' must start with neither"),
        (["sources"], ["rtl/none.sv"], "file rtl/none.sv does not exist"),
        (["sources"], "rtl/a.sv", "expected a list of strings"),
        (["memories"], ["a/x.hex", "b/x.hex"], "base name of a memory file 'x.hex' occurs twice"),
        (["inputs"], [], "at least one input and one output"),
        (["inputs"], {}, "inputs: expected a list"),
        (["inputs", 0], 3, r"inputs\[0\]: expected an object"),
        (["inputs", 0, "bits"], "2", r"inputs\[0\].bits: expected an integer, got '2'"),
        (["inputs", 0, "bits"], True, r"inputs\[0\].bits: expected an integer, got True"),
        (["inputs", 0, "bits"], 64, "bits=64 is outside 1..63"),
        (["inputs", 0, "bits"], 4, "tdata_bits=16 must be a multiple of 8 and at least bits .* = 20"),
        (["inputs", 0, "tdata_bits"], 17, "tdata_bits=17 must be a multiple of 8"),
        (["inputs", 0, "encoding"], "ternary", "encoding 'ternary' is not one of signed, unsigned, bipolar"),
        (["inputs", 0, "encoding"], "bipolar", "a bipolar element has 1 bit, not 3"),
        (["inputs", 0, "frame_elements"], 11, "elements_per_word=5 does not divide frame_elements=11"),
        (["inputs", 0, "elements_per_word"], 0, "must be at least 1"),
        (["inputs", 0, "colour"], "red", r"inputs\[0\]: unknown key 'colour'; accepted: bits, encoding"),
        (["outputs", 0, "port"], "s_axis_0", "port 's_axis_0' occurs twice"),
        (["streams", 0, "name"], "y", "tensor or stream name 'y' occurs twice"),
        (["streams", 0, "signal"], "a.b", "signal 'a.b' is not a plain"),
        (["layers", 0, "outputs"], ["nothing"], "layer 'first': output 'nothing' is not a stream or an output"),
        (["speed"], 3, "unknown key 'speed'"),
    ],
)
def test_errors(tmp_path: Path, data: dict[str, object], path: list[str | int], value: object, text: str) -> None:
    target: object = data
    for step in path[:-1]:
        target = target[step]  # type: ignore[index]
    target[path[-1]] = value  # type: ignore[index]
    with pytest.raises(ManifestError, match=text) as caught:
        check(tmp_path, data)
    assert "design.json" in str(caught.value)


def test_missing_key(tmp_path: Path, data: dict[str, object]) -> None:
    del data["top"]
    with pytest.raises(ManifestError, match="key 'top' is missing"):
        check(tmp_path, data)


def test_not_an_object(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="expected a JSON object"):
        check(tmp_path, [1])


def test_unreadable(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="cannot read the design manifest"):
        load(tmp_path / "none")
    (tmp_path / "design.json").write_text("{")
    with pytest.raises(ManifestError, match="not a JSON file"):
        load(tmp_path)


def test_a_control_interface_is_named_and_has_a_width(tmp_path: Path) -> None:
    (tmp_path / "rtl").mkdir()
    (tmp_path / "rtl" / "a.sv").write_text("")
    ports = {"bits": 1, "encoding": "unsigned", "elements_per_word": 1, "frame_elements": 1, "tdata_bits": 8}
    ends = {"inputs": [{"port": "i", "tensor": "x", **ports}], "outputs": [{"port": "o", "tensor": "y", **ports}]}
    data = {"format": "headrace-design", "version": 1, "name": "a", "top": "a", "sources": ["rtl/a.sv"], **ends}
    plain = from_dict(data, tmp_path)
    assert "control" not in json.loads(plain.to_json())
    control = from_dict({**data, "control": "s_axi_control", "control_address_bits": 13}, tmp_path)
    assert from_dict(json.loads(control.to_json()), tmp_path) == control
    with pytest.raises(ManifestError, match=r"control_address_bits=0 is outside 3\.\.64"):
        from_dict({**data, "control": "s_axi_control"}, tmp_path)
    with pytest.raises(ManifestError, match="not a plain SystemVerilog identifier"):
        from_dict({**data, "control": "a b", "control_address_bits": 13}, tmp_path)
    frames = {"x": np.zeros((1, 1), np.int64)}
    with pytest.raises(SimulationError, match="has no control interface"):
        simulate(plain, frames, control=ControlScript())
    with pytest.raises(ArrayError, match="addresses are 0 to 0x1fff"):
        simulate(control, frames, control=ControlScript((Read(0x2000),)))
    with pytest.raises(ArrayError, match="data are 32 bits"):
        simulate(control, frames, control=ControlScript((Write(0, 1 << 32),)))
