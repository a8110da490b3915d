"""Weights with a scale for every group of inputs."""

from typing import Any

from headrace.core.groupwise import GroupwiseIntQuant
from headrace.inject import value
from headrace.inject.enum import ScalingPerOutputType
from headrace.quant.base import NarrowIntQuant, PerTensorFloatScaling8bit
from headrace.quant.solver import WeightQuantSolver

__all__ = ["Int8WeightPerGroupFloat"]


class Int8WeightPerGroupFloat(NarrowIntQuant, PerTensorFloatScaling8bit, WeightQuantSolver):
    """8-bit narrow signed weights, a float scale for every ``group_size`` inputs of an output channel."""

    tensor_quant: Any = GroupwiseIntQuant
    scaling_per_output_type = ScalingPerOutputType.GROUP
    scaling_min_val = 1e-10
    group_size = 32

    @value
    def group_dim(output_channel_dim: int) -> int:
        return 1 - output_channel_dim
