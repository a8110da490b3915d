"""Minifloats without infinity, NaN and negative zero (FNUZ)."""

from __future__ import annotations

from headrace.inject import ExtendedInjector, value
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
    "Fp8e4m3FNUZAct",
    "Fp8e4m3FNUZActPerTensorFloat",
    "Fp8e4m3FNUZActPerTensorFloatMSE",
    "Fp8e4m3FNUZWeight",
    "Fp8e4m3FNUZWeightPerChannelFloat",
    "Fp8e4m3FNUZWeightPerChannelFloatMSE",
    "Fp8e4m3FNUZWeightPerTensorFloat",
    "Fp8e4m3FNUZWeightPerTensorFloatMSE",
    "Fp8e5m2FNUZAct",
    "Fp8e5m2FNUZActPerTensorFloat",
    "Fp8e5m2FNUZActPerTensorFloatMSE",
    "Fp8e5m2FNUZWeight",
    "Fp8e5m2FNUZWeightPerChannelFloat",
    "Fp8e5m2FNUZWeightPerChannelFloatMSE",
    "Fp8e5m2FNUZWeightPerTensorFloat",
    "Fp8e5m2FNUZWeightPerTensorFloatMSE",
    "FpFNUZAct",
    "FpFNUZActPerChannelFloat2d",
    "FpFNUZActPerChannelFloat2dMSE",
    "FpFNUZActPerTensorFloat",
    "FpFNUZActPerTensorFloatMSE",
    "FpFNUZMixin",
    "FpFNUZWeight",
    "FpFNUZWeightPerChannelFloat",
    "FpFNUZWeightPerChannelFloatMSE",
    "FpFNUZWeightPerTensorFloat",
    "FpFNUZWeightPerTensorFloatMSE",
]


class FpFNUZMixin(ExtendedInjector):
    """Finite numbers and an unsigned zero only: the bias is one larger than in IEEE 754."""

    saturating = True

    @value
    def exponent_bias(exponent_bit_width: int) -> int:
        return int(2 ** (exponent_bit_width - 1))


class FpFNUZWeight(FpFNUZMixin, FloatWeightBase):
    """FNUZ minifloat weights at scale 1."""


class FpFNUZAct(FpFNUZMixin, FloatActBase):
    """FNUZ minifloat activations at scale 1."""


class FpFNUZWeightPerTensorFloat(FpFNUZMixin, ScaledFloatWeightBase):
    """FNUZ minifloat weights, one scale from ``max |w|``."""


class FpFNUZWeightPerChannelFloat(FpFNUZMixin, ScaledFloatWeightBase):
    """FNUZ minifloat weights, a scale an output channel from ``max |w|``."""

    scaling_per_output_type = ScalingPerOutputType.CHANNEL


class FpFNUZActPerTensorFloat(FpFNUZMixin, ScaledFloatActBase):
    """FNUZ minifloat activations, one learned scale."""


class FpFNUZActPerChannelFloat2d(FpFNUZMixin, ScaledFloatActBase):
    """FNUZ minifloat ``(N, C, H, W)`` activations, a learned scale a channel."""

    scaling_per_output_type = ScalingPerOutputType.CHANNEL
    scaling_stats_permute_dims = (1, 0, 2, 3)


class FpFNUZWeightPerTensorFloatMSE(FpFNUZMixin, FloatMSEScale, ScaledFloatWeightBase):
    """FNUZ minifloat weights, one scale of least squared error."""


class FpFNUZWeightPerChannelFloatMSE(FpFNUZMixin, FloatMSEScale, ScaledFloatWeightBase):
    """FNUZ minifloat weights, a scale of least squared error an output channel."""

    scaling_per_output_type = ScalingPerOutputType.CHANNEL


class FpFNUZActPerTensorFloatMSE(FpFNUZMixin, FloatMSEScale, ScaledFloatActBase):
    """FNUZ minifloat activations, one scale that starts from least squared error."""


class FpFNUZActPerChannelFloat2dMSE(FpFNUZMixin, FloatMSEScale, ScaledFloatActBase):
    """FNUZ minifloat ``(N, C, H, W)`` activations, a scale a channel that starts from least squared error."""

    scaling_per_output_type = ScalingPerOutputType.CHANNEL
    scaling_stats_permute_dims = (1, 0, 2, 3)


class Fp8e4m3FNUZWeight(Fp8e4m3Mixin, FpFNUZWeight):
    """E4M3 weights at scale 1."""


class Fp8e4m3FNUZAct(Fp8e4m3Mixin, FpFNUZAct):
    """E4M3 activations at scale 1."""


class Fp8e4m3FNUZWeightPerTensorFloat(Fp8e4m3Mixin, FpFNUZWeightPerTensorFloat):
    """E4M3 weights, one scale from ``max |w|``."""


class Fp8e4m3FNUZWeightPerChannelFloat(Fp8e4m3Mixin, FpFNUZWeightPerChannelFloat):
    """E4M3 weights, a scale an output channel from ``max |w|``."""


class Fp8e4m3FNUZActPerTensorFloat(Fp8e4m3Mixin, FpFNUZActPerTensorFloat):
    """E4M3 activations, one learned scale."""


class Fp8e4m3FNUZActPerTensorFloatMSE(Fp8e4m3Mixin, FpFNUZActPerTensorFloatMSE):
    """E4M3 activations, one scale that starts from least squared error."""


class Fp8e4m3FNUZWeightPerTensorFloatMSE(Fp8e4m3Mixin, FpFNUZWeightPerTensorFloatMSE):
    """E4M3 weights, one scale of least squared error."""


class Fp8e4m3FNUZWeightPerChannelFloatMSE(Fp8e4m3Mixin, FpFNUZWeightPerChannelFloatMSE):
    """E4M3 weights, a scale of least squared error an output channel."""


class Fp8e5m2FNUZWeight(Fp8e5m2Mixin, FpFNUZWeight):
    """E5M2 weights at scale 1."""


class Fp8e5m2FNUZAct(Fp8e5m2Mixin, FpFNUZAct):
    """E5M2 activations at scale 1."""


class Fp8e5m2FNUZWeightPerTensorFloat(Fp8e5m2Mixin, FpFNUZWeightPerTensorFloat):
    """E5M2 weights, one scale from ``max |w|``."""


class Fp8e5m2FNUZWeightPerChannelFloat(Fp8e5m2Mixin, FpFNUZWeightPerChannelFloat):
    """E5M2 weights, a scale an output channel from ``max |w|``."""


class Fp8e5m2FNUZActPerTensorFloat(Fp8e5m2Mixin, FpFNUZActPerTensorFloat):
    """E5M2 activations, one learned scale."""


class Fp8e5m2FNUZActPerTensorFloatMSE(Fp8e5m2Mixin, FpFNUZActPerTensorFloatMSE):
    """E5M2 activations, one scale that starts from least squared error."""


class Fp8e5m2FNUZWeightPerTensorFloatMSE(Fp8e5m2Mixin, FpFNUZWeightPerTensorFloatMSE):
    """E5M2 weights, one scale of least squared error."""


class Fp8e5m2FNUZWeightPerChannelFloatMSE(Fp8e5m2Mixin, FpFNUZWeightPerChannelFloatMSE):
    """E5M2 weights, a scale of least squared error an output channel."""
