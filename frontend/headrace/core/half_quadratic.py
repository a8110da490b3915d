"""Scale and zero point by half-quadratic optimization (HQQ, Badri and Shaji, 2023).

The error of quantization is split in a sparse part ``e``, which a shrinkage with an Lp norm below 1 finds, and a part
that scale or zero point can remove; both are improved in turns while the mean absolute error falls.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headrace.core.restrict_val import RestrictValue
from headrace.core.search import IntegerTrial, Reducing, ZeroPointSearch
from headrace.core.stats import NegativeMinOrZero

__all__ = ["HalfQuadraticOptimizerScale", "HalfQuadraticOptimizerZeroPoint", "masked_median", "shrink_lp_op"]


def masked_median(x: Tensor, mask: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Median of the elements of *x* where *mask* is true; NaN where none is."""
    chosen = x.float().masked_fill(~mask, float("nan"))
    return chosen.nanmedian() if dim is None else chosen.nanmedian(dim, keepdim).values


def shrink_lp_op(x: Tensor, beta: float, lp_norm: float) -> Tensor:
    """The proximal step of the Lp norm: ``sign(x) * max(|x| - |x| ** (p - 1) / beta, 0)``."""
    magnitude = x.abs()
    return x.sign() * torch.relu(magnitude - magnitude.pow(lp_norm - 1.0) / beta)


class HalfQuadraticOptimizerScale(Reducing):
    """The threshold of a scale.

    Args:
        hqo_init_op_scale: statistic to start from.
        int_quant, int_scaling_impl, bit_width_impl, restrict_scaling_impl, scaling_min_val: parts of the quantizer.
        stats_reduce_dim, keepdim: ``None`` for one threshold, otherwise one a row.
        hqo_beta_scale, hqo_kappa_scale: weight of the sparse part, and its factor each turn.
        hqo_lp_norm_scale: exponent of the norm.
        hqo_iters_scale: most turns.
    """

    def __init__(
        self,
        hqo_init_op_scale: nn.Module,
        int_quant: nn.Module,
        int_scaling_impl: nn.Module,
        bit_width_impl: nn.Module,
        restrict_scaling_impl: RestrictValue | None = None,
        scaling_min_val: float | None = None,
        stats_reduce_dim: int | None = None,
        keepdim: bool = False,
        hqo_beta_scale: float = 1e5,
        hqo_kappa_scale: float = 1.01,
        hqo_lp_norm_scale: float = 0.7,
        hqo_iters_scale: int = 1000,
    ) -> None:
        super().__init__(stats_reduce_dim, keepdim)
        self.trial = IntegerTrial(
            int_quant, int_scaling_impl, bit_width_impl, restrict_scaling_impl, scaling_min_val or 0.0
        )
        self.hqo_init_op = hqo_init_op_scale
        self.beta, self.kappa, self.lp_norm = hqo_beta_scale, hqo_kappa_scale, hqo_lp_norm_scale
        self.hqo_iters = hqo_iters_scale

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        candidate: Tensor = self.hqo_init_op(x)
        best = candidate
        best_loss, beta = float("inf"), self.beta
        for _ in range(self.hqo_iters):
            scale = self.trial.scale(self.spread(candidate))
            value = self.trial.value(x, scale)
            loss = float((value - x).abs().mean())
            if loss >= best_loss:
                break
            best, best_loss = candidate, loss
            kept = x - shrink_lp_op(x - value, beta, self.lp_norm)
            n = torch.round(value / scale)
            ratio = masked_median(kept / n, (kept != 0) & (n != 0), self.stats_reduce_dim, self.keepdim)
            threshold = ratio.type_as(x).clamp_min(self.trial.min_val) * self.trial.int_scaling_impl(
                self.trial.bit_width()
            )
            candidate = torch.where(torch.isfinite(threshold), threshold, candidate)
            beta *= self.kappa
        return best


class HalfQuadraticOptimizerZeroPoint(ZeroPointSearch):
    """The lowest real number of a grid whose scale is given; the zero point is not rounded meanwhile.

    Args:
        int_quant, int_scaling_impl, bit_width_impl: parts of the quantizer.
        stats_reduce_dim, keepdim: ``None`` for one zero point, otherwise one a row.
        hqo_beta_zp, hqo_kappa_zp: weight of the sparse part, and its factor each turn.
        hqo_lp_norm_zp: exponent of the norm.
        hqo_iters_zp: most turns.
    """

    def __init__(
        self,
        int_quant: nn.Module,
        int_scaling_impl: nn.Module,
        bit_width_impl: nn.Module,
        stats_reduce_dim: int | None = None,
        keepdim: bool = False,
        hqo_beta_zp: float = 1.0,
        hqo_kappa_zp: float = 1.01,
        hqo_lp_norm_zp: float = 0.5,
        hqo_iters_zp: int = 1000,
    ) -> None:
        super().__init__(stats_reduce_dim, keepdim)
        self.trial = IntegerTrial(int_quant, int_scaling_impl, bit_width_impl)
        self.lowest = NegativeMinOrZero(stats_reduce_dim, keepdim)
        self.beta, self.kappa, self.lp_norm = hqo_beta_zp, hqo_kappa_zp, hqo_lp_norm_zp
        self.hqo_iters = hqo_iters_zp

    @torch.no_grad()
    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        scale = self.row_scale(scale, x)
        candidate: Tensor = self.lowest(x)
        best = candidate
        best_loss, beta = float("inf"), self.beta
        for _ in range(self.hqo_iters):
            zero = self.trial.zero_point(self.spread(-candidate), scale, quantize=False)
            value = self.trial.value(x, scale, zero)
            loss = float((value - x).abs().mean())
            if loss >= best_loss:
                break
            best, best_loss = candidate, loss
            lowest = (x - shrink_lp_op(x - value, beta, self.lp_norm)) - (value / scale + zero) * scale
            if self.stats_reduce_dim is None:
                candidate = lowest.mean()
            else:
                candidate = lowest.mean(self.stats_reduce_dim, self.keepdim)
            beta *= self.kappa
        return best
