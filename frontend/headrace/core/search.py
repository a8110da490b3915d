"""Thresholds and zero points found by searching for the least squared error of quantization."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headrace.core.restrict_val import RestrictValue
from headrace.core.stats import AbsMax, NegativeMinOrZero

__all__ = ["IntegerTrial", "MSEThreshold", "MSEZeroPoint", "Reducing", "ZeroPointSearch", "grid_search"]


def grid_search(end: Tensor, count: int, loss: Callable[[Tensor], Tensor]) -> Tensor:
    """The best of *count* equidistant candidates from ``end / count`` to *end*, element by element.

    Args:
        end: the extreme candidate; of either sign.
        count: number of candidates, at least 2.
        loss: one number an element of *end*, for a candidate of its shape.
    """
    start = end / count
    low, high = torch.minimum(start, end), torch.maximum(start, end)
    best, best_loss = low, loss(low)
    for fraction in torch.linspace(1.0 / (count - 1), 1.0, count - 1).tolist() if count > 1 else []:
        candidate = low + (high - low) * fraction
        error = loss(candidate)
        best = torch.where(error < best_loss, candidate, best)
        best_loss = torch.minimum(error, best_loss)
    return best


@dataclass(frozen=True)
class IntegerTrial:
    """What an integer quantizer would make of a tensor, its parts shared with the quantizer.

    Args:
        int_quant, int_scaling_impl, bit_width_impl: see :class:`headrace.core.quant.RescalingIntQuant`.
        restrict: restriction of the scale, ``None`` for none.
        min_val: lower bound of the threshold.
    """

    int_quant: Any
    int_scaling_impl: Any
    bit_width_impl: Any
    restrict: RestrictValue | None = None
    min_val: float = 0.0

    def bit_width(self) -> Tensor:
        """Bits of the integers."""
        out: Tensor = self.bit_width_impl().detach()
        return out

    def scale(self, threshold: Tensor) -> Tensor:
        """The scale of *threshold*."""
        threshold = threshold.clamp_min(self.min_val) if self.min_val else threshold
        if self.restrict is not None:
            threshold = self.restrict(self.restrict.inverse(threshold))
        out: Tensor = threshold / self.int_scaling_impl(self.bit_width())
        return out

    def zero_point(self, offset: Tensor, scale: Tensor, quantize: bool) -> Tensor:
        """The zero point that stands for 0 where *offset* below 0 is the lowest integer."""
        exact = offset / scale + self.int_quant.min_int(self.bit_width())
        out: Tensor = self.int_quant.integers_of(exact, self.bit_width()) if quantize else exact
        return out

    def value(self, x: Tensor, scale: Tensor, zero_point: Tensor | float = 0.0) -> Tensor:
        """*x* quantized."""
        q: Tensor = self.int_quant.integers_of(x / scale + zero_point, self.bit_width())
        return (q - zero_point) * scale


class Reducing(nn.Module):
    """One result for everything (``stats_reduce_dim=None``), or one a row along a dimension."""

    def __init__(self, stats_reduce_dim: int | None, keepdim: bool) -> None:
        super().__init__()
        self.stats_reduce_dim = stats_reduce_dim
        self.keepdim = keepdim

    def spread(self, result: Tensor) -> Tensor:
        """*result* so that it broadcasts over what it was computed from."""
        if self.stats_reduce_dim is None or self.keepdim:
            return result
        return result.unsqueeze(self.stats_reduce_dim)

    def squared_error(self, difference: Tensor) -> Tensor:
        """Sum of squares, in the shape of the result."""
        squares = difference.square()
        return squares.sum() if self.stats_reduce_dim is None else squares.sum(self.stats_reduce_dim, self.keepdim)


class MSEThreshold(Reducing):
    """The threshold of ``mse_iters`` fractions of ``mse_init_op(x)`` that quantizes with the least squared error.

    Args:
        int_quant, int_scaling_impl, bit_width_impl: parts of the quantizer.
        mse_init_op: the largest threshold: of magnitudes, or of a range for integers with a zero point.
        restrict_scaling_impl: restriction of the scale; it applies where parameters are quantized (activations take
            the restricted scale only once they learn).
        tracked_parameter_list: the parameters, ``None`` for activations.
        scaling_min_val: lower bound of the threshold.
        stats_reduce_dim, keepdim: ``None`` for one threshold, otherwise one a row.
        mse_iters: number of candidates.
        asymmetric: whether there is a zero point; it follows ``min(x, 0)`` meanwhile.
        quantize_zero_point: whether it is an integer.
    """

    def __init__(
        self,
        int_quant: nn.Module,
        int_scaling_impl: nn.Module,
        bit_width_impl: nn.Module,
        mse_init_op: nn.Module | None = None,
        restrict_scaling_impl: RestrictValue | None = None,
        tracked_parameter_list: list[nn.Parameter] | None = None,
        scaling_min_val: float | None = None,
        stats_reduce_dim: int | None = None,
        keepdim: bool = False,
        mse_iters: int = 20,
        asymmetric: bool = False,
        quantize_zero_point: bool = True,
    ) -> None:
        super().__init__(stats_reduce_dim, keepdim)
        restrict = None if tracked_parameter_list is None else restrict_scaling_impl
        self.trial = IntegerTrial(int_quant, int_scaling_impl, bit_width_impl, restrict, scaling_min_val or 0.0)
        self.mse_init_op = mse_init_op or AbsMax(stats_reduce_dim, keepdim)
        self.lowest = NegativeMinOrZero(stats_reduce_dim, keepdim) if asymmetric else None
        self.quantize_zero_point = quantize_zero_point
        self.mse_iters = mse_iters

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        offset = None if self.lowest is None else self.spread(-self.lowest(x))

        def loss(threshold: Tensor) -> Tensor:
            scale = self.trial.scale(self.spread(threshold))
            zero = 0.0 if offset is None else self.trial.zero_point(offset, scale, self.quantize_zero_point)
            return self.squared_error(self.trial.value(x, scale, zero) - x)

        return grid_search(self.mse_init_op(x), self.mse_iters, loss)


class ZeroPointSearch(Reducing):
    """Base of statistics for a zero point that also need the scale."""

    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        """The real number (at most 0) that the lowest integer stands for."""
        raise NotImplementedError

    def row_scale(self, scale: Tensor, x: Tensor) -> Tensor:
        """*scale* so that it broadcasts over the rows *x*."""
        if scale.numel() == 1:
            return scale.reshape(())
        return scale if scale.dim() == x.dim() else scale.reshape(-1, *[1] * (x.dim() - 1))


class MSEZeroPoint(ZeroPointSearch):
    """The lowest real number of ``mse_iters`` fractions of ``min(x, 0)`` that quantizes with least squared error.

    Args:
        int_quant, int_scaling_impl, bit_width_impl: parts of the quantizer.
        quantize_zero_point: whether the zero point is an integer.
        stats_reduce_dim, keepdim: ``None`` for one zero point, otherwise one a row.
        mse_iters: number of candidates.
    """

    def __init__(
        self,
        int_quant: nn.Module,
        int_scaling_impl: nn.Module,
        bit_width_impl: nn.Module,
        quantize_zero_point: bool = True,
        stats_reduce_dim: int | None = None,
        keepdim: bool = False,
        mse_iters: int = 20,
    ) -> None:
        super().__init__(stats_reduce_dim, keepdim)
        self.trial = IntegerTrial(int_quant, int_scaling_impl, bit_width_impl)
        self.lowest = NegativeMinOrZero(stats_reduce_dim, keepdim)
        self.quantize_zero_point = quantize_zero_point
        self.mse_iters = mse_iters

    @torch.no_grad()
    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        scale = self.row_scale(scale, x)

        def loss(lowest: Tensor) -> Tensor:
            zero = self.trial.zero_point(self.spread(-lowest), scale, self.quantize_zero_point)
            return self.squared_error(self.trial.value(x, scale, zero) - x)

        return grid_search(self.lowest(x), self.mse_iters, loss)
