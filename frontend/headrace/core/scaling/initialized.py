"""Learned scales that start from statistics."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headrace.core.function_wrapper import OverBatchOverTensorView
from headrace.core.optional_state import StartsFromBatches, StartsFromParameters
from headrace.core.restrict_val import FloatRestrictValue, RestrictValue, _ClampValue, _RestrictValue
from headrace.core.scaling.standalone import LearnedScale
from headrace.core.stats import (
    DEFAULT_MOMENTUM,
    SCALAR_SHAPE,
    _ParameterListStats,
    _Stats,
    momentum_update,
)


class ParameterFromStatsFromParameterScaling(StartsFromParameters, LearnedScale):
    """A learned scale that starts from the statistics of the parameters at the first call."""

    def __init__(
        self,
        scaling_stats_impl: nn.Module,
        scaling_stats_input_view_shape_impl: nn.Module,
        scaling_stats_input_concat_dim: int,
        tracked_parameter_list: list[nn.Parameter],
        scaling_shape: tuple[int, ...],
        restrict_scaling_impl: RestrictValue | None = None,
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
        restrict = restrict_scaling_impl or FloatRestrictValue()
        self.restrict_scaling = _RestrictValue(restrict)
        self.clamp_scaling = _ClampValue(scaling_min_val, restrict)
        self.value = nn.Parameter(torch.ones(scaling_shape, dtype=dtype, device=device))

    def forward(self, x: Tensor, threshold: Tensor | None = None) -> Tensor:
        if not self.init_done:
            with torch.no_grad():
                stats = self.clamp_scaling(self.parameter_list_stats(x))
                self.value.copy_(self.restrict_scaling.restrict_value_impl.inverse(stats))
            self.init_done = True
        scale: Tensor = self.clamp_scaling(self.restrict_scaling(self.value))
        return scale if threshold is None else scale / threshold


class ParameterFromRuntimeStatsScaling(StartsFromBatches, LearnedScale):
    """A learned scale that starts from statistics of the first batches.

    For ``collect_stats_steps`` training steps the scale is the statistic of the batch, and an exponential average
    of it is kept, which evaluation uses; after that the average becomes a learned parameter.
    """

    def __init__(
        self,
        collect_stats_steps: int,
        scaling_stats_impl: nn.Module,
        scaling_stats_input_view_shape_impl: nn.Module | None = None,
        scaling_shape: tuple[int, ...] = SCALAR_SHAPE,
        restrict_scaling_impl: RestrictValue | None = None,
        scaling_stats_momentum: float | None = DEFAULT_MOMENTUM,
        scaling_min_val: float | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__(collect_stats_steps)
        restrict = restrict_scaling_impl or FloatRestrictValue()
        self.momentum = scaling_stats_momentum
        self.stats_input_view_shape_impl = scaling_stats_input_view_shape_impl or OverBatchOverTensorView()
        self.stats = _Stats(scaling_stats_impl, scaling_shape)
        self.register_buffer("buffer", torch.ones(scaling_shape, dtype=dtype, device=device), persistent=False)
        self.value = nn.Parameter(torch.ones(scaling_shape, dtype=dtype, device=device))
        self.restrict_scaling = _RestrictValue(restrict)
        self.clamp_scaling = _ClampValue(scaling_min_val, restrict)
        self.restrict_inplace_preprocess = restrict.inverse_module()
        self.restrict_preprocess = restrict.inverse_module()

    @property
    def is_initialized(self) -> bool:
        """Whether any statistics were collected or a value was loaded."""
        return self.counter > 0

    def init_scale(self) -> None:
        """End the collection: the average becomes the learned parameter."""
        self._end_collection()

    def _average(self) -> Tensor:
        average: Tensor = self.restrict_preprocess(self.buffer)
        return average

    def _collect(self, x: Tensor) -> Tensor:
        stats: Tensor = self.stats(self.stats_input_view_shape_impl(x))
        # A zero gradient for the parameter, so that DistributedDataParallel does not wait for it.
        clamped: Tensor = self.clamp_scaling(stats + 0.0 * self.value)
        self.counter += 1
        momentum_update(self.buffer, clamped.detach(), self.momentum, self.counter)
        return clamped

    def forward(self, x: Tensor, threshold: Tensor | None = None) -> Tensor:
        if self.follows_input:
            scale = self._collect(x)
        else:
            if self.training:
                self.init_scale()
            stored = self._average() if self.is_collecting else self.value
            scale = self.clamp_scaling(self.restrict_scaling(stored))
        return scale if threshold is None else scale / threshold
