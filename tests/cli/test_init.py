"""`headrace init` and `headrace vectors`: a project whose regression needs nothing but a simulator."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from models import quantized_mlp

from headrace import __version__, load
from headrace.build.project import write_project
from headrace.errors import InputError
from headrace_sim import read_vectors, write_vectors

RTL_SIM = Path(importlib.util.find_spec("headrace_sim").origin).parents[1]


def project(folder: Path) -> Path:
    onnx.save(quantized_mlp((8, 6, 4), 3, 0), folder / "net.onnx")
    write_project(folder / "my-accelerator", folder / "net.onnx")
    return folder / "my-accelerator"


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def bare_environment(folder: Path) -> Path:
    """The interpreter of a virtual environment that has what requirements-rtl.txt names, and headrace_sim."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    wanted, placed = ["cocotb", "numpy", "pytest", "verilator"], set()
    while wanted:
        name = re.split(r"[^A-Za-z0-9_.-]", wanted.pop())[0]
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # of another platform or an extra
        if name in placed:
            continue
        placed.add(name)
        wanted += [r for r in distribution.requires or [] if "extra ==" not in r]
        for top in {file.parts[0] for file in distribution.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(distribution.locate_file(top))
    headrace = importlib.metadata.distribution("headrace")
    info = site / f"headrace-{headrace.version}.dist-info"  # its entry point is the plugin
    info.mkdir()
    for name in ("METADATA", "entry_points.txt"):
        (info / name).write_text(headrace.read_text(name) or "")
    (site / "headrace_sim.pth").write_text(f"{RTL_SIM}\n")
    return folder / "bin" / "python"


@pytest.mark.sim
def test_the_regression_runs_in_a_bare_environment(tmp_path: Path, rtl_sim) -> None:
    folder = project(tmp_path)
    run(sys.executable, "build.py", folder=folder)
    vectors = read_vectors(folder / "vectors.npz")
    assert set(load(folder / "rtl").plan.streams.values()) < set(vectors.expected)  # a failure names the layer
    rtl_sim(folder / "rtl", vectors.inputs)  # skips where there is no Verilator
    python = bare_environment(tmp_path / "bare")
    for module in ("torch", "onnx", "headrace", "networkx"):
        code = f"import importlib.util; assert importlib.util.find_spec({module!r}) is None"
        run(python, "-c", code, folder=folder, PYTHONPATH="")
    (python.parent / "pytest").write_text(f'#!/bin/sh\nexec "{python}" -m pytest "$@"\n')
    (python.parent / "pytest").chmod(0o755)
    action = yaml.safe_load((folder / ".github/actions/rtl/action.yml").read_text())
    steps = {step["name"]: step for step in action["runs"]["steps"]}
    summary = tmp_path / "summary.md"
    environment = {
        "PYTHONPATH": "",
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TESTS": action["inputs"]["tests"]["default"],
        "OPTIONS": "-q",
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    junit = folder / "artifacts" / "junit.xml"
    assert "4 passed" in run("bash", "-ec", steps["Simulate"]["run"], folder=folder, **environment)
    assert 'failures="0"' in junit.read_text()
    assert (tmp_path / ".cache" / "headrace").is_dir()  # what the step before it caches
    vectors.expected[load(folder / "rtl").hardware.outputs[0].name][3] += 1
    write_vectors(folder / "vectors.npz", vectors)
    with pytest.raises(AssertionError, match=r"frame 3, element 0: expected"):
        run("bash", "-ec", steps["Simulate"]["run"], folder=folder, **environment)
    run("bash", "-ec", steps["Say what differs"]["run"], folder=folder, **environment)
    assert "    tests/test_rtl.py::test_every_value[0.0]\n" in summary.read_text()
    assert "frame 3, element 0: expected" in summary.read_text()
    assert "in waves.vcd: " in summary.read_text()


def test_files_of_a_project(tmp_path: Path) -> None:
    files = write_project(tmp_path / "net work_1")
    assert {"network.py", "build.py", "tests/test_rtl.py", ".gitlab-ci.yml"} <= set(files)
    for name in files:
        text = (tmp_path / "net work_1" / name).read_text()
        assert "[[" not in text
        if name.endswith(".py"):
            compile(text, name, "exec")
        if name.endswith(".yml"):
            assert isinstance(yaml.safe_load(text), dict)
    action = yaml.safe_load((tmp_path / "net work_1" / ".github/actions/rtl/action.yml").read_text())
    assert action["runs"]["using"] == "composite"
    commands = [step["run"] for step in action["runs"]["steps"] if "run" in step]
    assert any("--require-sim" in command for command in commands)
    assert not any("${{" in command for command in commands)  # what a caller gives reaches no shell as text
    gitlab = yaml.safe_load((tmp_path / "net work_1" / ".gitlab-ci.yml").read_text())["rtl"]
    assert gitlab["variables"]["HEADRACE"] == action["inputs"]["headrace"]["default"] == f"headrace=={__version__}"
    assert gitlab["artifacts"]["reports"]["junit"] in gitlab["script"][-1]
    assert all(f"/{folder}" in str(gitlab["variables"]) for folder in gitlab["cache"]["paths"])


@pytest.mark.parametrize("name", ["-x", "a\nb", "a'b", "{{ 7 * 7 }}", "[[ model ]]"])
def test_names_that_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="a project is named with letters"):
        write_project(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    write_project(tmp_path / "p")
    with pytest.raises(InputError, match="exists already; expected a new or an empty folder"):
        write_project(tmp_path / "p")
    with pytest.raises(InputError, match=r"none\.onnx: no such file"):
        write_project(tmp_path / "q", tmp_path / "none.onnx")
    assert not (tmp_path / "q").exists()


def test_vectors_of_given_frames(tmp_path: Path) -> None:
    design = load(quantized_mlp((8, 6, 4), 3, 0))
    x = np.random.default_rng(0).standard_normal((5, *design.source.types(design.source.input_node("x"))[0].shape))
    design.write_vectors(tmp_path / "v.npz", {"x": x.astype(np.float32)}, streams=True)
    vectors = read_vectors(tmp_path / "v.npz")
    assert vectors.frames == 5
    core = design.parts.core.run(design.core_feeds({"x": x.astype(np.float32)}))
    for port in design.hardware.outputs:
        assert np.array_equal(port.layout.unpack(vectors.expected[port.name]), core[port.name])
    assert set(design.plan.streams.values()) <= set(vectors.expected)


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_project_is_whole_or_absent(
    there: bool, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.build import output
    from headrace.build.project import write_project
    from headrace.errors import InputError

    written = output.write_whole
    left = [3]

    def full(path: Path, text: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise error
        written(path, text)

    folder = tmp_path / "a" / "project"
    if there:
        folder.mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setattr(output, "write_whole", full)
        with pytest.raises((InputError, KeyboardInterrupt)):
            write_project(folder)
    assert left == [-1]
    assert folder.is_dir() == there
    assert not there or not list(folder.iterdir())
    write_project(folder)
