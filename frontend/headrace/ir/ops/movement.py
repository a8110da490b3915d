"""Data movement on real tensors: the same operators as on integers, carrying the annotation along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.ir import integer
from headrace.ir.grid import Grid, compact
from headrace.ir.op import Array, Op
from headrace.ir.ops.base import SourceOp
from headrace.ir.ops.elementwise import Elementwise
from headrace.ir.ops.joins import moved
from headrace.ir.real import Real
from headrace.ir.scaled import Abstract, Floating, Lowering, Scaled
from headrace.ir.types import TensorType


@dataclass(frozen=True, eq=False)
class Move(SourceOp):
    """Any rearrangement of one tensor: Reshape, Transpose or Slice, applied to values and annotation alike."""

    by: Op

    def _move(self, x: Array) -> Array:
        return self.by.execute(x)[0]

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return self.by.infer(*inputs)

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        return (inputs[0].map(self._move),)

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        (x,) = inputs
        return ctx.host(self, inputs) if isinstance(x, Floating) else (moved(ctx, x, self.by),)

    def __str__(self) -> str:
        return str(self.by)


@dataclass(frozen=True, eq=False)
class Concat(SourceOp):
    """Tensors joined along *axis* (batch axis not counted); scales may differ, each part keeps its own."""

    axis: int

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return integer.Concat(self.axis).infer(*(TensorType(t.shape) for t in inputs))

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        value = np.concatenate([x.value for x in inputs], axis=1 + self.axis)
        grids = [x.tight_grid for x in inputs]
        if any(g is None for g in grids):
            return (Real(value),)
        known = [g for g in grids if g is not None]

        def join(parts: list[Array]) -> Array:
            wide = [np.broadcast_to(p, g.q.shape[1:]) for p, g in zip(parts, known, strict=True)]
            return compact(np.concatenate(wide, axis=self.axis))

        q = np.concatenate([g.q for g in known], axis=1 + self.axis)
        return (Real(value, Grid(q, join([g.scale for g in known]), join([g.bias for g in known]))),)

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        known = [x for x in inputs if not isinstance(x, Floating)]
        if len(known) != len(inputs):
            return ctx.host(self, inputs)
        parts = [ctx.tensor(x) for x in known]
        if not all(step.neutral() is not None for p in parts for step in p.steps):
            parts = [replace(ctx.fixed(p), scale=None, bias=None) if p.scale is None else ctx.on_grid(p) for p in parts]
        joined = integer.Concat(self.axis)
        value = ctx.emit(joined, *(p.value for p in parts))
        shape = joined.infer(*(TensorType(p.shape) for p in parts))[0].shape

        def join(arrays: Sequence[Array]) -> Array:
            wide = [np.broadcast_to(a, p.shape) for a, p in zip(arrays, parts, strict=True)]
            return compact(np.concatenate(wide, axis=self.axis))

        scales, biases = [p.scale for p in parts], [p.bias for p in parts]
        result = Scaled(
            value,
            shape,
            join([p.lo for p in parts]),
            join([p.hi for p in parts]),
            None if any(s is None for s in scales) else join([s for s in scales if s is not None]),
            None if any(b is None for b in biases) else join([b for b in biases if b is not None]),
            tuple(_spread(step, k, len(parts), join) for k, p in enumerate(parts) for step in p.steps),
            all(p.bipolar for p in parts),
        )
        return (result,)


def _spread(step: Elementwise, part: int, parts: int, join: Callable[[Sequence[Array]], Array]) -> Elementwise:
    """*step* acting on one part of the joined tensor only: neutral parameters everywhere else."""
    neutral = step.neutral()
    assert neutral is not None
    arrays = {}
    for name, idle in neutral.items():
        own: Array = getattr(step, name)
        arrays[name] = join([own if k == part else np.full((1,) * own.ndim, idle, own.dtype) for k in range(parts)])
    return replace(step, **arrays)
