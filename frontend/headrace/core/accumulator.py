"""Weights that keep the accumulator within a given width: A2Q (Colbert et al., 2023) and A2Q+ (2024).

With ``w`` the float weights of one output channel, ``g`` a learned norm and ``s`` the scale, the integers are::

    trunc(w / |w|_1 * min(g / s, T))

Truncation only shrinks, so the sum of their magnitudes stays at most ``T``, which is chosen such that no input of the
known width and sign can drive the accumulator over ``P`` bits.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headrace.core import functional
from headrace.core.quant import TensorQuantOutput
from headrace.core.stateless import StatelessBuffer

__all__ = ["AccumulatorAwareIntQuant", "l1_norm_bound", "zero_centered_l1_norm_bound"]

_ROUNDING_MARGIN = 1.0 - 2.0**-20
"""Float32 rounding on the way must not carry the sum of magnitudes over the bound."""


def l1_norm_bound(accumulator_bits: Tensor, input_bits: Tensor, input_signed: bool) -> Tensor:
    """Largest sum of integer weight magnitudes: ``(2**(P-1) - 1) / 2**(N - signed)`` (A2Q, equation 9)."""
    return (2.0 ** (accumulator_bits - 1.0) - 1.0) * 2.0 ** (float(input_signed) - input_bits)


def zero_centered_l1_norm_bound(accumulator_bits: Tensor, input_bits: Tensor) -> Tensor:
    """The same for weights that sum to zero: ``(2**P - 2) / (2**N - 1)`` (A2Q+, equation 11)."""
    return (2.0**accumulator_bits - 2.0) / (2.0**input_bits - 1.0)


class AccumulatorAwareIntQuant(nn.Module):
    """Narrow signed integer weights, per output channel, bounded for an accumulator.

    Args:
        scaling_impl: scale, one an output channel.
        bit_width_impl: bits of the weights.
        tracked_parameter_list: the weight, from which the learned norm starts.
        output_channel_dim: dimension of the weight that holds output channels.
        accumulator_bit_width: bits of the accumulator.
        zero_center: subtract the mean of each channel first (A2Q+).
        pre_scaling_min_val: lower bound of the divisor of the weights.
    """

    def __init__(
        self,
        scaling_impl: nn.Module,
        bit_width_impl: nn.Module,
        tracked_parameter_list: list[nn.Parameter],
        output_channel_dim: int,
        accumulator_bit_width: int,
        zero_center: bool = False,
        pre_scaling_min_val: float = 1e-10,
    ) -> None:
        super().__init__()
        self.scaling_impl = scaling_impl
        self.msb_clamp_bit_width_impl = bit_width_impl
        self.output_channel_dim = output_channel_dim
        self.zero_center = zero_center
        self.pre_scaling_min_val = pre_scaling_min_val
        self.accumulator_bit_width = StatelessBuffer(torch.tensor(float(accumulator_bit_width)))
        self.zero_point = StatelessBuffer(torch.tensor(0.0))
        with torch.no_grad():
            norm = self._norm(self._centered(tracked_parameter_list[0]))
            self.value = nn.Parameter(torch.log2(norm.clamp_min(pre_scaling_min_val)))

    def _other_dims(self, w: Tensor) -> list[int]:
        return [d for d in range(w.dim()) if d != self.output_channel_dim]

    def _centered(self, w: Tensor) -> Tensor:
        return w - w.mean(self._other_dims(w), keepdim=True) if self.zero_center else w

    def _norm(self, w: Tensor) -> Tensor:
        return w.abs().sum(self._other_dims(w), keepdim=True)

    def bound(self, input_bit_width: Tensor, input_signed: bool) -> Tensor:
        """Largest sum of integer weight magnitudes for inputs of this width and sign."""
        accumulator_bits = self.accumulator_bit_width.value
        if self.zero_center:
            return zero_centered_l1_norm_bound(accumulator_bits, input_bit_width)
        return l1_norm_bound(accumulator_bits, input_bit_width, input_signed)

    def forward(self, x: Tensor, input_bit_width: Tensor, input_signed: bool) -> TensorQuantOutput:
        bit_width: Tensor = self.msb_clamp_bit_width_impl()
        scale: Tensor = self.scaling_impl(x)
        centered = self._centered(x)
        bound = self.bound(input_bit_width, input_signed) * _ROUNDING_MARGIN
        allowed = torch.minimum(torch.pow(2.0, self.value) / scale, bound)
        divisor = functional.clamp_min_ste(self._norm(centered) / allowed, self.pre_scaling_min_val)
        q = functional.straight_through(centered / divisor, functional.round_to_zero)
        q = functional.tensor_clamp(
            q, functional.min_int(True, True, bit_width), functional.max_int(True, True, bit_width)
        )
        return q * scale, scale, self.zero_point.value, bit_width
