"""Minifloats of the Open Compute Project (OCP MX specification 1.0)."""

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
    "Fp8e4m3OCPAct",
    "Fp8e4m3OCPActPerTensorFloat",
    "Fp8e4m3OCPActPerTensorFloatMSE",
    "Fp8e4m3OCPWeight",
    "Fp8e4m3OCPWeightPerChannelFloat",
    "Fp8e4m3OCPWeightPerChannelFloatMSE",
    "Fp8e4m3OCPWeightPerTensorFloat",
    "Fp8e4m3OCPWeightPerTensorFloatMSE",
    "Fp8e5m2OCPAct",
    "Fp8e5m2OCPActPerTensorFloat",
    "Fp8e5m2OCPActPerTensorFloatMSE",
    "Fp8e5m2OCPWeight",
    "Fp8e5m2OCPWeightPerChannelFloat",
    "Fp8e5m2OCPWeightPerChannelFloatMSE",
    "Fp8e5m2OCPWeightPerTensorFloat",
    "Fp8e5m2OCPWeightPerTensorFloatMSE",
    "FpOCPAct",
    "FpOCPActPerChannelFloat2d",
    "FpOCPActPerChannelFloat2dMSE",
    "FpOCPActPerTensorFloat",
    "FpOCPActPerTensorFloatMSE",
    "FpOCPMixin",
    "FpOCPWeight",
    "FpOCPWeightPerChannelFloat",
    "FpOCPWeightPerChannelFloatMSE",
    "FpOCPWeightPerTensorFloat",
    "FpOCPWeightPerTensorFloatMSE",
]


class FpOCPMixin(ExtendedInjector):
    """Special values as in the OCP formats: E4M3 has NaN, E5M2 infinity and NaN, fewer than 8 bits have neither."""

    saturating = True

    @value
    def inf_values(bit_width: int, exponent_bit_width: int) -> tuple[str, ...] | None:
        return ("00",) if (bit_width, exponent_bit_width) == (8, 5) else None

    @value
    def nan_values(bit_width: int, exponent_bit_width: int) -> tuple[str, ...] | None:
        special = {(8, 4): ("111",), (8, 5): ("01", "10", "11")}
        return special.get((bit_width, exponent_bit_width))


class FpOCPWeight(FpOCPMixin, FloatWeightBase):
    """OCP minifloat weights at scale 1."""


class FpOCPAct(FpOCPMixin, FloatActBase):
    """OCP minifloat activations at scale 1."""


class FpOCPWeightPerTensorFloat(FpOCPMixin, ScaledFloatWeightBase):
    """OCP minifloat weights, one scale from ``max |w|``."""


class FpOCPWeightPerChannelFloat(FpOCPMixin, ScaledFloatWeightBase):
    """OCP minifloat weights, a scale an output channel from ``max |w|``."""

    scaling_per_output_type = ScalingPerOutputType.CHANNEL


class FpOCPActPerTensorFloat(FpOCPMixin, ScaledFloatActBase):
    """OCP minifloat activations, one learned scale."""


class FpOCPActPerChannelFloat2d(FpOCPMixin, ScaledFloatActBase):
    """OCP minifloat ``(N, C, H, W)`` activations, a learned scale a channel."""

    scaling_per_output_type = ScalingPerOutputType.CHANNEL
    scaling_stats_permute_dims = (1, 0, 2, 3)


class FpOCPWeightPerTensorFloatMSE(FpOCPMixin, FloatMSEScale, ScaledFloatWeightBase):
    """OCP minifloat weights, one scale of least squared error."""


class FpOCPWeightPerChannelFloatMSE(FpOCPMixin, FloatMSEScale, ScaledFloatWeightBase):
    """OCP minifloat weights, a scale of least squared error an output channel."""

    scaling_per_output_type = ScalingPerOutputType.CHANNEL


class FpOCPActPerTensorFloatMSE(FpOCPMixin, FloatMSEScale, ScaledFloatActBase):
    """OCP minifloat activations, one scale that starts from least squared error."""


class FpOCPActPerChannelFloat2dMSE(FpOCPMixin, FloatMSEScale, ScaledFloatActBase):
    """OCP minifloat ``(N, C, H, W)`` activations, a scale a channel that starts from least squared error."""

    scaling_per_output_type = ScalingPerOutputType.CHANNEL
    scaling_stats_permute_dims = (1, 0, 2, 3)


class Fp8e4m3OCPWeight(Fp8e4m3Mixin, FpOCPWeight):
    """E4M3 weights at scale 1."""


class Fp8e4m3OCPAct(Fp8e4m3Mixin, FpOCPAct):
    """E4M3 activations at scale 1."""


class Fp8e4m3OCPWeightPerTensorFloat(Fp8e4m3Mixin, FpOCPWeightPerTensorFloat):
    """E4M3 weights, one scale from ``max |w|``."""


class Fp8e4m3OCPWeightPerChannelFloat(Fp8e4m3Mixin, FpOCPWeightPerChannelFloat):
    """E4M3 weights, a scale an output channel from ``max |w|``."""


class Fp8e4m3OCPActPerTensorFloat(Fp8e4m3Mixin, FpOCPActPerTensorFloat):
    """E4M3 activations, one learned scale."""


class Fp8e4m3OCPActPerTensorFloatMSE(Fp8e4m3Mixin, FpOCPActPerTensorFloatMSE):
    """E4M3 activations, one scale that starts from least squared error."""


class Fp8e4m3OCPWeightPerTensorFloatMSE(Fp8e4m3Mixin, FpOCPWeightPerTensorFloatMSE):
    """E4M3 weights, one scale of least squared error."""


class Fp8e4m3OCPWeightPerChannelFloatMSE(Fp8e4m3Mixin, FpOCPWeightPerChannelFloatMSE):
    """E4M3 weights, a scale of least squared error an output channel."""


class Fp8e5m2OCPWeight(Fp8e5m2Mixin, FpOCPWeight):
    """E5M2 weights at scale 1."""


class Fp8e5m2OCPAct(Fp8e5m2Mixin, FpOCPAct):
    """E5M2 activations at scale 1."""


class Fp8e5m2OCPWeightPerTensorFloat(Fp8e5m2Mixin, FpOCPWeightPerTensorFloat):
    """E5M2 weights, one scale from ``max |w|``."""


class Fp8e5m2OCPWeightPerChannelFloat(Fp8e5m2Mixin, FpOCPWeightPerChannelFloat):
    """E5M2 weights, a scale an output channel from ``max |w|``."""


class Fp8e5m2OCPActPerTensorFloat(Fp8e5m2Mixin, FpOCPActPerTensorFloat):
    """E5M2 activations, one learned scale."""


class Fp8e5m2OCPActPerTensorFloatMSE(Fp8e5m2Mixin, FpOCPActPerTensorFloatMSE):
    """E5M2 activations, one scale that starts from least squared error."""


class Fp8e5m2OCPWeightPerTensorFloatMSE(Fp8e5m2Mixin, FpOCPWeightPerTensorFloatMSE):
    """E5M2 weights, one scale of least squared error."""


class Fp8e5m2OCPWeightPerChannelFloatMSE(Fp8e5m2Mixin, FpOCPWeightPerChannelFloatMSE):
    """E5M2 weights, a scale of least squared error an output channel."""
