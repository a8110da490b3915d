"""A process of bounded memory that does with files what a user would, and what became of each.

``python -m fuzz.sandbox FOLDER`` reads paths from standard input and answers a line of JSON for each; the parent starts
another after one that dies, and knows which file killed it.
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

MEMORY = 4 * 2**30
"""Bytes of address space."""

SECONDS = 60
"""Processor seconds for one file; what is meant to be refused is refused in far less."""


@dataclass(frozen=True)
class Outcome:
    """What became of one file: ``ok``, ``refused`` with a message, or ``fault`` with what the program said."""

    file: str
    kind: str
    text: str


class _TooLong(BaseException):
    pass


def _work(path: str) -> Outcome:
    """Everything that a command does with a model before simulators start."""
    from headrace.build import Design, load
    from headrace.build.verify import random_frames
    from headrace.errors import HeadraceError

    try:
        design: Design = load(path)
        design.info()
        design.run(random_frames(design.source, 2, 0), mode="integer")
        _ = design.plan
    except HeadraceError as error:
        text = str(error)
        one = text and "\n" not in text and text.isprintable() and len(text) < 20_000
        return Outcome(path, "refused" if one else "fault", text[:4000])
    except Exception:
        return Outcome(path, "fault", traceback.format_exc()[-4000:])
    return Outcome(path, "ok", "")


def _serve() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def stop(*_: object) -> None:
        raise _TooLong

    signal.signal(signal.SIGVTALRM, stop)
    for line in sys.stdin:
        path = json.loads(line)
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            outcome = _work(path)
        except _TooLong:
            outcome = Outcome(path, "fault", "took too long\n" + traceback.format_exc()[-4000:])
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        print(json.dumps([outcome.kind, outcome.text]), flush=True)


def outcomes(files: Iterable[Path], folder: Path) -> Iterator[Outcome]:
    """What becomes of each of *files* in a process whose working folder is *folder*."""
    process: subprocess.Popen[str] | None = None
    try:
        for file in files:
            if process is None:
                process = _started(folder)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(str(file)) + "\n")
            process.stdin.flush()
            answer = _answer(process)
            if answer:
                yield Outcome(str(file), *json.loads(answer))
            else:
                process.kill()
                yield Outcome(str(file), "fault", f"the process ended with {process.wait()}")
                process = None
    finally:
        if process is not None:
            process.kill()
            process.communicate()


def _answer(process: subprocess.Popen[str]) -> str:
    """The next line; nothing from a process that died or is stuck in compiled code."""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)  # type: ignore[arg-type]
        if not selector.select(timeout=20 * SECONDS):
            return ""
    return process.stdout.readline()  # type: ignore[union-attr]


def _started(folder: Path) -> subprocess.Popen[str]:
    tests = str(Path(__file__).parent.parent)
    path = os.pathsep.join([tests, *(p for p in sys.path if p)])
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return subprocess.Popen(
        [sys.executable, "-m", "fuzz.sandbox"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, **threads, "PYTHONPATH": path},
    )


if __name__ == "__main__":
    _serve()
