"""Restrictions of a scale to a set of values: any float, learned in the log domain, a power of two, an integer.

A restriction maps a stored number to a scale (``forward``) and a scale back to the number to store (``inverse``).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headrace.core.function_wrapper import (
    Identity,
    LogTwo,
    PowerOfTwo,
    RoundSte,
    ScalarClampMinSte,
    ScalarSignedClampMinSte,
)
from headrace.core.functional import abs_binary_sign_grad
from headrace.inject.enum import FloatToIntImplType, RestrictValueType

__all__ = [
    "FloatRestrictValue",
    "FloatToIntImplType",
    "IntRestrictValue",
    "LogFloatRestrictValue",
    "PowerOfTwoRestrictValue",
    "RestrictValue",
    "RestrictValueType",
    "SignedFloatRestrictValue",
]


class RestrictValue(nn.Module):
    """Base: the stored number is the scale."""

    def inverse(self, x: Tensor) -> Tensor:
        """The number to store for the scale *x*."""
        return x

    def inverse_module(self) -> nn.Module:
        """:meth:`inverse` as a module, shown in the module tree."""
        return Identity()


class FloatRestrictValue(RestrictValue):
    """Positive float: ``|x|``."""

    def inverse(self, x: Tensor) -> Tensor:
        return x.abs()

    def forward(self, x: Tensor) -> Tensor:
        return abs_binary_sign_grad(x)


class SignedFloatRestrictValue(RestrictValue):
    """Any float."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class LogFloatRestrictValue(RestrictValue):
    """Positive float, learned in the log domain: ``2 ** x``."""

    def __init__(self) -> None:
        super().__init__()
        self.power_of_two = PowerOfTwo()

    def inverse(self, x: Tensor) -> Tensor:
        return torch.log2(x)

    def inverse_module(self) -> nn.Module:
        return LogTwo()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.power_of_two(x)
        return out


class IntRestrictValue(RestrictValue):
    """Integer: ``round(x)``."""

    def __init__(self, restrict_value_float_to_int_impl: nn.Module | None = None) -> None:
        super().__init__()
        self.float_to_int_impl = restrict_value_float_to_int_impl or RoundSte()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.float_to_int_impl(x)
        return out


class PowerOfTwoRestrictValue(RestrictValue):
    """Power of two: ``2 ** round(x)``."""

    def __init__(self, restrict_value_float_to_int_impl: nn.Module | None = None) -> None:
        super().__init__()
        self.float_to_int_impl = restrict_value_float_to_int_impl or RoundSte()
        self.power_of_two = PowerOfTwo()

    def inverse(self, x: Tensor) -> Tensor:
        return torch.log2(x)

    def inverse_module(self) -> nn.Module:
        return LogTwo()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.power_of_two(self.float_to_int_impl(x))
        return out


class _RestrictValue(nn.Module):
    """Holds a restriction under the name that module trees show."""

    def __init__(self, restrict_value_impl: RestrictValue) -> None:
        super().__init__()
        self.restrict_value_impl = restrict_value_impl

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.restrict_value_impl(x)
        return out


class _ClampValue(nn.Module):
    """Optional lower bound of a scale; of its magnitude where the restriction allows negative ones."""

    def __init__(self, scaling_min_val: float | None, restrict_value_impl: RestrictValue | None = None) -> None:
        super().__init__()
        self.min_val = scaling_min_val or 0.0
        bound = (
            ScalarSignedClampMinSte if isinstance(restrict_value_impl, SignedFloatRestrictValue) else ScalarClampMinSte
        )
        self.clamp_min_ste: nn.Module = bound(self.min_val) if self.min_val else Identity()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.clamp_min_ste(x)
        return out
