"""Every command on a model whose names, files and options are text that means something to some tool."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from fuzz.hostile import renamed
from fuzz.mutations import NAMES

from headrace.cli import main

STEERING = set(map(chr, range(32))) - {"\n", "\t"} | {"\x7f", "\u202e"}
MODEL = "$(touch pwned); <b>'\"{{x}}`touch pwned`.onnx"
OUT = "o'ut $(touch pwned);`touch pwned`"


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the model, whose nodes and tensors have the names, in turn; the current one."""
    monkeypatch.chdir(tmp_path)
    proto = renamed(6)
    onnx.save(proto, tmp_path / MODEL)
    np.savez(tmp_path / "x.npz", **{proto.graph.input[0].name: np.zeros((2, 6), np.float32)})
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], status: int, *arguments: str) -> str:
    """What a command prints, which ends with *status* and steers no terminal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["headrace", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert (end.value.code or 0) == status, text[:3000]
    shown = text if "--json" not in arguments else captured.err  # a document has names whole
    assert max(map(len, shown.splitlines()), default=0) < 12_000
    assert not STEERING & set(text), arguments
    assert "Traceback" not in text
    assert "bug in Headrace" not in text
    return text


def test_every_command(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, 0, "info", MODEL)
    document = said(capsys, 0, "info", MODEL, "--json")
    assert json.loads(document)
    said(capsys, 0, "build", MODEL, "-o", OUT)
    said(capsys, 0, "run", MODEL, "--input", "x.npz", "--mode", "float", "--output", "`touch pwned`.npz")
    said(capsys, 0, "run", OUT, "--input", "x.npz", "--mode", "integer", "--output", "$(touch pwned).npz")
    said(capsys, 0, "vectors", OUT, "--frames", "2", "-o", "; touch pwned #.npz")
    Path("s.yaml").write_text("settings: {seed: [1, 2]}\nevaluate: [estimate]\n", encoding="utf-8")
    said(capsys, 0, "explore", MODEL, "--sweep", "s.yaml", "-o", "e $(touch pwned)", "--jobs", "1")
    said(capsys, 2, "init", "p'roject $(touch pwned)")
    said(capsys, 2, "view", "$(touch pwned)")
    for name in NAMES:
        text = said(capsys, 2, "bitstream", OUT, "--board", name)
        assert len(text) < 1000
    files = [path.relative_to(hostile) for path in hostile.rglob("*")]
    assert not [path for path in files if path.name == "pwned"]
    written = {"`touch pwned`.npz", "$(touch pwned).npz", "; touch pwned #.npz", "s.yaml", "e $(touch pwned)"}
    assert {path.parts[0] for path in files} == {MODEL, "x.npz", OUT, *written}
    page = next((hostile / "e $(touch pwned)").glob("*.html")).read_text(encoding="utf-8")
    assert "<b>" not in page
    assert "<script" not in page


def test_layers_and_families_to_synthesise(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, 0, "build", MODEL, "-o", OUT)
    for name in NAMES:
        said(capsys, 2, "synth", OUT, "--family", name)
    for name in ("", "../../x", "nothing\nmodule evil", "m" * 20_000, "a\x00b", "\x1b[2J", "$(touch pwned)x"):
        text = said(capsys, 2, "synth", OUT, "--layer", name)
        assert len(text) < 12_000
    assert not list(hostile.rglob("pwned"))


@pytest.mark.slow
def test_synthesis(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every layer, under its own name, through yosys."""
    said(capsys, 0, "build", MODEL, "-o", OUT)
    said(capsys, 0, "synth", OUT, "--family", "ice40")
    assert not list(hostile.rglob("pwned"))


@pytest.mark.slow
def test_simulations(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, 0, "build", MODEL, "-o", OUT)
    said(capsys, 0, "profile", OUT, "--frames", "2")
    said(capsys, 0, "run", OUT, "--input", "x.npz", "--mode", "rtl", "--output", "y.npz")
    assert not list(hostile.rglob("pwned"))


def test_paths_that_cannot_be(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names too long, of folders that are files, and with NUL: one sentence from each command."""
    for place in ("n" * 300, "x.npz/out", "a\0b", "n" * 10_000):
        for command in (
            ("info", place),
            ("build", MODEL, "-o", place),
            ("run", MODEL, "--input", place, "--mode", "float", "--output", "y.npz"),
            ("run", MODEL, "--input", "x.npz", "--mode", "float", "--output", f"{place}.npz"),
            ("vectors", MODEL, "--frames", "1", "-o", f"{place}.npz"),
            ("explore", MODEL, "-o", place, "--jobs", "1"),
            ("explore", MODEL, "--sweep", place),
            ("init", place),
            ("view", place),
            ("synth", place),
            ("profile", place),
            ("bitstream", place, "--board", "icebreaker"),
        ):
            text = said(capsys, 2, *command)
            assert len(text) < 12_000
    assert {path.name for path in hostile.iterdir()} == {MODEL, "x.npz"}


def test_a_command_started_as_a_user_does() -> None:
    """In a process of its own; the other tests run commands in theirs."""
    done = subprocess.run(
        [sys.executable, "-c", "from headrace.cli import main; main()", "schema", "\x1b[2J"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "\x1b[2J" not in done.stderr


def test_too_little_memory(hostile: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame that does not fit is said with its size, and is not taken for a bug."""

    def full(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 512. MiB")

    monkeypatch.setattr("headrace.build.design.Design.info", full)
    text = said(capsys, 2, "info", MODEL)
    assert "not enough memory for this model and batch (Unable to allocate 512. MiB); run fewer frames" in text


def test_no_home_folder(hostile: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container, by a number that no name belongs to: only what is kept from run to run needs a folder."""

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("HEADRACE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    said(capsys, 0, "build", MODEL, "-o", OUT)
    for command in (("synth", OUT), ("run", OUT, "--input", "x.npz", "--mode", "rtl", "--output", "y.npz")):
        assert "this user has no home folder for the build cache: choose one" in said(capsys, 2, *command)
