"""Integer quantizers with a power-of-two scale."""

from headrace.core.function_wrapper import CeilSte
from headrace.inject.enum import RestrictValueType
from headrace.quant.base import (
    IntQuant,
    MaxStatsScaling,
    MSESymmetricScale,
    NarrowIntQuant,
    ParamFromRuntimePercentileScaling,
    ParamMinMaxInitScaling,
    PerChannelPoTScaling8bit,
    PerTensorPoTScaling8bit,
    UintQuant,
)
from headrace.quant.decoupled import WeightPerTensorFloatDecoupledL2Param
from headrace.quant.solver import ActQuantSolver, BiasQuantSolver, WeightQuantSolver

__all__ = [
    "Int4WeightPerTensorFixedPointDecoupled",
    "Int8ActPerTensorFixedPoint",
    "Int8ActPerTensorFixedPointMSE",
    "Int8ActPerTensorFixedPointMinMaxInit",
    "Int8BiasPerTensorFixedPointInternalScaling",
    "Int8WeightPerChannelFixedPoint",
    "Int8WeightPerChannelFixedPointMSE",
    "Int8WeightPerTensorFixedPoint",
    "Int8WeightPerTensorFixedPointMSE",
    "Uint8ActPerTensorFixedPoint",
    "Uint8ActPerTensorFixedPointMSE",
    "Uint8ActPerTensorFixedPointMaxInit",
]


class Int8WeightPerTensorFixedPoint(NarrowIntQuant, MaxStatsScaling, PerTensorPoTScaling8bit, WeightQuantSolver):
    """8-bit narrow signed weights, one scale from ``max |w|``."""


class Int8WeightPerChannelFixedPoint(NarrowIntQuant, MaxStatsScaling, PerChannelPoTScaling8bit, WeightQuantSolver):
    """8-bit narrow signed weights, a scale an output channel from ``max |w|``."""


class Int8ActPerTensorFixedPoint(IntQuant, ParamFromRuntimePercentileScaling, PerTensorPoTScaling8bit, ActQuantSolver):
    """8-bit signed activations, learned scale that starts from runtime statistics."""


class Uint8ActPerTensorFixedPoint(
    UintQuant, ParamFromRuntimePercentileScaling, PerTensorPoTScaling8bit, ActQuantSolver
):
    """8-bit unsigned activations, learned scale that starts from runtime statistics."""


class Int8ActPerTensorFixedPointMinMaxInit(IntQuant, ParamMinMaxInitScaling, PerTensorPoTScaling8bit, ActQuantSolver):
    """8-bit signed activations, learned scale that starts from ``min_val`` and ``max_val``."""


class Uint8ActPerTensorFixedPointMaxInit(UintQuant, ParamMinMaxInitScaling, PerTensorPoTScaling8bit, ActQuantSolver):
    """8-bit unsigned activations, learned scale that starts from ``max_val``."""

    min_val = 0.0


class Int8BiasPerTensorFixedPointInternalScaling(IntQuant, MaxStatsScaling, PerTensorPoTScaling8bit, BiasQuantSolver):
    """8-bit bias with a scale of its own."""

    requires_input_scale = False


class Int8WeightPerTensorFixedPointMSE(MSESymmetricScale, Int8WeightPerTensorFixedPoint):
    """8-bit narrow signed weights, one power-of-two scale of least squared error."""


class Int8WeightPerChannelFixedPointMSE(MSESymmetricScale, Int8WeightPerChannelFixedPoint):
    """8-bit narrow signed weights, a power-of-two scale an output channel of least squared error."""


class Int8ActPerTensorFixedPointMSE(MSESymmetricScale, Int8ActPerTensorFixedPoint):
    """8-bit signed activations, power-of-two scale of least squared error."""


class Uint8ActPerTensorFixedPointMSE(MSESymmetricScale, Uint8ActPerTensorFixedPoint):
    """8-bit unsigned activations, power-of-two scale of least squared error."""


class Int4WeightPerTensorFixedPointDecoupled(WeightPerTensorFloatDecoupledL2Param):
    """4-bit narrow signed weights, normalized by channel maxima, one learned power-of-two scale."""

    bit_width = 4
    restrict_scaling_type = RestrictValueType.POWER_OF_TWO
    restrict_value_float_to_int_impl = CeilSte
