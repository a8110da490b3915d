"""Where points are evaluated: in processes on this machine, or by the workers of a Dask cluster."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headrace.errors import InputError, ToolError
from headrace.explore.point import Point, Result, evaluate
from headrace.explore.worker import RESULT, write_point

RETRIES = 2
"""Times that a point is tried again when the process that evaluates it is killed."""

_POLL_SECONDS = 0.05


class Runner(Protocol):
    """Evaluates points in any order; a point that cannot be evaluated gives a result with an error."""

    def run(self, points: Sequence[Point]) -> Iterator[Result]:
        """The results as they come."""
        ...


@dataclass
class _Running:
    point: Point
    attempt: int
    folder: Path
    process: subprocess.Popen[bytes]
    log: Path


@dataclass(frozen=True)
class LocalRunner:
    """A process for each point, *jobs* at a time (0 is one for every processor).

    Raises:
        InputError: for fewer.
    """

    jobs: int = 0

    def __post_init__(self) -> None:
        if self.jobs < 0:
            raise InputError(f"jobs={self.jobs}: expected a number of processes, or 0 for one a processor")

    def run(self, points: Sequence[Point]) -> Iterator[Result]:
        """The results as they come; processes still running are stopped when the caller stops."""
        waiting = [(point, 0) for point in reversed(points)]
        running: list[_Running] = []
        width = self.jobs or os.cpu_count() or 1
        with tempfile.TemporaryDirectory(prefix="headrace-explore-") as scratch:
            try:
                while waiting or running:
                    while waiting and len(running) < width:
                        point, attempt = waiting.pop()
                        running.append(_start(point, attempt, Path(scratch) / f"{point.key}-{attempt}"))
                    for task in [task for task in running if task.process.poll() is not None]:
                        running.remove(task)
                        if task.process.returncode < 0 and task.attempt < RETRIES:
                            waiting.append((task.point, task.attempt + 1))
                        else:
                            yield _outcome(task)
                    time.sleep(_POLL_SECONDS)
            finally:
                for task in running:
                    task.process.kill()
                for task in running:
                    task.process.wait()


def _start(point: Point, attempt: int, folder: Path) -> _Running:
    folder.mkdir()
    write_point(point, folder)
    log = folder / "log"
    command = [sys.executable, "-m", "headrace.explore.worker", str(folder)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    return _Running(point, attempt, folder, process, log)


def _outcome(task: _Running) -> Result:
    try:
        return Result.from_json((task.folder / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        code = task.process.returncode
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            error = f"the process that evaluated it was killed {task.attempt + 1} times, last by {name}"
        else:
            lines = task.log.read_text(errors="replace").strip().splitlines()
            error = f"the process that evaluated it ended with status {code}: {lines[-1] if lines else 'no output'}"
        return Result(task.point.key, task.point.model, task.point.labels, error=error)


@dataclass(frozen=True)
class DaskRunner:
    """The workers of a running Dask cluster, which need Headrace installed.

    Attributes:
        scheduler: its address, for example ``tcp://host:8786``.
        timeout: seconds to wait for it.
    """

    scheduler: str
    timeout: float = 10.0

    def run(self, points: Sequence[Point]) -> Iterator[Result]:
        """The results as they come; what a worker that is lost had is given to another.

        Raises:
            ToolError: when ``dask.distributed`` is not installed.
            InputError: when the scheduler does not answer, or its address is none.
        """
        _check_address(self.scheduler)
        try:
            from distributed import Client, as_completed
        except ImportError as error:
            message = "a scheduler was given but dask.distributed is missing: pip install 'headrace[explore]'"
            raise ToolError(message) from error
        try:
            client = Client(self.scheduler, timeout=self.timeout, set_as_default=False)  # type: ignore[no-untyped-call]
        except (OSError, ValueError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            raise InputError(f"no Dask scheduler answers at {self.scheduler} ({reason})") from error
        with client:
            tasks = {
                client.submit(evaluate, point, key=f"headrace-{point.key}", retries=RETRIES, pure=False): point
                for point in points
            }
            for future in as_completed(list(tasks), loop=client.loop):  # type: ignore[no-untyped-call]
                point = tasks[future]
                failure = future.exception()
                if failure is None:
                    yield future.result()
                else:
                    reason = " ".join(str(failure).split()) or type(failure).__name__
                    yield Result(point.key, point.model, point.labels, error=f"its worker failed: {reason}")


def _check_address(text: str) -> None:
    """Refuse what is no address before a client is made of it, which would say so long after and at length.

    Raises:
        InputError: says what one looks like.
    """
    found = re.fullmatch(r"(?:(?:tcp|tls|ws|wss|ucx)://)?[^\s/]+:(\d{1,5})", text)
    if found is None or not 0 < int(found[1]) < 1 << 16:
        raise InputError(f"'{text}' is no address of a Dask scheduler; expected for example tcp://10.0.0.5:8786")
