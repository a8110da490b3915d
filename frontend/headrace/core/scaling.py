"""Scales: constant, learned, from statistics, and learned from statistics.

Every implementation is called with the tensor to quantize and the largest integer (``threshold``) and returns
``restricted(value) / threshold``, in the shape of the scale (``()`` per tensor, broadcastable per channel).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headrace import config
from headrace.core import functional
from headrace.core.function_wrapper import Identity, OverBatchOverTensorView, OverOutputChannelView, OverTensorView
from headrace.core.restrict_val import FloatRestrictValue, RestrictValue, _ClampValue, _RestrictValue
from headrace.core.stateless import StatelessBuffer
from headrace.core.stats import (
    DEFAULT_MOMENTUM,
    SCALAR_SHAPE,
    AbsMax,
    _ParameterListStats,
    _Stats,
    momentum_update,
)
from headrace.inject.enum import ScalingImplType, ScalingPerOutputType
from headrace.inject.errors import QuantizerValueError

__all__ = [
    "SCALAR_SHAPE",
    "SCALING_STATS_REDUCE_DIM",
    "ConstScaling",
    "IntScaling",
    "ParameterFromRuntimeStatsScaling",
    "ParameterFromStatsFromParameterScaling",
    "ParameterScaling",
    "PowerOfTwoIntScaling",
    "RuntimeStatsScaling",
    "ScalingImplType",
    "ScalingPerOutputType",
    "StatsFromParameterScaling",
]

SCALING_STATS_REDUCE_DIM = 1


class IntScaling(nn.Module):
    """The integer that the scaled threshold maps to: ``-min_int`` (signed) or ``max_int``."""

    def __init__(self, signed: bool, narrow_range: bool) -> None:
        super().__init__()
        self.signed = signed
        self.narrow_range = narrow_range

    def forward(self, bit_width: Tensor) -> Tensor:
        if self.signed:
            return -functional.min_int(True, self.narrow_range, bit_width)
        return functional.max_int(False, self.narrow_range, bit_width)


class PowerOfTwoIntScaling(nn.Module):
    """``max_int + 1``, a power of two, whatever the range: keeps power-of-two scales powers of two."""

    def __init__(self, signed: bool) -> None:
        super().__init__()
        self.signed = signed

    def forward(self, bit_width: Tensor) -> Tensor:
        return functional.max_int(self.signed, False, bit_width) + 1.0


def _initial(
    scaling_init: float | Tensor,
    shape: tuple[int, ...] | None,
    restrict: RestrictValue,
    dtype: torch.dtype | None,
    device: torch.device | None,
) -> Tensor:
    """The number to store for the scale *scaling_init*, in *shape*."""
    if isinstance(scaling_init, Tensor):
        init = scaling_init.detach().clone().to(dtype=dtype, device=device)
    else:
        init = torch.tensor(float(scaling_init), dtype=dtype or torch.float32, device=device)
    if not bool(torch.isfinite(init).all()) or bool((init == 0).any()):
        raise QuantizerValueError(f"scaling_init must be finite and not 0, got {init.tolist()}")
    if shape is not None and init.shape not in (torch.Size(SCALAR_SHAPE), torch.Size(shape)):
        raise QuantizerValueError(
            f"scaling_init has shape {tuple(init.shape)}; accepted: a scalar or scaling_shape={tuple(shape)}"
        )
    init = restrict.inverse(init)
    return init.expand(shape).clone() if shape is not None and init.shape != torch.Size(shape) else init


class ConstScaling(nn.Module):
    """A constant scale."""

    def __init__(
        self,
        scaling_init: float | Tensor,
        restrict_scaling_impl: RestrictValue | None = None,
        scaling_min_val: float | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        restrict = restrict_scaling_impl or FloatRestrictValue()
        self.restrict_scaling = _RestrictValue(restrict)
        self.clamp_scaling = _ClampValue(scaling_min_val)
        self.value = StatelessBuffer(_initial(scaling_init, None, restrict, dtype, device))

    def forward(self, x: Tensor, threshold: Tensor | None = None) -> Tensor:
        scale: Tensor = self.clamp_scaling(self.restrict_scaling(self.value.value))
        return scale if threshold is None else scale / threshold


class _LearnedScale(nn.Module):
    """Loading of a learned ``value``, shared by the scales below."""

    def _value_loaded(self) -> None:
        """Called when a state dictionary brought a value."""

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        key = prefix + "value"
        if prefix + "learned_value" in state_dict:
            state_dict[key] = state_dict.pop(prefix + "learned_value")
        super()._load_from_state_dict(state_dict, prefix, *args)
        missing_keys: list[str] = args[2]
        if key not in missing_keys:
            self._value_loaded()
        elif config.IGNORE_MISSING_KEYS:
            missing_keys.remove(key)


class ParameterScaling(_LearnedScale):
    """A learned scale with a given start."""

    def __init__(
        self,
        scaling_init: float | Tensor,
        scaling_shape: tuple[int, ...] | None = None,
        restrict_scaling_impl: RestrictValue | None = None,
        scaling_min_val: float | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        restrict = restrict_scaling_impl or FloatRestrictValue()
        self.value = nn.Parameter(_initial(scaling_init, scaling_shape, restrict, dtype, device))
        self.restrict_scaling = _RestrictValue(restrict)
        self.clamp_scaling = _ClampValue(scaling_min_val)

    def forward(self, x: Tensor, threshold: Tensor | None = None) -> Tensor:
        scale: Tensor = self.clamp_scaling(self.restrict_scaling(self.value))
        return scale if threshold is None else scale / threshold


class _AffineRescaling(nn.Module):
    """``x * weight (+ bias)``, both learned."""

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

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        missing_keys: list[str] = args[2]
        if config.IGNORE_MISSING_KEYS:
            for key in (prefix + "affine_weight", prefix + "affine_bias"):
                if key in missing_keys:
                    missing_keys.remove(key)


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
        self.clamp_scaling = _ClampValue(scaling_min_val)

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


class ParameterFromStatsFromParameterScaling(_LearnedScale):
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
        self.clamp_scaling = _ClampValue(scaling_min_val)
        self.init_done = False
        self.value = nn.Parameter(torch.ones(scaling_shape, dtype=dtype, device=device))

    def _value_loaded(self) -> None:
        self.init_done = True

    def forward(self, x: Tensor, threshold: Tensor | None = None) -> Tensor:
        if not self.init_done:
            with torch.no_grad():
                stats = self.clamp_scaling(self.parameter_list_stats(x))
                self.value.copy_(self.restrict_scaling.restrict_value_impl.inverse(stats))
            self.init_done = True
        scale: Tensor = self.clamp_scaling(self.restrict_scaling(self.value))
        return scale if threshold is None else scale / threshold

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if not self.init_done:
            del destination[prefix + "value"]


class _RuntimeStats(nn.Module):
    """The statistic of the batch in training, its running average in evaluation."""

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

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        missing_keys: list[str] = args[2]
        if config.IGNORE_MISSING_KEYS and prefix + "running_stats" in missing_keys:
            missing_keys.remove(prefix + "running_stats")


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

    def forward(self, x: Tensor, threshold: Tensor | None = None) -> Tensor:
        scale: Tensor = self.stats_scaling_impl(self.runtime_stats(x), threshold)
        return scale


class ParameterFromRuntimeStatsScaling(_LearnedScale):
    """A learned scale that starts from statistics of the first batches.

    For ``collect_stats_steps`` training steps the scale is the statistic of the batch, and an exponential average
    of it is kept, which evaluation uses; after that the average becomes a learned parameter.
    """

    buffer: Tensor

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
        super().__init__()
        if collect_stats_steps <= 0:
            raise QuantizerValueError(f"collect_stats_steps must be at least 1, got {collect_stats_steps}")
        restrict = restrict_scaling_impl or FloatRestrictValue()
        self.collect_stats_steps = collect_stats_steps
        self.counter = 0
        self.momentum = scaling_stats_momentum
        self.stats_input_view_shape_impl = scaling_stats_input_view_shape_impl or OverBatchOverTensorView()
        self.stats = _Stats(scaling_stats_impl, scaling_shape)
        self.register_buffer("buffer", torch.ones(scaling_shape, dtype=dtype, device=device), persistent=False)
        self.value = nn.Parameter(torch.ones(scaling_shape, dtype=dtype, device=device))
        self.restrict_scaling = _RestrictValue(restrict)
        self.clamp_scaling = _ClampValue(scaling_min_val)
        self.restrict_inplace_preprocess = restrict.inverse_module()
        self.restrict_preprocess = restrict.inverse_module()

    @property
    def is_initialized(self) -> bool:
        """Whether any statistics were collected or a value was loaded."""
        return self.counter > 0

    @property
    def is_collecting(self) -> bool:
        """Whether the scale still follows statistics."""
        return self.counter <= self.collect_stats_steps

    def init_scale(self) -> None:
        """End the collection: the average becomes the learned parameter."""
        if self.is_collecting:
            with torch.no_grad():
                self.value.copy_(self.restrict_preprocess(self.buffer))
            self.counter = self.collect_stats_steps + 1

    def _value_loaded(self) -> None:
        self.counter = self.collect_stats_steps + 1

    def _collect(self, x: Tensor) -> Tensor:
        stats: Tensor = self.stats(self.stats_input_view_shape_impl(x))
        # A zero gradient for the parameter, so that DistributedDataParallel does not wait for it.
        clamped: Tensor = self.clamp_scaling(stats + 0.0 * self.value)
        self.counter += 1
        momentum_update(self.buffer, clamped.detach(), self.momentum, self.counter)
        return clamped

    def forward(self, x: Tensor, threshold: Tensor | None = None) -> Tensor:
        if self.training and self.counter < self.collect_stats_steps:
            scale = self._collect(x)
        else:
            if self.training:
                self.init_scale()
            stored = self.restrict_preprocess(self.buffer) if self.is_collecting else self.value
            scale = self.clamp_scaling(self.restrict_scaling(stored))
        return scale if threshold is None else scale / threshold

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.counter == 0:
            del destination[prefix + "value"]
        elif self.is_collecting:
            destination[prefix + "value"] = self.restrict_preprocess(self.buffer).detach()
