"""Unsigned integer quantizers with a zero point."""

from headrace.quant.base import (
    MinMaxStatsScaling,
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
    "ShiftedUint8ActPerTensorFloat",
    "ShiftedUint8WeightPerChannelFloat",
    "ShiftedUint8WeightPerTensorFloat",
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
