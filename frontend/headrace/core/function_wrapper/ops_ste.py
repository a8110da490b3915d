"""Straight-through rounding and clamping as modules.

A rounding module names its plain function in ``rounding`` and its QONNX rounding mode in ``qonnx_mode`` (``None``
where QONNX has none); the fused path and the exporters use them, a custom module may leave both out.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from headrace.core import functional
from headrace.inject.errors import QuantizerValueError


class _Rounding(nn.Module):
    rounding: ClassVar[Any]
    qonnx_mode: ClassVar[str | None] = None

    def forward(self, x: Tensor) -> Tensor:
        return functional.straight_through(x, type(self).rounding)


class RoundSte(_Rounding):
    """Round to nearest, ties to even."""

    rounding = staticmethod(torch.round)
    qonnx_mode = "ROUND"


class FloorSte(_Rounding):
    """Round down."""

    rounding = staticmethod(torch.floor)
    qonnx_mode = "FLOOR"


class CeilSte(_Rounding):
    """Round up."""

    rounding = staticmethod(torch.ceil)
    qonnx_mode = "CEIL"


class RoundToZeroSte(_Rounding):
    """Round towards zero."""

    rounding = staticmethod(functional.round_to_zero)
    qonnx_mode = "DOWN"


class DPURoundSte(_Rounding):
    """Round to nearest as the DPU does; see :func:`headrace.core.functional.dpu_round`."""

    rounding = staticmethod(functional.dpu_round)


class ScalarClampMinSte(nn.Module):
    """Lower bound by a number, gradient of the identity."""

    def __init__(self, min_val: float) -> None:
        super().__init__()
        self.min_val = min_val

    def forward(self, x: Tensor) -> Tensor:
        return functional.clamp_min_ste(x, self.min_val)


class ScalarSignedClampMinSte(nn.Module):
    """Lower bound of the magnitude by a number, sign kept, gradient of the identity."""

    def __init__(self, min_val: float) -> None:
        super().__init__()
        if min_val == 0:
            raise QuantizerValueError("min_val of a bound of magnitudes must not be 0")
        self.min_val = abs(min_val)

    def forward(self, x: Tensor) -> Tensor:
        return functional.straight_through(x, lambda t: functional.binary_sign(t) * t.abs().clamp_min(self.min_val))


class ScalarClampSte(nn.Module):
    """Clamps between two numbers, gradient of the identity."""

    def __init__(self, min_val: float, max_val: float) -> None:
        super().__init__()
        if min_val > max_val:
            raise QuantizerValueError(f"min_val={min_val} is above max_val={max_val}")
        self.min_val = min_val
        self.max_val = max_val

    def forward(self, x: Tensor) -> Tensor:
        return functional.straight_through(x, lambda t: t.clamp(self.min_val, self.max_val))


class TensorClampSte(nn.Module):
    """Clamps between tensors, gradient of the identity."""

    def forward(self, x: Tensor, min_val: Tensor, max_val: Tensor) -> Tensor:
        return functional.tensor_clamp_ste(x, min_val, max_val)


class InplaceTensorClampSte(nn.Module):
    """Clamps the data of *x* itself (binary weights stay within their scale), gradient of the identity."""

    def forward(self, x: Tensor, min_val: Tensor, max_val: Tensor) -> Tensor:
        with torch.no_grad():
            x.clamp_(min_val.to(x.dtype), max_val.to(x.dtype))
        return x
