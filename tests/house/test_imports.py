"""What importing costs: each promise is checked in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "onnx", "onnxruntime", "jinja2", "networkx", "numpy", "pandas", "scipy", "cocotb")
COMPILER = ("numerics", "ir", "ingest", "passes", "layers", "schedule", "codegen", "build", "cli")


def _loaded(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint('LOADED', *sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("LOADED")[2].split())


def test_headrace_alone_is_light() -> None:
    assert not _loaded("import headrace; dir(headrace)").intersection(HEAVY)


def test_help_is_light() -> None:
    code = """
from headrace.cli import main
for command in ([], ["build"], ["run"], ["info"], ["demo"], ["doctor"], ["schema"]):
    sys.argv = ["headrace", *command, "--help"]
    try:
        main()
    except SystemExit as end:
        assert end.code == 0, (command, end.code)
    else:
        raise AssertionError(command)
"""
    assert not _loaded(code).intersection(HEAVY)


@pytest.mark.parametrize("package", COMPILER)
def test_compiler_runs_without_torch(package: str) -> None:
    code = f"sys.modules['torch'] = None\nimport headrace.{package}"
    assert not {n for n in _loaded(code) if n.startswith("torch.")}


def test_simulator_runs_without_the_compiler() -> None:
    code = "for name in ('headrace', 'torch', 'onnx'): sys.modules[name] = None\nimport headrace_sim"
    assert "headrace_sim" in _loaded(code)
