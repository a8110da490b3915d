"""Functions of two tensors: sums, and what is a table of two integers in hardware."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ModelError
from headrace.ir import integer
from headrace.ir.exact import largest
from headrace.ir.grid import Grid, compact
from headrace.ir.op import Array, Op
from headrace.ir.ops.base import SourceOp
from headrace.ir.ops.elementwise import Elementwise
from headrace.ir.real import Real, Single
from headrace.ir.scaled import Abstract, Floating, Joined, Lowering, Scaled
from headrace.ir.types import Shape, TensorType
from headrace.numerics.common_grid import common_grid

Int = NDArray[np.int64]
Double = NDArray[np.float64]

WIDEST_FACTOR = 2**26
"""Largest integer factor that bringing two branches onto one grid may cost."""


def join_factors(a: Double, b: Double) -> tuple[Double, tuple[int, int]] | None:
    """A grid ``g`` (of the scales' shape) and integers with ``a == n[0] * g`` and ``b == n[1] * g``, exactly.

    None when no grid exists whose factors are the same for every channel and at most 2^26.
    """
    x, y = np.broadcast_arrays(a, b)
    if np.array_equal(x, y):
        return compact(x), (1, 1)
    first = common_grid(np.array([x.flat[0], y.flat[0]]), WIDEST_FACTOR)
    if first is None:
        return None
    unit, (n, m) = first[0], first[1].tolist()
    grid = np.full(x.shape, unit)
    if x.size > 1:
        if n == 0:
            return None
        grid = x / n  # exact when n divides x's significand, which the check below shows
        if not (np.array_equal(grid * n, x) and np.array_equal(grid * m, y)):
            return None
    return compact(grid), (int(n), int(m))


@dataclass(frozen=True, eq=False)
class Join(SourceOp):
    """An elementwise function of two real tensors that both depend on the input."""

    def combine(self, x: Single, y: Single) -> Single:
        """The function in canonical float32 arithmetic: one correctly rounded operation."""
        raise NotImplementedError

    def combine_exact(self, x: Double, y: Double) -> Double:
        """The same in double precision, standing in for exact real arithmetic."""
        raise NotImplementedError

    def rising(self) -> bool:
        """Whether the function never falls in either operand."""
        return False

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        x, y = inputs
        try:
            return (TensorType(np.broadcast_shapes(x.shape, y.shape)),)
        except ValueError as error:
            raise ModelError(f"frames {list(x.shape)} and {list(y.shape)} do not broadcast") from error

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        x, y = (i.value for i in _same_rank(*inputs))
        with np.errstate(all="ignore"):
            return (Real(self.combine(x, y)),)

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        """Recorded; the reader decides which integers stand for the result."""
        x, y = inputs
        if isinstance(x, Floating) or isinstance(y, Floating):
            return ctx.host(self, inputs, f"{self} of an integer tensor and one that only the host can compute")
        if _is_one_tensor(x, y) and not self._keeps_grid(x, y):
            both = Branches(self, x.steps, y.steps)
            return (replace(x, steps=(both,), scale=None, bias=None, clamp=None),)
        shape = np.broadcast_shapes(x.shape, y.shape)
        return (self._join(_enlarged(ctx, x, shape), _enlarged(ctx, y, shape), shape),)

    def _keeps_grid(self, x: Scaled | Joined, y: Scaled | Joined) -> bool:
        """Whether the result is on a grid that products may want to read."""
        return False

    def _join(self, x: Scaled | Joined, y: Scaled | Joined, shape: Shape) -> Joined:
        return Joined(self, x, y, shape)


def _is_one_tensor(x: Scaled | Joined, y: Scaled | Joined) -> bool:
    """Whether both are functions of the same integers, or of the same join: then so is what joins them."""
    if isinstance(x, Scaled) or isinstance(y, Scaled):
        return isinstance(x, Scaled) and isinstance(y, Scaled) and x.value == y.value
    return x.op is y.op and x.left is y.left and x.right is y.right


@dataclass(frozen=True, eq=False)
class Branches(Elementwise):
    """``op(left(x), right(x))``: two branches of one tensor, joined again."""

    op: Join
    left: tuple[Elementwise, ...]
    right: tuple[Elementwise, ...]

    @property
    def title(self) -> str:
        return f"{self.op} of two branches"

    def apply(self, x: Single) -> Single:
        left, right = (reduce(lambda y, step: step.apply(y), steps, x) for steps in (self.left, self.right))
        return self.op.combine(left, right)

    def exact(self, x: Double) -> Double:
        left, right = (reduce(lambda y, step: step.exact(y), steps, x) for steps in (self.left, self.right))
        return self.op.combine_exact(left, right)

    def direction(self) -> Array | None:
        if not self.op.rising():
            return None
        signs = [_direction(steps) for steps in (self.left, self.right)]
        if signs[0] is None or signs[1] is None or np.any(signs[0] != signs[1]):
            return None
        return signs[0]

    def map_parameters(self, move: Callable[[Array], Array]) -> Self:
        left, right = (tuple(step.map_parameters(move) for step in steps) for steps in (self.left, self.right))
        return replace(self, left=left, right=right)

    def parameter_shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*(step.parameter_shape() for step in (*self.left, *self.right)))


def _direction(steps: Sequence[Elementwise]) -> Array | None:
    """Direction of *steps* one after another, when it is known of each."""
    sign: Array = np.ones((), np.int64)
    for step in steps:
        own = step.direction()
        if own is None:
            return None
        sign = sign * own
    return sign


def _same_rank(x: Real, y: Real) -> tuple[Real, Real]:
    """Both with the larger rank: axes of one are inserted after the batch axis."""
    rank = max(x.value.ndim, y.value.ndim)
    return _ranked(x, rank), _ranked(y, rank)


def _ranked(x: Real, rank: int) -> Real:
    missing = rank - x.value.ndim
    return x if not missing else x.map(lambda a: a.reshape(a.shape[0], *(1,) * missing, *a.shape[1:]))


def _enlarged(ctx: Lowering, x: Scaled | Joined, shape: Shape) -> Scaled | Joined:
    """*x* repeated along its axes of length one until it has *shape*."""
    if x.shape == shape:
        return x
    if len(x.shape) < len(shape):
        x = moved(ctx, x, integer.Reshape((*(1,) * (len(shape) - len(x.shape)), *x.shape)))
    if len(shape) > 1 and x.shape[0] == shape[0]:
        factors = tuple(n // m for n, m in zip(shape[1:], x.shape[1:], strict=True))
        return x if x.shape == shape else moved(ctx, x, integer.IntUpsample(factors))
    for axis, n in enumerate(shape):
        if x.shape[axis] != n:
            x = moved(ctx, x, integer.Gather(axis, (0,) * n))
    return x


def moved(ctx: Lowering, x: Scaled | Joined, by: Op) -> Scaled | Joined:
    """*x* after the data movement *by*; of a join, both operands are moved."""
    shape = by.infer(TensorType(x.shape))[0].shape
    if isinstance(x, Scaled):
        return x.map(lambda a: by.execute(a)[0], ctx.emit(by, x.value), shape)
    return x.rebuilt(lambda side: moved(ctx, side, by), lambda a: _carried(a, x.shape, by, len(shape)), shape)


def _carried(a: Array, frame: Shape, by: Op, rank: int) -> Array:
    """Parameter *a* of frames of shape *frame* after the movement *by*."""
    if all(n == 1 for n in a.shape):
        return a.reshape((1,) * rank)
    return compact(by.execute(np.broadcast_to(a, frame)[None])[0][0])


@dataclass(frozen=True, eq=False)
class AddTensors(Join):
    """``fl32(x + y)``. For operators that accumulate, the integers of both on a common grid are kept, if there is one.

    The value is the float32 sum of the float32 operands, as PyTorch computes it; the integers are those of the exact
    sum. The two need not agree to the last bit, so the result is *loose* (:class:`~headrace.ir.real.Real`).
    """

    def combine(self, x: Single, y: Single) -> Single:
        return x + y

    def combine_exact(self, x: Double, y: Double) -> Double:
        return x + y

    def rising(self) -> bool:
        return True

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        x, y = _same_rank(*inputs)
        with np.errstate(all="ignore"):
            value = self.combine(x.value, y.value)
        if x.grid is None or y.grid is None:
            return (Real(value),)
        joined = join_factors(x.grid.scale, y.grid.scale)
        if joined is None:
            return (Real(value),)
        grid, (n, m) = joined
        if abs(n) * largest(x.grid.q) + abs(m) * largest(y.grid.q) >= 2**62:
            raise ModelError("its branches are too far apart in magnitude for integers of 62 bits")
        q = n * x.grid.q.astype(np.int64) + m * y.grid.q.astype(np.int64)
        return (Real(value, Grid(q, grid, x.grid.bias + y.grid.bias), loose=True),)

    def _keeps_grid(self, x: Scaled | Joined, y: Scaled | Joined) -> bool:
        return x.scale is not None and y.scale is not None

    def _join(self, x: Scaled | Joined, y: Scaled | Joined, shape: Shape) -> Joined:
        if x.scale is None or y.scale is None or x.bias is None or y.bias is None:
            return Joined(self, x, y, shape)
        joined = join_factors(x.scale, y.scale)
        if joined is None:
            return Joined(self, x, y, shape)
        return Joined(self, x, y, shape, joined[1], joined[0], compact(np.asarray(x.bias + y.bias)))

    def __str__(self) -> str:
        return "a sum"


@dataclass(frozen=True, eq=False)
class Arithmetic(Join):
    """Product ``*``, quotient ``/``, ``max`` or ``min`` of two tensors."""

    symbol: str

    def combine(self, x: Single, y: Single) -> Single:
        result: Single = _OPERATIONS[self.symbol](x, y)
        return result

    def combine_exact(self, x: Double, y: Double) -> Double:
        result: Double = _OPERATIONS[self.symbol](x, y)
        return result

    def rising(self) -> bool:
        return self.symbol in ("max", "min")

    def __str__(self) -> str:
        return {"*": "a product", "/": "a quotient", "max": "a maximum", "min": "a minimum"}[self.symbol]


_OPERATIONS: dict[str, np.ufunc] = {"*": np.multiply, "/": np.divide, "max": np.maximum, "min": np.minimum}
