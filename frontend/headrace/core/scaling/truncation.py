"""How much a truncation cuts off the integers it gets."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headrace.core.function_wrapper import TensorClamp


class TruncMsbScaling(nn.Module):
    """Down to the most significant bits: ``2 ** (bits in - bits out)``."""

    def forward(self, scaling_input: Tensor, input_bit_width: Tensor, output_bit_width: Tensor, signed: bool) -> Tensor:
        return torch.pow(2.0, input_bit_width - output_bit_width)


class TruncScalingWrapper(nn.Module):
    """As a scale says, between 1 and what is left for the most significant bits.

    Args:
        trunc_int_scaling_impl: the integer that the largest result maps to.
        scaling_impl: the scale, of integers.
        tensor_clamp_impl: clamping.
    """

    def __init__(
        self, trunc_int_scaling_impl: nn.Module, scaling_impl: nn.Module, tensor_clamp_impl: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.trunc_int_scaling_impl = trunc_int_scaling_impl
        self.scaling_impl = scaling_impl
        self.tensor_clamp_impl = tensor_clamp_impl or TensorClamp()

    def forward(self, scaling_input: Tensor, input_bit_width: Tensor, output_bit_width: Tensor, signed: bool) -> Tensor:
        threshold: Tensor = self.trunc_int_scaling_impl(output_bit_width, signed)
        scale: Tensor = self.scaling_impl(scaling_input, threshold)
        most_significant = torch.pow(2.0, input_bit_width - output_bit_width)
        one = torch.ones_like(most_significant)
        out: Tensor = self.tensor_clamp_impl(
            scale, torch.minimum(most_significant, one), torch.maximum(most_significant, one)
        )
        return out
