"""Bit widths: constant or learned."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headrace.core.functional import abs_binary_sign_grad, round_ste, straight_through
from headrace.core.optional_state import OptionalState
from headrace.core.stateless import StatelessBuffer, optional_dtype
from headrace.inject.enum import BitWidthImplType
from headrace.inject.errors import QuantizerValueError

__all__ = [
    "BitWidthConst",
    "BitWidthImplType",
    "BitWidthParameter",
    "BitWidthStatefulConst",
    "CappedBitWidth",
    "MsbClampBitWidth",
    "RemoveBitwidthParameter",
]

MIN_LEARNED_BIT_WIDTH = 2


class BitWidthConst(nn.Module):
    """A constant, no part of the state."""

    def __init__(self, bit_width: int, dtype: torch.dtype | None = None, device: torch.device | None = None) -> None:
        super().__init__()
        self.static_bit_width: int | None = int(bit_width)
        self.bit_width = StatelessBuffer(optional_dtype(bit_width, dtype, device))

    def forward(self) -> Tensor:
        return self.bit_width.value


class BitWidthStatefulConst(OptionalState):
    """A constant that is saved and loaded."""

    optional_keys = ("bit_width",)
    bit_width: Tensor

    def __init__(self, bit_width: int, dtype: torch.dtype | None = None, device: torch.device | None = None) -> None:
        super().__init__()
        self.register_buffer("bit_width", optional_dtype(bit_width, dtype, device))

    def forward(self) -> Tensor:
        return self.bit_width


class BitWidthParameter(OptionalState):
    """A learned bit width ``round(min_bit_width + |offset|)``.

    Args:
        bit_width: where learning starts.
        min_bit_width: lower bound.
        override_pretrained_bit_width: ignore the value in a loaded state dictionary.
    """

    optional_keys = ("bit_width_offset",)

    def __init__(
        self,
        bit_width: int,
        min_bit_width: int = MIN_LEARNED_BIT_WIDTH,
        override_pretrained_bit_width: bool = False,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        if bit_width < min_bit_width:
            raise QuantizerValueError(
                f"a learned bit_width must start at min_bit_width={min_bit_width} or above, got {bit_width}"
            )
        self.bit_width_base = float(min_bit_width)
        self.override_pretrained = override_pretrained_bit_width
        self.bit_width_offset = nn.Parameter(optional_dtype(bit_width - min_bit_width, dtype, device))

    def forward(self) -> Tensor:
        return round_ste(abs_binary_sign_grad(self.bit_width_offset) + self.bit_width_base)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        if prefix + "bit_width" in state_dict:
            state_dict[prefix + "bit_width_offset"] = state_dict.pop(prefix + "bit_width") - self.bit_width_base
        super()._load_from_state_dict(state_dict, prefix, *args)


class RemoveBitwidthParameter(OptionalState):
    """A learned number of bits to remove, ``1 / (epsilon + |coefficient|)``.

    Args:
        bit_width_to_remove: where learning starts.
        override_pretrained_bit_width: ignore the value in a loaded state dictionary.
        non_zero_epsilon: keeps the quotient finite.
        remove_zero_bit_width: stands for 0 at the start.

    Raises:
        QuantizerValueError: fewer than 0 bits.
    """

    optional_keys = ("bit_width_coeff",)

    def __init__(
        self,
        bit_width_to_remove: int,
        override_pretrained_bit_width: bool = False,
        non_zero_epsilon: float = 1e-6,
        remove_zero_bit_width: float = 0.1,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        if bit_width_to_remove < 0:
            raise QuantizerValueError(f"bit_width_to_remove must be at least 0, got {bit_width_to_remove}")
        self.non_zero_epsilon = non_zero_epsilon
        self.override_pretrained = override_pretrained_bit_width
        start = 1.0 / (bit_width_to_remove or remove_zero_bit_width)
        self.bit_width_coeff = nn.Parameter(optional_dtype(start, dtype, device))

    def forward(self) -> Tensor:
        return 1.0 / (self.non_zero_epsilon + self.bit_width_coeff.abs())


class MsbClampBitWidth(nn.Module):
    """The bits of the input less some, within limits.

    Args:
        bit_width_to_remove_impl: bits to remove.
        min_overall_bit_width, max_overall_bit_width: limits of the result.
    """

    def __init__(
        self, bit_width_to_remove_impl: nn.Module, min_overall_bit_width: int = 2, max_overall_bit_width: int = 32
    ) -> None:
        super().__init__()
        if min_overall_bit_width > max_overall_bit_width:
            raise QuantizerValueError(
                f"min_overall_bit_width={min_overall_bit_width} is above max_overall_bit_width={max_overall_bit_width}"
            )
        self.bit_width_to_remove_impl = bit_width_to_remove_impl
        self.limits = float(min_overall_bit_width), float(max_overall_bit_width)

    def forward(self, input_bit_width: Tensor) -> Tensor:
        left = round_ste(input_bit_width - self.bit_width_to_remove_impl())
        return straight_through(left, lambda t: t.clamp(*self.limits))


class CappedBitWidth(nn.Module):
    """The bits of the input, at most *bit_width*."""

    def __init__(self, bit_width: int) -> None:
        super().__init__()
        self.largest = float(bit_width)

    def forward(self, input_bit_width: Tensor) -> Tensor:
        return input_bit_width.clamp(max=self.largest)
