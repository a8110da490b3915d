"""Commands that are asked to end, whose parent is killed, or whose streams are closed: nothing of theirs is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sim.test_processes import appears, gone

import headrace
from headrace.explore import LocalRunner, Point
from headrace.explore import processes as processes_module
from headrace.explore import runners as runners_module

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")

MAIN = [sys.executable, "-c", "from headrace.cli import main; main()"]
COMPILER = """#!/bin/sh
case "$*" in *--version*) echo "g++ 1.0"; exit;; esac
sleep 300 &
echo $$ $! > {0}.part; mv {0}.part {0}
wait
"""


@pytest.fixture
def place(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a design in C++ and frames; a compiler that takes its time; a folder for scratch files."""
    headrace.build(tiny_model, tmp_path / "out", backend="hls")
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 12), np.float32))
    compiler = tmp_path / "compiler"
    compiler.write_text(COMPILER.format(tmp_path / "pids"))
    compiler.chmod(0o755)
    (tmp_path / "scratch").mkdir()
    for name, value in {"CXX": compiler, "TMPDIR": tmp_path / "scratch", "HEADRACE_CACHE": tmp_path / "cache"}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("name", "said"), [("SIGINT", "interrupted"), ("SIGTERM", "ended by SIGTERM")])
def test_a_command_that_is_asked_to_end(place: Path, name: str, said: str) -> None:
    command = [*MAIN, "run", "out", "--input", "x.npz", "--mode", "hls", "--output", "y.npz", "--json"]
    command[2] = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {command[2]}"
    pipe = subprocess.PIPE  # where tests run in the background, an interrupt is ignored
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    numbers = [int(number) for number in appears(place / "pids").split()]
    process.send_signal(getattr(signal, name))
    output, errors = process.communicate(timeout=30)
    status = 128 + getattr(signal, name)
    assert process.returncode == status
    assert errors.splitlines()[-1] == f"headrace: {said}"
    assert json.loads(output)["error"]["exit_status"] == status
    assert gone(*numbers)
    assert list((place / "scratch").iterdir()) == []
    assert [path.suffix for path in (place / "cache" / "simulators").iterdir()] == [".lock"]
    assert not (place / "y.npz").exists()


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    code = """
import os, signal
from headrace.stopping import stoppable
signal.signal(signal.SIGHUP, signal.SIG_IGN)
with stoppable():
    os.kill(os.getpid(), signal.SIGHUP)
    print("here")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "here\n"


# -- workers ----------------------------------------------------------------------------------------------------------


def hanging(point: Point, folder: Path) -> None:
    """Leave a point that a worker reads for ever."""
    os.mkfifo(folder / "point.json")


def test_a_worker_ends_with_its_parent(tmp_path: Path) -> None:
    hanging(Point("m", {}, b"", {}), tmp_path)
    worker = subprocess.Popen(
        [sys.executable, "-m", "headrace.explore.worker", str(tmp_path)], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with pytest.raises(subprocess.TimeoutExpired):
        worker.wait(0.5)
    assert worker.stdin is not None
    worker.stdin.close()
    assert worker.wait(30) == -signal.SIGTERM


def test_workers_end_when_nobody_wants_their_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even one that is stopped, as by a debugger."""
    monkeypatch.setattr(runners_module, "write_point", hanging)
    monkeypatch.setattr(processes_module, "GRACE", 1.0)
    started: list[int] = []

    class Interrupted(KeyboardInterrupt):
        pass

    def sleep(seconds: float) -> None:
        assert len(started) == 2
        raise Interrupted

    start = processes_module._start

    def noted(*arguments: object) -> object:
        task = start(*arguments)  # type: ignore[arg-type]
        started.append(task.process.pid)
        if len(started) == 2:
            os.kill(task.process.pid, signal.SIGSTOP)
        return task

    monkeypatch.setattr(processes_module, "_start", noted)
    monkeypatch.setattr("time.sleep", sleep)
    with pytest.raises(Interrupted):
        list(LocalRunner(2).run([Point("a", {}, b"a", {}), Point("b", {}, b"b", {})]))
    monkeypatch.undo()
    assert gone(*started)


# -- standard streams -------------------------------------------------------------------------------------------------


def closed(numbers: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command in a shell that closes or redirects streams as *numbers* says."""
    command = ["sh", "-c", f'"$@" {numbers}', "sh", *MAIN, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


@pytest.mark.parametrize("numbers", ["2>&-", ">&-", "<&- >&- 2>&-"])
def test_a_build_without_streams(tiny_model: Path, tmp_path: Path, numbers: str) -> None:
    done = closed(numbers, "build", str(tiny_model), "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "report" / "index.html").is_file()
    assert (tmp_path / "out" / "model.onnx").read_bytes().count(b"headrace") == 0
    refused = closed(numbers, "info", str(tmp_path / "none"))
    assert refused.returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("numbers", [">/dev/full", "2>/dev/full", ">/dev/full 2>/dev/full"])
def test_streams_that_are_full(tiny_model: Path, tmp_path: Path, numbers: str) -> None:
    done = closed(numbers, "build", str(tiny_model), "-o", str(tmp_path / "out"))
    assert done.returncode == 2, "1 is for verifications"
    assert "Traceback" not in done.stderr


def test_output_in_few_characters(tiny_model: Path, tmp_path: Path) -> None:
    done = closed("", "build", str(tiny_model), "-o", str(tmp_path / "out"), PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "\\xd7" in done.stdout
    assert done.stdout.isascii()
