"""Commands run side by side on this machine; those that are killed are tried again, and none outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from headrace.stopping import Stopped, stoppable

RETRIES = 2
"""Times that a command is run again when its process is killed, for example for want of memory."""

_POLL_SECONDS = 0.05

GRACE = 5.0
"""Seconds that a process which is asked to end has to end what it runs, and to remove its scratch folders."""

Subject = TypeVar("Subject")


@dataclass(frozen=True)
class Job(Generic[Subject]):
    """A command, and what it is about.

    Attributes:
        subject: whatever the caller wants to know it by.
        command: program and arguments.
        log: file for what it prints.
        folder: that it runs in; this process's when None.
    """

    subject: Subject
    command: Sequence[str]
    log: Path
    folder: Path | None = None


@dataclass(frozen=True)
class Ended(Generic[Subject]):
    """A job whose process has ended for good, with its exit status (negative for a signal) after *attempts*; *limit* is
    how many seconds it had, where it was ended because these were over."""

    job: Job[Subject]
    status: int
    attempts: int
    limit: float | None = None

    @property
    def reason(self) -> str:
        """How it ended, to stand behind "the process that ...": its last line tells why."""
        if self.limit is not None:
            return f"was ended, as it took longer than {self.limit:,g} s"
        if self.status < 0:
            known = -self.status in set(signal.Signals)
            name = signal.Signals(-self.status).name if known else f"signal {-self.status}"
            return f"was killed {self.attempts} times, last by {name}"
        lines = self.job.log.read_text(errors="replace").strip().splitlines()
        return f"ended with status {self.status}: {lines[-1] if lines else 'no output'}"


@dataclass
class _Running(Generic[Subject]):
    job: Job[Subject]
    attempt: int
    process: subprocess.Popen[bytes]
    started: float


def run_jobs(jobs: Iterable[Job[Subject]], width: int = 0, limit: float | None = None) -> Iterator[Ended[Subject]]:
    """Run *jobs*, *width* at a time (0 is one for every processor); each as it ends, or after *limit* seconds.

    Processes still running are stopped when the caller stops. A job is asked for when there is room for it, so that
    what it needs can be made then.
    """
    fresh = iter(jobs)
    waiting: list[tuple[Job[Subject], int]] = []  # to be tried again
    running: list[_Running[Subject]] = []
    try:
        while True:
            while len(running) < (width or os.cpu_count() or 1):
                if not waiting and (job := next(fresh, None)) is not None:
                    waiting.append((job, 1))
                if not waiting:
                    break
                running.append(_start(*waiting.pop()))
            if not running:
                return
            for task in [task for task in running if task.process.poll() is not None]:
                running.remove(task)
                _close(task.process)
                status = task.process.returncode
                if status < 0 and task.attempt <= RETRIES:
                    waiting.append((task.job, task.attempt + 1))
                else:
                    yield Ended(task.job, status, task.attempt)
            late = [t for t in running if limit is not None and time.monotonic() - t.started > limit]
            _end([task.process for task in late])
            for task in late:
                running.remove(task)
                yield Ended(task.job, task.process.returncode, task.attempt, limit)
            time.sleep(_POLL_SECONDS)
    finally:
        _end([task.process for task in running])


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask processes to end; those that do not in time are killed, or at once when this is interrupted, too."""
    for process in processes:
        process.terminate()
    until = time.monotonic() + GRACE
    try:
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
    finally:
        for process in processes:
            process.kill()  # nothing where it has ended
            process.wait()
            _close(process)


def _close(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()


def _start(job: Job[Subject], attempt: int) -> _Running[Subject]:
    with job.log.open("wb") as output:
        process = subprocess.Popen(  # whose input closes when this process ends, see job_process
            job.command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.PIPE, cwd=job.folder
        )
    return _Running(job, attempt, process, time.monotonic())


@contextmanager
def job_process() -> Iterator[None]:
    """What the process of a job does: it ends when it is asked to, or its parent has ended or was killed."""
    try:
        with stoppable():
            _watch_parent()
            yield
    except Stopped as stopped:
        os.kill(os.getpid(), stopped.number)  # for the parent, which asks how it ended


def _watch_parent() -> None:
    kept = os.dup(0)  # for no program that is run here
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def watch() -> None:
        os.read(kept, 1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
