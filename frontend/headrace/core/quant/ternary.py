"""Three values."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headrace.core import functional
from headrace.core.bit_width import BitWidthConst
from headrace.core.quant.delay import DelayWrapper
from headrace.core.quant.int import TensorQuantOutput
from headrace.core.stateless import StatelessBuffer


class TernaryQuant(nn.Module):
    """``sign(x) * scale`` where ``|x| > threshold * scale``, otherwise 0; the gradient passes the kept elements."""

    def __init__(self, scaling_impl: nn.Module, threshold: float, quant_delay_steps: int | None = None) -> None:
        super().__init__()
        self.scaling_impl = scaling_impl
        self.threshold = threshold
        self.bit_width = BitWidthConst(2)
        self.zero_point = StatelessBuffer(torch.tensor(0.0))
        self.delay_wrapper = DelayWrapper(quant_delay_steps)

    def forward(self, x: Tensor) -> TensorQuantOutput:
        scale: Tensor = self.scaling_impl(x)
        kept = (x.abs() > self.threshold * scale).to(x.dtype)
        y = kept * functional.straight_through(x, torch.sign) * scale
        return self.delay_wrapper(x, y), scale, self.zero_point.value, self.bit_width()
