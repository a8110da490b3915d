"""The command line, run as a user runs it: exit status, files, and one sentence where something is wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from models import quantized_mlp
from numpy.typing import NDArray
from typer.testing import CliRunner

from headrace.cli import app


def headrace(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from headrace.cli import main; main()", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def refused(*arguments: str | Path, status: int = 2) -> str:
    """The message of a command that must fail: no traceback, whatever else."""
    done = headrace(*arguments)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, NDArray[np.float32]]:
    x = np.random.default_rng(0).normal(0, 1, (9, 12)).astype(np.float32)
    path = tmp_path_factory.mktemp("frames") / "x.npz"
    np.savez(path, x=x)
    return path, x


def test_modes_agree_on_any_batch(tiny_model: Path, frames: tuple[Path, NDArray[np.float32]], tmp_path: Path) -> None:
    results = {}
    for mode in ("float", "integer", "rtl"):
        path = tmp_path / f"{mode}.npz"
        done = headrace("run", tiny_model, "--input", frames[0], "--output", path, "--mode", mode)
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
        with np.load(path, allow_pickle=False) as archive:
            assert archive.files == ["label"]
            results[mode] = archive["label"]
    assert results["float"].dtype == np.int64
    assert results["float"].shape == (9, 1)
    assert len(np.unique(results["float"])) > 1
    assert np.array_equal(results["float"], results["integer"])
    assert np.array_equal(results["float"], results["rtl"])


def test_build_reopen_and_rebuild(tiny_model: Path, frames: tuple[Path, NDArray[np.float32]], tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = headrace("build", tiny_model, "-o", out, "--target-fps", "2e6", "--clock-mhz", "100")
    assert done.returncode == 0, done.stderr
    assert "fc0" in done.stdout
    assert "bottleneck" in (out / "report" / "index.html").read_text()
    report = json.loads((out / "report" / "report.json").read_text())
    assert report["fps"] >= 2e6
    assert {c["stages"] for c in report["comparisons"]} == {"model = integer graph", "integer graph = layers"}
    assert list((out / "rtl").glob("*.sv"))
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    for folder, name in ((tiny_model, "model"), (out, "build")):
        run = headrace("run", folder, "--input", frames[0], "--output", tmp_path / f"{name}.npz", "--mode", "rtl")
        assert run.returncode == 0, run.stderr
    assert np.array_equal(*(np.load(tmp_path / f"{n}.npz")["label"] for n in ("model", "build")))
    again = headrace("-q", "build", tiny_model, "-o", out, "--folding", out / "folding.json")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert (out / "folding.json").is_file()


def test_info_shows_types_and_blockers(tiny_model: Path, tmp_path: Path) -> None:
    done = headrace("info", tiny_model)
    assert done.returncode == 0
    assert "Nothing blocks hardware." in done.stdout
    (line,) = [text for text in done.stdout.splitlines() if text.startswith("act0")]
    assert "UINT3[0..7]" in line
    assert "0.75" in line
    model = quantized_mlp((12, 8, 5), 3, seed=1, argmax=False)
    model.graph.node.append(onnx.helper.make_node("Softmax", ["fc1_out"], ["p"], "soft"))
    model.graph.output[0].name = "p"
    onnx.save(model, str(tmp_path / "soft.onnx"))
    done = headrace("info", tmp_path / "soft.onnx")
    assert done.returncode == 0
    assert "'soft' (Softmax)" in done.stdout


def test_a_folding_that_misses_the_target_is_told(tiny_model: Path, tmp_path: Path) -> None:
    folding = tmp_path / "mine.json"
    folding.write_text('{"MVAU_0": {"PE": 1, "SIMD": 1}}')
    done = headrace("build", tiny_model, "-o", tmp_path / "out", "--target-fps", "2e7", "--folding", folding)
    assert done.returncode == 0, done.stderr
    (warning,) = [text for text in done.stderr.splitlines() if text.startswith("headrace: warning: ")]
    for part in ("layer 'fc0' needs 96 cycles", str(folding), "reaches 2,083,333 of the 20,000,000 frames"):
        assert part in warning
    report = json.loads((tmp_path / "out" / "report" / "report.json").read_text())
    assert any("reaches 2,083,333" in step["note"] for step in report["steps"])
    assert "warning: layer 'fc0'" in (tmp_path / "out" / "build.log").read_text()


def test_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    evil = "a\x1b]0;title\x07\n\x9b31m\u202e" + "b" * 100
    model = quantized_mlp((12, 8, 5), 3, seed=1)
    for node in model.graph.node:
        node.name += evil
    onnx.save(model, str(tmp_path / "evil.onnx"))
    info = headrace("info", tmp_path / "evil.onnx")
    built = headrace("build", tmp_path / "evil.onnx", "-o", tmp_path / "out")
    model.graph.node[-1].op_type = "Nothing\x1b[31m"
    onnx.save(model, str(tmp_path / "worse.onnx"))
    says = refused("info", tmp_path / "worse.onnx")
    assert (info.returncode, built.returncode) == (0, 0), info.stderr + built.stderr
    page = (tmp_path / "out" / "report" / "index.html").read_text(encoding="utf-8")
    assert r"a\x1b]0;title\x07" in page
    for text in (info.stdout, built.stdout, built.stderr, says, page):
        assert not set(text) & set("\x1b\x07\x9b\u202e")
    assert r"a\x1b]0;title\x07\n\x9b31m" in info.stdout
    assert "…bbb" in info.stdout
    assert r"Nothing\x1b[31m" in says


def test_interrupt(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from headrace import cli
    from headrace.build import api

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "load", stop)
    monkeypatch.setattr(sys, "argv", ["headrace", "info", str(tiny_model)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 130
    assert capsys.readouterr().err == "headrace: interrupted\n"


def test_doctor_and_version() -> None:
    done = headrace("doctor")
    assert done.returncode == 0, done.stdout
    for tool in ("verilator", "nextpnr-ecp5", "nextpnr-ice40", "gowin_pack", "netron", "distributed", "pyserial"):
        assert re.search(rf"^{tool} .*(headrace|RTL|host)", done.stdout, re.MULTILINE), tool
    assert "\x1b" not in done.stdout
    assert headrace("--version").stdout.startswith("headrace ")


def test_missing_tool_is_named(
    tiny_model: Path, frames: tuple[Path, NDArray[np.float32]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "")
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    says = refused("run", tiny_model, "--input", frames[0], "--output", tmp_path / "y.npz", "--mode", "rtl")
    assert "C++ compiler" in says or "Verilator" in says
    assert not (tmp_path / "y.npz").exists()
    assert headrace("doctor").returncode == 2


class TestRefusals:
    """Each mistake of a user: exit status 2, one sentence."""

    def test_model_file(self, frames: tuple[Path, NDArray[np.float32]], tmp_path: Path) -> None:
        (tmp_path / "text.onnx").write_text("not a model")
        (tmp_path / "empty.onnx").write_bytes(b"")
        for name in ("missing.onnx", "text.onnx", "empty.onnx", "."):
            for command in (["info"], ["build", "-o", tmp_path / "out"]):
                says = refused(*command, tmp_path / name)
                assert str(tmp_path / name).removesuffix("/.") in says
        assert not (tmp_path / "out").exists()

    def test_feeds(self, tiny_model: Path, frames: tuple[Path, NDArray[np.float32]], tmp_path: Path) -> None:
        x = frames[1]
        nan = x.copy()
        nan[3, 4] = np.nan
        wrong = {
            "no input 'xx'; expected 'x'": {"xx": x},
            "expected [frames, 12]": {"x": x[:, :11]},
            "has type bool": {"x": x > 0},
            "nan at [3, 4]": {"x": nan},
            "pickled": {"x": np.array([None])},
        }
        for says, arrays in wrong.items():
            path = tmp_path / "bad.npz"
            np.savez(path, **arrays)  # type: ignore[arg-type]
            for mode in ("float", "integer", "rtl"):
                message = refused("run", tiny_model, "--input", path, "--output", tmp_path / "y.npz", "--mode", mode)
                assert says in message
                assert str(path) in message
                assert len(message.splitlines()[-1:]) == 1
        assert not (tmp_path / "y.npz").exists()

    def test_output(self, tiny_model: Path, frames: tuple[Path, NDArray[np.float32]], tmp_path: Path) -> None:
        says = refused("run", tiny_model, "--input", frames[0], "--output", tmp_path, "--mode", "integer")
        assert "is a folder" in says
        missing = tmp_path / "missing"
        says = refused("run", tiny_model, "--input", frames[0], "--output", missing / "y.npz", "--mode", "integer")
        assert f"there is no folder {missing}" in says
        assert not missing.exists()
        for command in (["info"], ["build", "-o", tmp_path / "out"]):
            assert "is a folder, and no earlier build" in refused(*command, tmp_path)
        (tmp_path / "precious").write_text("")
        assert "not an earlier build" in refused("build", tiny_model, "-o", tmp_path)
        assert [p.name for p in tmp_path.iterdir()] == ["precious"]

    def test_folding_and_settings(self, tiny_model: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        folding = tmp_path / "mine.json"
        folding.write_text('{"MVAU_0": {"PE": 3, "SIMD": 4}}')
        says = refused("build", tiny_model, "-o", out, "--folding", folding)
        assert "PE=3" in says
        assert f'Set in {folding}, key "MVAU_0"' in says
        assert "1, 2, 4, 8" in says
        assert "target_fps" in refused("build", tiny_model, "-o", out, "--target-fps", "-1")
        assert "clock_mhz" in refused("build", tiny_model, "-o", out, "--clock-mhz", "nan")
        assert "frames a second" in refused("build", tiny_model, "-o", out, "--target-fps", "1e12")
        assert not out.exists()

    @pytest.mark.parametrize(
        ("command", "message"),
        [
            (("build", "-o", "out", "--fit", "xc7z999"), "xc7z999"),
            (("build", "-o", "out", "--limit", "luts=3"), "did you mean 'lut'"),
            (("build", "-o", "out", "--stop-step", "conect"), "did you mean 'connect'"),
            (("build", "-o", "out", "--unroll", "--fit", "Pynq-Z1"), "unroll folds every layer"),
            (("build", "-o", "out", "--config", "c.json"), "unknown board 'Pynq-Z7' (did you mean"),
            (("build", "-o", "out", "--config", "d.json"), "unknown board 'nope'; known: Pynq-Z1, "),
            (("build", "-o", "out", "--config", "v.json"), "none.npy: no such file"),
            (("build", "-o", "out", "--counters", "--backend", "hls"), "'performance_counters' and 'backend' exclude"),
            (("synth", "--family", "xc8"), "no device family 'xc8'"),
            (("bitstream", "--board", "icebraker"), "did you mean 'icebreaker'"),
            (("bitstream", "--board", "icebreaker", "--baud", "9000000"), "9000000 baud"),
        ],
    )
    def test_options_before_the_model_is_read(self, command: tuple[str, ...], message: str, tmp_path: Path) -> None:
        """A mistake in an option is told at once, not after minutes: the model need not even be there."""
        (tmp_path / "c.json").write_text('{"board": "Pynq-Z7", "generate_outputs": ["stitched_ip"]}')
        (tmp_path / "d.json").write_text('{"board": "nope"}')
        verify = {"verify_steps": ["streamlined_python"], "verify_input_npy": "none.npy"}
        (tmp_path / "v.json").write_text(json.dumps(verify))
        name, *options = command
        paths = [tmp_path / option if option == "out" or option.endswith(".json") else option for option in options]
        assert message in refused(name, tmp_path / "none.onnx", *paths)

    @pytest.mark.parametrize(
        "command",
        [
            ("build", "model", "-o", ""),
            ("build", "model", "--output="),
            ("build", "", "-o", "out"),
            ("build", "model", "-o", "out", "--folding", ""),
            ("run", "model", "--input", "x.npz", "--mode", "float", "--output", ""),
            ("vectors", "model", "-o", ""),
            ("weights", "out", "-o", ""),
            ("init", ""),
            ("explore", "model", "-o", ""),
            ("explore", "model", "", "-o", "out"),
            ("demo", "-o", ""),
        ],
    )
    def test_an_empty_path_is_not_the_current_folder(
        self, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 2
        assert "the path is empty" in done.output
        assert list(tmp_path.iterdir()) == []

    def test_usage(self, tiny_model: Path) -> None:
        assert "No such command 'bild'" in refused("bild")
        assert "--output" in refused("build", tiny_model)
        says = refused("build", tiny_model, "--backend", "vhdl")
        assert "'vhdl' is not one of" in says
        assert "Value error" not in says
        assert "'integer'" in refused("run", tiny_model, "--input", "x", "--output", "y", "--mode", "intger")

    def test_debug_shows_the_traceback(self, tmp_path: Path) -> None:
        for arguments in (("--debug", "info", tmp_path / "no.onnx"), ("info", tmp_path / "no.onnx", "--debug")):
            done = headrace(*arguments)
            assert done.returncode == 2
            assert "Traceback" in done.stderr


def test_a_difference_ends_with_status_one(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong layer is caught by the build, named, and leaves no design behind, but a page that says so."""
    from headrace import cli
    from headrace.layers.mvau import MVAU

    true = MVAU.execute

    def wrong(layer: MVAU, *inputs: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        (y,) = true(layer, *inputs)
        y = y.copy()
        y[2, 1] += 1
        return (y,)

    monkeypatch.setattr(MVAU, "execute", wrong)
    monkeypatch.setattr(sys, "argv", ["headrace", "build", str(tiny_model), "-o", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 1
    says = capsys.readouterr().err
    assert "integer graph = layers: 'fc0' differs in 1 of" in says
    assert "first in frame 2 at [1]" in says
    assert [path.name for path in tmp_path.iterdir()] == ["out.failed"]
    assert "first in frame 2 at [1]" in (tmp_path / "out.failed" / "report" / "index.html").read_text()


def test_traced_runs(tiny_model: Path, frames: tuple[Path, NDArray[np.float32]], tmp_path: Path) -> None:
    """Every stream is compared; a C++ that computes something else is found, by the first stream that differs."""
    out = tmp_path / "out"
    assert headrace("build", tiny_model, "-o", out, "--backend", "hls").returncode == 0
    command = ("run", out, "--input", frames[0], "--output", tmp_path / "y.npz", "--mode", "hls", "--trace")
    done = headrace(*command, "--dataflow")
    assert done.returncode == 0, done.stderr
    assert "streams equal" in done.stderr
    assert "cycles" in done.stderr
    params = out / "hls" / "params.hpp"
    text = params.read_text()
    changed, count = re.subn(
        r"(fc1_weights(?:\[\d+\])+ = [{\s]+)(-?\d+)", lambda m: m[1] + ("1" if m[2] == "0" else "0"), text
    )
    assert count == 1
    params.write_text(changed)
    message = refused(*command, status=1)
    assert "layers = C++: 'fc1_out' differs in" in message
    assert "first in frame" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--mode", "integer", "--trace"), "mode 'integer' has no streams to trace"),
        (("--mode", "rtl", "--dataflow"), "--dataflow goes with --mode hls"),
    ],
)
def test_options_that_do_not_go_together(
    tiny_model: Path,
    frames: tuple[Path, NDArray[np.float32]],
    tmp_path: Path,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    output = tmp_path / "y.npz"
    assert message in refused("run", tiny_model, "--input", frames[0], "--output", output, *arguments)
    assert not output.exists()


def test_a_design_for_a_part(tiny_model: Path, tmp_path: Path) -> None:
    large, small = tmp_path / "large", tmp_path / "small"
    assert headrace("build", tiny_model, "-o", large, "--fit", "Pynq-Z1").returncode == 0
    assert headrace("build", tiny_model, "-o", small, "--limit", "lut=300", "--limit", "dsp=0").returncode == 0
    reports = [json.loads((out / "report" / "report.json").read_text()) for out in (large, small)]
    assert reports[0]["performance"]["interval"] < reports[1]["performance"]["interval"]
    assert reports[1]["performance"]["resources"]["lut"] <= 300
    assert "has 10 lut and the design takes an estimated" in refused(
        "build", tiny_model, "-o", large, "--limit", "lut=10"
    )
    assert "did you mean 'Pynq-Z1'" in refused("build", tiny_model, "-o", large, "--fit", "Pynq-Z11")
    assert "--limit lut: expected a resource and a number" in refused(
        "build", tiny_model, "-o", large, "--limit", "lut"
    )
    assert "unknown resource 'luts'" in refused("build", tiny_model, "-o", large, "--limit", "luts=5")
