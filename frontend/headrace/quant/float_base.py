"""Fragments that minifloat quantizers are composed from.

Formats without a ready-made quantizer are made by inheritance::

    class Fp4Weight(Fp4e2m1Mixin, ScaledFloatWeightBase):
        scaling_per_output_type = ScalingPerOutputType.CHANNEL
"""

from __future__ import annotations

from typing import Any

from headrace.core.float_quant import FloatMSEThreshold, FloatQuant, FloatScaling
from headrace.inject import ExtendedInjector, value
from headrace.inject.enum import FloatToIntImplType, RestrictValueType, ScalingImplType, ScalingPerOutputType, StatsOp
from headrace.proxy import ActFloatQuantProxyFromInjector, WeightFloatQuantProxyFromInjector
from headrace.quant.solver import ActQuantSolver, WeightQuantSolver

__all__ = [
    "FloatActBase",
    "FloatBase",
    "FloatMSEScale",
    "FloatWeightBase",
    "Fp4e2m1Mixin",
    "Fp6e2m3Mixin",
    "Fp6e3m2Mixin",
    "Fp8e4m3Mixin",
    "Fp8e5m2Mixin",
    "ScaledFloatActBase",
    "ScaledFloatWeightBase",
]


class FloatBase(ExtendedInjector):
    """Signed minifloats at scale 1; the bias is that of IEEE 754."""

    tensor_quant: Any = FloatQuant
    signed = True
    float_to_int_impl_type = FloatToIntImplType.ROUND
    scaling_impl_type = ScalingImplType.CONST
    restrict_scaling_type = RestrictValueType.FP
    scaling_const = 1.0
    scaling_min_val = 1e-10
    scaling_per_output_type = ScalingPerOutputType.TENSOR

    @value
    def exponent_bias(exponent_bit_width: int) -> int:
        return int(2 ** (exponent_bit_width - 1) - 1)


class FloatWeightBase(FloatBase, WeightQuantSolver):
    """Minifloat weights."""

    proxy_class = WeightFloatQuantProxyFromInjector


class FloatActBase(FloatBase, ActQuantSolver):
    """Minifloat activations."""

    proxy_class = ActFloatQuantProxyFromInjector


class ScaledFloatWeightBase(FloatWeightBase):
    """Minifloat weights; ``max |w|`` maps to the largest number."""

    scaling_stats_op = StatsOp.MAX
    scaling_impl_type = ScalingImplType.STATS
    float_scaling_impl = FloatScaling


class ScaledFloatActBase(FloatActBase):
    """Minifloat activations, learned scale that starts from the average of ``max |x|`` over 300 training steps."""

    scaling_stats_op = StatsOp.MAX
    scaling_impl_type = ScalingImplType.PARAMETER_FROM_STATS
    collect_stats_steps = 300
    float_scaling_impl = FloatScaling


class FloatMSEScale(ExtendedInjector):
    """A learned scale that starts from a search over 20 thresholds."""

    scaling_impl_type = ScalingImplType.PARAMETER_FROM_STATS
    scaling_stats_impl = FloatMSEThreshold
    mse_iters = 20


class Fp8e4m3Mixin(ExtendedInjector):
    """8 bits: 4 of exponent, 3 of mantissa."""

    bit_width = 8
    exponent_bit_width = 4
    mantissa_bit_width = 3
    saturating = True


class Fp8e5m2Mixin(ExtendedInjector):
    """8 bits: 5 of exponent, 2 of mantissa."""

    bit_width = 8
    exponent_bit_width = 5
    mantissa_bit_width = 2
    saturating = True


class Fp6e3m2Mixin(ExtendedInjector):
    """6 bits: 3 of exponent, 2 of mantissa."""

    bit_width = 6
    exponent_bit_width = 3
    mantissa_bit_width = 2
    saturating = True


class Fp6e2m3Mixin(ExtendedInjector):
    """6 bits: 2 of exponent, 3 of mantissa."""

    bit_width = 6
    exponent_bit_width = 2
    mantissa_bit_width = 3
    saturating = True


class Fp4e2m1Mixin(ExtendedInjector):
    """4 bits: 2 of exponent, 1 of mantissa."""

    bit_width = 4
    exponent_bit_width = 2
    mantissa_bit_width = 1
    saturating = True
