"""Accuracy on labelled frames: as a step, as a command, in the report; nothing claimed of what was not run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from models import quantized_mlp
from numpy.typing import NDArray
from typer.testing import CliRunner

import headrace
from headrace.build.config import BuildConfig
from headrace.build.design import Design
from headrace.build.expected import read_frames
from headrace.build.journal import Journal
from headrace.build.validation import (
    Settings,
    Validation,
    named_classes,
    read_labels,
    read_validation,
    validate,
    validate_build,
)
from headrace.build.verify import random_frames
from headrace.cli import app
from headrace.errors import InputError, VerificationError
from headrace.ingest import from_proto
from headrace_sim import find_tools

needs_verilator = pytest.mark.skipif(
    not {tool.name: tool.found for tool in find_tools()}["verilator"], reason="Verilator was not found"
)
WRONG = 7
FRAMES = 40


@pytest.fixture
def labelled(tiny_model: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Frames, and labels of which :data:`WRONG` are not what the network says, two of them among the first five."""
    x = np.random.default_rng(1).normal(0, 1, (FRAMES, 12)).astype(np.float32)
    labels = headrace.load(tiny_model).run({"x": x})["label"].ravel()
    labels[[0, 3, 11, 12, 13, 20, 39]] += 1
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "labels.npy", labels.astype(np.uint8))
    return tmp_path / "x.npy", tmp_path / "labels.npy"


def settings(labelled: tuple[Path, Path], simulated: int) -> dict[str, object]:
    x, labels = labelled
    return {"validation_input_npy": x, "validation_labels_npy": labels, "validation_rtlsim_frames": simulated}


def test_the_step_without_simulation(tiny_model: Path, labelled: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = settings(labelled, 0)
    design = headrace.build(tiny_model, out, validation_reference=0.875, **given)  # type: ignore[arg-type]
    found = json.loads((out / "report" / "validation.json").read_text())
    assert found["top1"] == (FRAMES - WRONG) / FRAMES
    assert [(s["stage"], s["right"], s["first"]) for s in found["scores"]] == [
        ("model, in float32", FRAMES - WRONG, None),
        ("integer network", FRAMES - WRONG, None),
    ]
    page = (out / "report" / "index.html").read_text()
    assert "82.50 %" in page
    assert "87.50 %" in page
    assert "SystemVerilog was not simulated" in page
    kept = (out / "build.json").read_text()
    assert str(tmp_path) not in kept
    assert not any(name.startswith("validation_") for name in json.loads(kept))
    assert "validate " in (out / "build.log").read_text()
    assert read_validation(out, design.plan.digest) is not None
    assert read_validation(out, "of another design") is None


@needs_verilator
def test_the_step_and_the_command_with_simulation(
    tiny_model: Path, labelled: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    design = headrace.build(tiny_model, out, **settings(labelled, 5))  # type: ignore[arg-type]
    assert design.simulated == {"SystemVerilog"}
    page = (out / "report" / "index.html").read_text()
    assert "simulated SystemVerilog" in page
    assert "the first 5" in page
    assert "What is generated was simulated in this build, too." in page
    assert "of 32 random frames" in page  # labelled ones are not counted among them
    paths = [str(path) for path in labelled]
    command = ["validate", str(out), "--input", paths[0], "--labels", paths[1], "--frames", "20", "--json"]
    shown = CliRunner().invoke(app, [*command[:-2], "0", "--reference", "0.9"])
    assert "82.50%" in shown.output
    assert "90.00%" in shown.output
    assert "SystemVerilog" not in shown.output
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["top1"] == (FRAMES - WRONG) / FRAMES
    assert [score["first"] for score in found["scores"]] == [15, 15, 15]
    assert found["scores"][-1]["right"] is None
    assert "the first 20" in (out / "report" / "index.html").read_text()


@needs_verilator
def test_a_simulation_after_the_build_is_in_the_verdict(
    tiny_model: Path, labelled: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    headrace.build(tiny_model, out)
    assert "SystemVerilog was not simulated" in (out / "report" / "index.html").read_text()
    paths = [str(path) for path in labelled]
    done = CliRunner().invoke(app, ["validate", str(out), "--input", paths[0], "--labels", paths[1], "--frames", "5"])
    assert done.exit_code == 0, done.output
    page = (out / "report" / "index.html").read_text()
    assert "What is generated was simulated, too, since it was built." in page
    assert "not simulated" not in page
    assert "3 of 5" in page
    assert f"from {tiny_model.name}" in page  # not from the copy in the folder
    next((out / "rtl").glob("*.sv")).unlink()
    gone = CliRunner().invoke(app, ["profile", str(out), "--frames", "1"])
    assert isinstance(gone.exception, InputError)  # status 2: no difference was found
    assert "does not exist" in str(gone.exception)


def test_cpp_is_simulated_where_that_is_generated(
    tiny_model: Path, labelled: tuple[Path, Path], tmp_path: Path
) -> None:
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    out = tmp_path / "out"
    design = headrace.build(tiny_model, out, backend="hls", **settings(labelled, 5))  # type: ignore[arg-type]
    assert design.simulated == {"C++"}
    assert json.loads((out / "report" / "validation.json").read_text())["scores"][-1] == {
        "stage": "simulated C++",
        "right": None,
        "first": 3,
    }


def test_finns_list_of_steps_validates(tiny_model: Path, labelled: tuple[Path, Path], tmp_path: Path) -> None:
    headrace.build(tiny_model, tmp_path / "out", finn_compatible=True, **settings(labelled, 0))  # type: ignore[arg-type]
    assert (tmp_path / "out" / "report" / "validation.json").is_file()


def test_a_difference_is_an_error(
    tiny_model: Path, labelled: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The accuracy of a network that is not the model is not reported."""
    design = headrace.build(tiny_model, tmp_path / "out")
    feeds, labels = read_frames(labelled[0], design.source), read_labels(labelled[1])
    true = type(design).run

    def wrong(self: object, feeds: object, mode: str = "integer", **more: object) -> dict[str, NDArray[np.int64]]:
        outputs = true(self, feeds, mode, **more)  # type: ignore[arg-type]
        return {name: array + (mode == "integer") for name, array in outputs.items()}

    monkeypatch.setattr(type(design), "run", wrong)
    with pytest.raises(VerificationError, match="model = integer graph: 'label' differs in 40 of 40"):
        validate_build(design, feeds, labels, Settings(simulated=0), Journal())
    assert not (tmp_path / "out" / "report" / "validation.json").exists()


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (np.zeros(3, np.int64), "has 3 labels for 40 frames of 'x'"),
        (np.zeros(40), "expected one array of whole numbers"),
        (np.zeros(0, np.int64), "expected one array of whole numbers"),
    ],
)
def test_wrong_labels(
    tiny_model: Path, labelled: tuple[Path, Path], tmp_path: Path, labels: NDArray[np.generic], says: str
) -> None:
    np.save(labelled[1], labels)
    with pytest.raises(InputError, match=says):
        headrace.build(tiny_model, tmp_path / "out", **settings(labelled, 0))  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_files_are_asked_for_together(tiny_model: Path, labelled: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="go together"):
        headrace.build(tiny_model, tmp_path / "out", validation_input_npy=labelled[0])
    with pytest.raises(InputError, match=r"none\.npy: no such file"):
        headrace.build(
            tiny_model, tmp_path / "out", validation_input_npy=labelled[0], validation_labels_npy=tmp_path / "none.npy"
        )


@pytest.mark.parametrize(("name", "value"), [("validation_reference", 0.9), ("validation_rtlsim_frames", 4)])
def test_settings_of_frames_that_there_are_not_are_refused(
    name: str, value: float, tiny_model: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=f"setting '{name}' is for frames of known class, and there are none"):
        headrace.build(tiny_model, tmp_path / "out", **{name: value})  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_labels_of_no_class_are_told() -> None:
    design = Design(from_proto(quantized_mlp((6, 5), 3, seed=1, argmax=False)), BuildConfig())
    frames = random_frames(design.source, 4, 0)
    for labels, said in (([0, 1, 4, 0], []), ([1, -1, 9, 2], ["2 of 4 labels are no class of the network"])):
        journal = Journal()
        validate(design, frames, np.array(labels), Settings(simulated=0), journal)
        assert [text.split(", which")[0] for text in journal.warnings] == said


def test_classes_by_value_or_by_largest_entry() -> None:
    assert named_classes({"y": np.array([[3], [1]]), "z": np.array([9, 9])}).tolist() == [3, 1]
    assert named_classes({"y": np.array([[0.5, 2.0, 2.0], [3.0, 1.0, 1.0]])}).tolist() == [1, 0]  # the first of equals


def test_all_frames_simulated(tiny_model: Path) -> None:
    design = headrace.load(tiny_model)
    labels = np.array([1, 2])
    found = Validation.of(design, labels, {"a": labels, "b": np.array([1, 1])}, 2)
    assert [(s.right, s.first) for s in found.scores] == [(2, 2), (1, 1)]
    assert found.note == "top-1 accuracy 100.00% of 2 frames; b: 1 of the first 2 right"
