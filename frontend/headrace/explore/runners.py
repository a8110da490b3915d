"""Where points are evaluated: in processes on this machine, or by the workers of a Dask cluster."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headrace.errors import InputError, ToolError
from headrace.explore.point import Point, Result, evaluate
from headrace.explore.processes import RETRIES, Ended, Job, run_jobs
from headrace.explore.worker import RESULT, write_point


class Runner(Protocol):
    """Evaluates points in any order; a point that cannot be evaluated gives a result with an error."""

    def run(self, points: Sequence[Point]) -> Iterator[Result]:
        """The results as they come."""
        ...


@dataclass(frozen=True)
class LocalRunner:
    """A process for each point, *jobs* at a time (0 is one for every processor), for *timeout* seconds at most.

    Raises:
        InputError: for fewer.
    """

    jobs: int = 0
    timeout: float | None = None

    def __post_init__(self) -> None:
        if self.jobs < 0:
            raise InputError(f"jobs={self.jobs}: expected a number of processes, or 0 for one a processor")
        if self.timeout is not None and not self.timeout > 0:
            raise InputError(f"timeout={self.timeout}: expected seconds for a point, or None for any number")

    def run(self, points: Sequence[Point]) -> Iterator[Result]:
        """The results as they come; processes still running are stopped when the caller stops."""
        with tempfile.TemporaryDirectory(prefix="headrace-explore-") as scratch:
            jobs = (_job(point, Path(scratch) / point.key) for point in points)
            for ended in run_jobs(jobs, self.jobs, self.timeout):
                yield _outcome(ended)
                shutil.rmtree(ended.job.log.parent)


def _job(point: Point, folder: Path) -> Job[Point]:
    folder.mkdir()
    write_point(point, folder)
    return Job(point, (sys.executable, "-m", "headrace.explore.worker", str(folder)), folder / "log")


def _outcome(ended: Ended[Point]) -> Result:
    try:
        return Result.from_json((ended.job.log.parent / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        point = ended.job.subject
        return Result(point.key, point.model, point.labels, error=f"the process that evaluated it {ended.reason}")


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
            ToolError: when ``dask.distributed`` is not installed, or the scheduler is lost while points are evaluated.
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
            try:
                for future in as_completed(list(tasks), loop=client.loop):  # type: ignore[no-untyped-call]
                    point = tasks[future]
                    failure = future.exception()
                    if failure is None:
                        yield future.result()
                    else:
                        reason = " ".join(str(failure).split()) or type(failure).__name__
                        yield Result(point.key, point.model, point.labels, error=f"its worker failed: {reason}")
            except (CancelledError, OSError) as error:
                raise ToolError(
                    f"the Dask scheduler at {self.scheduler} was lost; the results so far are kept: the same command, "
                    "with a scheduler, goes on with the other points"
                ) from error


def _check_address(text: str) -> None:
    """Refuse what is no address before a client is made of it, which would say so long after and at length.

    Raises:
        InputError: says what one looks like.
    """
    found = re.fullmatch(r"(?:(?:tcp|tls|ws|wss|ucx)://)?[^\s/]+:(\d{1,5})", text)
    if found is None or not 0 < int(found[1]) < 1 << 16:
        raise InputError(f"'{text}' is no address of a Dask scheduler; expected for example tcp://10.0.0.5:8786")
