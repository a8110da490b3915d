"""Constants that move with a module but are no part of its state dictionary."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class StatelessBuffer(nn.Module):
    """A constant tensor; follows the module's device and dtype, is never saved."""

    value: Tensor

    def __init__(self, value: Tensor) -> None:
        super().__init__()
        self.register_buffer("value", value.detach(), persistent=False)

    def forward(self) -> Tensor:
        return self.value


def optional_dtype(value: float, dtype: torch.dtype | None, device: torch.device | None) -> Tensor:
    """A scalar tensor in *dtype* on *device*, float32 on the CPU where they are ``None``."""
    return torch.tensor(float(value), dtype=dtype or torch.float32, device=device)
