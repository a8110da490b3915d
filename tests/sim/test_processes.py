"""Programs that are run are over when whoever waits for them is: with all that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace_sim import processes
from headrace_sim.progress import Teller

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups are those of POSIX")

STUBBORN = "trap '' TERM; sleep 300 & echo $$ $! > {0}.part; mv {0}.part {0}; wait"
OBEDIENT = STUBBORN.replace("trap '' TERM; ", "")


def appears(path: Path) -> str:
    """The text of a file that another process writes soon."""
    for _ in range(3000):
        if path.exists():
            return path.read_text()
        time.sleep(0.01)
    raise AssertionError(f"{path} never appeared")


def gone(*numbers: int) -> bool:
    """Whether the processes end soon."""
    for _ in range(500):
        if not any(map(alive, numbers)):
            return True
        time.sleep(0.01)
    return False


def alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{number}/stat").read_text().split(")")[-1].split()[0] != "Z"


def test_output_and_status(tmp_path: Path) -> None:
    done = processes.run(["sh", "-c", "pwd; echo no >&2; exit 3"], tmp_path, apart=True)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (3, str(tmp_path), "no\n")
    assert processes.run(["sh", "-c", "cat; echo a >&2"], tmp_path).stdout == "a\n"
    with pytest.raises(FileNotFoundError):
        processes.run([str(tmp_path / "none")], tmp_path)


@pytest.mark.parametrize("script", [OBEDIENT, STUBBORN], ids=["obedient", "stubborn"])
def test_a_timeout_ends_what_was_started(tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE", 0.1)
    with pytest.raises(subprocess.TimeoutExpired):
        processes.run(["sh", "-c", script.format("pids")], tmp_path, timeout=0.5)
    assert gone(*map(int, (tmp_path / "pids").read_text().split()))


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_ends_what_threads_wait_for(tmp_path: Path, name: str) -> None:
    code = f"""
import signal, sys
from headrace_sim.processes import run, side_by_side
from headrace.stopping import stoppable
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # where tests run in the background, it is ignored
def one(k):
    run(["sh", "-c", {OBEDIENT!r}.format(f"pids{{k}}")], Path.cwd())
try:
    with stoppable():
        side_by_side(one, range(4), 2)
except KeyboardInterrupt:
    print("interrupted")
"""
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    numbers = [int(n) for k in (0, 1) for n in appears(tmp_path / f"pids{k}").split()]
    process.send_signal(getattr(signal, name))
    assert process.communicate(timeout=30)[0] == "interrupted\n"
    assert gone(*numbers)
    assert not (tmp_path / "pids2").exists(), "what waits is not started"


def test_a_failure_of_one_is_raised(tmp_path: Path) -> None:
    def one(status: int) -> int:
        return processes.run(["sh", "-c", f"exit {status}"], tmp_path, timeout=60).returncode

    assert processes.side_by_side(one, [3, 0, 5], 2) == [3, 0, 5]
    with pytest.raises(ValueError, match="no"):
        processes.side_by_side(lambda k: (_ for _ in ()).throw(ValueError("no")), [1, 2], 2)


def test_a_bench_ends_when_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    teller = Teller(tmp_path, 0.0)
    teller.look(lambda: 3, 256)
    ended: list[int] = []
    monkeypatch.setattr(os, "getppid", lambda: -1)
    monkeypatch.setattr(os, "_exit", ended.append)
    teller.look(lambda: 4, 255)
    assert ended == []
    teller.look(lambda: 4, 512)
    assert ended == [3]
