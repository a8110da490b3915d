"""The build cache: one build per content, whole entries only, bounded."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace_sim import BuildCache, BuildError
from headrace_sim import cache as cache_module
from headrace_sim.cache import content_key, default_folder


def write(text: str):
    def build(folder: Path) -> None:
        (folder / "file").write_text(text)

    return build


def test_builds_once(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    folder, cached = cache.get("key", write("first"))
    assert not cached
    again, cached = cache.get("key", write("second"))
    assert (again, cached) == (folder, True)
    assert (folder / "file").read_text() == "first"
    assert BuildCache(tmp_path).get("key", write("third")) == (folder, True)


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("written")
        raise ValueError("no")

    cache = BuildCache(tmp_path)
    with pytest.raises(ValueError, match="no"):
        cache.get("key", fail)
    assert [path for path in cache.folder.iterdir() if path.is_dir()] == []
    assert not cache.get("key", write("x"))[1]


def test_a_damaged_entry_is_rebuilt(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    folder, _ = cache.get("key", write("x"))
    (folder / ".used").unlink()
    assert cache.get("key", write("y")) == (folder, False)
    assert (folder / "file").read_text() == "y"


@pytest.mark.parametrize("damage", ["shorter", "empty", "changed", "missing", "more", "mode", "seal"])
def test_a_damaged_file_is_noticed(tmp_path: Path, damage: str) -> None:
    """By a process that has seen the entry whole, and by another."""

    def build(folder: Path) -> None:
        (folder / "program").write_bytes(b"\x00" * 1000)
        (folder / "program").chmod(0o755)
        (folder / "inside").mkdir()
        (folder / "inside" / "file").write_text("x")

    cache = BuildCache(tmp_path)
    folder, _ = cache.get("key", build)
    program = folder / "program"
    assert cache.get("key", build)[1]
    assert BuildCache(tmp_path).get("key", build)[1]
    for seen in (damage != "seal", False):  # what stands there is read once
        if damage == "shorter":
            os.truncate(program, 10)
        elif damage == "empty":
            program.write_bytes(b"")
        elif damage == "changed":
            program.write_bytes(b"\x00" * 999 + b"\x01")
        elif damage == "missing":
            (folder / "inside" / "file").unlink()
        elif damage == "more":
            (folder / "other").touch()
        elif damage == "mode":
            program.chmod(0o644)
        else:
            (folder / ".used").write_bytes(b"\xff")
        if not seen:
            cache_module._whole.clear()
        assert cache.get("key", build) == (folder, False)
        assert program.read_bytes() == b"\x00" * 1000
        assert program.stat().st_mode & 0o777 == 0o755
        assert [path.name for path in (folder / "inside").iterdir()] == ["file"]
        assert BuildCache(tmp_path).get("key", build)[1]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    for name in ("tmp-key-1", "tmp-other-1"):
        (cache.folder / name).mkdir(parents=True)
    cache.get("key", write("x"))
    assert sorted(path.name for path in cache.folder.iterdir() if path.is_dir()) == ["key", "tmp-other-1"]


def test_a_full_disk(tmp_path: Path) -> None:
    def full(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    cache = BuildCache(tmp_path)
    with pytest.raises(BuildError, match=r"cannot be written \(No space left on device\): choose another folder"):
        cache.get("key", full)
    assert [path.name for path in cache.folder.iterdir()] == ["key.lock"]


def test_a_lock_that_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waited for it takes the one that others see."""
    import fcntl

    lock, turns = fcntl.flock, []

    def removed(file: object, how: int) -> None:
        turns.append(how)
        if len(turns) == 1:
            (tmp_path / "simulators" / "key.lock").unlink()
        lock(file, how)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", removed)
    assert not BuildCache(tmp_path).get("key", write("x"))[1]
    assert len(turns) == 2


def test_entries_are_for_everyone_who_sees_the_folder(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    folder, _ = BuildCache(tmp_path).get("key", write("x"))
    assert folder.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_least_recently_used_goes_first(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    for age, name in enumerate(["new", "middle", "old"]):
        folder, _ = cache.get(name, write("x" * 1000))
        stamp = folder.joinpath(".used").stat().st_mtime - 7200 * (age + 1)
        os.utime(folder / ".used", (stamp, stamp))
    BuildCache(tmp_path, max_bytes=2500).trim()
    left = {path.name for path in cache.folder.iterdir() if path.is_dir()}
    assert left == {"new", "middle"}


def test_recent_entries_stay(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path, max_bytes=10)
    for name in ("a", "b"):
        cache.get(name, write("x" * 1000))
    assert cache.get("a", write("y"))[1]
    assert cache.get("b", write("y"))[1]


_RACE = """
import sys, time
from pathlib import Path
from headrace_sim import BuildCache
def build(folder):
    with open(sys.argv[2], "a") as log:
        log.write("built\\n")
    time.sleep(0.5)
    (folder / "file").write_text("whole")
folder, _ = BuildCache(sys.argv[1]).get("key", build)
assert (folder / "file").read_text() == "whole"
"""


def test_processes_share_one_build(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", _RACE, str(tmp_path / "cache"), str(log)]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert log.read_text() == "built\n"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BuildError, match=r"cannot be written .* choose another folder with HEADRACE_CACHE"):
        BuildCache(tmp_path / "file").get("key", write("x"))


def test_key_depends_on_every_part_and_border() -> None:
    keys = {content_key(parts) for parts in (["ab", "c"], ["a", "bc"], ["abc"], ["c", "ab"], ["ab", "c", ""])}
    assert len(keys) == 5
    assert content_key(["a", b"b"]) == content_key([b"a", "b"])


def test_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "mine"))
    assert default_folder() == tmp_path / "mine"
    monkeypatch.delenv("HEADRACE_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_folder() == tmp_path / "xdg" / "headrace"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / ".cache" / "headrace"

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(BuildError, match=r"this user has no home folder .* choose one with HEADRACE_CACHE"):
        default_folder()
