"""Elementwise functions as modules."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headrace.core.functional import abs_binary_sign_grad


class Identity(nn.Module):
    """Returns its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Abs(nn.Module):
    """``|x|``, with the gradient +1 at 0."""

    def forward(self, x: Tensor) -> Tensor:
        return abs_binary_sign_grad(x)


class PowerOfTwo(nn.Module):
    """``2 ** x``; exact for integer *x*, which ``torch.exp2`` does not promise."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.pow(2.0, x)


class LogTwo(nn.Module):
    """``log2(x)``."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.log2(x)
