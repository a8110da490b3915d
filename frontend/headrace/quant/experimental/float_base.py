"""See :mod:`headrace.quant.float_base`."""

from headrace.quant.float_base import (
    FloatActBase,
    FloatBase,
    FloatMSEScale,
    FloatWeightBase,
    Fp4e2m1Mixin,
    Fp6e2m3Mixin,
    Fp6e3m2Mixin,
    Fp8e4m3Mixin,
    Fp8e5m2Mixin,
    ScaledFloatActBase,
    ScaledFloatWeightBase,
)

__all__ = [
    "FloatActBase",
    "FloatBase",
    "FloatMSEScale",
    "FloatWeightBase",
    "Fp4e2m1Mixin",
    "Fp6e2m3Mixin",
    "Fp6e3m2Mixin",
    "Fp8e4m3Mixin",
    "Fp8e5m2Mixin",
    "ScaledFloatActBase",
    "ScaledFloatWeightBase",
]
