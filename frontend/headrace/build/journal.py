"""What a build did, step by step: shown while it runs, kept as its log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from headrace.errors import printable

SILENCE = 5.0
"""Seconds after which a log gets a line of progress."""


@dataclass(frozen=True)
class StepRecord:
    """A finished step: its name, how long it took, and in one line what came out."""

    name: str
    seconds: float
    note: str


class Listener(Protocol):
    """Whoever shows the steps."""

    def begin(self, name: str) -> None:
        """A step has started."""

    def progress(self, text: str) -> None:
        """The running step has come so far."""

    def end(self, record: StepRecord) -> None:
        """The step has finished."""

    def warn(self, text: str) -> None:
        """The result is good, but not all that was asked for."""


class Journal:
    """The record of one build or run."""

    def __init__(self, listener: Listener | None = None) -> None:
        self.records: list[StepRecord] = []
        self.warnings: list[str] = []
        self._listener = listener

    @contextmanager
    def step(self, name: str) -> Iterator[Callable[[str], None]]:
        """Time the block as step *name*; call what it yields to note the outcome."""
        note = ""

        def write(text: str) -> None:
            nonlocal note
            note = text

        if self._listener is not None:
            self._listener.begin(name)
        start = time.perf_counter()
        try:
            yield write
        except BaseException:
            self._close(StepRecord(name, time.perf_counter() - start, "failed"))
            raise
        self._close(StepRecord(name, time.perf_counter() - start, note))

    def progress(self, text: str) -> None:
        """Say how far the running step has come."""
        if self._listener is not None:
            self._listener.progress(printable(text))

    def warn(self, text: str) -> None:
        """Say what falls short of what was asked for."""
        self.warnings.append(text)
        if self._listener is not None:
            self._listener.warn(printable(text))

    def _close(self, record: StepRecord) -> None:
        self.records.append(record)
        if self._listener is not None:
            self._listener.end(record)

    def text(self) -> str:
        """The log: one line a step, then the warnings."""
        lines = [*map(line, self.records), *(printable(f"warning: {text}") for text in self.warnings)]
        return "".join(f"{text}\n" for text in lines)


def line(record: StepRecord) -> str:
    """A step in one line."""
    return printable(f"{record.name:<20} {record.seconds:8.2f} s  {record.note}".rstrip())


class PlainListener:
    """Prints every finished step as a line on standard error: for logs and pipes."""

    def __init__(self) -> None:
        self._spoken = 0.0

    def begin(self, name: str) -> None:
        """Nothing yet: a step is one line, printed at its end."""
        self._spoken = time.monotonic()

    def progress(self, text: str) -> None:
        """Print *text* when nothing was printed for a while."""
        if time.monotonic() - self._spoken > SILENCE:
            self._spoken = time.monotonic()
            print(f"  {text}", file=sys.stderr, flush=True)

    def end(self, record: StepRecord) -> None:
        """Print the step."""
        print(line(record), file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """Print the warning."""
        print(f"headrace: warning: {text}", file=sys.stderr, flush=True)


class TerminalListener:
    """Shows the running step with a spinner, and finished ones above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.status import Status

        self._console = Console(stderr=True)
        self._status = Status("", console=self._console)
        self._name = ""

    def begin(self, name: str) -> None:
        """Start the spinner."""
        self._name = name
        self._status.update(name)
        self._status.start()

    def progress(self, text: str) -> None:
        """Show *text* beside the spinner."""
        self._status.update(f"{self._name}: {text}")

    def end(self, record: StepRecord) -> None:
        """Stop the spinner and print the step."""
        self._status.stop()
        self._console.print(line(record), markup=False, highlight=False)

    def warn(self, text: str) -> None:
        """Print the warning; the spinner stays below it."""
        self._console.print(f"headrace: warning: {text}", style="yellow", markup=False, highlight=False, soft_wrap=True)
