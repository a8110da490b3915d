"""Exact integer functions of several integers: what a join, its steps and a quantizer make of two branches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headrace.ir import Shape, Value
from headrace.ir.op import Array
from headrace.ir.ops import Quantizer
from headrace.ir.real import single
from headrace.ir.scaled import Joined, NotExact, Scaled
from headrace.passes.activation import ChannelFunction, bounds_over

Int = NDArray[np.int64]


def nearest(real: Array) -> Int:
    """The nearest integers."""
    return np.rint(real).astype(np.int64)


@dataclass(frozen=True, eq=False)
class JointFunction:
    """``codes(x)`` per channel, as a function of the integers of every tensor that *x* joins.

    Arrays of integers are ``(n, channels)``, one for each of :attr:`sources`.

    Attributes:
        x: the join, with its recorded steps.
        shape: shape that all parameters broadcast to, of the rank of a frame.
        codes, exact_codes: final real-to-integer function, in float32 and in double precision.
        rising: whether they never fall.
        signs: whether they give -1 and +1 only.
    """

    x: Joined
    shape: tuple[int, ...]
    codes: Callable[[Array], Int] = nearest
    exact_codes: Callable[[Array], Int] = nearest
    rising: bool = True
    signs: bool = False

    @staticmethod
    def of(x: Joined, shape: tuple[int, ...], quantizer: Quantizer) -> JointFunction:
        """What *quantizer* makes of *x*."""
        signs = quantizer.levels.bipolar
        return JointFunction(x, shape, quantizer.codes, quantizer.exact_codes, quantizer.rising(), signs)

    @cached_property
    def sources(self) -> tuple[Value, ...]:
        """The integer tensors, each once."""
        return tuple(dict.fromkeys(leaf.value for leaf in self.x.leaves))

    @cached_property
    def bounds(self) -> tuple[tuple[Int, Int], ...]:
        """Reachable integers of each source, ``(channels,)``."""
        found = {leaf.value: bounds_over(leaf, self.shape) for leaf in reversed(self.x.leaves)}
        flat = [tuple(np.broadcast_to(b, self.shape).reshape(-1) for b in found[v]) for v in self.sources]
        return tuple((lo, hi) for lo, hi in flat)

    @property
    def channels(self) -> int:
        """Number of channels that the parameters tell apart."""
        return int(np.prod(self.shape))

    def __call__(self, *q: Int) -> Int:
        """Integers out, in canonical arithmetic."""
        real = join_values(self.x, self._feeds(q))
        if np.any(np.isnan(real)):
            raise NotExact("its input is not a number (NaN) for some reachable values")
        return self._flat(self.codes(real), q)

    def exact(self, *q: Int) -> Int:
        """The same in double precision, standing in for exact real arithmetic."""
        with np.errstate(all="ignore"):
            return self._flat(self.exact_codes(join_values(self.x, self._feeds(q), exact=True)), q)

    def real(self, *q: Int) -> Array:
        """The float32 values before the codes, ``(n, channels)``."""
        return self._flat(join_values(self.x, self._feeds(q)), q)

    def _feeds(self, q: Sequence[Int]) -> dict[Value, Int]:
        return {v: part.reshape(-1, *self.shape) for v, part in zip(self.sources, q, strict=True)}

    def _flat(self, y: Array, q: Sequence[Int]) -> Array:
        return np.broadcast_to(y, (q[0].shape[0], *self.shape)).reshape(q[0].shape[0], -1)

    def directions(self) -> tuple[Int, ...] | None:
        """+1 or -1 per source and channel when the function is proven monotone in each."""
        found = _directions(self.x)
        if found is None:
            return None
        sign = 1 if self.rising else -1
        return tuple(np.broadcast_to(sign * found[v], self.shape).reshape(-1).astype(np.int64) for v in self.sources)


def join_values(x: Scaled | Joined, feeds: Mapping[Value, Int], exact: bool = False) -> Array:
    """The real values of *x*: float32 in canonical arithmetic, or double precision where *exact*."""
    with np.errstate(all="ignore"):
        if isinstance(x, Scaled):
            real: Array = feeds[x.value].astype(np.float64) if exact else single(feeds[x.value])
        else:
            left, right = (join_values(side, feeds, exact) for side in (x.left, x.right))
            real = x.op.combine_exact(left, right) if exact else x.op.combine(left, right)
        for step in x.steps:
            real = step.exact(real) if exact else step.apply(real)
    return real


def _directions(x: Scaled | Joined) -> dict[Value, Array] | None:
    """Per integer tensor, in which direction *x* moves with it; None when that is not proven for all."""
    found: dict[Value, Array] = {}
    if isinstance(x, Scaled):
        found[x.value] = np.ones((), np.int64)
    else:
        if not x.op.rising():
            return None
        for side in (x.left, x.right):
            part = _directions(side)
            if part is None:
                return None
            for value, sign in part.items():
                if value in found and np.any(found[value] != sign):
                    return None
                found[value] = sign
    for step in x.steps:
        direction = step.direction()
        if direction is None:
            return None
        found = {value: sign * direction for value, sign in found.items()}
    return found


@dataclass(frozen=True, eq=False)
class OneSource(ChannelFunction):
    """A joint function whose branches all come from one integer tensor: a function of a single integer."""

    f: JointFunction

    def __call__(self, q: Int) -> Int:
        return self.f(q.reshape(q.shape[0], -1)).reshape(q.shape)

    def exact(self, q: Int) -> Int:
        return self.f.exact(q.reshape(q.shape[0], -1)).reshape(q.shape)

    @property
    def bipolar(self) -> bool:
        return self.f.signs

    def direction(self) -> Int | None:
        found = self.f.directions()
        return None if found is None else found[0].reshape(self.shape)


def parameter_shape(x: Scaled | Joined) -> Shape:
    """Shape that the parameters of all recorded steps broadcast to."""
    inner = () if isinstance(x, Scaled) else (parameter_shape(x.left), parameter_shape(x.right))
    return np.broadcast_shapes(*inner, *(s.parameter_shape() for s in x.steps))
