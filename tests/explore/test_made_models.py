"""Sweeps whose models a function makes, and whose settings are values of a folding."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
from models import quantized_mlp

from headrace.errors import InputError
from headrace.explore import Exploration, Point, Result, Sweep, evaluate, explore, read_sweep

SCRIPT = """
import onnx
from qonnx.core.modelwrapper import ModelWrapper

from neighbour import FILES

print("made", flush=True)

def mnist(bits, seed=0, form="proto"):
    assert bits != 7, "seven bits are not trained"
    model = onnx.load(FILES[bits])
    if form == "nothing":
        return None
    if form == "path":
        return FILES[bits]
    return ModelWrapper(model) if form == "wrapper" else model
"""


class Here:
    """Evaluates in this process."""

    def run(self, points: Sequence[Point]) -> Iterator[Result]:
        return map(evaluate, points)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {}
    for bits in (2, 4):
        files[bits] = f"w{bits}.onnx"
        onnx.save(quantized_mlp((16, 8, 4), bits, 0), tmp_path / f"w{bits}.onnx")
    (tmp_path / "neighbour.py").write_text(f"FILES = {files | {7: ''}!r}\n")
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def swept(folder: Path, models: str, settings: str = "target_fps: [1e6, 1e7]", **more: Any) -> Exploration:
    (folder / "sweep.yaml").write_text(f"models: {models}\nsettings: {{{settings}}}\n")
    return explore(read_sweep(folder / "sweep.yaml"), folder / "out", Here(), **more)


def test_bit_widths_are_swept(folder: Path) -> None:
    models = "{made: {make: 'train.py:mnist', with: {bits: [2, 4], form: proto}}, file: w2.onnx}"
    found = swept(folder, models)
    assert [(r.model, dict(r.labels)) for r in found.results] == [
        ("made", {"bits": "2", "target_fps": "1M"}),
        ("made", {"bits": "2", "target_fps": "10M"}),
        ("made", {"bits": "4", "target_fps": "1M"}),
        ("made", {"bits": "4", "target_fps": "10M"}),
        ("file", {"target_fps": "1M"}),
        ("file", {"target_fps": "10M"}),
    ]
    assert not found.failed
    luts = [r.measures["lut"] for r in found.results]
    assert luts[:2] == luts[4:]
    assert luts[2] > luts[0]
    rows = list(csv.DictReader((folder / "out" / "explore.csv").read_text().splitlines()))
    assert [row["bits"] for row in rows] == ["2", "2", "4", "4", "", ""]
    kept = sorted(path.name.rsplit("-", 1)[0] for path in (folder / "out" / "models").glob("*.onnx"))
    assert kept == ["made_bits2", "made_bits4"]


def test_what_was_made_is_kept_until_its_file_changes(folder: Path) -> None:
    log = folder / "made.log"
    (folder / "train.py").write_text(SCRIPT.replace('print("made", flush=True)', f"open({str(log)!r}, 'a').write('.')"))
    models = "{made: {make: 'train.py:mnist', with: {bits: [2, 4]}}}"
    assert swept(folder, models).reused == 0
    assert log.read_text() == ".."
    assert swept(folder, models).reused == 4
    assert log.read_text() == ".."
    assert swept(folder, "{made: {make: 'train.py:mnist', with: {bits: [2, 4], seed: 1}}}").reused == 4  # equal models
    assert log.read_text() == "...."
    (folder / "train.py").write_text((folder / "train.py").read_text() + "\n")
    swept(folder, models)
    assert log.read_text() == "......"


@pytest.mark.parametrize("form", ["path", "wrapper"])
def test_forms_of_a_model(folder: Path, form: str) -> None:
    found = swept(folder, f"{{made: {{make: 'train.py:mnist', with: {{bits: 2, form: {form}}}}}, file: w2.onnx}}")
    assert not found.failed
    assert found.results[0].measures == found.results[2].measures
    assert dict(found.results[0].labels) == {"target_fps": "1M"}


def test_a_model_that_is_not_made_is_a_row_with_the_reason(folder: Path) -> None:
    found = swept(folder, "{made: {make: 'train.py:mnist', with: {bits: [2, 7]}}}")
    assert [bool(r.error) for r in found.results] == [False, False, True, True]
    assert "ended with status 1: AssertionError: seven bits are not trained" in found.results[2].error
    assert f"({folder / 'out' / 'models'}{os.sep}made_bits7-" in found.results[2].error
    assert "made_bits7" in next((folder / "out" / "models").glob("made_bits7*.log")).name
    assert found.front


@pytest.mark.parametrize(
    ("models", "reason"),
    [
        ("{make: 'train.py:minst'}", "InputError: train.py has no function 'minst'"),
        ("{make: 'train.py:FILES'}", "InputError: train.py has no function 'FILES'"),
        ("{make: 'train.py:mnist', with: {bits: 2, form: nothing}}", "mnist returned NoneType; expected an ONNX model"),
        ("{make: 'train.py:mnist', with: {bit: 2}}", "unexpected keyword argument 'bit'"),
    ],
)
def test_functions_that_make_nothing(folder: Path, models: str, reason: str) -> None:
    found = swept(folder, f"{{made: {models}}}")
    assert all(reason in result.error for result in found.results)
    assert len(found.failed) == 2


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ("{make: 'gone.py:f'}", r"gone.py: cannot be read \(No such file or directory\)"),
        (
            "{make: train.py}",
            r"'models.made.make': .*expected a Python file and a function in it, like 'train.py:mnist'",
        ),
        ("{make: 'train.py:f()'}", r"expected a Python file and a function in it"),
        ("{make: 'train.py:f', width: 3}", r"unknown name 'models.made.width'.*; known: make, with"),
        ("{with: {bits: 3}}", r"'models.made.make'"),
        ("{make: 'train.py:f', with: {bits: []}}", r"argument 'bits' has no value to try"),
        ("{make: 'train.py:f', with: {lut: [1, 2]}}", r"'lut' of 'models.made' is called like another column"),
        ("{make: 'train.py:f', with: {target_fps: [1, 2]}}", r"'target_fps' of 'models.made' is called like another"),
        ("{make: 'train.py:f', with: {day: [2020-01-01]}}", r"'models.made.with.day"),
    ],
)
def test_what_is_refused(folder: Path, models: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        swept(folder, f"{{made: {models}}}")
    assert not list(folder.glob("out/models/*"))


def test_styles_are_swept(folder: Path) -> None:
    """The same network with products from tables and from multipliers, and one of its layers with another folding."""
    found = swept(folder, "{a: w4.onnx}", "MVAU.style: [table, multiply], MVAU_0.PE: [2, 4], MVAU.SIMD: 1")
    assert [r.error for r in found.failed] == []
    assert [dict(r.labels) for r in found.results] == [
        {"MVAU.style": style, "MVAU_0.PE": pe} for style in ("table", "multiply") for pe in ("2", "4")
    ]
    luts = [r.measures["lut"] for r in found.results]
    assert len(set(luts)) == 4
    assert luts[0] < luts[1]
    assert luts[2] < luts[3]


def test_values_are_put_over_a_folding(folder: Path) -> None:
    (folder / "fold.json").write_text('{"Defaults": {"style": ["select", ["MVAU"]], "PE": 2}, "fc1": {"SIMD": 2}}')
    sweep = Sweep.checked(
        {"settings": {"folding": "fold.json", "MVAU.style": ["table", None], "fc1.PE": 4, "all.SIMD": 1}},
        "sweep",
        folder,
    )
    assert [values["folding"] for values in sweep.combinations()] == [
        {
            "Defaults": {"style": {"MVAU": "table"}, "PE": 2, "SIMD": {"all": 1}},
            "fc1": {"SIMD": 2, "PE": 4},
        },
        {
            "Defaults": {"style": ["select", ["MVAU"]], "PE": 2, "SIMD": {"all": 1}},
            "fc1": {"SIMD": 2, "PE": 4},
        },
    ]
    with pytest.raises(InputError, match=r"'MVAU.stile' of the folding of 'MVAU': unknown setting 'stile' \(did you"):
        Sweep.checked({"settings": {"MVAU.stile": "table"}}, "sweep")


def test_a_layer_that_is_not_there_is_a_row_with_the_reason(folder: Path) -> None:
    found = swept(folder, "{a: w4.onnx}", "MVAV_0.PE: [1, 2]")
    assert all("MVAV_0" in r.error and "did you mean 'MVAU_0'" in r.error for r in found.results)


def test_unrolled_or_not(folder: Path) -> None:
    found = swept(folder, "{a: w4.onnx}", "unroll: [true, false]")
    assert [r.labels["unroll"] for r in found.results] == ["true", "false"]
    assert found.results[0].measures["interval"] == 1 < found.results[1].measures["interval"]
