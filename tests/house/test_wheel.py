"""The wheel, built from the checkout, works from an empty folder with the checkout out of reach."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOMES = {
    "frontend/headrace": "headrace",
    "rtl_sim/headrace_sim": "headrace_sim",
    "hls_templates": "headrace/hls_templates",
    "examples": "headrace/examples",
}
"""Folders of the checkout, and where all that is in them lies in the wheel."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project built into a wheel, with what is installed already: no download."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", folder, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("headrace-*.whl")
    return built


def test_contents(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, place in HOMES.items():
        files = [p for p in (ROOT / folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts]
        assert {f"{place}/{p.relative_to(ROOT / folder)}" for p in files} <= names
    assert {"headrace/py.typed", "headrace_sim/py.typed", "headrace/examples/mnist_mlp/demo.py"} <= names
    assert {"headrace/hls_templates/rtl/mvau.sv.j2", "headrace/hls_templates/hls/sim/ap_int.h"} <= names
    roots = {n.split("/")[0] for n in names}
    assert {r for r in roots if not r.endswith(".dist-info")} == {"headrace", "headrace_sim"}
    assert any(n.endswith("licenses/LICENSE") for n in names)
    assert not [n for n in names if "__pycache__" in n or n.startswith("headrace/tests")]


def test_installed_wheel_builds_a_design(wheel: Path, tmp_path: Path, tiny_model: Path) -> None:
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", site, wheel]
    subprocess.run(command, check=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | {"PYTHONPATH": str(site)}

    def run(*arguments: str) -> str:
        code = "from headrace.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    where = "import headrace, headrace_sim; print(headrace.__file__, headrace_sim.__file__)"
    found = subprocess.run([sys.executable, "-c", where], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert all(Path(p).is_relative_to(site) for p in found.stdout.split())
    assert "build" in run("--help")
    run("build", str(tiny_model), "-o", str(tmp_path / "out"))
    assert (tmp_path / "out" / "design.json").is_file()
