"""Fake quantization and the largest magnitude as single autograd functions: one pass forward, few temporaries.

The forward formulas and the gradients are those of the composed operations of :mod:`headrace.core.functional`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from headrace.core.functional import Context, Rounding


class _FakeQuantize(torch.autograd.Function):
    """Fused ``dequantize(quantize_to_int(x))`` with the gradients of the composed operations.

    With ``g`` the gradient of the value, ``inside`` the elements that were not clamped (all of them when
    ``clamp_ste``): ``dx = g * inside``, ``dscale = sum(g * (q - zero_point - inside * x / scale))``,
    ``dzero_point = sum(-g * scale * (1 - inside))``. Large temporaries cost more than arithmetic, so everything that
    can happens in place.
    """

    @staticmethod
    def forward(
        ctx: Context,
        x: Tensor,
        scale: Tensor,
        zero_point: Tensor | None,
        low: float,
        high: float,
        rounding: Rounding,
        clamp_ste: bool,
    ) -> Tensor:
        needs_x, needs_scale, needs_zero = ctx.needs_input_grad[:3]
        ratio = x / scale
        q = rounding(ratio if zero_point is None else ratio + zero_point)
        inside = None
        if not clamp_ste and (needs_x or needs_scale or needs_zero):
            inside = (q >= low).logical_and_(q <= high)
        shift = q.clamp_(low, high) if zero_point is None else q.clamp_(low, high).sub_(zero_point)
        if needs_scale:
            ratio = torch.sub(shift, ratio if inside is None else ratio.mul_(inside), out=ratio)
        ctx.save_for_backward(inside, ratio if needs_scale else None, scale if needs_zero else None)
        ctx.scale_shape = scale.shape
        ctx.zero_shape = None if zero_point is None else zero_point.shape
        if shift.dtype == scale.dtype:
            return shift.mul_(scale)
        return shift * scale

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        inside, dscale, scale = ctx.saved_tensors
        g = grads[0]
        grad_x = grad_scale = grad_zero = None
        if ctx.needs_input_grad[0]:
            grad_x = g if inside is None else g * inside
        if dscale is not None:
            grad_scale = sum_of_products(g, dscale, ctx.scale_shape)
        if scale is not None:
            clamped = torch.zeros_like(g) if inside is None else g * ~inside
            grad_zero = (-clamped * scale).sum_to_size(ctx.zero_shape)
        return grad_x, grad_scale, grad_zero, None, None, None, None


class _FakeQuantizeNearest(torch.autograd.Function):
    """:class:`_FakeQuantize` for float32, rounding to nearest and no zero point, with an optional ReLU before it.

    What was clamped follows from ``x / scale`` and two numbers, so no mask is stored: fewer temporaries, and the
    backward pass is the kernel of a hard tanh.
    """

    @staticmethod
    def forward(ctx: Context, x: Tensor, scale: Tensor, low: float, high: float, rectify: bool) -> Tensor:
        ratio = x / scale
        q = torch.round(ratio).clamp_(low, high)
        ctx.save_for_backward(ratio)
        ctx.scale_shape = scale.shape
        ctx.range = low, high
        ctx.inside = _open_interval(low, high, rectify)
        return q.mul_(scale)

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        (ratio,) = ctx.saved_tensors
        g = grads[0]
        grad_x = grad_scale = None
        if ctx.needs_input_grad[0]:
            grad_x = torch.ops.aten.hardtanh_backward(g, ratio, *ctx.inside)
        if ctx.needs_input_grad[1]:
            passed = torch.ops.aten.hardtanh_backward(ratio, ratio, *ctx.inside)
            dscale = torch.round(ratio).clamp_(*ctx.range).sub_(passed)
            grad_scale = sum_of_products(g, dscale, ctx.scale_shape)
        return grad_x, grad_scale, None, None, None


def _open_interval(low: float, high: float, rectify: bool) -> tuple[float, float]:
    """The float32 numbers strictly between which rounding to nearest even gives an integer in ``[low, high]``.

    With *rectify*, numbers up to 0 count as outside. ``low <= 0 <= high``.
    """
    first, last = low - 0.5, high + 0.5  # a tie that rounds to an odd bound rounds away from it
    if low % 2 == 0:
        first -= math.ldexp(1.0, math.frexp(first)[1] - 24)
    if high % 2 == 0:
        last += math.ldexp(1.0, math.frexp(last)[1] - 24)
    return (max(first, 0.0) if rectify else first), last


def _all_float32(*tensors: Tensor) -> bool:
    return all(t.dtype == torch.float32 for t in tensors)


def sum_of_products(a: Tensor, b: Tensor, shape: torch.Size) -> Tensor:
    """``(a * b).sum_to_size(shape)``."""
    if shape.numel() == 1 and a.dtype == b.dtype and a.is_contiguous() and b.is_contiguous():
        return torch.dot(a.view(-1), b.view(-1)).view(shape)
    return (a * b).sum_to_size(shape)


class _AbsMax(torch.autograd.Function):
    """``max |x|`` over everything or over the rows of a matrix, without a temporary of the size of *x*."""

    @staticmethod
    def forward(ctx: Context, x: Tensor, dim: int | None) -> Tensor:
        if dim is None:
            low, high = torch.aminmax(x)
        else:
            low, high = x.amin(dim), x.amax(dim)
        out = torch.maximum(high, -low)
        ctx.dim = dim
        ctx.save_for_backward(x, out)
        return out

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        x, out = ctx.saved_tensors
        g = grads[0]
        if ctx.dim is not None:
            g, out = g.unsqueeze(ctx.dim), out.unsqueeze(ctx.dim)
        at_max = x.abs() == out
        # The gradient is shared among equal maxima of a tensor; a row gives it to its first one.
        if ctx.dim is None:
            return torch.where(at_max, x.sign() * (g / at_max.sum()), 0.0), None
        first = at_max.to(torch.uint8).argmax(ctx.dim, keepdim=True)
        grad = torch.zeros_like(x)
        return grad.scatter_(ctx.dim, first, x.gather(ctx.dim, first).sign() * g), None


def abs_max(x: Tensor, dim: int | None = None) -> Tensor:
    """``max |x|`` over everything, or over dimension *dim*."""
    out: Tensor = _AbsMax.apply(x, dim)  # type: ignore[no-untyped-call]
    return out


def fake_quantize(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    low: float,
    high: float,
    rounding: Rounding = torch.round,
    clamp_ste: bool = False,
    rectify: bool = False,
) -> Tensor:
    """Quantize and dequantize in one pass, with straight-through gradients to *x*, *scale* and *zero_point*.

    Args:
        x: any shape, float.
        scale: broadcastable to *x*, positive.
        zero_point: broadcastable to *x*, or ``None`` for 0.
        low, high: integer range.
        rounding: elementwise function to integers.
        clamp_ste: pass the gradient of clamped elements too (weights).
        rectify: take ``relu(x)`` instead of *x*.
    """
    if zero_point is None and rounding is torch.round and not clamp_ste and _all_float32(x, scale):
        nearest: Tensor = _FakeQuantizeNearest.apply(  # type: ignore[no-untyped-call]
            x, scale, low if not rectify else max(low, 0), high, rectify
        )
        return nearest
    if rectify:
        x = torch.relu(x)
    out: Tensor = _FakeQuantize.apply(  # type: ignore[no-untyped-call]
        x, scale, zero_point, low, high, rounding, clamp_ste
    )
    return out


class _AbsMaxFakeQuantize(torch.autograd.Function):
    """:func:`fake_quantize` at ``scale = max(|x|, min_val) / threshold``, with the gradient through the scale.

    The same as composing :func:`abs_max` and :func:`fake_quantize`, but the gradient of the maximum, which has one
    element a scale, is added in its place instead of as another tensor of the size of *x*.
    """

    @staticmethod
    def forward(
        ctx: Context,
        x: Tensor,
        threshold: Tensor,
        min_val: float,
        per_row: bool,
        low: float,
        high: float,
        rounding: Rounding,
        clamp_ste: bool,
    ) -> tuple[Tensor, Tensor]:
        rows = x.detach().reshape(x.shape[0], -1)
        row_max = torch.maximum(rows.amax(1), -rows.amin(1))
        largest = row_max if per_row else row_max.max()
        scale = largest.clamp_min(min_val) / threshold
        if per_row:
            scale = scale.view(-1, *[1] * (x.dim() - 1))
        ratio = x / scale
        q = rounding(ratio)
        inside = None if clamp_ste else (q >= low).logical_and_(q <= high)
        q.clamp_(low, high)
        torch.sub(q, ratio if inside is None else ratio.mul_(inside), out=ratio)
        ctx.save_for_backward(x, row_max, largest, ratio, inside, threshold)
        return q.mul_(scale), scale

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        x, row_max, largest, dscale, inside, threshold = ctx.saved_tensors
        g, g_scale = grads
        per_row = largest.dim() == 1
        shape = torch.Size([x.shape[0], *[1] * (x.dim() - 1)]) if per_row else torch.Size([])
        grad_largest = ((sum_of_products(g, dscale, shape) + g_scale) / threshold).view(largest.shape)
        grad = g.clone(memory_format=torch.contiguous_format) if inside is None else (g * inside).contiguous()
        _add_at_maxima(grad.view(x.shape[0], -1), x.reshape(x.shape[0], -1), row_max, largest, grad_largest)
        return grad, None, None, None, None, None, None, None


def reading_waits(tensor: Tensor) -> bool:
    """Whether reading a value of *tensor* would wait for a device."""
    return tensor.device.type != "cpu"


def _add_at_maxima(grad: Tensor, x: Tensor, row_max: Tensor, largest: Tensor, grad_largest: Tensor) -> None:
    """Add the gradient of ``largest = max |x|`` to *grad*: shared among equal maxima, the first one of a row."""
    if largest.dim() == 1:
        first = (x.abs() == row_max.unsqueeze(1)).to(torch.uint8).argmax(1, keepdim=True)
        grad.scatter_add_(1, first, x.gather(1, first).sign() * grad_largest.unsqueeze(1))
        return
    if reading_waits(x):
        at_max = x.abs() == largest
        grad.add_(torch.where(at_max, x.sign() * (grad_largest / at_max.sum()), 0.0))
        return
    candidates = torch.nonzero(row_max == largest).view(-1)
    part = x[candidates]
    at_max = part.abs() == largest
    grad[candidates] += torch.where(at_max, part.sign() * (grad_largest / at_max.sum()), 0.0)


def abs_max_fake_quantize(
    x: Tensor,
    threshold: Tensor,
    min_val: float,
    per_row: bool,
    low: float,
    high: float,
    rounding: Rounding = torch.round,
    clamp_ste: bool = False,
) -> tuple[Tensor, Tensor]:
    """Fake-quantize *x* at the scale of its largest magnitude.

    Args:
        x: at least one dimension.
        threshold: the number that the largest magnitude maps to.
        min_val: lower bound of the largest magnitude.
        per_row: one scale for each index of dimension 0 instead of one for all.
        low, high, rounding, clamp_ste: see :func:`fake_quantize`.

    Returns:
        The value, and the scale: a scalar, or of shape ``(rows, 1, ...)``.
    """
    out: tuple[Tensor, Tensor] = _AbsMaxFakeQuantize.apply(  # type: ignore[no-untyped-call]
        x, threshold, min_val, per_row, low, high, rounding, clamp_ste
    )
    return out
