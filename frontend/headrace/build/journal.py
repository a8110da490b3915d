"""What a build did, step by step: shown while it runs, kept as its log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from headrace.errors import as_message


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

    def overall(self, done: int, total: int) -> None:
        """So many of the steps are done."""

    def progress(self, text: str, done: int, total: int) -> None:
        """The running step has come so far; *total* is 0 where nobody knows how far that is."""

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
        self._notes: list[str] = []  # of the steps that are running, the innermost last

    @contextmanager
    def step(self, name: str) -> Iterator[Callable[[str], None]]:
        """Time the block as step *name*; call what it yields, or :meth:`note`, to note the outcome."""
        self._notes.append("")
        if self._listener is not None:
            self._listener.begin(name)
        start = time.perf_counter()
        try:
            yield self.note
        except BaseException as error:
            self._notes.pop()
            outcome = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            self._close(StepRecord(name, time.perf_counter() - start, outcome))
            raise
        self._close(StepRecord(name, time.perf_counter() - start, self._notes.pop()))

    def note(self, text: str) -> None:
        """Say in one line what came out of the running step."""
        if self._notes:
            self._notes[-1] = "; ".join(part for part in (self._notes[-1], text) if part)

    def note_nothing(self) -> None:
        """Say that the running step had nothing to do, unless it has said something."""
        if self._notes and not self._notes[-1]:
            self._notes[-1] = "nothing to do"

    def progress(self, text: str, done: int = 0, total: int = 0) -> None:
        """Say how far the running step has come: *done* of *total* parts, where that is known."""
        if self._listener is not None:
            self._listener.progress(as_message(text), done, total)

    def warn(self, text: str) -> None:
        """Say what falls short of what was asked for."""
        self.warnings.append(text)
        if self._listener is not None:
            self._listener.warn(as_message(text))

    def overall(self, done: int, total: int) -> None:
        """Say how many of the steps are done."""
        if self._listener is not None:
            self._listener.overall(done, total)

    def _close(self, record: StepRecord) -> None:
        self.records.append(record)
        if self._listener is not None:
            self._listener.end(record)

    def text(self) -> str:
        """The log: one line a step, then the warnings."""
        lines = [*map(line, self.records), *(as_message(f"warning: {text}") for text in self.warnings)]
        return "".join(f"{text}\n" for text in lines)


_NAMES = 24
"""Characters of a line for a step's place and name."""


def line(record: StepRecord, place: str = "") -> str:
    """A step in one line, with its *place* in the list, or how far it is indented, in front."""
    return as_message(f"{place + record.name:<{_NAMES}} {record.seconds:8.2f} s  {record.note}".rstrip())
