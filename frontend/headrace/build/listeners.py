"""Who shows what a build does: bars on a terminal, lines in a log, events for machines."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from headrace.build.journal import Journal, StepRecord, line

if TYPE_CHECKING:
    from rich.progress import TaskID

SILENCE = 5.0
"""Seconds after which a log gets a line of progress."""

EVENT_PERIOD = 1.0
"""Seconds from one event of progress to the next."""


def attended_journal(verbose: bool = False) -> Journal:
    """A journal that is shown on standard error: with progress bars on a terminal, otherwise as lines.

    Args:
        verbose: print what steps say while they run, too.
    """
    return Journal(TerminalListener(verbose) if sys.stderr.isatty() else PlainListener(verbose))


class Clock:
    """How long the work of a step has run, from its begin or from when nothing was done last, and how long it will."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def left(self, done: int, total: int) -> float | None:
        """Seconds until *total*, at the pace so far; None where nobody knows."""
        if done == 0:
            self._start = time.monotonic()  # what went before, such as compiling, says nothing of the pace
        if not 0 < done <= total:
            return None
        return (time.monotonic() - self._start) * (total - done) / done


def span(seconds: float) -> str:
    """A time in words that are as exact as a guess can be: ``40 s``, ``12 min``, ``3 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"


def place(done: int, total: int) -> str:
    """The number of a step in front of its name."""
    return f"[{done + 1:>{len(str(total))}}/{total}] "


class PlainListener:
    """Prints every finished step as a line on standard error, with what it consists of above it: for logs and pipes."""

    def __init__(self, verbose: bool = False) -> None:
        self._silence = 0.0 if verbose else SILENCE
        self._spoken = 0.0
        self._place = ""
        self._running: list[tuple[str, Clock]] = []

    def begin(self, name: str) -> None:
        """Nothing yet: a step is one line, printed at its end."""
        self._spoken = time.monotonic()
        self._running.append(("  " if self._running else self._place, Clock()))
        self._place = ""

    def overall(self, done: int, total: int) -> None:
        """Number the steps."""
        self._place = place(done, total)

    def progress(self, text: str, done: int, total: int) -> None:
        """Print *text* when nothing was printed for a while, with the time left where it can be guessed."""
        left = self._running[-1][1].left(done, total) if self._running else None
        if time.monotonic() - self._spoken < self._silence:
            return
        self._spoken = time.monotonic()
        share = f" ({done:,} of {total:,})" if total else ""
        if left is not None and left >= SILENCE:
            share = f"{share[:-1]}, about {span(left)} left)"
        print(f"  {text}{share}", file=sys.stderr, flush=True)

    def end(self, record: StepRecord) -> None:
        """Print the step."""
        print(line(record, self._running.pop()[0]), file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """Print the warning."""
        print(f"headrace: warning: {text}", file=sys.stderr, flush=True)


class EventListener:
    """Prints a JSON object a line on standard error for everything that happens; ``event`` says what."""

    def __init__(self) -> None:
        self._running: list[tuple[str, Clock]] = []
        self._spoken = 0.0

    def begin(self, name: str) -> None:
        """``{"event": "begin", "step": ...}``."""
        self._running.append((name, Clock()))
        self._say("begin", step=name)

    def overall(self, done: int, total: int) -> None:
        """``{"event": "overall", "done": ..., "total": ...}``: steps that are behind, and all."""
        self._say("overall", done=done, total=total)

    def progress(self, text: str, done: int, total: int) -> None:
        """``{"event": "progress", "step": ..., "text": ..., "done": ..., "total": ..., "seconds_left": ...}``."""
        name, clock = self._running[-1] if self._running else ("", Clock())
        left = clock.left(done, total)
        if time.monotonic() - self._spoken < EVENT_PERIOD:
            return
        self._spoken = time.monotonic()
        seconds = None if left is None else round(left, 1)
        self._say("progress", step=name, text=text, done=done, total=total, seconds_left=seconds)

    def end(self, record: StepRecord) -> None:
        """``{"event": "end", "step": ..., "seconds": ..., "note": ...}``."""
        self._running.pop()
        self._say("end", step=record.name, seconds=round(record.seconds, 3), note=record.note)

    def warn(self, text: str) -> None:
        """``{"event": "warning", "text": ...}``."""
        self._say("warning", text=text)

    def _say(self, event: str, **data: object) -> None:
        print(json.dumps({"event": event, **data}), file=sys.stderr, flush=True)


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
            share, whole = (done / total, 1.0) if total else (0.0, None)  # rich forgets the pace when a total changes
            self._bars.update(task, description=f"{name}: {text}", completed=share, total=whole)
        if self._verbose:
            self._console.print(f"  {text}", markup=False, highlight=False)

    def end(self, record: StepRecord) -> None:
        """Remove the bar and print the step."""
        where, _, task = self._tasks.pop()
        self._bars.remove_task(task)
        if not self._tasks:
            self._bars.stop()
        self._console.print(line(record, where), markup=False, highlight=False)

    def warn(self, text: str) -> None:
        """Print the warning; the bar stays below it."""
        self._console.print(f"headrace: warning: {text}", style="yellow", markup=False, highlight=False, soft_wrap=True)
