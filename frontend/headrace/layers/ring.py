"""A ring of the newest words of a stream, and a nest of loops that reads it: the constants of the RTL.

Shared by the layers that read words more than once or later (SWG, VVAU, pools, Upsample); rendered by the partial
template ``_ring.sv.j2``. The words of a frame are numbered 0, 1, ... in stream order. As they are read in the order of
nested loops, each read position follows from the one before by one of a few constant moves. A word is given up when no
later read needs it, and the next frame is loaded while the last words of this one are read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headrace.layers.base import Resources
from headrace.layers.memory import Int, index_bits, memory_resources, ram_style


def signed_bits(low: int, high: int) -> int:
    """Width of a two's complement register for ``low .. high``."""
    return max((-low - 1).bit_length() if low < 0 else 0, high.bit_length() if high > 0 else 0) + 1


@dataclass(frozen=True)
class Loop:
    """One loop of the nest; an iteration moves the read position by ``words``, in an image by ``rows`` and ``cols``."""

    name: str
    count: int
    words: int
    rows: int = 0
    cols: int = 0

    @property
    def bits(self) -> int:
        """Width of the counter."""
        return index_bits(self.count)

    @property
    def last(self) -> int:
        """Last value of the counter."""
        return self.count - 1


@dataclass(frozen=True)
class Move:
    """What happens to the read position when the loops inside ``loop`` wrap (``None``: the whole frame is read)."""

    loop: Loop | None
    words: int
    rows: int
    cols: int


@dataclass(frozen=True)
class Lane:
    """One of the words that are read at once: its distance from lane 0, and what of the word is read.

    ``part`` is ``(first element, elements)`` of ``whole``, the elements of a word.
    """

    index: int
    words: int
    row: int = 0
    col: int = 0
    part: tuple[int, int] = (0, 1)
    whole: int = 1

    def low(self, word_bits: int) -> int:
        """Lowest bit that is read, of words of *word_bits*."""
        return self.part[0] * word_bits // self.whole

    def bits(self, word_bits: int) -> int:
        """Bits that are read."""
        return self.part[1] * word_bits // self.whole


@dataclass(frozen=True)
class Freed:
    """Words given up by the move of ``loop`` (``None``: by all that are left): ``others``, but for some counter values.

    Attributes:
        by: the loop whose counter selects.
        special: ``(counter, words)`` where it is not ``others``.
        never: a loop and the values of its counter for which nothing is given up.
    """

    loop: Loop | None
    others: int
    by: Loop | None = None
    special: tuple[tuple[int, int], ...] = ()
    never: tuple[Loop, tuple[int, ...]] | None = None

    @staticmethod
    def table(loop: Loop, values: Sequence[int], never: tuple[Loop, tuple[int, ...]] | None = None) -> Freed:
        """Words by the value of the loop's own counter."""
        others = Counter(values).most_common(1)[0][0]
        special = tuple((k, v) for k, v in enumerate(values) if v != others)
        return Freed(loop, others, loop, special, never if never and never[1] else None)

    @property
    def constant(self) -> bool:
        """Whether no counter matters."""
        return not self.special and self.never is None


def steady_times(newest_so_far: Int, in_words: int) -> tuple[Int, Int]:
    """Times of a frame in steady state: when each input word is taken at the latest, when each word is read.

    A layer that reads in every cycle takes words as late as it can, one a cycle at most; one that takes a word in every
    cycle reads as early as it can.

    Args:
        newest_so_far: per word read, the newest word of the frame that had to be there by then.
        in_words: words of a frame.
    """
    out_words = newest_so_far.size
    if out_words < in_words:
        behind = np.maximum.accumulate(newest_so_far + 1 - np.arange(out_words))
        behind = np.maximum(behind, behind[-1] - (in_words - out_words))
        return np.arange(in_words), np.arange(out_words) + behind
    word = np.arange(in_words)
    needed = np.minimum(np.searchsorted(newest_so_far, word), out_words) - 1
    latest = np.minimum.accumulate((needed - word)[::-1])[::-1] + word
    latest = np.minimum(latest, out_words + latest[0] - (in_words - word))
    return latest - latest[0], np.arange(out_words) - latest[0]


class Ring:
    """What the template needs to know; subclasses say what is read when, and what is given up when."""

    size: tuple[int, int]
    """Rows and columns of the image."""

    @property
    @abstractmethod
    def in_words(self) -> int:
        """Words of one frame."""

    @property
    @abstractmethod
    def loops(self) -> tuple[Loop, ...]:
        """The loop nest, outermost first, loops of one iteration left out."""

    @property
    @abstractmethod
    def depth(self) -> int:
        """Fewest words of the ring with which no cycle is lost, within a frame or between frames."""

    @property
    @abstractmethod
    def newest_so_far(self) -> Int:
        """Per word read: the newest word of the frame that had to be there by then."""

    @property
    @abstractmethod
    def last_reads(self) -> Int:
        """Per input word: the number of the read with which it is given up."""

    @property
    @abstractmethod
    def frees(self) -> tuple[Freed, ...]:
        """What is given up, in the order of the moves; the last entry takes all moves that are left."""

    @property
    @abstractmethod
    def settled(self) -> Loop | None:
        """The loop that must end, with those inside it, before anything is given up."""

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The words read at once."""
        return (Lane(0, 0),)

    @property
    def padded(self) -> bool:
        """Whether some reads lie in padding."""
        return False

    @property
    def start(self) -> tuple[int, int]:
        """Row and column of the first read position."""
        return 0, 0

    @property
    def origin(self) -> int:
        """Words from the first read position, which may lie in padding, to the first word of the frame."""
        return 0

    def position_bits(self, axis: int) -> int:
        """Width of a signed row (0) or column (1)."""
        raise NotImplementedError(type(self).__name__)

    @property
    def out_words(self) -> int:
        """Words read per frame."""
        total = 1
        for loop in self.loops:
            total *= loop.count
        return total

    @property
    def cycles(self) -> int:
        """Cycles a frame: one word in and one word out a cycle, whichever is more."""
        return max(self.in_words, self.out_words)

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """Moves of the read position, innermost loop first, the end of the frame last."""
        moves, words, rows, cols = [], 0, 0, 0
        for loop in reversed(self.loops):
            moves.append(Move(loop, loop.words - words, loop.rows - rows, loop.cols - cols))
            words += loop.last * loop.words
            rows += loop.last * loop.rows
            cols += loop.last * loop.cols
        moves.append(Move(None, self.in_words - words, -rows, -cols))
        return tuple(moves)

    @property
    def waits(self) -> bool:
        """Whether the first word read is padding, which must wait for the frame to begin."""
        return self.origin > 0

    @property
    def pointer_bits(self) -> int:
        """Width of an address of the ring."""
        return index_bits(self.depth)

    @property
    def level_bits(self) -> int:
        """Width of the signed count of words held, and of how many are freed at once."""
        return signed_bits(-self.in_words, max(self.depth, self.in_words))

    @property
    def ahead_bits(self) -> int:
        """Width of the signed count of words from the read position to the newest."""
        span = sum(loop.last * loop.words for loop in self.loops) + self.lanes[-1].words
        return signed_bits(-self.in_words - span, self.depth + self.in_words + self.origin)

    def read_time(self, word: int) -> int:
        """When the *word*-th word of the first frame is read: cycles from accepting the first input, unstalled."""
        newest = self.newest_so_far[: word + 1]
        return int((newest + 1 - np.arange(word + 1)).max()) + word

    def times(self) -> tuple[Int, Int, Int]:
        """Times of a frame in steady state: see :func:`steady_times`, whose times the depth of the ring is enough for;
        and when the place of each input word can be taken by another: the cycle after it is given up."""
        taken, read = steady_times(self.newest_so_far, self.in_words)
        return taken, read, read[self.last_reads] + 1

    def resources(self, word_bits: int) -> Resources:
        """Estimate of the ring for words of *word_bits* and of the control around it."""
        control = 2 * (self.level_bits + self.ahead_bits) + sum(3 * loop.bits for loop in self.loops)
        if self.padded:
            control += 4 * (self.position_bits(0) + self.position_bits(1))
        lanes = len(self.lanes)
        lut = control + lanes * 3 * self.pointer_bits + (4 * lanes if self.padded else 0)
        read = [lane.bits(word_bits) for lane in self.lanes]
        ff = self.level_bits + self.ahead_bits + (lanes + 1) * self.pointer_bits
        ff += sum(bits for bits in read if ram_style(self.depth, bits) != "block")  # which has its register inside
        ff += sum(loop.bits for loop in self.loops)
        if self.padded:
            ff += self.position_bits(0) + self.position_bits(1)
        return sum((memory_resources(self.depth, bits) for bits in read), Resources(lut=lut, ff=ff))

    def context(self, word_bits: int) -> dict[str, object]:
        """What ``_ring.sv.j2`` needs for words of *word_bits*."""
        return {"ring": self, "word_bits": word_bits, "ring_style": ram_style(self.depth, word_bits)}
