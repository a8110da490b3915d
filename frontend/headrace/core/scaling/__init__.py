"""Scales: constant, learned, from statistics, and learned from statistics.

Every implementation is called with the tensor to quantize and the largest integer (``threshold``) and returns
``restricted(value) / threshold``, in the shape of the scale (``()`` per tensor, broadcastable per channel).
"""

from headrace.core.scaling.initialized import ParameterFromRuntimeStatsScaling, ParameterFromStatsFromParameterScaling
from headrace.core.scaling.integer import IntScaling, PowerOfTwoIntScaling, SharedExponentIntScaling, UnitIntScaling
from headrace.core.scaling.pre_scaling import ParameterPreScalingWeightNorm
from headrace.core.scaling.standalone import ConstScaling, ParameterScaling
from headrace.core.scaling.statistics import RuntimeStatsScaling, StatsFromParameterScaling
from headrace.core.scaling.truncation import TruncMsbScaling, TruncScalingWrapper
from headrace.core.stats import SCALAR_SHAPE
from headrace.inject.enum import ScalingImplType, ScalingPerOutputType

SCALING_STATS_REDUCE_DIM = 1
"""Dimension over which statistics of a ``(channels, rest)`` view are reduced."""

__all__ = [
    "SCALAR_SHAPE",
    "SCALING_STATS_REDUCE_DIM",
    "ConstScaling",
    "IntScaling",
    "ParameterFromRuntimeStatsScaling",
    "ParameterFromStatsFromParameterScaling",
    "ParameterPreScalingWeightNorm",
    "ParameterScaling",
    "PowerOfTwoIntScaling",
    "RuntimeStatsScaling",
    "ScalingImplType",
    "ScalingPerOutputType",
    "SharedExponentIntScaling",
    "StatsFromParameterScaling",
    "TruncMsbScaling",
    "TruncScalingWrapper",
    "UnitIntScaling",
]
