"""Unsigned integer quantizers with a zero point."""

from headrace.inject.enum import ScalingPerOutputType
from headrace.proxy import GroupwiseWeightQuantProxyFromInjector
from headrace.quant.base import (
    HQOActZeroPoint,
    HQOWeightZeroPoint,
    MinMaxStatsScaling,
    MSEActZeroPoint,
    MSEAsymmetricScale,
    MSEWeightZeroPoint,
    ParamFromRuntimePercentileIntervalScaling,
    PerChannelFloatScaling8bit,
    PerTensorFloatScaling8bit,
    PerTensorPoTScaling8bit,
    ShiftedMinUintQuant,
    ShiftedParamFromPercentileUintQuant,
)
from headrace.quant.solver import ActQuantSolver, WeightQuantSolver

__all__ = [
    "ShiftedUint8ActPerTensorFixedPoint",
    "ShiftedUint8ActPerTensorFixedPointMSE",
    "ShiftedUint8ActPerTensorFloat",
    "ShiftedUint8ActPerTensorFloatHQO",
    "ShiftedUint8ActPerTensorFloatMSE",
    "ShiftedUint8WeightGroupQuantFloat",
    "ShiftedUint8WeightPerChannelFloat",
    "ShiftedUint8WeightPerChannelFloatHQO",
    "ShiftedUint8WeightPerChannelFloatMSE",
    "ShiftedUint8WeightPerGroupFloatHQO",
    "ShiftedUint8WeightPerTensorFloat",
    "ShiftedUint8WeightPerTensorFloatHQO",
    "ShiftedUint8WeightPerTensorFloatMSE",
]


class ShiftedUint8ActPerTensorFloat(
    ShiftedParamFromPercentileUintQuant,
    ParamFromRuntimePercentileIntervalScaling,
    PerTensorFloatScaling8bit,
    ActQuantSolver,
):
    """8-bit unsigned activations, learned float scale and integer zero point from runtime statistics."""


class ShiftedUint8ActPerTensorFixedPoint(
    ShiftedParamFromPercentileUintQuant,
    ParamFromRuntimePercentileIntervalScaling,
    PerTensorPoTScaling8bit,
    ActQuantSolver,
):
    """8-bit unsigned activations, learned power-of-two scale and integer zero point from runtime statistics."""


class ShiftedUint8WeightPerTensorFloat(
    ShiftedMinUintQuant, MinMaxStatsScaling, PerTensorFloatScaling8bit, WeightQuantSolver
):
    """8-bit unsigned weights, one scale and integer zero point from the range of the weights."""


class ShiftedUint8WeightPerChannelFloat(
    ShiftedMinUintQuant, MinMaxStatsScaling, PerChannelFloatScaling8bit, WeightQuantSolver
):
    """8-bit unsigned weights, a scale and integer zero point an output channel from the range of the weights."""


class ShiftedUint8ActPerTensorFloatMSE(MSEAsymmetricScale, MSEActZeroPoint, ShiftedUint8ActPerTensorFloat):
    """8-bit unsigned activations, learned float scale and integer zero point of least squared error."""


class ShiftedUint8ActPerTensorFixedPointMSE(MSEAsymmetricScale, MSEActZeroPoint, ShiftedUint8ActPerTensorFixedPoint):
    """8-bit unsigned activations, learned power-of-two scale and integer zero point of least squared error."""


class ShiftedUint8ActPerTensorFloatHQO(HQOActZeroPoint, ShiftedUint8ActPerTensorFloat):
    """8-bit unsigned activations, learned float scale, real zero point of half-quadratic optimization."""


class ShiftedUint8WeightPerTensorFloatMSE(MSEAsymmetricScale, MSEWeightZeroPoint, ShiftedUint8WeightPerTensorFloat):
    """8-bit unsigned weights, one learned scale and integer zero point of least squared error."""


class ShiftedUint8WeightPerChannelFloatMSE(MSEAsymmetricScale, MSEWeightZeroPoint, ShiftedUint8WeightPerChannelFloat):
    """8-bit unsigned weights, a learned scale and integer zero point of least squared error an output channel."""


class ShiftedUint8WeightPerTensorFloatHQO(HQOWeightZeroPoint, ShiftedUint8WeightPerTensorFloat):
    """8-bit unsigned weights, one scale of the range, real zero point of half-quadratic optimization."""


class ShiftedUint8WeightPerChannelFloatHQO(HQOWeightZeroPoint, ShiftedUint8WeightPerChannelFloat):
    """8-bit unsigned weights, a scale of the range and a real zero point of half-quadratic optimization a channel."""


class ShiftedUint8WeightGroupQuantFloat(ShiftedUint8WeightPerChannelFloat):
    """8-bit unsigned weights, a float scale and integer zero point for every ``group_size`` inputs of a channel."""

    proxy_class = GroupwiseWeightQuantProxyFromInjector
    scaling_per_output_type = ScalingPerOutputType.GROUP
    group_size = 32


class ShiftedUint8WeightPerGroupFloatHQO(HQOWeightZeroPoint, ShiftedUint8WeightGroupQuantFloat):
    """8-bit unsigned weights in groups, real zero points of half-quadratic optimization."""
