"""Activations whose thresholds can be replaced at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from headrace.ir.integer import Activation, Lookup
from headrace.ir.scaled import Writable
from headrace.ir.types import IntRange, Shape

Int = NDArray[np.int64]

MOST_THRESHOLDS = 4095
"""Thresholds a channel that may be replaceable at run time."""


def any_thresholds(
    asked: Writable, ops: Sequence[Activation | Lookup], levels: IntRange | None, shape: Shape
) -> tuple[Activation, Int, Int]:
    """*ops* as thresholds that may be replaced, and the bounds ``shape`` of what may then come out, all of *levels*.

    Raises:
        FoldingError: when they are no thresholds, or too many.
    """
    op = ops[0]
    if len(ops) > 1 or not isinstance(op, Activation):
        raise asked.refused("its function both rises and falls", "functions that only rise or only fall in a channel")
    output = levels or op.output
    if output.count - 1 > MOST_THRESHOLDS:
        raise asked.refused(
            f"each of its channels needs {output.count - 1:,} thresholds", f"up to {MOST_THRESHOLDS + 1:,} levels"
        )
    lo, hi = (np.broadcast_to(np.int64(end), shape) for end in (output.lo, output.hi))
    return replace(op, output=output, writable=True), lo, hi
