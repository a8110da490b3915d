"""How far a simulation is: the bench leaves it in a file now and then, the host reads that while it waits."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Progress = Callable[[int, int], None]
"""Told how many whole frames have come out, after how many cycles; 0 and 0 when a simulation starts."""

FILE = "progress.txt"
PERIOD = 0.5
"""Seconds from one look to the next, on either side."""

LOOK_CYCLES = 256
"""Cycles between two looks at the clock; cpp/driver.cpp has the same."""


class Teller:
    """The side of a bench in Python: writes the file when it is time, and ends when nobody reads it any more."""

    def __init__(self, folder: Path, period: float) -> None:
        self._file, self._period, self._last = folder / FILE, period, time.monotonic()
        self._parent = os.getppid()

    def look(self, frames: Callable[[], int], cycle: int) -> None:
        """Write the file if the last time is long ago; a reader sees it whole."""
        if cycle % LOOK_CYCLES or time.monotonic() - self._last < self._period:
            return
        self._last = time.monotonic()
        if os.getppid() != self._parent:  # the process that started this one was killed
            os._exit(3)
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{frames()} {cycle}\n")
        draft.replace(self._file)


@contextmanager
def watched(folder: Path, progress: Progress | None) -> Iterator[None]:
    """Tell *progress*, from a thread, what a bench says in *folder* while the block runs, to the last."""
    if progress is None:
        yield
        return
    progress(0, 0)
    over = threading.Event()
    thread = threading.Thread(target=_watch, args=(folder / FILE, progress, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _watch(file: Path, progress: Progress, over: threading.Event) -> None:
    seen, ended = "0 0\n", False  # which was told
    while not ended:
        ended = over.wait(PERIOD)
        try:
            text = file.read_text()
        except OSError:  # nothing yet
            continue
        if text != seen:
            seen = text
            frames, cycles = map(int, text.split())
            progress(frames, cycles)
