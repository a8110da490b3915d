"""When a side of a stream stalls: the same function of (key, cycle) as in cpp/driver.cpp."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class StallSpec:
    """Stalls of one port: `threshold` / 2**53 is the probability."""

    key: int
    threshold: int


def stall_pattern(spec: StallSpec, start: int, count: int) -> NDArray[np.bool_]:
    """Whether the port stalls in each of the cycles start .. start+count-1.

    Spans of 256 cycles stall either cycle by cycle or in bursts of 16 cycles, each with the same probability.
    """
    if spec.threshold == 0:
        return np.zeros(count, dtype=np.bool_)
    cycle = np.arange(start, start + count, dtype=np.uint64)
    bursts = (_splitmix(spec.key + 1, cycle >> np.uint64(8)) & np.uint64(1)).astype(np.bool_)
    single = _splitmix(spec.key, cycle)
    burst = _splitmix(spec.key + 2, cycle >> np.uint64(4))
    return (np.where(bursts, burst, single) >> np.uint64(11)) < np.uint64(spec.threshold)


def _splitmix(key: int, n: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Words `n` of the splitmix64 sequence that starts at `key` (Steele, Lea and Flood 2014)."""
    with np.errstate(over="ignore"):
        z = np.uint64(key % 2**64) + (n + np.uint64(1)) * _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
