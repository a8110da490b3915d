"""Elementwise functions as modules."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Identity(nn.Module):
    """Returns its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class PowerOfTwo(nn.Module):
    """``2 ** x``; exact for integer *x*, which ``torch.exp2`` does not promise."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.pow(2.0, x)


class LogTwo(nn.Module):
    """``log2(x)``."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.log2(x)
