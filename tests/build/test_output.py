"""The output folder is whole, or what it was before."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest

import headrace
from headrace.build.arrays import write_arrays
from headrace.build.output import MARKER, replaced, staged, write_files
from headrace.build.report import add_to_report
from headrace.build.runtime import write_runtime_weights
from headrace.errors import InputError
from headrace.explore import explore
from headrace.export.writing import write
from headrace.whole_files import output_file, whole_file, write_whole


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


def test_an_earlier_build_is_files_and_folders(tiny_model: Path, tmp_path: Path) -> None:
    """A build that goes on with an earlier one would write through a link, and wait for a pipe."""
    out, precious = tmp_path / "out", tmp_path / "precious"
    precious.write_text("years of work")
    headrace.build(tiny_model, out)
    before = listing(out)
    for name, target in (("intermediate_models/estimate.json", precious), ("time_per_step.json", Path("/dev/zero"))):
        kept = (out / name).read_bytes()
        (out / name).unlink()
        (out / name).symlink_to(target)
        with pytest.raises(InputError, match=f"{name}: is a link, which no build puts there; remove it, or build anew"):
            headrace.build(tiny_model, out, start_step="estimate")
        (out / name).unlink()
        os.mkfifo(out / name)
        with pytest.raises(InputError, match=f"{name}: is neither a file nor a folder"):
            headrace.build(tiny_model, out, start_step="estimate")
        (out / name).unlink()
        (out / name).write_bytes(kept)
    (out / "report").rename(tmp_path / "elsewhere")
    (out / "report").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="report: is a link"):
        headrace.build(tiny_model, out, start_step="estimate")
    with pytest.raises(InputError, match=r"report: leads out of .*out by a link; remove it, or build anew"):
        add_to_report(headrace.load(out), out, {"report/found.json": "{}"})
    assert not (tmp_path / "elsewhere" / "found.json").exists()
    (out / "report").unlink()
    (tmp_path / "elsewhere").rename(out / "report")
    (out / "report" / "found.json").symlink_to(precious)
    add_to_report(headrace.load(out), out, {"report/found.json": "{}"})
    assert (out / "report" / "found.json").read_text() == "{}"
    headrace.build(tiny_model, out, start_step="estimate")
    assert listing(out) == sorted([*before, "report/found.json"])
    assert precious.read_text() == "years of work"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "precious"]


def test_a_folder_in_a_build_is_replaced_whole(tmp_path: Path) -> None:
    for name in ("first", "second"):
        with replaced(tmp_path / "a" / "board") as folder:
            write_files(folder, {name: ""})
    with suppress(KeyboardInterrupt), replaced(tmp_path / "a" / "board") as folder:
        write_files(folder, {"third": ""})
        raise KeyboardInterrupt
    assert listing(tmp_path) == ["a", "a/board", "a/board/second"]


def test_files_are_whole_or_what_they_were(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250)
    write_whole(path, "1")
    with suppress(KeyboardInterrupt), whole_file(path) as file:
        file.write(b"2")
        raise KeyboardInterrupt
    assert path.read_text() == "1"
    (tmp_path / "n").touch()
    assert path.stat().st_mode == (tmp_path / "n").stat().st_mode
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, "")
    assert len(list(tmp_path.iterdir())) == 2


def test_files_of_a_build_are_for_everyone_alike(tiny_model: Path, tmp_path: Path) -> None:
    headrace.build(tiny_model, tmp_path / "out")
    modes = {path.stat().st_mode for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert len(modes) == 1


WRITERS: dict[str, Callable[[Path, Path], object]] = {
    "arrays": lambda model, path: write_arrays(path, {"x": np.zeros(3)}),
    "graph": lambda model, path: headrace.load(model).source.save(path),
    "vectors": lambda model, path: headrace.load(model).write_vectors(path, frames=2),
    "model": lambda model, path: write(onnx.load(model), path),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_an_output_that_is_no_file_stays_what_it_is(writer: str, tiny_model: Path, tmp_path: Path) -> None:
    """A pipe here, a device such as /dev/null elsewhere: written to, never replaced, which root could."""
    plain, pipe, link = tmp_path / "plain", tmp_path / "pipe", tmp_path / "link"
    WRITERS[writer](tiny_model, plain)
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        read: list[bytes] = []
        reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)  # noqa: B023  # joined
        reader.start()
        WRITERS[writer](tiny_model, path)
        assert pipe.is_fifo()
        reader.join(60)
        assert read
        assert read[0][:2] == plain.read_bytes()[:2]
    link.unlink()
    link.symlink_to(plain)
    expected = plain.read_bytes()
    plain.write_text("")
    WRITERS[writer](tiny_model, link)
    assert link.is_symlink()
    assert plain.read_bytes() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe", "plain"]


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(OSError, match="it is no file"):
            write_whole(path, "")
    with pytest.raises(InputError, match="is a file; expected a new folder"), staged(tmp_path / "pipe"):
        pass
    with pytest.raises(FileNotFoundError), output_file(tmp_path / "new"):
        (tmp_path / "none").read_bytes()
    assert (tmp_path / "pipe").is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
