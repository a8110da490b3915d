"""A pipelined binary search for the number of thresholds reached: its levels, its registers, its constants."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headrace.arithmetic import WIRED
from headrace.ir import IntRange
from headrace.layers.comparisons import Comparisons
from headrace.layers.memory import Int, packed_words
from headrace.numerics import interleave_channels

LEVELS = 2
"""Comparisons one after the other in a cycle."""
CHAINED = 16
"""Constants of a level that comes second in a cycle."""


@dataclass(frozen=True, eq=False)
class Search:
    """``#{k : x > cuts[c, k]}`` of *function*, bit by bit from the highest: level l compares x with one of 2**l cuts.

    Attributes:
        groups: channel groups that take turns.
        lanes: elements of a word that are told apart.
        ram_style: where the constants are asked to be.
    """

    function: Comparisons
    groups: int
    lanes: int
    ram_style: str

    @property
    def levels(self) -> int:
        """Bits of the number."""
        return int(self.function.cuts.shape[1]).bit_length()

    def depth(self, level: int) -> int:
        """Constants of a lane among which *level* chooses."""
        return self.groups << level

    def wired(self, level: int) -> bool:
        """Whether the constants of *level* are few enough for a look-up table a bit."""
        depth = self.depth(level)
        return depth == 1 or (depth <= WIRED and self.ram_style in ("auto", "distributed"))

    @property
    def stages(self) -> tuple[tuple[int, ...], ...]:
        """Levels between two registers: two where the second has few constants."""
        stages: list[tuple[int, ...]] = []
        for level in range(self.levels):
            if stages and len(stages[-1]) < LEVELS and self.wired(level) and self.depth(level) <= CHAINED:
                stages[-1] = (*stages[-1], level)
            else:
                stages.append((level,))
        return tuple(stages)

    @property
    def group_stages(self) -> int:
        """Stages that have the channel group in a register: those that read constants by it, and those before one that
        begins with a memory, or before the last one, where bases and steps are read."""
        if self.groups == 1:
            return 0
        reads = [s for s, stage in enumerate(self.stages) if self.wired(stage[-1])]
        reads += [s - 1 for s, stage in enumerate(self.stages) if not self.wired(stage[0])]
        f = self.function
        if np.any(f.base != f.base[0]) or np.any(f.step != f.step[0]):
            reads.append(len(self.stages) - 2)
        return max(reads) + 1

    @cached_property
    def cuts(self) -> list[Int]:
        """By level, the cuts ``(rows, 2**level)`` that it compares with, filled up with what is never reached."""
        f = self.function
        full = np.full((f.rows, (1 << self.levels) - 1), f.range.hi, np.int64)  # x > hi never holds
        full[:, : f.cuts.shape[1]] = f.cuts
        return [
            full[:, (1 << (self.levels - level - 1)) - 1 :: 1 << (self.levels - level)] for level in range(self.levels)
        ]

    def cuts_of_lanes(self, level: int) -> Int:
        """The cuts of *level* ``(lanes, groups, 2**level)``."""
        return interleave_channels(self.cuts[level], self.lanes).swapaxes(0, 1)

    def wired_cuts(self) -> dict[int, list[int]]:
        """By level, the cuts of each lane as one number: their lowest bits, then the next ones and so on."""
        columns = np.arange(self.function.range.bits)[:, np.newaxis]
        return {
            level: [
                packed_words((lane.ravel() >> columns & 1).reshape(1, -1), IntRange(0, 1))[0]
                for lane in self.cuts_of_lanes(level)
            ]
            for level in range(self.levels)
            if self.wired(level)
        }
