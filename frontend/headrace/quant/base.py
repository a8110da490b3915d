"""Fragments that quantizers are composed from: ranges, statistics, granularity."""

from __future__ import annotations

from typing import Any

from headrace.core.function_wrapper import CeilSte
from headrace.core.half_quadratic import HalfQuadraticOptimizerScale, HalfQuadraticOptimizerZeroPoint
from headrace.core.quant import ClampedBinaryQuant
from headrace.core.search import MSEThreshold
from headrace.core.search import MSEZeroPoint as MSEZeroPointSearch
from headrace.core.stats import AbsMax, AbsMinMax, NegativeMinOrZero, NegativePercentileOrZero
from headrace.core.zero_point import (
    ParameterFromRuntimeZeroPoint,
    ParameterFromStatsFromParameterZeroPoint,
    StatsFromParameterZeroPoint,
    ZeroZeroPoint,
)
from headrace.inject import ExtendedInjector, this
from headrace.inject.enum import (
    BitWidthImplType,
    FloatToIntImplType,
    QuantType,
    RestrictValueType,
    ScalingImplType,
    ScalingPerOutputType,
    StatsOp,
)


class MaxStatsScaling(ExtendedInjector):
    """Scale follows ``max |w|``."""

    scaling_impl_type = ScalingImplType.STATS
    scaling_stats_op = StatsOp.MAX
    scaling_min_val = 1e-10


class MinMaxStatsScaling(ExtendedInjector):
    """Scale follows ``max(w) - min(w, 0)``."""

    scaling_impl_type = ScalingImplType.STATS
    scaling_stats_op = StatsOp.MIN_MAX
    scaling_min_val = 1e-10


class ParamFromRuntimePercentileScaling(ExtendedInjector):
    """Learned scale that starts from the 99.999 percentile of ``|x|`` over 300 training steps."""

    scaling_impl_type = ScalingImplType.PARAMETER_FROM_STATS
    scaling_stats_op = StatsOp.PERCENTILE
    high_percentile_q = 99.999
    collect_stats_steps = 300
    scaling_min_val = 1e-10


class ParamFromRuntimePercentileIntervalScaling(ExtendedInjector):
    """Learned scale that starts from the distance between the 0.001 and the 99.999 percentile."""

    scaling_impl_type = ScalingImplType.PARAMETER_FROM_STATS
    scaling_stats_op = StatsOp.PERCENTILE_INTERVAL
    high_percentile_q = 99.999
    low_percentile_q = 0.001
    collect_stats_steps = 300
    scaling_min_val = 1e-10


class ParamFromRuntimeMinMaxScaling(ExtendedInjector):
    """Learned scale that starts from ``max(x) - min(x, 0)``."""

    scaling_impl_type = ScalingImplType.PARAMETER_FROM_STATS
    scaling_stats_op = StatsOp.MIN_MAX
    collect_stats_steps = 300
    scaling_min_val = 1e-10


class ParamMinMaxInitScaling(ExtendedInjector):
    """Learned scale that starts from ``min_val`` and ``max_val``."""

    scaling_impl_type = ScalingImplType.PARAMETER


class BatchQuantStatsScaling1d(ExtendedInjector):
    """Learned factor times the average per-channel maximum of ``(N, C, L)`` activations (Bai et al., 2021)."""

    scaling_impl_type = ScalingImplType.AFFINE_STATS
    scaling_stats_op = StatsOp.MAX_AVE
    scaling_stats_momentum = None
    affine_shift_scale = False
    scaling_stats_permute_dims: tuple[int, ...] = (1, 0, 2)
    scaling_min_val = 1e-10


class BatchQuantStatsScaling2d(BatchQuantStatsScaling1d):
    """The same for ``(N, C, H, W)``."""

    scaling_stats_permute_dims = (1, 0, 2, 3)


class MSESymmetricScale(ExtendedInjector):
    """A learned scale that starts from a search over 20 thresholds."""

    scaling_impl_type = ScalingImplType.PARAMETER_FROM_STATS
    scaling_stats_impl = MSEThreshold
    mse_iters = 20


class MSEAsymmetricScale(MSESymmetricScale):
    """The same for integers with a zero point, which follows the smallest value meanwhile."""

    mse_init_op = AbsMinMax
    asymmetric = True


class MSEZeroPoint(ExtendedInjector):
    """A learned zero point that starts from a search over 20 candidates at the scale found before."""

    zero_point_stats_impl: Any = MSEZeroPointSearch
    mse_iters = 20


class MSEWeightZeroPoint(MSEZeroPoint):
    """For weights."""

    zero_point_impl: Any = ParameterFromStatsFromParameterZeroPoint


class MSEActZeroPoint(MSEZeroPoint):
    """For activations."""

    zero_point_impl: Any = ParameterFromRuntimeZeroPoint


class HQOScale(ExtendedInjector):
    """A learned scale that starts from half-quadratic optimization."""

    scaling_impl_type = ScalingImplType.PARAMETER_FROM_STATS
    scaling_stats_impl = HalfQuadraticOptimizerScale
    hqo_init_op_scale: Any = AbsMax


class HQOSymmetricScale(HQOScale):
    """It starts from ``max |x|``."""


class HQOAsymmetricScale(HQOScale):
    """It starts from ``max(x) - min(x, 0)``."""

    hqo_init_op_scale = AbsMinMax


class HQOZeroPoint(ExtendedInjector):
    """A learned zero point that starts from half-quadratic optimization at the given scale; not an integer."""

    zero_point_stats_impl: Any = HalfQuadraticOptimizerZeroPoint
    quantize_zero_point = False


class HQOWeightZeroPoint(HQOZeroPoint):
    """For weights."""

    zero_point_impl: Any = ParameterFromStatsFromParameterZeroPoint


class HQOActZeroPoint(HQOZeroPoint):
    """For activations."""

    zero_point_impl: Any = ParameterFromRuntimeZeroPoint


class IntQuant(ExtendedInjector):
    """Signed integers, the whole range."""

    quant_type = QuantType.INT
    bit_width_impl_type = BitWidthImplType.CONST
    float_to_int_impl_type = FloatToIntImplType.ROUND
    narrow_range = False
    signed = True
    zero_point_impl: Any = ZeroZeroPoint


class NarrowIntQuant(IntQuant):
    """Signed integers, symmetric range."""

    narrow_range = True


class UintQuant(IntQuant):
    """Unsigned integers."""

    signed = False


class ShiftedMinUintQuant(UintQuant):
    """Unsigned integers with a zero point that follows ``min(w, 0)``."""

    quantize_zero_point = True
    zero_point_impl: Any = StatsFromParameterZeroPoint
    zero_point_stats_impl = NegativeMinOrZero
    zero_point_shape = this.scaling_shape
    zero_point_stats_input_view_shape_impl = this.scaling_stats_input_view_shape_impl
    zero_point_stats_input_concat_dim = this.scaling_stats_input_concat_dim


class ShiftedParamFromPercentileUintQuant(UintQuant):
    """Unsigned integers with a learned zero point that starts from the 0.001 percentile."""

    quantize_zero_point = True
    zero_point_impl: Any = ParameterFromRuntimeZeroPoint
    zero_point_stats_impl = NegativePercentileOrZero
    low_percentile_q = 0.001
    zero_point_shape = this.scaling_shape
    zero_point_stats_input_view_shape_impl = this.scaling_stats_input_view_shape_impl


class PerTensorFloatScaling8bit(ExtendedInjector):
    """8 bits, one float scale."""

    scaling_per_output_type = ScalingPerOutputType.TENSOR
    restrict_scaling_type = RestrictValueType.FP
    bit_width = 8


class PerChannelFloatScaling8bit(PerTensorFloatScaling8bit):
    """8 bits, one float scale a channel."""

    scaling_per_output_type = ScalingPerOutputType.CHANNEL


class PerTensorPoTScaling8bit(ExtendedInjector):
    """8 bits, one power-of-two scale."""

    scaling_per_output_type = ScalingPerOutputType.TENSOR
    restrict_scaling_type = RestrictValueType.POWER_OF_TWO
    bit_width = 8
    restrict_value_float_to_int_impl = CeilSte


class PerChannelPoTScaling8bit(PerTensorPoTScaling8bit):
    """8 bits, one power-of-two scale a channel."""

    scaling_per_output_type = ScalingPerOutputType.CHANNEL


class SignedBinaryClampedConst(ExtendedInjector):
    """-scale or +scale, constant scale."""

    tensor_quant: Any = ClampedBinaryQuant
    scaling_impl_type = ScalingImplType.CONST
    restrict_scaling_type = RestrictValueType.FP
    float_to_int_impl_type = FloatToIntImplType.ROUND
    scaling_per_output_type = ScalingPerOutputType.TENSOR
    narrow_range = True
    signed = True


class PerTensorConstScaling2bit(ExtendedInjector):
    """2 bits, constant scale."""

    scaling_impl_type = ScalingImplType.CONST
    restrict_scaling_type = RestrictValueType.FP
    scaling_per_output_type = ScalingPerOutputType.TENSOR
    bit_width = 2
