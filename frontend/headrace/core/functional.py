"""The arithmetic of quantization as plain functions on tensors, apart from modules and state.

The forward formulas are the contract that the compiler implements as well (float32, one rounding an operation)::

    integer = clamp(round(x / scale + zero_point), low, high)
    value   = (integer - zero_point) * scale

Division, never multiplication by a reciprocal. Gradients are straight through the rounding
(Bengio, Léonard, Courville, 2013): rounding counts as the identity, clamping passes the gradient inside the range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Rounding = Callable[[Tensor], Tensor]
Context = Any  # torch.autograd.function.FunctionCtx carries attributes that its stub does not declare


def integer_range(bit_width: int, signed: bool, narrow_range: bool) -> tuple[int, int]:
    """Smallest and largest integer of a format; *narrow_range* drops the lowest (signed) or highest (unsigned)."""
    if signed:
        high = 2 ** (bit_width - 1) - 1
        return -high - (not narrow_range), high
    return 0, 2**bit_width - 1 - narrow_range


def min_int(signed: bool, narrow_range: bool, bit_width: Tensor) -> Tensor:
    """Smallest integer of a format whose bit width is a (possibly learned) tensor."""
    if not signed:
        return 0.0 * bit_width
    low = -(2.0 ** (bit_width - 1.0))
    return low + 1.0 if narrow_range else low


def max_int(signed: bool, narrow_range: bool, bit_width: Tensor) -> Tensor:
    """Largest integer of a format whose bit width is a (possibly learned) tensor."""
    if signed:
        return 2.0 ** (bit_width - 1.0) - 1.0
    return 2.0**bit_width - (2.0 if narrow_range else 1.0)


def round_to_zero(x: Tensor) -> Tensor:
    """Round towards zero."""
    return torch.trunc(x)


def dpu_round(x: Tensor) -> Tensor:
    """Round to nearest; ties of negative numbers go up (to zero), other ties to even."""
    return torch.where((x < 0) & (x - torch.floor(x) == 0.5), torch.ceil(x), torch.round(x))


def binary_sign(x: Tensor) -> Tensor:
    """+1 where ``x >= 0``, otherwise -1."""
    return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)


def tensor_clamp(x: Tensor, min_val: Tensor, max_val: Tensor) -> Tensor:
    """Clamp between tensors; differentiable in the bounds where they are active."""
    x = torch.where(x > max_val, max_val.to(x.dtype), x)
    return torch.where(x < min_val, min_val.to(x.dtype), x)


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, x: Tensor, function: Rounding) -> Tensor:
        return function(x)

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        return grads[0], None


def straight_through(x: Tensor, function: Rounding) -> Tensor:
    """``function(x)`` forward, the identity backward."""
    if not torch.is_grad_enabled() or not x.requires_grad:
        return function(x)
    out: Tensor = _StraightThrough.apply(x, function)  # type: ignore[no-untyped-call]
    return out


class _Substitute(torch.autograd.Function):
    """Another value forward, the gradient of the first backward."""

    @staticmethod
    def forward(ctx: Any, fake: Tensor, exact: Tensor) -> Tensor:
        return exact.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0], None


def substitute(fake: Tensor, exact: Tensor) -> Tensor:
    """The value of *exact* with the gradient of *fake*."""
    out: Tensor = _Substitute.apply(fake, exact)  # type: ignore[no-untyped-call]
    return out


def round_ste(x: Tensor) -> Tensor:
    """Round to nearest, ties to even, straight-through."""
    return straight_through(x, torch.round)


def floor_ste(x: Tensor) -> Tensor:
    """Floor, straight-through."""
    return straight_through(x, torch.floor)


def ceil_ste(x: Tensor) -> Tensor:
    """Ceil, straight-through."""
    return straight_through(x, torch.ceil)


def binary_sign_ste(x: Tensor) -> Tensor:
    """:func:`binary_sign`, straight-through."""
    return straight_through(x, binary_sign)


def tensor_clamp_ste(x: Tensor, min_val: Tensor, max_val: Tensor) -> Tensor:
    """Clamp whose gradient passes everywhere, also outside the range."""
    return straight_through(x, lambda t: tensor_clamp(t, min_val.detach(), max_val.detach()))


def clamp_min_ste(x: Tensor, low: float) -> Tensor:
    """``max(x, low)`` with the gradient of the identity."""
    return straight_through(x, lambda t: t.clamp_min(low))


class _AbsBinarySignGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.abs()

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        return binary_sign(x) * grads[0]


def abs_binary_sign_grad(x: Tensor) -> Tensor:
    """``|x|`` whose gradient at 0 is +1, so that a learned magnitude can leave 0."""
    if not torch.is_grad_enabled() or not x.requires_grad:
        return x.abs()
    out: Tensor = _AbsBinarySignGrad.apply(x)  # type: ignore[no-untyped-call]
    return out


def quantize_to_int(
    x: Tensor, scale: Tensor, zero_point: Tensor | None, low: float, high: float, rounding: Rounding = torch.round
) -> Tensor:
    """``clamp(round(x / scale + zero_point), low, high)``, integers in the dtype of *x*; no gradient."""
    q = x / scale
    if zero_point is not None:
        q = q + zero_point
    return rounding(q).clamp(low, high)


def dequantize(q: Tensor, scale: Tensor, zero_point: Tensor | None) -> Tensor:
    """``(q - zero_point) * scale``."""
    return (q if zero_point is None else q - zero_point) * scale
