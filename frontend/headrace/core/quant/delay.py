"""Quantization that starts after some training steps."""

from __future__ import annotations

from torch import Tensor, nn


class _NoDelay(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return y


class _DelayQuant(nn.Module):
    """Passes the unquantized tensor for the first training steps."""

    def __init__(self, quant_delay_steps: int) -> None:
        super().__init__()
        self.quant_delay_steps = quant_delay_steps

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if self.training and self.quant_delay_steps > 0:
            self.quant_delay_steps -= 1
            return x
        return y


class DelayWrapper(nn.Module):
    """Delays quantization by a number of training steps."""

    def __init__(self, quant_delay_steps: int | None) -> None:
        super().__init__()
        self.delay_impl: nn.Module = _DelayQuant(quant_delay_steps) if quant_delay_steps else _NoDelay()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        out: Tensor = self.delay_impl(x, y)
        return out
