"""Weight quantizers that divide by one scale and multiply by another: normalization and learned scale apart.

integer = clamp(round(w / pre_scale + pre_zero_point), low, high)
value   = (integer - zero_point) * scale
"""

from __future__ import annotations

from torch import Tensor, nn

from headrace.core.quant.int_base import IntQuant, check_range

__all__ = ["DecoupledIntQuant", "DecoupledRescalingIntQuant"]

DecoupledOutput = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


class DecoupledIntQuant(IntQuant):
    """Uniform integer quantization with one scale and zero point before the rounding and another after it."""

    def forward(  # type: ignore[override]
        self,
        pre_scale: Tensor,
        pre_zero_point: Tensor,
        scale: Tensor,
        zero_point: Tensor,
        bit_width: Tensor,
        x: Tensor,
    ) -> Tensor:
        y = (self.to_int(pre_scale, pre_zero_point, bit_width, x) - zero_point) * scale
        out: Tensor = self.delay_wrapper(x, y)
        return out


class DecoupledRescalingIntQuant(nn.Module):
    """Computes both scales and zero points and quantizes with them.

    Args:
        decoupled_int_quant: integer quantization.
        pre_scaling_impl, pre_zero_point_impl: before the rounding.
        scaling_impl, zero_point_impl: after it.
        int_scaling_impl: the integer that the thresholds map to.
        bit_width_impl: bits.

    Returns:
        ``(value, scale, zero_point, bit_width, pre_scale, pre_zero_point)``.
    """

    def __init__(
        self,
        decoupled_int_quant: DecoupledIntQuant,
        pre_scaling_impl: nn.Module,
        scaling_impl: nn.Module,
        int_scaling_impl: nn.Module,
        pre_zero_point_impl: nn.Module,
        zero_point_impl: nn.Module,
        bit_width_impl: nn.Module,
    ) -> None:
        super().__init__()
        check_range(decoupled_int_quant, bit_width_impl)
        self.decoupled_int_quant = decoupled_int_quant
        self.pre_scaling_impl = pre_scaling_impl
        self.scaling_impl = scaling_impl
        self.int_scaling_impl = int_scaling_impl
        self.pre_zero_point_impl = pre_zero_point_impl
        self.zero_point_impl = zero_point_impl
        self.msb_clamp_bit_width_impl = bit_width_impl
        self.observer_only = False

    def forward(self, x: Tensor) -> DecoupledOutput:
        bit_width: Tensor = self.msb_clamp_bit_width_impl()
        threshold: Tensor = self.int_scaling_impl(bit_width)
        pre_scale: Tensor = self.pre_scaling_impl(x) / threshold
        pre_zero_point: Tensor = self.pre_zero_point_impl(x, pre_scale, bit_width)
        scale: Tensor = self.scaling_impl(x, threshold)
        zero_point: Tensor = self.zero_point_impl(x, scale, bit_width)
        if self.observer_only:
            return x, scale, zero_point, bit_width, pre_scale, pre_zero_point
        y = self.decoupled_int_quant(pre_scale, pre_zero_point, scale, zero_point, bit_width, x)
        return y, scale, zero_point, bit_width, pre_scale, pre_zero_point
