"""Fragments of weight quantizers with one scale before the rounding and another after it."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from headrace.core.function_wrapper import OverOutputChannelView, TensorClamp, TensorClampSte
from headrace.core.quant import DecoupledIntQuant, DecoupledRescalingIntQuant
from headrace.core.quant.int_base import NARROW_AT_ONE_BIT
from headrace.core.scaling import (
    SCALING_STATS_REDUCE_DIM,
    ParameterPreScalingWeightNorm,
    StatsFromParameterScaling,
    UnitIntScaling,
)
from headrace.core.stats import AbsMaxL2, L1Norm, L2Norm
from headrace.core.zero_point import ZeroZeroPoint
from headrace.inject import ExtendedInjector, this, value
from headrace.inject.enum import RestrictValueType, ScalingImplType, ScalingPerOutputType
from headrace.inject.errors import QuantizerValueError
from headrace.proxy import DecoupledWeightQuantProxyFromInjector
from headrace.quant.base import MaxStatsScaling, NarrowIntQuant
from headrace.quant.solver import WeightQuantSolver

__all__ = [
    "LargestOverIntegers",
    "PerChannelL1Norm",
    "PerChannelL2Norm",
    "WeightNormPerChannelFloatDecoupled",
    "WeightPerChannelFloatDecoupled",
    "WeightPerTensorFloatDecoupledL2Param",
]


class LargestOverIntegers(ExtendedInjector):
    """Scale that starts from ``max |w|`` of each channel over the largest integer."""

    @value
    def scaling_init(tracked_parameter_list: list[Tensor], output_channel_dim: int, bit_width: int) -> Tensor:
        if bit_width == 1:
            raise QuantizerValueError(NARROW_AT_ONE_BIT)
        weight = tracked_parameter_list[0].detach()
        others = [d for d in range(weight.dim()) if d != output_channel_dim]
        magnitude = weight.abs()
        largest = (magnitude.amax(others, keepdim=True) if others else magnitude).clamp_min(1e-10)  # amax([]) is of all
        return largest / float(2 ** (bit_width - 1) - 1)


class _Decoupled(NarrowIntQuant, WeightQuantSolver):
    """Narrow signed integers, no zero points."""

    proxy_class = DecoupledWeightQuantProxyFromInjector
    tensor_quant: Any = DecoupledRescalingIntQuant
    decoupled_int_quant = DecoupledIntQuant
    pre_zero_point_impl = ZeroZeroPoint


class WeightPerChannelFloatDecoupled(_Decoupled):
    """Divided by ``max |w|`` of each channel, multiplied by a learned scale that starts from it."""

    pre_scaling_impl: Any = StatsFromParameterScaling
    scaling_stats_op = MaxStatsScaling.scaling_stats_op
    scaling_impl_type = ScalingImplType.PARAMETER_FROM_STATS
    scaling_per_output_type = ScalingPerOutputType.CHANNEL
    restrict_scaling_type = RestrictValueType.FP
    tensor_clamp_impl: Any = TensorClampSte


class WeightPerTensorFloatDecoupledL2Param(_Decoupled):
    """Divided by the root mean square of ``max |w|`` over channels, multiplied by a learned scale."""

    pre_scaling_impl: Any = StatsFromParameterScaling
    scaling_stats_impl: Any = AbsMaxL2
    scaling_stats_input_view_shape_impl: Any = OverOutputChannelView
    stats_reduce_dim: Any = SCALING_STATS_REDUCE_DIM
    scaling_impl_type = ScalingImplType.PARAMETER_FROM_STATS
    scaling_per_output_type = ScalingPerOutputType.TENSOR
    restrict_scaling_type = RestrictValueType.FP
    tensor_clamp_impl: Any = TensorClampSte


class PerChannelL2Norm(ExtendedInjector):
    """Root of the sum of squares of each channel."""

    normalize_stats_impl: Any = L2Norm


class PerChannelL1Norm(ExtendedInjector):
    """Sum of magnitudes of each channel."""

    normalize_stats_impl: Any = L1Norm


class WeightNormPerChannelFloatDecoupled(PerChannelL2Norm, LargestOverIntegers, _Decoupled):
    """Weight normalization: ``round(w / |w| * g / s) * s`` with a learned norm ``g`` and scale ``s`` a channel."""

    pre_scaling_impl: Any = ParameterPreScalingWeightNorm
    pre_scaling_shape = this.scaling_per_output_channel_shape
    pre_scaling_min_val = 1e-10
    scaling_impl_type = ScalingImplType.PARAMETER
    scaling_per_output_type = ScalingPerOutputType.CHANNEL
    restrict_scaling_type = RestrictValueType.LOG_FP
    int_scaling_impl: Any = UnitIntScaling
    scaling_min_val = 1e-10
    tensor_clamp_impl: Any = TensorClamp
