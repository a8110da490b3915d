"""The names of :mod:`headrace.quant.mx_quant_ocp`, where Brevitas had them before."""

from headrace.quant.mx_quant_ocp import (
    MXActMixin,
    MXFloat8e4m3Act,
    MXFloat8e4m3Weight,
    MXFloat8e4m3WeightMSE,
    MXInt8Act,
    MXInt8Weight,
    MXInt8WeightMSE,
    MXMixin,
    MXWeightMixin,
    ShiftedMXUInt8Weight,
    ShiftedMXUInt8WeightMSE,
)

__all__ = [
    "MXActMixin",
    "MXFloat8e4m3Act",
    "MXFloat8e4m3Weight",
    "MXFloat8e4m3WeightMSE",
    "MXInt8Act",
    "MXInt8Weight",
    "MXInt8WeightMSE",
    "MXMixin",
    "MXWeightMixin",
    "ShiftedMXUInt8Weight",
    "ShiftedMXUInt8WeightMSE",
]
