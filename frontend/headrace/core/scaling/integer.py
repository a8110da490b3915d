"""The integer that the real threshold of a scale maps to."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headrace.core import functional
from headrace.inject.errors import QuantizerTypeError


class IntScaling(nn.Module):
    """The integer that the scaled threshold maps to: ``-min_int`` (signed) or ``max_int``."""

    def __init__(self, signed: bool, narrow_range: bool) -> None:
        super().__init__()
        self.signed = signed
        self.narrow_range = narrow_range

    def forward(self, bit_width: Tensor) -> Tensor:
        if self.signed:
            return -functional.min_int(True, self.narrow_range, bit_width)
        return functional.max_int(False, self.narrow_range, bit_width)


class PowerOfTwoIntScaling(nn.Module):
    """``max_int + 1``, a power of two, whatever the range: keeps power-of-two scales powers of two.

    Args:
        signed: signed or unsigned integers; ``None`` if that is known at the call only.
    """

    def __init__(self, signed: bool | None = None) -> None:
        super().__init__()
        self.signed = signed

    def forward(self, bit_width: Tensor, signed: bool | None = None) -> Tensor:
        known = self.signed if signed is None else signed
        if known is None:
            raise QuantizerTypeError("PowerOfTwoIntScaling needs signed, at construction or at the call")
        return functional.max_int(known, False, bit_width) + 1.0


class SharedExponentIntScaling(PowerOfTwoIntScaling):
    """Half of that: integers with one digit before the binary point, as MXINT8 has them (OCP MX 1.0, section 5.3.4).

    A shared scale ``2 ** floor(log2(largest))`` leaves magnitudes below 2.
    """

    def forward(self, bit_width: Tensor, signed: bool | None = None) -> Tensor:
        return super().forward(bit_width, signed) / 2.0


class UnitIntScaling(nn.Module):
    """1: the scale is that of an integer, not of the largest one."""

    def forward(self, bit_width: Tensor) -> Tensor:
        return torch.ones_like(bit_width)
