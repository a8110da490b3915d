"""Zero points: the integer that stands for the real number 0."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headrace.core.functional import abs_binary_sign_grad
from headrace.core.optional_state import OptionalState, StartsFromBatches, StartsFromParameters
from headrace.core.search import ZeroPointSearch
from headrace.core.stateless import StatelessBuffer, optional_dtype
from headrace.core.stats import DEFAULT_MOMENTUM, _ParameterListStats, momentum_update

__all__ = [
    "ParameterFromRuntimeZeroPoint",
    "ParameterFromStatsFromParameterZeroPoint",
    "ParameterZeroPoint",
    "StatsFromParameterZeroPoint",
    "ZeroZeroPoint",
]


class ZeroZeroPoint(nn.Module):
    """Always 0."""

    follows_input = False
    """Whether the zero point depends on the tensor to quantize."""

    def __init__(self, dtype: torch.dtype | None = None, device: torch.device | None = None) -> None:
        super().__init__()
        self.zero_point = StatelessBuffer(optional_dtype(0.0, dtype, device))

    def forward(self, x: Tensor, scale: Tensor, bit_width: Tensor) -> Tensor:
        return self.zero_point.value


class _ScaleShiftZeroPoint(nn.Module):
    """A real offset on the integer grid of *int_quant*, rounded to an integer when ``quantize_zero_point``."""

    def __init__(self, int_quant: Any, quantize_zero_point: bool) -> None:
        super().__init__()
        self.int_quant = int_quant
        self.quantize_zero_point = quantize_zero_point

    def forward(self, offset: Tensor, scale: Tensor, bit_width: Tensor) -> Tensor:
        low: Tensor = self.int_quant.min_int(bit_width)
        if self.quantize_zero_point:
            out: Tensor = self.int_quant.integers_of(offset / scale + low, bit_width)
            return out
        return offset / scale + low


class StatsFromParameterZeroPoint(nn.Module):
    """Zero point recomputed from the parameters at every call."""

    def __init__(
        self,
        int_quant: nn.Module,
        quantize_zero_point: bool,
        zero_point_stats_input_view_shape_impl: nn.Module,
        zero_point_stats_input_concat_dim: int,
        zero_point_stats_impl: nn.Module,
        zero_point_shape: tuple[int, ...],
        tracked_parameter_list: list[nn.Parameter],
    ) -> None:
        super().__init__()
        self.parameter_list_stats = _ParameterListStats(
            zero_point_stats_impl,
            zero_point_shape,
            zero_point_stats_input_view_shape_impl,
            zero_point_stats_input_concat_dim,
            tracked_parameter_list,
        )
        self.scale_shift_zero_point = _ScaleShiftZeroPoint(int_quant, quantize_zero_point)

    def forward(self, x: Tensor, scale: Tensor, bit_width: Tensor) -> Tensor:
        out: Tensor = self.scale_shift_zero_point(-self.parameter_list_stats(x), scale, bit_width)
        return out


def _lowest(impl: nn.Module, x: Tensor, scale: Tensor) -> Tensor:
    """The statistic *impl* of *x*, which is arranged for it."""
    out: Tensor = impl(x, scale.detach()) if isinstance(impl, ZeroPointSearch) else impl(x)
    return out


class ParameterFromStatsFromParameterZeroPoint(StartsFromParameters):
    """A learned zero point that starts from a statistic of the parameters at the first call."""

    def __init__(
        self,
        int_quant: nn.Module,
        quantize_zero_point: bool,
        zero_point_stats_input_view_shape_impl: nn.Module,
        zero_point_stats_input_concat_dim: int,
        zero_point_stats_impl: nn.Module,
        zero_point_shape: tuple[int, ...],
        tracked_parameter_list: list[nn.Parameter],
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        self.parameter_list_stats = _ParameterListStats(
            zero_point_stats_impl,
            zero_point_shape,
            zero_point_stats_input_view_shape_impl,
            zero_point_stats_input_concat_dim,
            tracked_parameter_list,
        )
        self.scale_shift_zero_point = _ScaleShiftZeroPoint(int_quant, quantize_zero_point)
        self.value = nn.Parameter(torch.zeros(zero_point_shape, dtype=dtype, device=device))

    def forward(self, x: Tensor, scale: Tensor, bit_width: Tensor) -> Tensor:
        if not self.init_done:
            stats = self.parameter_list_stats
            with torch.no_grad():
                lowest = _lowest(stats.stats.stats_impl, stats.view(x), scale)
                self.value.copy_(lowest.reshape(self.value.shape))
            self.init_done = True
        out: Tensor = self.scale_shift_zero_point(abs_binary_sign_grad(self.value), scale, bit_width)
        return out


class ParameterZeroPoint(OptionalState):
    """A learned zero point with a given start (as a real offset)."""

    follows_input = False
    """Whether the zero point depends on the tensor to quantize."""

    def __init__(
        self,
        zero_point_init: float | Tensor,
        int_quant: nn.Module,
        quantize_zero_point: bool,
        zero_point_shape: tuple[int, ...] = (),
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        init = torch.as_tensor(zero_point_init, dtype=dtype or torch.float32, device=device).detach().clone()
        self.value = nn.Parameter(init.expand(zero_point_shape).clone())
        self.scale_shift_zero_point = _ScaleShiftZeroPoint(int_quant, quantize_zero_point)

    def forward(self, x: Tensor, scale: Tensor, bit_width: Tensor) -> Tensor:
        out: Tensor = self.scale_shift_zero_point(abs_binary_sign_grad(self.value), scale, bit_width)
        return out


class ParameterFromRuntimeZeroPoint(StartsFromBatches):
    """A learned zero point that starts from statistics of the first batches; see the scale of the same kind."""

    def __init__(
        self,
        collect_stats_steps: int,
        int_quant: nn.Module,
        quantize_zero_point: bool,
        zero_point_stats_impl: nn.Module,
        zero_point_shape: tuple[int, ...],
        zero_point_stats_input_view_shape_impl: nn.Module,
        zero_point_stats_momentum: float | None = DEFAULT_MOMENTUM,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__(collect_stats_steps)
        self.zero_point_shape = zero_point_shape
        self.momentum = zero_point_stats_momentum
        self.stats_input_view_shape_impl = zero_point_stats_input_view_shape_impl
        self.zero_point_stats_impl = zero_point_stats_impl
        self.value = nn.Parameter(torch.zeros(zero_point_shape, dtype=dtype, device=device))
        self.register_buffer("buffer", torch.zeros(zero_point_shape, dtype=dtype, device=device), persistent=False)
        self.scale_shift_zero_point = _ScaleShiftZeroPoint(int_quant, quantize_zero_point)

    def init_zp(self) -> None:
        """End the collection: the average becomes the learned parameter."""
        self._end_collection()

    def _offset(self, x: Tensor, scale: Tensor) -> Tensor:
        if self.follows_input:
            stats = _lowest(self.zero_point_stats_impl, self.stats_input_view_shape_impl(x), scale)
            stats = stats.view(self.zero_point_shape)
            self.counter += 1
            momentum_update(self.buffer, stats.detach(), self.momentum, self.counter)
            offset: Tensor = stats + 0.0 * self.value
            return offset
        if self.training:
            self.init_zp()
        return self.buffer if self.is_collecting else self.value

    def forward(self, x: Tensor, scale: Tensor, bit_width: Tensor) -> Tensor:
        out: Tensor = self.scale_shift_zero_point(abs_binary_sign_grad(self._offset(x, scale)), scale, bit_width)
        return out
