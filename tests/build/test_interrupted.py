"""Builds that are killed, interrupted, out of disk space or not alone leave a whole result: the earlier or the new."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import headrace
from headrace.build.output import MARKER, staged, write_files
from headrace.errors import InputError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and locks are those of POSIX")

PRELUDE = """
import hashlib, json, os, random, resource, signal, sys, time
from pathlib import Path
import headrace, headrace.build.api, headrace.ingest
from headrace.errors import HeadraceError

model, out = sys.argv[1], Path(sys.argv[2])

def digest():
    files = sorted(p for p in out.rglob("*") if p.is_file())
    timed = ("build.log", "time_per_step.json", "index.html", "report.json")
    return hashlib.sha256(b"".join(p.read_bytes() + p.name.encode() for p in files if p.name not in timed)).hexdigest()

def build(fps):
    headrace.build(model, out, target_fps=fps)

def child(fps):
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            build(fps)
            status = 0
        except HeadraceError as error:
            print(error, file=sys.stderr)
            status = 2
        except KeyboardInterrupt:
            status = 130
        os._exit(status)
    return pid
"""


def script(body: str, *arguments: Path) -> dict[str, object]:
    code = PRELUDE + textwrap.dedent(body)
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return {**found, "stderr": done.stderr}


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGINT", "SIGTERM"])
def test_a_build_that_is_stopped_at_any_time(tiny_model: Path, tmp_path: Path, signal: str) -> None:
    found = script(
        f"""
        whole = {{}}
        for fps in (1e6, 2e6):
            build(fps)
            whole[fps] = digest()
        start = time.monotonic()
        build(2e6)
        took = time.monotonic() - start
        rng = random.Random(0)
        seen, broken = [], []
        for turn in range(24):
            fps = (1e6, 2e6)[turn % 2]
            pid = child(fps)
            time.sleep(rng.uniform(0, 1.2 * took))
            os.kill(pid, signal.{signal})
            os.waitpid(pid, 0)
            now = digest()
            seen.append(now)
            if now not in whole.values():
                broken.append(turn)
        build(1e6)
        print(json.dumps({{"broken": broken, "kinds": len(set(seen)), "last": digest() == whole[1e6],
                           "left": sorted(p.name for p in out.parent.iterdir())}}))
        """,
        tiny_model,
        tmp_path / "out",
    )
    assert found["broken"] == []
    assert found["last"] is True
    assert found["left"] == ["out"], "what killed builds left is removed by the next"


def test_a_full_disk(tiny_model: Path, tmp_path: Path) -> None:
    found = script(
        """
        build(1e6)
        before, results = digest(), []
        for limit in (100, 1000, 4000):
            pid = os.fork()
            if pid == 0:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
                try:
                    build(2e6)
                except HeadraceError as error:
                    os._exit(2 if "cannot be written" in str(error) else 3)
                os._exit(0)
            results.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        print(json.dumps({"results": results, "same": digest() == before,
                          "left": sorted(p.name for p in out.parent.iterdir())}))
        """,
        tiny_model,
        tmp_path / "out",
    )
    assert found["results"] == [2, 2, 2]
    assert found["same"] is True
    assert found["left"] == ["out"]


def test_builds_into_one_folder_at_once(tiny_model: Path, tmp_path: Path) -> None:
    found = script(
        """
        whole = {}
        for fps in (1e6, 2e6):
            build(fps)
            whole[fps] = digest()
        statuses = []
        for turn in range(4):
            pids = [child((1e6, 2e6)[k % 2]) for k in range(4)]
            statuses += [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
            assert digest() in whole.values()
        print(json.dumps({"statuses": statuses, "left": sorted(p.name for p in out.parent.iterdir())}))
        """,
        tiny_model,
        tmp_path / "out",
    )
    statuses = found["statuses"]
    assert isinstance(statuses, list)
    assert set(statuses) <= {0, 2}
    assert statuses.count(0) >= 4, "one of each four at least"
    assert found["left"] == ["out"]
    if 2 in statuses:
        assert "another build is writing this folder" in str(found["stderr"])


def test_the_second_build_is_told(tiny_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with staged(out) as folder:
        write_files(folder, {MARKER: "{}"})
        with pytest.raises(InputError, match="another build is writing this folder; wait for it, or choose another"):
            headrace.build(tiny_model, out)
        headrace.build(tiny_model, tmp_path / "out2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out2"]


@pytest.mark.parametrize("name", ["[a]*?", "with space", "ünï"])
def test_folders_with_odd_names(tmp_path: Path, name: str) -> None:
    (tmp_path / ".x.headrace-12345678").mkdir()
    for _ in range(2):
        with staged(tmp_path / name) as folder:
            write_files(folder, {MARKER: "{}"})
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([".x.headrace-12345678", name])


def test_without_an_exchange_of_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.build.output._exchange", lambda one, other: False)
    for text in ("1", "2"):
        with staged(tmp_path / "out") as folder:
            write_files(folder, {MARKER: text})
    assert (tmp_path / "out" / MARKER).read_text() == "2"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr("fcntl.flock", none)
    with staged(tmp_path / "out") as first:
        with staged(tmp_path / "out") as second:
            write_files(second, {MARKER: "2"})
        assert first.is_dir(), "of a build that may still run"
        write_files(first, {MARKER: "1"})
    assert (tmp_path / "out" / MARKER).read_text() == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_upon_an_earlier_build(tmp_path: Path) -> None:
    with staged(tmp_path / "out") as folder:
        write_files(folder, {MARKER: "{}", "a/b": "1"})
    with staged(tmp_path / "out", upon_earlier=True) as folder:
        assert (folder / "a/b").read_text() == "1"
        write_files(folder, {"c": "2"})
        assert not (tmp_path / "out/c").exists()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a", MARKER, "c"]
