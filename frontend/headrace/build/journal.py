"""What a build did, step by step: shown while it runs, kept as its log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from headrace.errors import printable

if TYPE_CHECKING:
    from rich.progress import TaskID

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
        except BaseException:
            self._notes.pop()
            self._close(StepRecord(name, time.perf_counter() - start, "failed"))
            raise
        self._close(StepRecord(name, time.perf_counter() - start, self._notes.pop()))

    def note(self, text: str) -> None:
        """Say in one line what came out of the running step."""
        if self._notes:
            self._notes[-1] = "; ".join(part for part in (self._notes[-1], text) if part)

    def progress(self, text: str, done: int = 0, total: int = 0) -> None:
        """Say how far the running step has come: *done* of *total* parts, where that is known."""
        if self._listener is not None:
            self._listener.progress(printable(text), done, total)

    def warn(self, text: str) -> None:
        """Say what falls short of what was asked for."""
        self.warnings.append(text)
        if self._listener is not None:
            self._listener.warn(printable(text))

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
        lines = [*map(line, self.records), *(printable(f"warning: {text}") for text in self.warnings)]
        return "".join(f"{text}\n" for text in lines)


def line(record: StepRecord) -> str:
    """A step in one line."""
    return printable(f"{record.name:<32} {record.seconds:8.2f} s  {record.note}".rstrip())


def attended_journal(verbose: bool = False) -> Journal:
    """A journal that is shown on standard error: with progress bars on a terminal, otherwise as lines.

    Args:
        verbose: print what steps say while they run, too.
    """
    return Journal(TerminalListener(verbose) if sys.stderr.isatty() else PlainListener(verbose))


class PlainListener:
    """Prints every finished step as a line on standard error, with what it consists of above it: for logs and pipes."""

    def __init__(self, verbose: bool = False) -> None:
        self._silence = 0.0 if verbose else SILENCE
        self._spoken = 0.0
        self._place = ""
        self._places: list[str] = []

    def begin(self, name: str) -> None:
        """Nothing yet: a step is one line, printed at its end."""
        self._spoken = time.monotonic()
        self._places.append("  " if self._places else self._place)
        self._place = ""

    def overall(self, done: int, total: int) -> None:
        """Number the steps."""
        self._place = place(done, total)

    def progress(self, text: str, done: int, total: int) -> None:
        """Print *text* when nothing was printed for a while."""
        if time.monotonic() - self._spoken >= self._silence:
            self._spoken = time.monotonic()
            share = f" ({done:,} of {total:,})" if total else ""
            print(f"  {text}{share}", file=sys.stderr, flush=True)

    def end(self, record: StepRecord) -> None:
        """Print the step."""
        print(f"{self._places.pop()}{line(record)}", file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """Print the warning."""
        print(f"headrace: warning: {text}", file=sys.stderr, flush=True)


def place(done: int, total: int) -> str:
    """The number of a step in front of its name."""
    return f"[{done + 1:>{len(str(total))}}/{total}] "


class TerminalListener:
    """Shows the running step with a bar, the time that it took and the time left, and finished steps above it."""

    def __init__(self, verbose: bool = False) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._verbose = verbose
        self._console = Console(stderr=True)
        columns = [
            SpinnerColumn(),
            TextColumn("{task.fields[place]}{task.description}", markup=False),
            BarColumn(bar_width=20),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        ]
        self._bars = Progress(*columns, console=self._console, transient=True)
        self._tasks: list[tuple[str, str, TaskID]] = []
        self._place = ""

    def begin(self, name: str) -> None:
        """Start the bar of a step."""
        if not self._tasks:
            self._bars.start()
        where = "  " if self._tasks else self._place
        self._tasks.append((where, name, self._bars.add_task(name, total=None, place=where)))
        self._place = ""

    def overall(self, done: int, total: int) -> None:
        """Number the steps."""
        self._place = place(done, total)

    def progress(self, text: str, done: int, total: int) -> None:
        """Move the bar, with *text* beside it."""
        if self._tasks:
            _, name, task = self._tasks[-1]
            self._bars.update(task, description=f"{name}: {text}", completed=done, total=total or None)
        if self._verbose:
            self._console.print(f"  {text}", markup=False, highlight=False)

    def end(self, record: StepRecord) -> None:
        """Remove the bar and print the step."""
        where, _, task = self._tasks.pop()
        self._bars.remove_task(task)
        if not self._tasks:
            self._bars.stop()
        self._console.print(f"{where}{line(record)}", markup=False, highlight=False)

    def warn(self, text: str) -> None:
        """Print the warning; the bar stays below it."""
        self._console.print(f"headrace: warning: {text}", style="yellow", markup=False, highlight=False, soft_wrap=True)
