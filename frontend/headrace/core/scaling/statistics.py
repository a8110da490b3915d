"""Scales that follow statistics."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headrace.core.function_wrapper import Identity, OverOutputChannelView, OverTensorView
from headrace.core.optional_state import OptionalState
from headrace.core.restrict_val import FloatRestrictValue, RestrictValue, _ClampValue, _RestrictValue
from headrace.core.stats import (
    DEFAULT_MOMENTUM,
    AbsMax,
    _ParameterListStats,
    _Stats,
    momentum_update,
)
from headrace.inject.errors import QuantizerValueError


class _AffineRescaling(OptionalState):
    """``x * weight (+ bias)``, both learned."""

    optional_keys = ("affine_weight", "affine_bias")

    def __init__(
        self,
        shape: tuple[int, ...],
        weight_init: float,
        bias_init: float | None,
        dtype: torch.dtype | None,
        device: torch.device | None,
    ) -> None:
        super().__init__()
        self.affine_weight = nn.Parameter(torch.full(shape, weight_init, dtype=dtype, device=device))
        self.affine_bias = (
            None if bias_init is None else nn.Parameter(torch.full(shape, bias_init, dtype=dtype, device=device))
        )

    def forward(self, x: Tensor) -> Tensor:
        out = x * self.affine_weight
        return out if self.affine_bias is None else out + self.affine_bias


class _StatsScaling(nn.Module):
    """A scale that follows a statistic, gradients included."""

    def __init__(
        self,
        restrict_scaling_impl: RestrictValue,
        scaling_shape: tuple[int, ...],
        scaling_min_val: float | None,
        affine_rescaling_init: float | None,
        affine_shifting_init: float | None,
        dtype: torch.dtype | None,
        device: torch.device | None,
    ) -> None:
        super().__init__()
        if affine_shifting_init is not None and affine_rescaling_init is None:
            raise QuantizerValueError("scaling_affine_shifting_init needs scaling_affine_rescaling_init as well")
        self.affine_rescaling: nn.Module = (
            Identity()
            if affine_rescaling_init is None
            else _AffineRescaling(scaling_shape, affine_rescaling_init, affine_shifting_init, dtype, device)
        )
        self.restrict_scaling = _RestrictValue(restrict_scaling_impl)
        self.restrict_inverse = restrict_scaling_impl.inverse
        self.clamp_scaling = _ClampValue(scaling_min_val, restrict_scaling_impl)

    def forward(self, stats: Tensor, threshold: Tensor | None = None) -> Tensor:
        stored = self.restrict_inverse(self.clamp_scaling(stats))
        scale: Tensor = self.restrict_scaling(self.affine_rescaling(stored))
        return scale if threshold is None else scale / threshold


class StatsFromParameterScaling(nn.Module):
    """A scale recomputed from the parameters at every call."""

    def __init__(
        self,
        scaling_stats_impl: nn.Module,
        scaling_stats_input_view_shape_impl: nn.Module,
        scaling_stats_input_concat_dim: int,
        tracked_parameter_list: list[nn.Parameter],
        scaling_shape: tuple[int, ...],
        restrict_scaling_impl: RestrictValue | None = None,
        scaling_affine_rescaling_init: float | None = None,
        scaling_affine_shifting_init: float | None = None,
        scaling_min_val: float | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        self.parameter_list_stats = _ParameterListStats(
            scaling_stats_impl,
            scaling_shape,
            scaling_stats_input_view_shape_impl,
            scaling_stats_input_concat_dim,
            tracked_parameter_list,
        )
        self.stats_scaling_impl = _StatsScaling(
            restrict_scaling_impl or FloatRestrictValue(),
            scaling_shape,
            scaling_min_val,
            scaling_affine_rescaling_init,
            scaling_affine_shifting_init,
            dtype,
            device,
        )

    def forward(self, x: Tensor, threshold: Tensor | None = None) -> Tensor:
        scale: Tensor = self.stats_scaling_impl(self.parameter_list_stats(x), threshold)
        return scale

    def abs_max_of_rows(self) -> bool | None:
        """If the scale is the largest magnitude over a threshold and nothing else: whether there is one a row.

        ``None`` for any other scale.
        """
        stats, scaling = self.parameter_list_stats, self.stats_scaling_impl
        plain = (
            type(stats.stats.stats_impl) is AbsMax
            and stats.is_single
            and type(scaling.restrict_scaling.restrict_value_impl) is FloatRestrictValue
            and type(scaling.affine_rescaling) is Identity
        )
        view = stats.view_shape_impl
        if not plain:
            return None
        if type(view) is OverTensorView:
            return False
        rows = type(view) is OverOutputChannelView and type(view.permute_impl) is Identity
        return True if rows else None


class _RuntimeStats(OptionalState):
    """The statistic of the batch in training, its running average in evaluation."""

    optional_keys = ("running_stats",)
    running_stats: Tensor

    def __init__(
        self,
        stats_impl: nn.Module,
        stats_output_shape: tuple[int, ...],
        stats_input_view_shape_impl: nn.Module,
        momentum: float | None,
        dtype: torch.dtype | None,
        device: torch.device | None,
    ) -> None:
        super().__init__()
        self.counter = 0
        self.momentum = momentum
        self.stats_input_view_shape_impl = stats_input_view_shape_impl
        self.stats = _Stats(stats_impl, stats_output_shape)
        self.register_buffer("running_stats", torch.ones(stats_output_shape, dtype=dtype, device=device))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return self.running_stats
        stats: Tensor = self.stats(self.stats_input_view_shape_impl(x))
        self.counter += 1
        momentum_update(self.running_stats, stats.detach(), self.momentum, self.counter)
        return stats


class RuntimeStatsScaling(nn.Module):
    """A scale that follows a running statistic of the activations."""

    def __init__(
        self,
        scaling_stats_impl: nn.Module,
        scaling_stats_input_view_shape_impl: nn.Module,
        scaling_shape: tuple[int, ...],
        scaling_affine_rescaling_init: float | None = None,
        scaling_affine_shifting_init: float | None = None,
        restrict_scaling_impl: RestrictValue | None = None,
        scaling_stats_momentum: float | None = DEFAULT_MOMENTUM,
        scaling_min_val: float | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        self.runtime_stats = _RuntimeStats(
            scaling_stats_impl,
            scaling_shape,
            scaling_stats_input_view_shape_impl,
            scaling_stats_momentum,
            dtype,
            device,
        )
        self.stats_scaling_impl = _StatsScaling(
            restrict_scaling_impl or FloatRestrictValue(),
            scaling_shape,
            scaling_min_val,
            scaling_affine_rescaling_init,
            scaling_affine_shifting_init,
            dtype,
            device,
        )

    @property
    def follows_input(self) -> bool:
        """Whether the next scale depends on the tensor to quantize."""
        return self.runtime_stats.training

    def forward(self, x: Tensor, threshold: Tensor | None = None) -> Tensor:
        scale: Tensor = self.stats_scaling_impl(self.runtime_stats(x), threshold)
        return scale
