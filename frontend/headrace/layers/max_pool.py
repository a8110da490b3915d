"""MaxPool: the largest value of each window of an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headrace.errors import UnsupportedError
from headrace.ir import Array, IntRange
from headrace.ir.integer import IntMaxPool, sliding_windows
from headrace.layers.base import Layer, StreamType, lowers
from headrace.layers.pool import Pool


@dataclass(frozen=True, eq=False)
class MaxPool(Pool):
    """Largest value per window and channel; padding never wins.

    Raises:
        UnsupportedError: when a window lies in the padding alone and so has no largest value.
    """

    kind: ClassVar[str] = "MaxPool"
    template: ClassVar[str] = "max_pool.sv.j2"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window.has_empty:
            pads = ", ".join(f"{begin}+{end}" for begin, end in self.pads)
            raise UnsupportedError(
                f"a window of {list(self.kernel)} lies in the padding ({pads}) alone and has no largest value; "
                "the padding must be smaller than the window"
            )

    @property
    def output(self) -> IntRange:
        return self.stream.range

    @property
    def neutral(self) -> int:
        return 0 if self.output.bipolar else self.output.lo

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        x = np.moveaxis(inputs[0].astype(np.int64), -1, 1)
        windows = sliding_windows(x, self.kernel, self.strides, self.dilations, self.pads, self.stream.range.lo)
        return (np.moveaxis(windows.max(axis=tuple(range(-len(self.kernel), 0))), 1, -1),)


@lowers(IntMaxPool)
def lower_max_pool(op: IntMaxPool, stream: StreamType) -> Sequence[Layer]:
    """Maximum over windows is one MaxPool."""
    return (MaxPool(stream, op.kernel, op.strides, op.dilations, op.pads),)
