"""The rounding modes of QONNX quantizers, exact for every float.

``floor(x + 0.5)`` is not: it takes 0.49999997 (float32) to 1, because the sum rounds up before the floor, and moves
odd integers past 2**23. Here a tie is recognised on ``|x| - trunc(|x|)``, which no float rounds. Results keep the
float type of the argument; infinities and NaN pass through.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.errors import HeadraceError, did_you_mean

F = TypeVar("F", np.float16, np.float32, np.float64)


class RoundingFunction(Protocol):
    """Rounds an array of floats to integers of the same float type."""

    def __call__(self, x: NDArray[F], /) -> NDArray[F]: ...


class RoundingModeError(HeadraceError):
    """A rounding mode that does not exist."""


def round_half_even(x: NDArray[F]) -> NDArray[F]:
    """ROUND, HALF_EVEN: nearest integer, ties to the even one."""
    return np.rint(x)


def round_half_up(x: NDArray[F]) -> NDArray[F]:
    """HALF_UP: nearest integer, ties away from zero."""
    return _step_away(x, np.abs(_fraction(x)) >= 0.5)


def round_half_down(x: NDArray[F]) -> NDArray[F]:
    """HALF_DOWN: nearest integer, ties toward zero."""
    return _step_away(x, np.abs(_fraction(x)) > 0.5)


def round_up(x: NDArray[F]) -> NDArray[F]:
    """UP: away from zero."""
    return np.copysign(np.ceil(np.abs(x)), x)


def round_down(x: NDArray[F]) -> NDArray[F]:
    """DOWN, ROUND_TO_ZERO: toward zero."""
    return np.trunc(x)


def round_ceil(x: NDArray[F]) -> NDArray[F]:
    """CEIL: toward plus infinity."""
    return np.ceil(x)


def round_floor(x: NDArray[F]) -> NDArray[F]:
    """FLOOR: toward minus infinity."""
    return np.floor(x)


def round_dpu(x: NDArray[F]) -> NDArray[F]:
    """DPU (Brevitas): nearest integer, ties to the even one if positive and toward zero if negative."""
    tie_below_zero = (x < 0) & (_fraction(x) == -0.5)
    return np.where(tie_below_zero, np.ceil(x), np.rint(x))


def _fraction(x: NDArray[F]) -> NDArray[F]:
    """x - trunc(x), exact, with the sign of x; 0 for infinities, whose difference would be NaN."""
    return np.subtract(x, np.trunc(x), out=np.zeros_like(x), where=np.isfinite(x))


def _step_away(x: NDArray[F], where: NDArray[np.bool_]) -> NDArray[F]:
    """trunc(x), one further from zero *where* true. Exact: an x with a fraction is below half the float precision."""
    truncated = np.trunc(x)
    return truncated + np.copysign(where.astype(x.dtype), x)


_MODES: dict[str, RoundingFunction] = {
    "ROUND": round_half_even,
    "HALF_EVEN": round_half_even,
    "HALF_UP": round_half_up,
    "HALF_DOWN": round_half_down,
    "UP": round_up,
    "DOWN": round_down,
    "ROUND_TO_ZERO": round_down,
    "CEIL": round_ceil,
    "FLOOR": round_floor,
    "DPU": round_dpu,
}

ROUNDING_MODES: tuple[str, ...] = tuple(_MODES)
"""Every accepted name; those QONNX resolves, and Brevitas's ROUND_TO_ZERO and DPU."""


def rounding_function(name: str) -> RoundingFunction:
    """The function of a rounding mode, whatever the case of its letters.

    Raises:
        RoundingModeError: for an unknown name; lists those that are known.
    """
    mode = name.upper()
    if mode not in _MODES:
        raise RoundingModeError(
            f"unknown rounding mode '{name}'{did_you_mean(mode, ROUNDING_MODES)}; accepted: {', '.join(ROUNDING_MODES)}"
        )
    return _MODES[mode]
