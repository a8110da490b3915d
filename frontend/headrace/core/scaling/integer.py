"""The integer that the real threshold of a scale maps to."""

from __future__ import annotations

from torch import Tensor, nn

from headrace.core import functional


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
    """``max_int + 1``, a power of two, whatever the range: keeps power-of-two scales powers of two."""

    def __init__(self, signed: bool) -> None:
        super().__init__()
        self.signed = signed

    def forward(self, bit_width: Tensor) -> Tensor:
        return functional.max_int(self.signed, False, bit_width) + 1.0
