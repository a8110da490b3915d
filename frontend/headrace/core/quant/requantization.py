"""Integers that get fewer bits: truncated or clamped."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headrace.core import functional
from headrace.core.function_wrapper import TensorClamp
from headrace.core.quant.delay import DelayWrapper
from headrace.core.quant.int import TensorQuantOutput
from headrace.core.quant.int_base import IntQuant
from headrace.core.scaling import TruncMsbScaling
from headrace.core.stateless import StatelessBuffer


class PrescaledRestrictIntQuantWithInputBitWidth(nn.Module):
    """Clamping of integers: scale from outside, and a bit width that depends on the one of the input.

    Args:
        int_quant: integer quantization.
        bit_width_impl: bits to keep of an input bit width.
    """

    def __init__(self, int_quant: IntQuant, bit_width_impl: nn.Module) -> None:
        super().__init__()
        self.int_quant = int_quant
        self.msb_clamp_bit_width_impl = bit_width_impl
        self.zero_point = StatelessBuffer(torch.tensor(0.0))

    def forward(self, x: Tensor, scale: Tensor, input_bit_width: Tensor) -> TensorQuantOutput:
        bit_width: Tensor = self.msb_clamp_bit_width_impl(input_bit_width)
        zero_point = self.zero_point.value
        return self.int_quant(scale, zero_point, bit_width, x), scale, zero_point, bit_width


class TruncIntQuant(nn.Module):
    """Shortens integers: ``clamp(round(integer / step))``; the step keeps the most significant bits by default.

    Args:
        float_to_int_impl: rounding.
        bit_width_impl: bits to keep.
        trunc_scaling_impl: the step.
        narrow_range: drop the lowest (signed) or highest (unsigned) integer.
        tensor_clamp_impl: clamping.
        quant_delay_steps: training steps before quantization starts.
    """

    def __init__(
        self,
        float_to_int_impl: nn.Module,
        bit_width_impl: nn.Module,
        trunc_scaling_impl: nn.Module | None = None,
        narrow_range: bool = False,
        tensor_clamp_impl: nn.Module | None = None,
        quant_delay_steps: int = 0,
    ) -> None:
        super().__init__()
        self.narrow_range = narrow_range
        self.msb_clamp_bit_width_impl = bit_width_impl
        self.trunc_scaling_impl = trunc_scaling_impl or TruncMsbScaling()
        self.float_to_int_impl = float_to_int_impl
        self.tensor_clamp_impl = tensor_clamp_impl or TensorClamp()
        self.delay_wrapper = DelayWrapper(quant_delay_steps)

    def forward(
        self, x: Tensor, scale: Tensor, zero_point: Tensor, input_bit_width: Tensor, signed: bool
    ) -> TensorQuantOutput:
        bit_width: Tensor = self.msb_clamp_bit_width_impl()
        integers = functional.round_ste(x / scale + zero_point)
        step: Tensor = self.trunc_scaling_impl(integers, input_bit_width, bit_width, signed)
        y = self.tensor_clamp_impl(
            self.float_to_int_impl(integers / step),
            min_val=functional.min_int(signed, self.narrow_range, bit_width),
            max_val=functional.max_int(signed, self.narrow_range, bit_width),
        )
        output_scale, output_zero_point = scale * step, zero_point / step
        y = (y - output_zero_point) * output_scale
        return self.delay_wrapper(x, y), output_scale, output_zero_point, bit_width
