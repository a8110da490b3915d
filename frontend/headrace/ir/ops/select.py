"""Selection along an axis: ArgMax, ArgMin, TopK."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.ir import integer
from headrace.ir.op import Array
from headrace.ir.ops.base import SourceOp
from headrace.ir.real import Real, as_real
from headrace.ir.scaled import Abstract, Floating, Lowering, NotExact, Scaled
from headrace.ir.types import TensorType

ENUMERATED = 2**22
"""Largest range whose order is proven by running it through the recorded steps."""


@dataclass(frozen=True, eq=False)
class TopK(SourceOp):
    """Indices of the ``k`` best values along the last axis, best first, ties by lowest index; ``k = 1`` is ArgMax."""

    k: int = 1
    largest: bool = True

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return integer.IntTopK(self.k, self.largest).infer(*inputs)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        return (integer.top_indices(as_real(inputs[0]).value, self.k, self.largest),)

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        """Hardware compares integers, so the real value must be one strictly monotone function of them for all."""
        (x,) = inputs
        if isinstance(x, Floating):
            return ctx.host(self, inputs)
        integers = ctx.tensor(x)
        try:
            falls = _order(integers)
        except NotExact as reason:
            try:
                integers, falls = ctx.fixed(x), False
            except NotExact:
                raise reason from None
        op = integer.IntTopK(self.k, self.largest ^ falls)
        value = ctx.emit(op, integers.value)
        shape = op.infer(TensorType(x.shape))[0].shape
        bound = np.zeros((1,) * len(shape), np.int64)
        one = np.ones((1,) * len(shape))
        return (Scaled(value, shape, bound, bound + x.shape[-1] - 1, one, np.zeros_like(one)),)


def _order(x: Scaled) -> bool:
    """Whether real values fall as the integers rise; they do one or the other, strictly and alike in all channels.

    Raises:
        NotExact: when they do not.
    """
    if any(n > 1 for s in x.steps for n in s.parameter_shape()):
        raise NotExact("it compares channels of different scale or offset")
    falls = False
    for step in x.steps:
        direction = step.direction()
        if direction is None:
            raise NotExact("it compares values of a function that is not monotone")
        falls ^= bool(np.all(direction < 0))
    low, high = int(x.lo.min()), int(x.hi.max())
    if high - low >= ENUMERATED:
        raise NotExact("the range of the values it compares is too large to prove that float32 keeps their order")
    real = np.arange(low, high + 1).astype(np.float32)
    with np.errstate(all="ignore"):  # infinities and NaN are in no strict order
        for step in x.steps:
            real = step.apply(real)
        jumps = np.diff(real.ravel())
    if not (np.all(jumps < 0) if falls else np.all(jumps > 0)):
        raise NotExact("float32 makes some of the values it compares equal; it cannot be decided on the integers")
    return falls


@dataclass(frozen=True, eq=False)
class TopValues(SourceOp):
    """The ``k`` best values along the last axis, best first: kept on the host."""

    k: int
    largest: bool = True

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = inputs
        return (TensorType((*x.shape[:-1], self.k)),)

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        (x,) = inputs
        index = integer.top_indices(x.value, self.k, self.largest)
        return (Real(np.take_along_axis(x.value, index, axis=-1)),)
