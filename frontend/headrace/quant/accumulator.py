"""Accumulator-aware weight quantizers (A2Q, A2Q+); the layer needs a quantized input."""

from __future__ import annotations

from typing import Any

from headrace.core.accumulator import AccumulatorAwareIntQuant
from headrace.inject.enum import BitWidthImplType, QuantType, RestrictValueType, ScalingImplType, ScalingPerOutputType
from headrace.proxy.parameter_quant import InputAwareWeightQuantProxyFromInjector
from headrace.quant.decoupled import LargestOverIntegers
from headrace.quant.solver import WeightQuantSolver

__all__ = [
    "AccumulatorAwareWeightQuant",
    "AccumulatorAwareZeroCenterWeightQuant",
    "Int8AccumulatorAwareWeightQuant",
    "Int8AccumulatorAwareZeroCenterWeightQuant",
]


class AccumulatorAwareWeightQuant(LargestOverIntegers, WeightQuantSolver):
    """A2Q: the sum of weight magnitudes of a channel is bounded so that ``accumulator_bit_width`` bits suffice."""

    proxy_class = InputAwareWeightQuantProxyFromInjector
    quant_type = QuantType.INT
    tensor_quant: Any = AccumulatorAwareIntQuant
    bit_width_impl_type = BitWidthImplType.CONST
    scaling_impl_type = ScalingImplType.PARAMETER
    restrict_scaling_type = RestrictValueType.LOG_FP
    scaling_per_output_type = ScalingPerOutputType.CHANNEL
    narrow_range = True
    signed = True
    accumulator_bit_width = 32
    zero_center = False
    pre_scaling_min_val = 1e-10


class AccumulatorAwareZeroCenterWeightQuant(AccumulatorAwareWeightQuant):
    """A2Q+: the same for weights with the mean of each channel subtracted, which allows larger ones."""

    zero_center = True


class Int8AccumulatorAwareWeightQuant(AccumulatorAwareWeightQuant):
    """A2Q with 8-bit weights."""

    bit_width = 8


class Int8AccumulatorAwareZeroCenterWeightQuant(AccumulatorAwareZeroCenterWeightQuant):
    """A2Q+ with 8-bit weights."""

    bit_width = 8
