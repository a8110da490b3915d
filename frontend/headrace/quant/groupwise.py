"""Weights with a scale for every group of inputs."""

from headrace.inject.enum import ScalingPerOutputType
from headrace.proxy import GroupwiseWeightQuantProxyFromInjector
from headrace.quant.base import MaxStatsScaling, NarrowIntQuant, PerTensorFloatScaling8bit
from headrace.quant.solver import WeightQuantSolver

__all__ = ["Int8WeightPerGroupFloat"]


class Int8WeightPerGroupFloat(NarrowIntQuant, MaxStatsScaling, PerTensorFloatScaling8bit, WeightQuantSolver):
    """8-bit narrow signed weights, a float scale for every ``group_size`` inputs of an output channel."""

    proxy_class = GroupwiseWeightQuantProxyFromInjector
    scaling_per_output_type = ScalingPerOutputType.GROUP
    group_size = 32
