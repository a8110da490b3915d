"""Signals that ask a program to end, so that it leaves neither programs that it runs nor scratch folders behind."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

NAMES = ("SIGTERM", "SIGHUP")
"""Besides the interrupt of the keyboard, which Python makes an exception of anyway."""


class Stopped(KeyboardInterrupt):
    """The process is asked to end.

    Attributes:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def stoppable() -> Iterator[None]:
    """In this block of the main thread a signal to end is an exception, which ends it as an interrupt does.

    A signal that the process was started to ignore, as by ``nohup``, stays ignored.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    numbers = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]
    caught = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in caught:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)
