"""Minifloats: floating-point formats of a few bits, emulated in float32.

A format has ``e`` exponent bits, ``m`` mantissa bits, a bias and a sign; subnormal numbers are kept. With
``v = x / scale`` and ``k = max(floor(log2 |v|), 1 - bias)`` the result is::

    value = clamp(round(v / 2**(k - m)) * 2**(k - m), -largest, largest) * scale

The exponent is read off the representation of ``v``, so it is exact next to powers of two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headrace.core import functional
from headrace.core.function_wrapper import Identity, RoundSte
from headrace.core.functional import Rounding
from headrace.core.restrict_val import RestrictValue
from headrace.core.scaling import ConstScaling
from headrace.core.search import Reducing, grid_search
from headrace.core.stateless import StatelessBuffer
from headrace.core.stats import AbsMax
from headrace.inject.errors import QuantizerValueError

__all__ = ["FloatFormat", "FloatMSEThreshold", "FloatQuant", "FloatScaling", "SharedExponentFloatScaling"]

FloatQuantOutput = tuple[Tensor, Tensor, Tensor, "FloatFormat"]


@dataclass(frozen=True)
class FloatFormat:
    """A minifloat format.

    Args:
        exponent_bit_width, mantissa_bit_width: bits, without the sign.
        exponent_bias: subtracted from the stored exponent.
        signed: whether there is a sign.
        saturating: whether values beyond the largest become the largest.
        inf_values, nan_values: mantissas that stand for infinity and NaN at the highest exponent.
    """

    exponent_bit_width: int
    mantissa_bit_width: int
    exponent_bias: int
    signed: bool = True
    saturating: bool = True
    inf_values: tuple[str, ...] | None = None
    nan_values: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        special = (self.inf_values or ()) + (self.nan_values or ())
        if self.inf_values and not self.nan_values:
            raise QuantizerValueError("inf_values needs nan_values: a format with infinity has NaN")
        if any(len(code) > self.mantissa_bit_width or set(code) - {"0", "1"} for code in special):
            raise QuantizerValueError(
                f"inf_values and nan_values are mantissas of {self.mantissa_bit_width} binary digits, got {special}"
            )
        if not self.saturating and not special:
            raise QuantizerValueError("saturating=False needs nan_values (and inf_values) to overflow to")

    @property
    def bit_width(self) -> int:
        """All bits."""
        return self.exponent_bit_width + self.mantissa_bit_width + int(self.signed)

    @property
    def smallest_exponent(self) -> int:
        """Exponent of the smallest normal number, which subnormal numbers share."""
        return 1 - self.exponent_bias

    @property
    def largest(self) -> float:
        """The largest finite number: the one below the first that stands for infinity or NaN."""
        exponent = 2**self.exponent_bit_width - 1
        special = [int(code, 2) for code in (self.inf_values or ()) + (self.nan_values or ())]
        mantissa = min(special) - 1 if special else 2**self.mantissa_bit_width - 1
        if mantissa < 0:  # the whole highest exponent is taken
            exponent, mantissa = exponent - 1, 2**self.mantissa_bit_width - 1
        return float((1 + mantissa / 2**self.mantissa_bit_width) * 2.0 ** (exponent - self.exponent_bias))

    def round(self, v: Tensor, rounding: Rounding = torch.round) -> Tensor:
        """*v*, unscaled, as numbers of the format; float32."""
        largest = self.largest
        low = -largest if self.signed else 0.0
        near = v.float().clamp(-4 * largest, 4 * largest)
        exponent = torch.frexp(near).exponent - 1
        exponent = torch.where(near == 0, self.smallest_exponent, exponent).clamp(min=self.smallest_exponent)
        unit = _power_of_two(exponent - self.mantissa_bit_width)
        rounded = rounding(near / unit) * unit
        if self.saturating:
            return rounded.clamp(low, largest)
        return self._overflown(rounded, low, largest)

    def _overflown(self, rounded: Tensor, low: float, largest: float) -> Tensor:
        infinite = float("inf") if self.inf_values else float("nan")
        out = torch.where(rounded > largest, infinite, rounded)
        return torch.where(rounded < low, -infinite if self.signed else 0.0, out)


def _power_of_two(exponent: Tensor) -> Tensor:
    """``2 ** exponent`` for integers within the normal range of float32, exact on every device."""
    return ((exponent.to(torch.int32) + 127) << 23).view(torch.float32)


class FloatScaling(nn.Module):
    """The number that the threshold of the scale maps to: the largest of the format."""

    def forward(self, format: FloatFormat) -> Tensor:
        return torch.tensor(format.largest)


class SharedExponentFloatScaling(nn.Module):
    """The power of two at or below the largest number, which a shared exponent maps to (OCP MX 1.0, section 6.3)."""

    def forward(self, format: FloatFormat) -> Tensor:
        return torch.tensor(2.0 ** (math.frexp(format.largest)[1] - 1))


class FloatQuant(nn.Module):
    """Quantization to a minifloat.

    Args:
        bit_width: all bits; has to be the sum of the sign and the next two.
        exponent_bit_width, mantissa_bit_width, exponent_bias, signed, saturating, inf_values, nan_values: see
            :class:`FloatFormat`.
        scaling_impl: scale, 1 by default.
        float_scaling_impl: what the threshold of the scale maps to; ``None`` takes the threshold as the scale.
        float_to_int_impl: rounding.
        input_view_impl: view of the input before quantization.

    Raises:
        QuantizerValueError: numbers that do not make a format.
    """

    def __init__(
        self,
        bit_width: int,
        exponent_bit_width: int,
        mantissa_bit_width: int,
        exponent_bias: int,
        signed: bool = True,
        saturating: bool = True,
        inf_values: tuple[str, ...] | None = None,
        nan_values: tuple[str, ...] | None = None,
        scaling_impl: nn.Module | None = None,
        float_scaling_impl: nn.Module | None = None,
        float_to_int_impl: nn.Module | None = None,
        input_view_impl: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.input_view_impl = input_view_impl or Identity()
        self.format = FloatFormat(
            exponent_bit_width, mantissa_bit_width, exponent_bias, signed, saturating, inf_values, nan_values
        )
        if self.format.bit_width != bit_width:
            raise QuantizerValueError(
                f"bit_width={bit_width} is not the sum of sign ({int(signed)}), exponent_bit_width="
                f"{exponent_bit_width} and mantissa_bit_width={mantissa_bit_width}"
            )
        self.scaling_impl = ConstScaling(1.0) if scaling_impl is None else scaling_impl
        self.float_scaling_impl = float_scaling_impl
        self.float_to_int_impl = float_to_int_impl or RoundSte()
        self.zero_point = StatelessBuffer(torch.tensor(0.0))
        self.observer_only = False

    def forward(self, x: Tensor) -> FloatQuantOutput:
        threshold = None if self.float_scaling_impl is None else self.float_scaling_impl(self.format).to(x)
        scale: Tensor = self.scaling_impl(x, threshold)
        if self.observer_only:
            return x, scale, self.zero_point.value, self.format
        scaled = self.input_view_impl(x) / scale
        with torch.no_grad():
            q = self.format.round(scaled, self.float_to_int_impl).to(scaled.dtype)
        if torch.is_grad_enabled():  # straight through, but not beyond the largest number
            inside = scaled.detach().abs() <= self.format.largest if self.format.saturating else 1.0
            q = functional.substitute(scaled * inside, q)
        return q * scale, scale, self.zero_point.value, self.format


class FloatMSEThreshold(Reducing):
    """The threshold of ``mse_iters`` fractions of ``max |x|`` that a minifloat reproduces with least squared error.

    Args:
        exponent_bit_width, mantissa_bit_width, exponent_bias, signed, inf_values, nan_values: the format.
        float_scaling_impl, restrict_scaling_impl, scaling_min_val: parts of the quantizer.
        tracked_parameter_list: the parameters, ``None`` for activations.
        stats_reduce_dim, keepdim: ``None`` for one threshold, otherwise one a row.
        mse_iters: number of candidates.
    """

    def __init__(
        self,
        exponent_bit_width: int,
        mantissa_bit_width: int,
        exponent_bias: int,
        signed: bool = True,
        inf_values: tuple[str, ...] | None = None,
        nan_values: tuple[str, ...] | None = None,
        float_scaling_impl: nn.Module | None = None,
        restrict_scaling_impl: RestrictValue | None = None,
        tracked_parameter_list: list[nn.Parameter] | None = None,
        scaling_min_val: float | None = None,
        stats_reduce_dim: int | None = None,
        keepdim: bool = False,
        mse_iters: int = 20,
    ) -> None:
        super().__init__(stats_reduce_dim, keepdim)
        self.format = FloatFormat(
            exponent_bit_width, mantissa_bit_width, exponent_bias, signed, True, inf_values, nan_values
        )
        target = float_scaling_impl or FloatScaling()
        self.largest = float(target(self.format))
        self.restrict = (None if tracked_parameter_list is None else restrict_scaling_impl,)  # shared, not owned
        self.min_val = scaling_min_val or 0.0
        self.mse_init_op = AbsMax(stats_reduce_dim, keepdim)
        self.mse_iters = mse_iters

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        def loss(threshold: Tensor) -> Tensor:
            tiny = torch.finfo(x.dtype).tiny
            threshold = self.spread(threshold).clamp_min(max(self.min_val, tiny))
            (restrict,) = self.restrict
            scale = (threshold if restrict is None else restrict(restrict.inverse(threshold))) / self.largest
            scale = scale.clamp_min(tiny)
            return self.squared_error(self.format.round(x / scale) * scale - x)

        return grid_search(self.mse_init_op(x), self.mse_iters, loss)
