"""Scales and zero points computed from every input anew (dynamic quantization)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from headrace.core.restrict_val import FloatRestrictValue, RestrictValue, _ClampValue, _RestrictValue
from headrace.core.zero_point import _ScaleShiftZeroPoint

__all__ = [
    "RuntimeDynamicGroupStatsScaling",
    "RuntimeDynamicGroupZeroPoint",
    "RuntimeDynamicStatsScaling",
    "RuntimeDynamicStatsZeroPoint",
    "ZeroBasedRange",
]


class ZeroBasedRange(nn.Module):
    """``max(x, 0) - min(x, 0)``, as the ONNX operator DynamicQuantizeLinear has it."""

    def forward(self, x: Tensor) -> Tensor:
        return x.max().clamp(min=0.0) - x.min().clamp(max=0.0)


class RuntimeDynamicStatsScaling(nn.Module):
    """The statistic of the input over the integer threshold.

    Args:
        scaling_stats_impl: the statistic.
        scaling_stats_input_view_shape_impl: arranges the input for it.
        scaling_min_val: lower bound of the statistic.
    """

    def __init__(
        self,
        scaling_stats_impl: nn.Module,
        scaling_stats_input_view_shape_impl: nn.Module,
        scaling_min_val: float | None = None,
    ) -> None:
        super().__init__()
        self.stats_input_view_shape_impl = scaling_stats_input_view_shape_impl
        self.scaling_stats_impl = scaling_stats_impl
        self.clamp_scaling = _ClampValue(scaling_min_val)

    def forward(self, x: Tensor, threshold: Tensor | None = None) -> Tensor:
        scale: Tensor = self.clamp_scaling(self.scaling_stats_impl(self.stats_input_view_shape_impl(x)))
        return scale if threshold is None else scale / threshold


class RuntimeDynamicStatsZeroPoint(nn.Module):
    """The integer that stands for 0 when the smallest input (at most 0) is the lowest integer."""

    def __init__(
        self,
        int_quant: Any,
        quantize_zero_point: bool,
        zero_point_stats_impl: nn.Module,
        zero_point_stats_input_view_shape_impl: nn.Module,
    ) -> None:
        super().__init__()
        self.stats_input_view_shape_impl = zero_point_stats_input_view_shape_impl
        self.zero_point_stats_impl = zero_point_stats_impl
        self.scale_shift_zero_point = _ScaleShiftZeroPoint(int_quant, quantize_zero_point)

    def forward(self, x: Tensor, scale: Tensor, bit_width: Tensor) -> Tensor:
        offset = -self.zero_point_stats_impl(self.stats_input_view_shape_impl(x))
        out: Tensor = self.scale_shift_zero_point(offset, scale, bit_width)
        return out


class RuntimeDynamicGroupStatsScaling(nn.Module):
    """The statistic of each group of the input over the threshold.

    Args:
        scaling_stats_impl: the statistic.
        input_view_impl: arranges the input in groups.
        restrict_scaling_impl: restriction of the scale.
        scaling_min_val: lower bound of the statistic.
    """

    def __init__(
        self,
        scaling_stats_impl: nn.Module,
        input_view_impl: nn.Module,
        restrict_scaling_impl: RestrictValue | None = None,
        scaling_min_val: float | None = None,
    ) -> None:
        super().__init__()
        self.scaling_stats_impl = scaling_stats_impl
        self.input_view_impl = input_view_impl
        restrict = restrict_scaling_impl or FloatRestrictValue()
        self.restrict_scaling = _RestrictValue(restrict)
        self.clamp_scaling = _ClampValue(scaling_min_val, restrict)

    def forward(self, x: Tensor, threshold: Tensor | None = None) -> Tensor:
        stats = self.clamp_scaling(self.scaling_stats_impl(self.input_view_impl(x)))
        scale: Tensor = self.restrict_scaling(self.restrict_scaling.restrict_value_impl.inverse(stats))
        return scale if threshold is None else scale / threshold


class RuntimeDynamicGroupZeroPoint(nn.Module):
    """The integer that stands for 0 in each group; see :class:`RuntimeDynamicStatsZeroPoint`."""

    def __init__(
        self, int_quant: Any, quantize_zero_point: bool, zero_point_stats_impl: nn.Module, input_view_impl: nn.Module
    ) -> None:
        super().__init__()
        self.input_view_impl = input_view_impl
        self.zero_point_stats_impl = zero_point_stats_impl
        self.scale_shift_zero_point = _ScaleShiftZeroPoint(int_quant, quantize_zero_point)

    def forward(self, x: Tensor, scale: Tensor, bit_width: Tensor) -> Tensor:
        offset = -self.zero_point_stats_impl(self.input_view_impl(x))
        out: Tensor = self.scale_shift_zero_point(offset, scale, bit_width)
        return out
