"""``--json``: standard output is one document, whatever happens; everything else is on standard error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
from typer.testing import CliRunner

from headrace import __version__
from headrace.build.doctor import short_version
from headrace.build.steps import STEPS
from headrace.cli import app

from .test_cli import headrace


def document(*arguments: str | Path, status: int = 0) -> dict[str, Any]:
    done = headrace(*arguments, "--json")
    assert done.returncode == status, done.stderr
    data = json.loads(done.stdout)
    assert isinstance(data, dict)
    assert data["ok"] is (status == 0)
    return data


def test_every_command_prints_a_document(tiny_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    built = document("build", tiny_model, "-o", out, "--target-fps", "1e6", "--clock-mhz", "100")
    assert built["command"] == "build"
    assert built["output"] == str(out)
    assert built["report"] == json.loads((out / "report" / "report.json").read_text())
    assert [step["name"] for step in built["steps"]][-1] == "report"
    np.savez(tmp_path / "x.npz", x=np.zeros((3, 12), np.float32))
    ran = document("run", out, "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz", "--mode", "integer")
    assert ran["outputs"] == {"label": {"shape": [3, 1], "dtype": "int64"}}
    info = document("info", tiny_model)
    tensors = {tensor["name"]: tensor for tensor in info["tensors"]}
    assert isinstance(tensors["fc0"]["scale"], float | list)
    assert tensors["x"]["scale"] is None
    doctor = document("doctor")
    assert "verilator" in [tool["name"] for tool in doctor["tools"]]
    assert document("vectors", out, "-o", tmp_path / "v.npz")["output"] == str(tmp_path / "v.npz")
    assert "README.md" in document("init", tmp_path / "project")["files"]
    schema = headrace("schema")
    assert "target_fps" in json.loads(schema.stdout)["properties"]


@pytest.mark.parametrize("options", [("--version", "--json"), ("--json", "--version")])
def test_the_version_is_a_document_too(options: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, options)
    assert json.loads(done.stdout) == {"command": "version", "ok": True, "version": __version__}


def test_every_command_has_the_option() -> None:
    assert all("as_json" in get_type_hints(command.callback) for command in app.registered_commands)


def test_errors_are_documents_too(tiny_model: Path, tmp_path: Path) -> None:
    missing = document("info", tmp_path / "none.onnx", status=2)
    assert missing["command"] == "info"
    assert missing["error"]["kind"] == "ModelError"
    assert missing["error"]["exit_status"] == 2
    assert "no such file" in missing["error"]["message"]
    folding = tmp_path / "mine.json"
    folding.write_text('{"MVAU_0": {"PE": 3}}')
    wrong = document("build", tiny_model, "-o", tmp_path / "out", "--folding", folding, status=2)
    assert wrong["error"]["kind"] == "FoldingError"
    assert not (tmp_path / "out").exists()


def test_a_command_line_that_is_refused(tiny_model: Path) -> None:
    """What typer says to people is a document, too."""
    for arguments, says in (
        (("build", tiny_model, "--backend", "vhdl"), "'vhdl' is not one of 'rtl', 'hls', 'both'"),
        (("run", tiny_model), "Missing option '--input'"),
        (("info", tiny_model, "--nonsense"), "No such option: --nonsense"),
    ):
        refused = document(*arguments, status=2)
        assert says in refused["error"]["message"]
        assert "Value error" not in refused["error"]["message"]
        assert (refused["command"], refused["error"]["kind"]) == (arguments[0], "InputError")


def test_verbosity(tiny_model: Path, tmp_path: Path) -> None:
    plain, quiet = (headrace("build", tiny_model, "-o", tmp_path / "out", *more) for more in ((), ("-q",)))
    assert (quiet.stdout, quiet.stderr) == ("", "")
    lines = plain.stderr.splitlines()
    assert lines[1].startswith(f"[ 1/{len(STEPS)}] read")
    assert lines[-1].startswith("report")
    assert "\x1b" not in plain.stderr


def test_finns_configuration(tiny_model: Path, tmp_path: Path) -> None:
    """A folder as FINN has it: relative paths, an entry for no layer, settings that mean nothing here."""
    folder = tmp_path / "finn"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(tiny_model.read_bytes())
    folding = {"Defaults": {}, "MVAU_hls_0": {"PE": 2, "SIMD": 4}, "MVA_hls_1": {"PE": 5}}
    (folder / "folding.json").write_text(json.dumps(folding))
    settings = {
        "output_dir": "out",
        "synth_clk_period_ns": 10.0,
        "board": "Pynq-Z1",
        "shell_flow_type": "vivado_zynq",
        "generate_outputs": ["estimate_reports", "bitfile"],
        "folding_config_file": "folding.json",
    }
    config = folder / "dataflow_build_config.json"
    config.write_text(json.dumps(settings))
    built = document("build", "--finn-config", config)
    assert built["output"] == str(folder / "out")
    warnings = "\n".join(built["warnings"])
    for part in ("'shell_flow_type' has no effect", "(did you mean 'MVAU_1'?)", "output 'bitfile' is not made"):
        assert part in warnings
    assert built["report"]["clock_mhz"] == 100
    other = document("build", "--finn-config", config, "-o", tmp_path / "o", "--stop-step", "step_convert_to_hw")
    assert other["report"] is None
    assert (
        "before there was hardware" in headrace("build", "--finn-config", config, "--stop-step", "step_tidy_up").stdout
    )
    again = headrace("build", "--start-step", "step_streamline", "-o", folder / "out", "--finn-config", config)
    assert again.returncode == 0, again.stderr
    both = document("build", "--config", config, "--finn-config", config, status=2)
    assert "give one of them" in both["error"]["message"]
    own = document("build", tiny_model, "-o", tmp_path / "own", "--folding", folder / "folding.json", status=2)
    assert own["error"]["kind"] == "FoldingError"
    kept = document("build", tiny_model, "-o", tmp_path / "own", "--config", folder / "out" / "build.json")
    assert kept["report"]["clock_mhz"] == 100
    assert "no folder to write" in document("build", tiny_model, status=2)["error"]["message"]
    assert "there is no model" in document("build", "-o", tmp_path / "x", status=2)["error"]["message"]


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("g++ (Debian 12.2.0-14+deb12u1) 12.2.0", "12.2.0"),
        ("This is perl 5, version 36, subversion 0 (v5.36.0) built for x86_64-linux", "5.36.0"),
        ("Verilator 5.036 2025-04-27 rev v5.036", "5.036"),
        ("GNU Make 4.3", "4.3"),
        ("2.13.0+cpu", "2.13.0+cpu"),
        ("of no number", "of no number"),
        ("", ""),
    ],
)
def test_versions_of_programs(text: str, short: str) -> None:
    assert short_version(text) == short
