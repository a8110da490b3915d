"""The documentation says what is so: the tutorial runs, the pages build, the README's commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 6
    names: dict[str, object] = {"__name__": "tutorial"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"tutorial.md, block {number}", "exec"), names)
    assert (tmp_path / "out" / "report" / "index.html").is_file()


def test_pages_build_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", tmp_path / "doctrees"]
    done = subprocess.run([*command, ROOT / "docs", tmp_path / "html"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "target_fps" in (tmp_path / "html" / "reference.html").read_text(encoding="utf-8")


def test_readme_names_what_exists() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#:]+)\)", readme):
        assert (ROOT / link).exists(), link
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^    make (\w+)$", readme, re.MULTILINE)
    assert targets == ["demo", "test"]
    assert all(f"\n{target}: " in makefile for target in targets)
