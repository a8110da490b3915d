"""What a layer says about its C++ for high-level synthesis: the template, its configuration, its constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.ir import IntRange

Int = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class HlsTable:
    """A constant array.

    Attributes:
        values: of any number of dimensions, in the order of the array's indices.
        element: range of the values, which fixes their type.
        together: dimensions (from 1) whose entries are read at once, at the same address: one wide memory.
        apart: dimensions whose entries are read at once, each at an address of its own: separate memories.
        storage: ``"block"``, ``"distributed"`` or ``"ultra"``; without meaning when nothing is left to address.
        ports: how many entries are read from one memory at once.
    """

    values: Int
    element: IntRange
    together: tuple[int, ...] = ()
    apart: tuple[int, ...] = ()
    storage: str = "distributed"
    ports: int = 1

    @property
    def depth(self) -> int:
        """Addresses of a memory."""
        unrolled = {*self.together, *self.apart}
        sizes = [n for dim, n in enumerate(self.values.shape, 1) if dim not in unrolled]
        return int(np.prod(sizes, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class HlsCall:
    """A function template of ``hls_templates/hls/headrace`` and what it is called with.

    Attributes:
        header: file of the template, for example ``mvau.hpp``.
        function: name of the template.
        parameters: integers by name: members of the configuration that is its first template argument.
        tables: constant arrays by name.
        cycles: iterations of its pipelined loop: clock cycles a frame.
        held: words that its buffer takes in before they are needed; the module in RTL may hold more.
        arguments: order of the arguments: ``in<k>``, ``out<k>`` and names of tables; inputs, outputs, tables if empty.
    """

    header: str
    function: str
    parameters: tuple[tuple[str, int], ...]
    cycles: int
    tables: Mapping[str, HlsTable] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    held: int = 0


@dataclass(frozen=True)
class HlsStream:
    """A layer that is no function of its own: its input is its output, a stream that holds ``depth`` words.

    ``storage`` is what it is made of, as Vitis HLS names it; empty where the tool may choose.
    """

    depth: int
    storage: str = ""


SETTLING = 3
"""Iterations from a write to the buffer of a pipelined loop until what was written may be read."""


def buffered_cycles(newest: Int, oldest: Int, words: int, capacity: int, in_words: int) -> int:
    """Iterations of a loop that takes at most one word and writes at most one word each.

    The words written come in groups, *words* a group. A group begins when its newest input word has been taken
    :data:`SETTLING` iterations before; a word is taken when the buffer has room, which ends with the oldest word that
    this group or a later one needs.

    Args:
        newest, oldest: word of the frame per group; oldest never falls.
        words: written per group.
        capacity: of the buffer, in words.
        in_words: words of a frame that are taken.
    """
    taken = np.zeros(in_words, np.int64)  # iteration in which each word is taken
    count, free, time = 0, -1, 0
    newest_list, room_list = newest.tolist(), np.minimum(oldest + capacity, in_words).tolist()
    for last, room in zip(newest_list, room_list, strict=True):
        if room > count:
            first = max(free + 1, time)
            taken[count:room] = np.arange(first, first + room - count)
            free, count = first + room - count - 1, room
        begin = max(time, int(taken[last]) + SETTLING) if last >= 0 else time
        time = begin + words
    if count < in_words:
        free = max(free + 1, time) + in_words - count - 1
    return max(time, free + 1)
