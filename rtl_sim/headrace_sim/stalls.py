"""When a side of a stream stalls: the same function of (key, cycle) as in cpp/stall.h.

Plain integers, because numpy alone takes half of a simulator's start-up time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, repeat

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class StallSpec:
    """Stalls of one port: `threshold` / 2**53 is the probability."""

    key: int
    threshold: int


def stall_sequence(spec: StallSpec) -> Iterator[bool]:
    """Whether the port stalls in cycle 0, 1, 2, ...

    Spans of 256 cycles stall either cycle by cycle or in bursts of 16 cycles, each with the same probability.
    """
    if spec.threshold == 0:
        yield from repeat(False)
    for block in count():  # of 16 cycles
        if _splitmix(spec.key + 1, block >> 4) & 1:
            yield from repeat(_splitmix(spec.key + 2, block) >> 11 < spec.threshold, 16)
        else:
            for cycle in range(16 * block, 16 * block + 16):
                yield _splitmix(spec.key, cycle) >> 11 < spec.threshold


def _splitmix(key: int, n: int) -> int:
    """Word `n` of the splitmix64 sequence that starts at `key` (Steele, Lea and Flood 2014)."""
    z = (key + (n + 1) * _GOLDEN) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)
