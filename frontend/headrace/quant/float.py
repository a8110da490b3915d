"""Eight-bit minifloats without infinity and NaN: E4M3 and E5M2."""

from __future__ import annotations

from headrace.inject.enum import ScalingPerOutputType
from headrace.quant.float_base import (
    FloatActBase,
    FloatMSEScale,
    FloatWeightBase,
    Fp8e4m3Mixin,
    Fp8e5m2Mixin,
    ScaledFloatActBase,
    ScaledFloatWeightBase,
)

__all__ = [
    "Fp8e4m3Act",
    "Fp8e4m3ActPerChannelFloat2d",
    "Fp8e4m3ActPerChannelFloat2dMSE",
    "Fp8e4m3ActPerTensorFloat",
    "Fp8e4m3ActPerTensorFloatMSE",
    "Fp8e4m3Weight",
    "Fp8e4m3WeightPerChannelFloat",
    "Fp8e4m3WeightPerChannelFloatMSE",
    "Fp8e4m3WeightPerTensorFloat",
    "Fp8e4m3WeightPerTensorFloatMSE",
    "Fp8e5m2Act",
    "Fp8e5m2ActPerChannelFloat2d",
    "Fp8e5m2ActPerChannelFloat2dMSE",
    "Fp8e5m2ActPerTensorFloat",
    "Fp8e5m2ActPerTensorFloatMSE",
    "Fp8e5m2Weight",
    "Fp8e5m2WeightPerChannelFloat",
    "Fp8e5m2WeightPerChannelFloatMSE",
    "Fp8e5m2WeightPerTensorFloat",
    "Fp8e5m2WeightPerTensorFloatMSE",
]


class Fp8e4m3Weight(Fp8e4m3Mixin, FloatWeightBase):
    """E4M3 weights at scale 1."""


class Fp8e4m3Act(Fp8e4m3Mixin, FloatActBase):
    """E4M3 activations at scale 1."""


class Fp8e4m3WeightPerTensorFloat(Fp8e4m3Mixin, ScaledFloatWeightBase):
    """E4M3 weights, one scale from ``max |w|``."""


class Fp8e4m3WeightPerChannelFloat(Fp8e4m3Mixin, ScaledFloatWeightBase):
    """E4M3 weights, a scale an output channel from ``max |w|``."""

    scaling_per_output_type = ScalingPerOutputType.CHANNEL


class Fp8e4m3ActPerTensorFloat(Fp8e4m3Mixin, ScaledFloatActBase):
    """E4M3 activations, one learned scale."""


class Fp8e4m3ActPerChannelFloat2d(Fp8e4m3Mixin, ScaledFloatActBase):
    """E4M3 ``(N, C, H, W)`` activations, a learned scale a channel."""

    scaling_per_output_type = ScalingPerOutputType.CHANNEL
    scaling_stats_permute_dims = (1, 0, 2, 3)


class Fp8e4m3ActPerTensorFloatMSE(Fp8e4m3Mixin, FloatMSEScale, ScaledFloatActBase):
    """E4M3 activations, one scale that starts from least squared error."""


class Fp8e4m3ActPerChannelFloat2dMSE(Fp8e4m3Mixin, FloatMSEScale, ScaledFloatActBase):
    """E4M3 ``(N, C, H, W)`` activations, a scale a channel that starts from least squared error."""

    scaling_per_output_type = ScalingPerOutputType.CHANNEL
    scaling_stats_permute_dims = (1, 0, 2, 3)


class Fp8e4m3WeightPerChannelFloatMSE(Fp8e4m3Mixin, FloatMSEScale, ScaledFloatWeightBase):
    """E4M3 weights, a scale of least squared error an output channel."""

    scaling_per_output_type = ScalingPerOutputType.CHANNEL


class Fp8e4m3WeightPerTensorFloatMSE(Fp8e4m3Mixin, FloatMSEScale, ScaledFloatWeightBase):
    """E4M3 weights, one scale of least squared error."""


class Fp8e5m2Weight(Fp8e5m2Mixin, FloatWeightBase):
    """E5M2 weights at scale 1."""


class Fp8e5m2Act(Fp8e5m2Mixin, FloatActBase):
    """E5M2 activations at scale 1."""


class Fp8e5m2WeightPerTensorFloat(Fp8e5m2Mixin, ScaledFloatWeightBase):
    """E5M2 weights, one scale from ``max |w|``."""


class Fp8e5m2WeightPerChannelFloat(Fp8e5m2Mixin, ScaledFloatWeightBase):
    """E5M2 weights, a scale an output channel from ``max |w|``."""

    scaling_per_output_type = ScalingPerOutputType.CHANNEL


class Fp8e5m2ActPerTensorFloat(Fp8e5m2Mixin, ScaledFloatActBase):
    """E5M2 activations, one learned scale."""


class Fp8e5m2ActPerChannelFloat2d(Fp8e5m2Mixin, ScaledFloatActBase):
    """E5M2 ``(N, C, H, W)`` activations, a learned scale a channel."""

    scaling_per_output_type = ScalingPerOutputType.CHANNEL
    scaling_stats_permute_dims = (1, 0, 2, 3)


class Fp8e5m2ActPerTensorFloatMSE(Fp8e5m2Mixin, FloatMSEScale, ScaledFloatActBase):
    """E5M2 activations, one scale that starts from least squared error."""


class Fp8e5m2ActPerChannelFloat2dMSE(Fp8e5m2Mixin, FloatMSEScale, ScaledFloatActBase):
    """E5M2 ``(N, C, H, W)`` activations, a scale a channel that starts from least squared error."""

    scaling_per_output_type = ScalingPerOutputType.CHANNEL
    scaling_stats_permute_dims = (1, 0, 2, 3)


class Fp8e5m2WeightPerChannelFloatMSE(Fp8e5m2Mixin, FloatMSEScale, ScaledFloatWeightBase):
    """E5M2 weights, a scale of least squared error an output channel."""

    scaling_per_output_type = ScalingPerOutputType.CHANNEL


class Fp8e5m2WeightPerTensorFloatMSE(Fp8e5m2Mixin, FloatMSEScale, ScaledFloatWeightBase):
    """E5M2 weights, one scale of least squared error."""
