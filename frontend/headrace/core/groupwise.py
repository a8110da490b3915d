"""Weights with a scale for every group of neighbours along the input dimension."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from headrace.core import autograd, functional
from headrace.core.quant import TensorQuantOutput
from headrace.core.zero_point import ZeroZeroPoint

__all__ = ["GroupwiseIntQuant"]


class GroupwiseIntQuant(nn.Module):
    """Integers at the scale of the largest magnitude of each group; the last group of a row may be shorter.

    The scale that is returned has the shape of the weight, so that whatever takes a scale can use it.

    Args:
        group_size: elements that share a scale.
        signed, narrow_range: integer format.
        bit_width_impl: bits.
        int_scaling_impl: integer that the largest magnitude maps to.
        scaling_min_val: lower bound of the largest magnitude.
        group_dim: dimension that the groups divide.
    """

    def __init__(
        self,
        group_size: int,
        signed: bool,
        narrow_range: bool,
        bit_width_impl: nn.Module,
        int_scaling_impl: nn.Module,
        scaling_min_val: float = 1e-10,
        group_dim: int = 1,
    ) -> None:
        super().__init__()
        self.group_size = group_size
        self.group_dim = group_dim
        self.signed = signed
        self.narrow_range = narrow_range
        self.min_val = scaling_min_val
        self.int_scaling_impl = int_scaling_impl
        self.zero_point_impl = ZeroZeroPoint()
        self.msb_clamp_bit_width_impl = bit_width_impl

    def forward(self, x: Tensor) -> TensorQuantOutput:
        bit_width: Tensor = self.msb_clamp_bit_width_impl()
        moved = x.movedim(self.group_dim, -1)
        size = moved.shape[-1]
        groups = F.pad(moved, (0, -size % self.group_size)).reshape(*moved.shape[:-1], -1, self.group_size)
        largest = autograd.abs_max(groups.reshape(-1, self.group_size), 1).view(*groups.shape[:-1], 1)
        scale = functional.clamp_min_ste(largest, self.min_val) / self.int_scaling_impl(bit_width)
        q = functional.tensor_clamp_ste(
            functional.round_ste(groups / scale),
            functional.min_int(self.signed, self.narrow_range, bit_width),
            functional.max_int(self.signed, self.narrow_range, bit_width),
        )
        value = self._ungrouped(q * scale, size)
        return (
            value,
            self._ungrouped(scale.expand_as(groups), size),
            self.zero_point_impl(x, scale, bit_width),
            bit_width,
        )

    def _ungrouped(self, groups: Tensor, size: int) -> Tensor:
        return groups.flatten(-2)[..., :size].movedim(-1, self.group_dim)
