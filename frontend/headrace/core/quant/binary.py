"""Two values."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headrace.core import functional
from headrace.core.bit_width import BitWidthConst
from headrace.core.function_wrapper import InplaceTensorClampSte, TensorClamp
from headrace.core.quant.delay import DelayWrapper
from headrace.core.quant.int import TensorQuantOutput
from headrace.core.stateless import StatelessBuffer
from headrace.inject.errors import QuantizerValueError


class BinaryQuant(nn.Module):
    """``scale`` where ``x >= 0``, otherwise ``-scale``; the gradient passes everywhere."""

    def __init__(self, scaling_impl: nn.Module, signed: bool = True, quant_delay_steps: int = 0) -> None:
        super().__init__()
        if not signed:
            raise QuantizerValueError("binary quantization has the values -scale and +scale: signed must be True")
        self.scaling_impl = scaling_impl
        self.bit_width = BitWidthConst(1)
        self.zero_point = StatelessBuffer(torch.tensor(0.0))
        self.delay_wrapper = DelayWrapper(quant_delay_steps)

    def clamp(self, x: Tensor, scale: Tensor) -> Tensor:
        """What happens to *x* before its sign is taken; the identity here."""
        return x

    def forward(self, x: Tensor) -> TensorQuantOutput:
        scale: Tensor = self.scaling_impl(x)
        y = functional.binary_sign_ste(self.clamp(x, scale)) * scale
        return self.delay_wrapper(x, y), scale, self.zero_point.value, self.bit_width()


class ClampedBinaryQuant(BinaryQuant):
    """:class:`BinaryQuant` of ``clamp(x, -scale, scale)``: no gradient outside."""

    def __init__(
        self, scaling_impl: nn.Module, tensor_clamp_impl: nn.Module | None = None, quant_delay_steps: int = 0
    ) -> None:
        super().__init__(scaling_impl, True, quant_delay_steps)
        self.tensor_clamp_impl = tensor_clamp_impl or TensorClamp()

    def clamp(self, x: Tensor, scale: Tensor) -> Tensor:
        in_place = isinstance(self.tensor_clamp_impl, InplaceTensorClampSte)
        if in_place and not self.training:  # evaluation never changes the weights
            return x
        out: Tensor = self.tensor_clamp_impl(x, -scale, scale)
        return out
