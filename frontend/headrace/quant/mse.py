"""Quantizers whose scale starts from the threshold of least squared error."""

from headrace.core.search import MSEThreshold
from headrace.inject import ExtendedInjector
from headrace.inject.enum import ScalingImplType
from headrace.quant.fixed_point import (
    Int8ActPerTensorFixedPoint,
    Int8WeightPerChannelFixedPoint,
    Int8WeightPerTensorFixedPoint,
    Uint8ActPerTensorFixedPoint,
)
from headrace.quant.scaled_int import (
    Int8ActPerTensorFloat,
    Int8WeightPerChannelFloat,
    Int8WeightPerTensorFloat,
    Uint8ActPerTensorFloat,
)

__all__ = [
    "Int8ActPerTensorFixedPointMSE",
    "Int8ActPerTensorFloatMSE",
    "Int8WeightPerChannelFixedPointMSE",
    "Int8WeightPerChannelFloatMSE",
    "Int8WeightPerTensorFixedPointMSE",
    "Int8WeightPerTensorFloatMSE",
    "Uint8ActPerTensorFixedPointMSE",
    "Uint8ActPerTensorFloatMSE",
]


class MSESymmetricScale(ExtendedInjector):
    """A learned scale that starts from a search over 20 thresholds."""

    scaling_impl_type = ScalingImplType.PARAMETER_FROM_STATS
    scaling_stats_impl = MSEThreshold
    mse_iters = 20


class Int8WeightPerTensorFloatMSE(MSESymmetricScale, Int8WeightPerTensorFloat):
    """8-bit narrow signed weights, one float scale."""


class Int8WeightPerChannelFloatMSE(MSESymmetricScale, Int8WeightPerChannelFloat):
    """8-bit narrow signed weights, a float scale an output channel."""


class Int8WeightPerTensorFixedPointMSE(MSESymmetricScale, Int8WeightPerTensorFixedPoint):
    """8-bit narrow signed weights, one power-of-two scale."""


class Int8WeightPerChannelFixedPointMSE(MSESymmetricScale, Int8WeightPerChannelFixedPoint):
    """8-bit narrow signed weights, a power-of-two scale an output channel."""


class Int8ActPerTensorFloatMSE(MSESymmetricScale, Int8ActPerTensorFloat):
    """8-bit signed activations, float scale."""


class Uint8ActPerTensorFloatMSE(MSESymmetricScale, Uint8ActPerTensorFloat):
    """8-bit unsigned activations, float scale."""


class Int8ActPerTensorFixedPointMSE(MSESymmetricScale, Int8ActPerTensorFixedPoint):
    """8-bit signed activations, power-of-two scale."""


class Uint8ActPerTensorFixedPointMSE(MSESymmetricScale, Uint8ActPerTensorFixedPoint):
    """8-bit unsigned activations, power-of-two scale."""
