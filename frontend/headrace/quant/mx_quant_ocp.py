"""Groups with a shared exponent: the microscaling formats of the Open Compute Project (OCP MX specification 1.0).

The scale of a group is ``2 ** (floor(log2(largest magnitude)) - e)``, with ``e`` the exponent of the largest number of
the element format (8 for E4M3; 0 for integers, which have one digit before the binary point).
"""

from __future__ import annotations

from typing import Any

from headrace.core.dynamic import RuntimeDynamicGroupStatsScaling
from headrace.core.float_quant import SharedExponentFloatScaling
from headrace.core.function_wrapper import FloorSte
from headrace.core.restrict_val import PowerOfTwoRestrictValue
from headrace.core.scaling import SharedExponentIntScaling
from headrace.inject import ExtendedInjector
from headrace.inject.enum import RestrictValueType, ScalingPerOutputType
from headrace.proxy import (
    GroupwiseActFloatQuantProxyFromInjector,
    GroupwiseActQuantProxyFromInjector,
    GroupwiseWeightFloatQuantProxyFromInjector,
    GroupwiseWeightQuantProxyFromInjector,
)
from headrace.quant.base import (
    IntQuant,
    MaxStatsScaling,
    MinMaxStatsScaling,
    MSEAsymmetricScale,
    MSESymmetricScale,
    MSEWeightZeroPoint,
    ShiftedMinUintQuant,
)
from headrace.quant.float_base import FloatMSEScale, Fp8e4m3Mixin, ScaledFloatActBase, ScaledFloatWeightBase
from headrace.quant.float_quant_ocp import FpOCPAct, FpOCPWeight
from headrace.quant.solver import ActQuantSolver, WeightQuantSolver

__all__ = [
    "GroupwiseActFloatProxyMixin",
    "GroupwiseActProxyMixin",
    "GroupwiseWeightFloatProxyMixin",
    "GroupwiseWeightProxyMixin",
    "MXActMixin",
    "MXFloat8e4m3Act",
    "MXFloat8e4m3Weight",
    "MXFloat8e4m3WeightMSE",
    "MXInt8Act",
    "MXInt8Weight",
    "MXInt8WeightMSE",
    "MXMixin",
    "MXWeightMixin",
    "RestrictThresholdMixin",
    "ShiftedMXUInt8Weight",
    "ShiftedMXUInt8WeightMSE",
]


class GroupwiseWeightFloatProxyMixin(ExtendedInjector):
    """Minifloat weights in groups."""

    proxy_class = GroupwiseWeightFloatQuantProxyFromInjector


class GroupwiseActFloatProxyMixin(ExtendedInjector):
    """Minifloat activations in groups."""

    proxy_class = GroupwiseActFloatQuantProxyFromInjector


class GroupwiseWeightProxyMixin(ExtendedInjector):
    """Integer weights in groups."""

    proxy_class = GroupwiseWeightQuantProxyFromInjector


class GroupwiseActProxyMixin(ExtendedInjector):
    """Integer activations in groups."""

    proxy_class = GroupwiseActQuantProxyFromInjector


class RestrictThresholdMixin(ExtendedInjector):
    """The largest power of two that is not above a number."""

    restrict_value_float_to_int_impl = FloorSte
    restrict_scaling_impl: Any = PowerOfTwoRestrictValue


class MXMixin(RestrictThresholdMixin):
    """A shared power of two for every ``group_size`` elements."""

    group_size = 32
    restrict_scaling_type = RestrictValueType.POWER_OF_TWO
    scaling_per_output_type = ScalingPerOutputType.GROUP
    int_scaling_impl: Any = SharedExponentIntScaling
    float_scaling_impl: Any = SharedExponentFloatScaling


class MXWeightMixin(MXMixin):
    """For weights; the groups divide the inputs of an output channel."""


class MXActMixin(MXMixin):
    """For activations: the scales of each input anew. ``group_dim`` is known for the input of a layer."""

    scaling_impl: Any = RuntimeDynamicGroupStatsScaling


class MXFloat8e4m3Weight(
    MXWeightMixin, GroupwiseWeightFloatProxyMixin, Fp8e4m3Mixin, FpOCPWeight, ScaledFloatWeightBase
):
    """MXFP8 (E4M3) weights."""


class MXFloat8e4m3Act(MXActMixin, GroupwiseActFloatProxyMixin, Fp8e4m3Mixin, FpOCPAct, ScaledFloatActBase):
    """MXFP8 (E4M3) activations."""


class MXFloat8e4m3WeightMSE(FloatMSEScale, MXFloat8e4m3Weight):
    """MXFP8 (E4M3) weights, learned scales that start from least squared error."""


class MXInt8Weight(MXWeightMixin, GroupwiseWeightProxyMixin, IntQuant, MaxStatsScaling, WeightQuantSolver):
    """MXINT8 weights."""

    bit_width = 8


class ShiftedMXUInt8Weight(
    MXWeightMixin, GroupwiseWeightProxyMixin, ShiftedMinUintQuant, MinMaxStatsScaling, WeightQuantSolver
):
    """8-bit unsigned weights, a shared power of two and an integer zero point a group."""

    bit_width = 8


class MXInt8Act(MXActMixin, GroupwiseActProxyMixin, IntQuant, MaxStatsScaling, ActQuantSolver):
    """MXINT8 activations."""

    bit_width = 8


class MXInt8WeightMSE(MSESymmetricScale, MXInt8Weight):
    """MXINT8 weights, learned scales that start from least squared error."""


class ShiftedMXUInt8WeightMSE(MSEAsymmetricScale, MSEWeightZeroPoint, ShiftedMXUInt8Weight):
    """8-bit unsigned weights in groups, learned scales and zero points that start from least squared error."""
