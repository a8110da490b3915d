"""Integer quantizers with a float scale."""

from headrace.core.function_wrapper import TensorClamp
from headrace.inject.enum import BitWidthImplType, FloatToIntImplType, QuantType, TruncScalingImplType
from headrace.quant.accumulator import (
    Int8AccumulatorAwareWeightQuant,
    Int8AccumulatorAwareZeroCenterWeightQuant,
)
from headrace.quant.base import (
    BatchQuantStatsScaling1d,
    BatchQuantStatsScaling2d,
    HQOSymmetricScale,
    IntQuant,
    MaxStatsScaling,
    MSESymmetricScale,
    NarrowIntQuant,
    ParamFromRuntimePercentileScaling,
    ParamMinMaxInitScaling,
    PerChannelFloatScaling8bit,
    PerTensorFloatScaling8bit,
    PerTensorPoTScaling8bit,
    UintQuant,
)
from headrace.quant.decoupled import (
    WeightNormPerChannelFloatDecoupled,
    WeightPerChannelFloatDecoupled,
    WeightPerTensorFloatDecoupledL2Param,
)
from headrace.quant.solver import (
    ActQuantSolver,
    BiasQuantSolver,
    ClampQuantSolver,
    TruncQuantSolver,
    WeightQuantSolver,
)

__all__ = [
    "ClampTo8bit",
    "Int4WeightPerTensorFloatDecoupled",
    "Int8AccumulatorAwareWeightQuant",
    "Int8AccumulatorAwareZeroCenterWeightQuant",
    "Int8ActPerTensorFloat",
    "Int8ActPerTensorFloatBatchQuant1d",
    "Int8ActPerTensorFloatBatchQuant2d",
    "Int8ActPerTensorFloatMSE",
    "Int8ActPerTensorFloatMinMaxInit",
    "Int8Bias",
    "Int8BiasPerTensorFloatInternalScaling",
    "Int8WeightNormL2PerChannelFixedPoint",
    "Int8WeightPerChannelFloat",
    "Int8WeightPerChannelFloatDecoupled",
    "Int8WeightPerChannelFloatHQO",
    "Int8WeightPerChannelFloatMSE",
    "Int8WeightPerTensorFloat",
    "Int8WeightPerTensorFloatHQO",
    "Int8WeightPerTensorFloatMSE",
    "Int16Bias",
    "Int24Bias",
    "Int32Bias",
    "IntBias",
    "RoundTo8bit",
    "ShiftRoundSaturateTo8bit",
    "TruncTo8bit",
    "Uint8ActPerTensorFloat",
    "Uint8ActPerTensorFloatBatchQuant1d",
    "Uint8ActPerTensorFloatBatchQuant2d",
    "Uint8ActPerTensorFloatMSE",
    "Uint8ActPerTensorFloatMaxInit",
]


class Int8WeightPerTensorFloat(NarrowIntQuant, MaxStatsScaling, PerTensorFloatScaling8bit, WeightQuantSolver):
    """8-bit narrow signed weights, one scale from ``max |w|``."""


class Int8WeightPerChannelFloat(NarrowIntQuant, MaxStatsScaling, PerChannelFloatScaling8bit, WeightQuantSolver):
    """8-bit narrow signed weights, a scale an output channel from ``max |w|``."""


class Int8ActPerTensorFloat(IntQuant, ParamFromRuntimePercentileScaling, PerTensorFloatScaling8bit, ActQuantSolver):
    """8-bit signed activations, learned scale that starts from runtime statistics."""


class Uint8ActPerTensorFloat(UintQuant, ParamFromRuntimePercentileScaling, PerTensorFloatScaling8bit, ActQuantSolver):
    """8-bit unsigned activations, learned scale that starts from runtime statistics."""


class Int8ActPerTensorFloatMinMaxInit(IntQuant, ParamMinMaxInitScaling, PerTensorFloatScaling8bit, ActQuantSolver):
    """8-bit signed activations, learned scale that starts from ``min_val`` and ``max_val``."""


class Uint8ActPerTensorFloatMaxInit(UintQuant, ParamMinMaxInitScaling, PerTensorFloatScaling8bit, ActQuantSolver):
    """8-bit unsigned activations, learned scale that starts from ``max_val``."""

    min_val = 0.0


class Uint8ActPerTensorFloatBatchQuant1d(
    UintQuant, BatchQuantStatsScaling1d, PerTensorFloatScaling8bit, ActQuantSolver
):
    """8-bit unsigned ``(N, C, L)`` activations, learned factor times average channel maximum."""


class Uint8ActPerTensorFloatBatchQuant2d(
    UintQuant, BatchQuantStatsScaling2d, PerTensorFloatScaling8bit, ActQuantSolver
):
    """8-bit unsigned ``(N, C, H, W)`` activations, learned factor times average channel maximum."""


class Int8ActPerTensorFloatBatchQuant1d(IntQuant, BatchQuantStatsScaling1d, PerTensorFloatScaling8bit, ActQuantSolver):
    """8-bit signed ``(N, C, L)`` activations, learned factor times average channel maximum."""


class Int8ActPerTensorFloatBatchQuant2d(IntQuant, BatchQuantStatsScaling2d, PerTensorFloatScaling8bit, ActQuantSolver):
    """8-bit signed ``(N, C, H, W)`` activations, learned factor times average channel maximum."""


class IntBias(IntQuant, BiasQuantSolver):
    """Signed bias at the scale of the accumulator (input scale times weight scale); give ``bias_bit_width``."""

    tensor_clamp_impl = TensorClamp
    requires_input_scale = True


class Int8Bias(IntBias):
    """8-bit bias at the scale of the accumulator."""

    bit_width = 8


class Int16Bias(IntBias):
    """16-bit bias at the scale of the accumulator."""

    bit_width = 16


class Int24Bias(IntBias):
    """24-bit bias at the scale of the accumulator."""

    bit_width = 24


class Int32Bias(IntBias):
    """32-bit bias at the scale of the accumulator."""

    bit_width = 32


class Int8BiasPerTensorFloatInternalScaling(IntQuant, MaxStatsScaling, PerTensorFloatScaling8bit, BiasQuantSolver):
    """8-bit bias with a scale of its own."""

    requires_input_scale = False


class TruncTo8bit(TruncQuantSolver):
    """The 8 most significant bits, the others cut off."""

    bit_width = 8
    quant_type = QuantType.INT
    bit_width_impl_type = BitWidthImplType.CONST
    float_to_int_impl_type = FloatToIntImplType.FLOOR


class RoundTo8bit(TruncTo8bit):
    """The 8 most significant bits, rounded to nearest."""

    float_to_int_impl_type = FloatToIntImplType.ROUND


class Int8WeightPerTensorFloatMSE(MSESymmetricScale, Int8WeightPerTensorFloat):
    """8-bit narrow signed weights, one float scale of least squared error."""


class Int8WeightPerChannelFloatMSE(MSESymmetricScale, Int8WeightPerChannelFloat):
    """8-bit narrow signed weights, a float scale an output channel of least squared error."""


class Int8ActPerTensorFloatMSE(MSESymmetricScale, Int8ActPerTensorFloat):
    """8-bit signed activations, float scale of least squared error."""


class Uint8ActPerTensorFloatMSE(MSESymmetricScale, Uint8ActPerTensorFloat):
    """8-bit unsigned activations, float scale of least squared error."""


class ShiftRoundSaturateTo8bit(ParamFromRuntimePercentileScaling, PerTensorPoTScaling8bit, TruncQuantSolver):
    """8 bits of an integer from a position that starts from statistics: shifted, rounded and saturated."""

    quant_type = QuantType.INT
    bit_width_impl_type = BitWidthImplType.CONST
    float_to_int_impl_type = FloatToIntImplType.ROUND
    trunc_scaling_impl_type = TruncScalingImplType.WRAPPER


class ClampTo8bit(IntQuant, ClampQuantSolver):
    """The integers of an accumulator within 8 signed bits, at the same scale."""

    bit_width = 8


class Int4WeightPerTensorFloatDecoupled(WeightPerTensorFloatDecoupledL2Param):
    """4-bit narrow signed weights, normalized by channel maxima, one learned scale; for depthwise weights."""

    bit_width = 4


class Int8WeightPerChannelFloatDecoupled(WeightPerChannelFloatDecoupled):
    """8-bit narrow signed weights, normalized by ``max |w|``, a learned scale an output channel."""

    bit_width = 8


class Int8WeightNormL2PerChannelFixedPoint(WeightNormPerChannelFloatDecoupled):
    """8-bit narrow signed weights with L2 weight normalization, a learned norm and float scale an output channel."""

    bit_width = 8


class Int8WeightPerTensorFloatHQO(HQOSymmetricScale, Int8WeightPerTensorFloat):
    """8-bit narrow signed weights, one learned scale that starts from half-quadratic optimization."""


class Int8WeightPerChannelFloatHQO(HQOSymmetricScale, Int8WeightPerChannelFloat):
    """8-bit narrow signed weights, a learned scale an output channel that starts from half-quadratic optimization."""
