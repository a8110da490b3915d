"""SumPool: the sum of each window of an image; average pooling, with the division left to what follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headrace.ir import Array, IntRange
from headrace.ir.integer import IntSumPool, sliding_windows
from headrace.layers.base import Layer, StreamType, lowers
from headrace.layers.pool import Pool


@dataclass(frozen=True, eq=False)
class SumPool(Pool):
    """Sum per window and channel; padding counts as 0."""

    kind: ClassVar[str] = "SumPool"
    template: ClassVar[str] = "sum_pool.sv.j2"

    @property
    def output(self) -> IntRange:
        taps, x = self.window.kernel_taps, self.stream.range
        low, high = taps * x.lo, taps * x.hi
        if any(p for pair in self.pads for p in pair):  # a window at the border has fewer taps
            low, high = min(low, 0), max(high, 0)
        return IntRange(low, high)

    @property
    def neutral(self) -> int:
        return 0

    @property
    def hls_extra(self) -> tuple[tuple[str, int], ...]:
        return (("acc_bits", IntRange(min(-1, self.output.lo), max(0, self.output.hi)).bits),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        x = np.moveaxis(inputs[0].astype(np.int64), -1, 1)
        windows = sliding_windows(x, self.kernel, self.strides, self.dilations, self.pads, 0)
        return (np.moveaxis(windows.sum(axis=tuple(range(-len(self.kernel), 0))), 1, -1),)


@lowers(IntSumPool)
def lower_sum_pool(op: IntSumPool, stream: StreamType) -> Sequence[Layer]:
    """Sums over windows are one SumPool."""
    return (SumPool(stream, op.kernel, op.strides, op.dilations, op.pads),)
