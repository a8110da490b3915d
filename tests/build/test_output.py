"""The output folder is whole, or what it was before."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace
from headrace.build.output import MARKER, staged, write_files
from headrace.build.runtime import write_runtime_weights
from headrace.errors import InputError
from headrace.explore import explore


def listing(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def break_off(out: Path, error: type[BaseException]) -> None:
    with staged(out) as folder:
        write_files(folder, {MARKER: "{}", "half": ""})
        raise error


def test_an_empty_path_is_no_folder(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="setting 'output_dir': the path is empty"):
        headrace.build(tiny_model, "")
    with pytest.raises(InputError, match="setting 'output_dir': the path is empty"):
        explore({"models": {"tiny": str(tiny_model)}}, "")
    with pytest.raises(InputError, match="setting 'folder': the path is empty"):
        write_runtime_weights({}, "")
    assert listing(tmp_path) == []


def test_new_folder_then_replaced(tmp_path: Path) -> None:
    out = tmp_path / "a" / "out"
    for name in ("first", "second"):
        with staged(out) as folder:
            write_files(folder, {MARKER: "{}", f"rtl/{name}.sv": ""})
    assert listing(out) == [MARKER, "rtl", "rtl/second.sv"]
    assert listing(out.parent) == ["out", *(f"out/{n}" for n in listing(out))]


def test_failed_build_leaves_the_earlier_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with staged(out) as folder:
        write_files(folder, {MARKER: "{}"})
    with pytest.raises(KeyboardInterrupt):
        break_off(out, KeyboardInterrupt)
    assert listing(tmp_path) == ["out", f"out/{MARKER}"]


def test_failed_first_build_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        break_off(tmp_path / "out", RuntimeError)
    assert listing(tmp_path) == []


def test_foreign_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="not an earlier build"), staged(tmp_path):
        pass
    with pytest.raises(InputError, match="is a file"), staged(tmp_path / "thesis.tex"):
        pass
    with pytest.raises(InputError, match="cannot be written"), staged(tmp_path / "thesis.tex" / "out"):
        pass
    assert listing(tmp_path) == ["thesis.tex"]


def test_link_to_a_build_stays_a_link(tmp_path: Path) -> None:
    with staged(tmp_path / "real") as folder:
        write_files(folder, {MARKER: "{}"})
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with staged(tmp_path / "link") as folder:
        write_files(folder, {MARKER: "{}", "new": ""})
    assert (tmp_path / "link").is_symlink()
    assert listing(tmp_path / "real") == [MARKER, "new"]


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x"])
def test_no_file_leaves_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="outside"):
        write_files(tmp_path / "out", {name: ""})
