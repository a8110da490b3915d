"""The programme of a layer: in which order and when it reads and writes the words of a frame.

Every layer is seen as a local clock that runs through the same programme each frame: at local cycle ``reads[p][k]`` it
takes word k of input p (and stands still until the word is there), at ``writes[p][k]`` it does the last operation for
word k of output p, which is offered ``delay`` cycles later.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.layers.base import Layer
from headrace.layers.programme import Programme, Programmed

Times = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TokenTimes:
    """The programme of a layer for one frame, in local cycles, ascending.

    Attributes:
        cycles: local cycles a frame.
        reads, writes, frees, room: as in :class:`~headrace.layers.programme.Programme`, frees and room per input.
        delay: cycles from the last operation to the word being offered; a missing input does not hold it up. At least
            1, but for a FIFO that words pass at once.
    """

    cycles: int
    reads: tuple[Times, ...]
    writes: tuple[Times, ...]
    frees: tuple[Times, ...]
    room: tuple[int, ...]
    delay: int

    @property
    def relays(self) -> bool:
        """Whether one word comes in and one goes out in every cycle, so that the layer is nothing but a pipeline."""
        if len(self.reads) != 1 or len(self.writes) != 1 or self.room[0]:
            return False
        read, written = self.reads[0], self.writes[0]
        return (
            len(read) == len(written) == self.cycles == int(read[-1] - read[0]) + 1 == int(written[-1] - written[0]) + 1
        )


def token_times(layer: Layer) -> TokenTimes:
    """The programme of *layer*: its own, or one that follows from its cycles, words and latency."""
    own = layer.programme() if isinstance(layer, Programmed) else _default_times(layer)
    reads, writes = tuple(own.reads), tuple(own.writes)
    first = min((int(w[0]) for w in writes), default=0) - min((int(r[0]) for r in reads), default=0)
    room = tuple(own.room) or (0,) * len(reads)
    delay = max(layer.latency - first, min(layer.latency, 1))
    return TokenTimes(layer.cycles, reads, writes, tuple(own.frees) or reads, room, delay)


def relays(layer: Layer) -> bool:
    """Whether *layer* is nothing but a pipeline, see :attr:`TokenTimes.relays`."""
    streams = (*layer.inputs, *layer.outputs)
    return len(streams) == 2 and all(s.words == layer.cycles for s in streams) and token_times(layer).relays


def _default_times(layer: Layer) -> Programme:
    """Vector by vector: words are written evenly; they are read evenly too, unless the layer takes more cycles than it
    has words on either side, when it is taken to read a vector at once and to work on it afterwards. The whole latency
    is taken to be time that the layer waits for words, as in a layer that looks at windows of an image."""
    streams = (*layer.inputs, *layer.outputs)
    vectors = math.gcd(layer.cycles, *(s.frame_elements // s.shape[-1] for s in streams))
    length = layer.cycles // vectors
    at_once = length > max(s.words for s in streams) // vectors
    offsets = np.arange(vectors, dtype=np.int64)[:, None] * length

    def reads(words: int) -> Times:
        k = np.arange(words, dtype=np.int64)
        return np.asarray(offsets + (k if at_once else k * length // words)).ravel()

    def writes(words: int) -> Times:
        k = np.arange(words, dtype=np.int64)
        pattern = np.asarray(offsets + ((k + 1) * length - 1) // words).ravel()
        return pattern + max(layer.latency - 1 - int(pattern[0]), 0)

    taken, given = [s.words // vectors for s in layer.inputs], [s.words // vectors for s in layer.outputs]
    return Programme([reads(n) for n in taken], [writes(n) for n in given])
