"""Clamping as modules."""

from __future__ import annotations

from torch import Tensor, nn

from headrace.core import functional


class TensorClamp(nn.Module):
    """Clamps between tensors; clamped elements get no gradient, the active bound gets it."""

    def forward(self, x: Tensor, min_val: Tensor, max_val: Tensor) -> Tensor:
        return functional.tensor_clamp(x, min_val, max_val)


class ClampMin(nn.Module):
    """Lower bound by a number; no gradient below it."""

    def __init__(self, min_val: float) -> None:
        super().__init__()
        self.min_val = min_val

    def forward(self, x: Tensor) -> Tensor:
        return x.clamp_min(self.min_val)


class ScalarClamp(nn.Module):
    """Clamps between two numbers."""

    def __init__(self, min_val: float, max_val: float) -> None:
        super().__init__()
        self.min_val = min_val
        self.max_val = max_val

    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(self.min_val, self.max_val)
