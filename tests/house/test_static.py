"""Types, style and direction of dependencies, each by the tool that knows it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MIRRORED = {"frontend/headrace/quant/solver/common.py"}  # names that users of Brevitas import
SOURCES = sorted([*ROOT.glob("frontend/**/*.py"), *ROOT.glob("rtl_sim/**/*.py"), *ROOT.glob("examples/**/*.py")])


def _tool(*command: str) -> None:
    tool = Path(sys.executable).with_name(command[0])
    done = subprocess.run([tool, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


def test_mypy_strict() -> None:
    _tool("mypy")


def test_ruff() -> None:
    _tool("ruff", "check", ".")


def test_dependencies_point_one_way() -> None:
    _tool("lint-imports")


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_units_stay_small(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = [f"{f.name}: {f.end_lineno - f.lineno + 1}" for f in functions if (f.end_lineno or 0) - f.lineno >= 80]
    assert not long, f"functions past 80 lines: {long}"
    vague = path.stem in {"utils", "helpers", "common", "manager"}
    assert not vague or str(path.relative_to(ROOT)) in MIRRORED
