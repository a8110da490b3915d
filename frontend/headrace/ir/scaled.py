"""What the scaled-integer analysis knows of a tensor, and what an operator may ask of it.

Source: the idea of scaled-integer range analysis (SIRA, 2025), made exact: instead of real-valued scale and bias
alone, the elementwise float32 operations are recorded and run on the integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.errors import FoldingError
from headrace.ir.graph import Value
from headrace.ir.grid import Clamp, compact
from headrace.ir.op import Array, Op
from headrace.ir.types import IntRange, Shape

if TYPE_CHECKING:
    from headrace.ir.ops.elementwise import Elementwise
    from headrace.ir.ops.joins import Join
    from headrace.ir.ops.quantizers import Quantizer

Int = NDArray[np.int64]
Double = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scaled:
    """An integer tensor of the integer graph and how to read it as real numbers.

    The real value is ``steps[n](... steps[0](fl32(q)))``. While all steps are linear it is also, in exact
    arithmetic, ``scale * q + bias``; after clips whose bounds lie on that grid it is ``scale * clamp(q) + bias``. After
    any other function ``scale`` and ``bias`` are None. Which of these holds depends on the model alone, never on data.

    Attributes:
        value: the integer tensor.
        shape: its frame shape.
        lo, hi: reachable bounds, arrays of the frame's rank that broadcast against it.
        scale, bias: doubles that broadcast against the frame, or None.
        steps: the recorded elementwise operations, in order.
        bipolar: whether only -1 and +1 occur.
        clamp: what the clips among the steps make of the integers, if there are any.
    """

    value: Value
    shape: Shape
    lo: Int
    hi: Int
    scale: Double | None
    bias: Double | None
    steps: tuple[Elementwise, ...] = ()
    bipolar: bool = False
    clamp: Clamp | None = None

    @property
    def affine(self) -> tuple[Double, Double]:
        """Scale and bias of a tensor that :meth:`Lowering.integers` or :meth:`Lowering.on_grid` has returned."""
        assert self.scale is not None
        assert self.bias is not None
        return self.scale, self.bias

    def map(self, move: Callable[[Array], Array], value: Value, shape: Shape) -> Scaled:
        """This tensor after a data movement *move* (a callable on frames with a leading axis of one)."""

        def carry(a: Array) -> Array:
            if a.ndim == 0 or all(n == 1 for n in a.shape):
                return a.reshape((1,) * len(shape))
            return compact(move(np.broadcast_to(a, self.shape)[None])[0])

        return Scaled(
            value,
            shape,
            carry(self.lo),
            carry(self.hi),
            None if self.scale is None else carry(self.scale),
            None if self.bias is None else carry(self.bias),
            tuple(step.map_parameters(carry) for step in self.steps),
            self.bipolar,
            None if self.clamp is None else self.clamp.map(carry),
        )


MOST_LEAVES = 4096
"""Integer tensors that one function of several may have."""


@dataclass(frozen=True, eq=False)
class Joined:
    """A function of two integer tensors that has no integer tensor of its own yet.

    The real value is ``steps[n](... steps[0](op(left, right)))`` in canonical arithmetic. Which integers stand for it
    is decided by whoever reads it: a quantizer asks for the exact function of both, an accumulating operator for the
    sum on a common grid.

    Attributes:
        op: the operator that joins them; see :class:`~headrace.ir.ops.joins.Join`.
        left, right: the operands.
        shape: frame shape.
        factors: of both operands' integers on the common grid, when there is one.
        scale, bias, clamp: of that grid, as in :class:`Scaled`.
        steps: elementwise operations recorded after the join.
    """

    op: Join
    left: Scaled | Joined
    right: Scaled | Joined
    shape: Shape
    factors: tuple[int, int] | None = None
    scale: Double | None = None
    bias: Double | None = None
    steps: tuple[Elementwise, ...] = ()
    clamp: Clamp | None = None

    def __post_init__(self) -> None:
        if self.count > MOST_LEAVES:
            raise NotExact(f"it joins {self.count:,} integer tensors without a quantizer; up to {MOST_LEAVES:,} can be")

    @cached_property
    def count(self) -> int:
        """Number of :attr:`leaves`, which doubles where a tensor is joined with itself."""
        return sum(1 if isinstance(side, Scaled) else side.count for side in (self.left, self.right))

    @property
    def leaves(self) -> tuple[Scaled, ...]:
        """The integer tensors that it is a function of, left to right; one may occur several times."""
        found: list[Scaled] = []
        for side in (self.left, self.right):
            found += [side] if isinstance(side, Scaled) else side.leaves
        return tuple(found)

    def rebuilt(
        self,
        operand: Callable[[Scaled | Joined], Scaled | Joined],
        parameter: Callable[[Array], Array],
        shape: Shape,
    ) -> Joined:
        """This join after a data movement: of the operands by *operand*, of parameters by *parameter*."""
        return replace(
            self,
            left=operand(self.left),
            right=operand(self.right),
            shape=shape,
            scale=None if self.scale is None else parameter(self.scale),
            bias=None if self.bias is None else parameter(self.bias),
            steps=tuple(step.map_parameters(parameter) for step in self.steps),
            clamp=None if self.clamp is None else self.clamp.map(parameter),
        )


@dataclass(frozen=True, eq=False)
class Floating:
    """A real tensor that only the host can compute; ``cause`` is the node that made it so, if any."""

    value: Value
    shape: Shape
    cause: str | None = None


Abstract = Scaled | Joined | Floating

Exact = TypeVar("Exact", bound="Scaled | Joined")


@dataclass(frozen=True)
class Writable:
    """What somebody has asked for the constants of a node: that they can be replaced at run time.

    Attributes:
        node: of the integer graph.
        weights: integers that any weight may become; None for all of the narrowest type that holds those there are.
        hint: a sentence for messages: where that was said.
    """

    node: str
    weights: IntRange | None = None
    hint: str = ""

    def refused(self, reason: str, accepted: str) -> FoldingError:
        """That it cannot be, as an error."""
        text = f"layer '{self.node}': runtime_writeable_weights=1 is not possible: {reason}; accepted: {accepted}"
        return FoldingError(f"{text}. {self.hint}" if self.hint else text)

    def weight_range(self, weights: Int) -> IntRange:
        """Range of the constants that may take the place of *weights*.

        Raises:
            FoldingError: when some of these are outside the range that was asked for.
        """
        low, high = int(weights.min(initial=0)), int(weights.max(initial=0))
        signs = bool(weights.size) and bool(np.all(np.abs(weights) == 1))
        if self.weights is None:
            return IntRange(low, high, bipolar=signs and (low, high) == (-1, 1)).whole
        if low < self.weights.lo or high > self.weights.hi or (self.weights.bipolar and not signs):
            needed = IntRange(low, high).type_name
            raise self.refused(
                f"weightDataType {self.weights.type_name} does not hold its weights, which range from {low} to {high}",
                f"{needed}, or a wider type",
            )
        return self.weights


class NotExact(Exception):
    """An operator has no exact integer form on these operands; the message says why and what would help."""


class Lowering(Protocol):
    """What an operator may use to lower itself into the integer graph."""

    def emit(self, op: Op, *inputs: Value) -> Value:
        """Add an integer operator, named after the node being lowered."""

    def writable(self) -> Writable | None:
        """Whether the constants of the operator that :meth:`emit` adds next are to be replaceable at run time."""

    def host(self, op: Op, inputs: Sequence[Abstract], why: str | None = None) -> tuple[Abstract, ...]:
        """Leave *op* to the host; *why* is the reason when the operands were integers."""

    def shape(self, value: Value) -> Shape:
        """Frame shape of an integer tensor."""

    def step(self, x: Exact, op: Elementwise) -> Exact:
        """Record an elementwise operation."""

    def tensor(self, x: Scaled | Joined) -> Scaled:
        """*x* as one integer tensor: itself, or the join carried out on the grid of float32 (:meth:`fixed`).

        Raises:
            NotExact: when it would be too wide.
        """

    def fixed(self, x: Scaled | Joined) -> Scaled:
        """Integers that are the float32 values of *x* themselves, times one power of two for all of them.

        ``scale`` is that power of two and ``bias`` zero: products and sums may be computed on the result, but the grid
        is none of the model's.

        Raises:
            NotExact: when the values of *x* are too many, or too far apart, for integers of 62 bits.
        """

    def integers(self, x: Scaled | Joined) -> Scaled:
        """*x* for an operator that accumulates its integers: ``scale`` and ``bias`` known, nothing left to clamp.

        Its steps need not be those of *x*: what is accumulated is scaled afresh.

        Raises:
            NotExact: when the values are on no integer grid.
        """

    def on_grid(self, x: Scaled) -> Scaled:
        """As :meth:`integers`, for an operator that hands the real values on: the steps give exactly those of *x*.

        Raises:
            NotExact: when the values are on no integer grid, or float32 rounds them off it.
        """

    def enter(self, x: Floating, quantizer: Quantizer) -> Scaled:
        """The integers that *quantizer* makes of real data: where the host hands over to hardware."""

    def quantize(self, x: Scaled | Joined, quantizer: Quantizer) -> Scaled:
        """The integers that *quantizer* makes of *x*, as an exact function of its integers."""
