"""Thresholds found by searching for the least squared error of quantization."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headrace.core import functional

__all__ = ["MSEThreshold"]


class MSEThreshold(nn.Module):
    """The threshold of ``mse_iters`` fractions of ``max |x|`` that quantizes *x* with the least squared error.

    Args:
        bit_width, signed, narrow_range: integer format.
        stats_reduce_dim: ``None`` for one threshold, 1 for one a row.
        mse_iters: number of candidates.
    """

    def __init__(
        self,
        bit_width: int,
        signed: bool,
        narrow_range: bool,
        stats_reduce_dim: int | None = None,
        mse_iters: int = 20,
    ) -> None:
        super().__init__()
        self.low, self.high = functional.integer_range(bit_width, signed, narrow_range)
        self.integer_threshold = -self.low if signed else self.high
        self.stats_reduce_dim = stats_reduce_dim
        self.mse_iters = mse_iters

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(1, -1) if self.stats_reduce_dim is None else x
        largest = rows.abs().amax(1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
        best, best_error = largest, torch.full_like(largest, float("inf"))
        for step in range(self.mse_iters, 0, -1):
            threshold = largest * (step / self.mse_iters)
            scale = threshold / self.integer_threshold
            q = functional.quantize_to_int(rows, scale, None, self.low, self.high)
            error = (q * scale - rows).square().sum(1, keepdim=True)
            best = torch.where(error < best_error, threshold, best)
            best_error = torch.minimum(error, best_error)
        return best.reshape(()) if self.stats_reduce_dim is None else best.reshape(-1)
