"""Programs that are run: each with all that it starts, so that whoever is interrupted leaves none behind.

A compiler driver starts compilers of its own, and a thread that waits for a program does not see an interrupt, which
comes to the main thread. So a program runs in a process group, and a pool of threads knows what its threads wait for.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

GRACE = 2.0
"""Seconds that a program has to tidy up after it is asked to end."""

_LOOK = 0.02
_T = TypeVar("_T")
_R = TypeVar("_R")


class _Running:
    """The programs of one pool of threads, or of all threads that are in none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()
        self._over = False

    def start(self, command: Sequence[str], **options: object) -> subprocess.Popen[str]:
        """Start a program, unless all were ended."""
        with self._lock:
            if self._over:
                raise InterruptedError(f"{command[0]} was not started: everything was ended")
            process: subprocess.Popen[str] = subprocess.Popen(command, **options)  # type: ignore[call-overload]
            self._processes.add(process)
        return process

    def forget(self, process: subprocess.Popen[str]) -> None:
        """It is over."""
        with self._lock:
            self._processes.discard(process)

    def end_all(self) -> None:
        """End what runs, and start nothing more."""
        with self._lock:
            self._over = True
            left = list(self._processes)
        end(*left)


_alone = _Running()
_thread = threading.local()


def run(
    command: Sequence[str],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    timeout: float | None = None,
    apart: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program without input in `folder`; it and all that it started are over when this raises.

    Args:
        command: program and arguments.
        folder: where it runs.
        environment: instead of this process's.
        timeout: seconds that it may take.
        apart: whether standard error is kept apart from the output.

    Raises:
        subprocess.TimeoutExpired: it took longer.
        OSError: it cannot be started.
    """
    running: _Running = getattr(_thread, "running", _alone)
    process = running.start(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if apart else subprocess.STDOUT,
        text=True,
        errors="replace",
        process_group=0 if os.name == "posix" else None,
    )
    try:
        output, errors = process.communicate(timeout=timeout)
    except BaseException:  # a timeout, or an interrupt of whoever waits
        end(process)
        raise
    finally:
        running.forget(process)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def end(*processes: subprocess.Popen[str]) -> None:
    """End programs with all that they started: asked first, so that a compiler removes what it has begun."""
    _signal(processes, signal.SIGTERM)
    until = time.monotonic() + GRACE
    while any(process.poll() is None for process in processes) and time.monotonic() < until:
        time.sleep(_LOOK)
    _signal(processes, getattr(signal, "SIGKILL", signal.SIGTERM))
    for process in processes:
        process.wait()


def _signal(processes: Iterable[subprocess.Popen[str]], number: int) -> None:
    for process in processes:
        if process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                if os.name == "posix":
                    os.killpg(process.pid, number)
                else:
                    process.terminate()


def side_by_side(function: Callable[[_T], _R], items: Iterable[_T], jobs: int) -> list[_R]:
    """What `function` returns for each of `items`, in order, by `jobs` threads.

    When the caller is interrupted, the programs that the threads run are ended: a pool would wait for them.
    """
    running = _Running()

    def enter() -> None:
        _thread.running = running

    with ThreadPoolExecutor(jobs, initializer=enter) as pool:
        try:
            return list(pool.map(function, items))
        except BaseException as error:
            if not isinstance(error, Exception):
                running.end_all()
            raise
