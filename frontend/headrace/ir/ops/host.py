"""Operators that only appear in the integer graph's host part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from headrace.ir.grid import Clamp, Grid
from headrace.ir.op import Array, Op
from headrace.ir.ops.elementwise import Elementwise
from headrace.ir.real import Real, single
from headrace.ir.scaled import Double
from headrace.ir.types import TensorType


@dataclass(frozen=True, eq=False)
class ToReal(Op):
    """Where hardware hands back to the host: integers in, the real values they stand for out."""

    steps: tuple[Elementwise, ...]
    scale: Double | None = None
    bias: Double | None = None
    clamp: Clamp | None = None

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        shapes = (s.parameter_shape() for s in self.steps)
        return (TensorType(np.broadcast_shapes(inputs[0].shape, *shapes)),)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        q = inputs[0].astype(np.int64)
        value = single(q)
        for step in self.steps:
            value = step.apply(value)
        if self.scale is None or self.bias is None:
            return cast("tuple[Array, ...]", (Real(value),))
        if self.clamp is not None:
            q = self.clamp(q)
        return cast("tuple[Array, ...]", (Real(value, Grid(q, self.scale, self.bias)),))

    def __str__(self) -> str:
        return f"ToReal({', '.join(type(s).__name__ for s in self.steps)})"
