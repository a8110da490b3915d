"""When a layer moves the words of a frame: what the FIFO depths follow from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from headrace.layers.memory import Int


@dataclass(frozen=True, eq=False)
class Programme:
    """The words of one frame in steady state, in local cycles, each sequence ascending.

    Attributes:
        reads: per input, when each word is needed: the layer stands still until it can be taken.
        writes: per output, when the last operation for each word is done.
        frees: per input, when the next word can move up into the place of each word, where the layer has a buffer of
            its own; empty when words leave the link as they are read.
        room: per input, words of that buffer.
    """

    reads: Sequence[Int]
    writes: Sequence[Int]
    frees: Sequence[Int] = ()
    room: Sequence[int] = ()


@runtime_checkable
class Programmed(Protocol):
    """A layer that knows its own programme.

    No read may be earlier than the hardware takes the word when it is there and everything went as the programme says,
    no write earlier than it achieves then, no place free before it is in hardware.
    """

    def programme(self) -> Programme: ...
