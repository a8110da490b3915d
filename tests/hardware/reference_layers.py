"""A stand-in for the lowering rules: one layer that does what any physical operator says, channels last.

The passes and the schedule can be tested with it without any hardware template.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from headrace.ir import Array, Op, TensorType
from headrace.ir.integer import IntConv, IntMaxPool, IntSumPool
from headrace.layers.base import Layer, Resources, RtlModule, StreamType, divisors


@dataclass(frozen=True, eq=False)
class ReferenceLayer(Layer):
    """``op`` on channels-last streams, folded over input (SIMD) and output (PE) channels."""

    kind: ClassVar[str] = "Reference"

    op: Op
    streams: tuple[StreamType, ...]
    pe: int = 1
    simd: int = 1

    @property
    def images(self) -> bool:
        return isinstance(self.op, (IntConv, IntMaxPool, IntSumPool))

    @property
    def result(self) -> TensorType:
        types = [s.tensor for s in self.streams]
        if self.images:
            types = [TensorType((t.shape[-1], *t.shape[:-1]), t.element) for t in types]
        (out,) = self.op.infer(*types)
        return TensorType((*out.shape[1:], out.shape[0]), out.element) if self.images else out

    @property
    def inputs(self) -> tuple[StreamType, ...]:
        return tuple(replace(s, elements=self.simd) for s in self.streams)

    @property
    def outputs(self) -> tuple[StreamType, ...]:
        return (StreamType(self.result.shape, self.result.int_range, self.pe),)

    @property
    def cycles(self) -> int:
        return max(s.words for s in (*self.inputs, *self.outputs))

    @property
    def latency(self) -> int:
        return 3

    @property
    def folding(self) -> dict[str, int]:
        return {"PE": self.pe, "SIMD": self.simd}

    @property
    def folding_choices(self) -> dict[str, tuple[int, ...]]:
        simd = set(divisors(self.streams[0].shape[-1])).intersection(*(divisors(s.shape[-1]) for s in self.streams))
        return {"PE": divisors(self.result.shape[-1]), "SIMD": tuple(sorted(simd))}

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        for x, stream in zip(inputs, self.streams, strict=True):
            assert x.shape[1:] == stream.shape
        if self.images:
            (y,) = self.op.execute(*(np.moveaxis(x, -1, 1) for x in inputs))
            return (np.moveaxis(y, 1, -1),)
        return self.op.execute(*inputs)

    def resources(self) -> Resources:
        return Resources(lut=10.0 * self.pe * self.simd)

    def rtl(self) -> RtlModule:
        raise NotImplementedError


def reference_lower(op: Op, streams: Sequence[StreamType], node: str) -> Sequence[Layer]:
    """Like :func:`headrace.layers.lower`, for every operator."""
    return [ReferenceLayer(op, tuple(streams))]
