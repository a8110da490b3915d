"""Average pools of quant tensors: sums of integers, one multiplication by the scale, one division by the count.

With the integers ``n = integer - zero_point`` of a window and ``count`` taps that count, the canonical mean is::

    fl32(fl32(fl32(sum n) * scale) / count)

each step rounded once, which is what :class:`headrace.ir.ops.AveragePool` computes. The sum is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headrace.core import functional
from headrace.quant_tensor.constants import fact, is_whole, is_zero, largest_magnitude
from headrace.quant_tensor.int_quant_tensor import IntQuantTensor

_FLOAT32_EXACT = 2**24
_FLOAT64_EXACT = 2**53
_MAX_INPUT_BITS = 22


@dataclass(frozen=True)
class Windows:
    """The windows of an average pool, one number an image axis.

    Args:
        kernel, stride, padding: in elements; the padding on both sides.
        ceil_mode: let the last window reach beyond the padded image.
        count_include_pad: padding counts as elements.
        divisor: count instead of that of the windows.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor: int | None = None

    @property
    def terms(self) -> int:
        """What a whole window is divided by."""
        return self.divisor or math.prod(self.kernel)

    def sums(self, n: Tensor) -> Tensor:
        """Sums of the windows of *n*, ``(..., C, *image)``."""
        arguments = (self.kernel, self.stride, self.padding, self.ceil_mode, True)
        if len(self.kernel) > 1:
            pool: Callable[..., Tensor] = F.avg_pool2d if len(self.kernel) == 2 else F.avg_pool3d
            return pool(n, *arguments, divisor_override=1)
        kernel, stride, padding = ((first, size[0]) for first, size in zip((1, 1, 0), arguments[:3], strict=True))
        out = F.avg_pool2d(n.unsqueeze(-2), kernel, stride, padding, self.ceil_mode, True, divisor_override=1)
        return out.squeeze(-2)

    @lru_cache  # noqa: B019  (of a small frozen value: a copy to the device waits for it)
    def counts(self, size: torch.Size, out: torch.Size, device: torch.device) -> Tensor | float:
        """Elements that count in each window, ``(*out)``, for images of *size*; one number if all agree."""
        if self.divisor is not None:
            return float(self.divisor)
        total = torch.ones((), dtype=torch.int64)
        for n, windows, k, s, p in zip(size, out, self.kernel, self.stride, self.padding, strict=True):
            start = torch.arange(windows) * s - p
            stop = torch.minimum(start + k, torch.tensor(n + p))
            if not self.count_include_pad:
                start, stop = start.clamp(min=0), stop.clamp(max=n)
            total = total.unsqueeze(-1) * (stop - start)
        same = bool((total == total.flatten()[0]).all())
        return float(total.flatten()[0]) if same else total.float().to(device)


def _pair(size: Any, axes: int) -> tuple[int, ...]:
    sizes = tuple(size) if isinstance(size, tuple | list) else (size,)
    return sizes * axes if len(sizes) == 1 else sizes


def _canonical(x: IntQuantTensor, windows: Windows) -> tuple[Tensor, Tensor | float] | None:
    """The canonical means and the counts; ``None`` where *x* does not tell its integers or scales vary in a window."""
    axes = len(windows.kernel)
    varies = any(size != 1 for size in x.scale.shape[-axes:]) and x.scale.numel() > 1
    if x.value.dtype != torch.float32 or varies or not fact(x.zero_point, is_whole):
        return None
    if fact(x.bit_width, float) > _MAX_INPUT_BITS:
        return None
    largest = max(1.0, largest_magnitude(x)) * math.prod(windows.kernel)
    if largest >= _FLOAT64_EXACT:
        return None
    n = torch.round(x.value.detach().double() / x.scale.detach().double())
    total = windows.sums(n.float() if largest < _FLOAT32_EXACT else n)
    count = windows.counts(x.value.shape[-axes:], total.shape[-axes:], total.device)
    return total.float() * x.scale.detach().float() / count, count


def average(func: Callable[..., Any], x: IntQuantTensor, windows: Windows, *args: Any, **kwargs: Any) -> Any:
    """The pool *func* of *x*: canonical in evaluation, fake-quantized in training.

    A quant tensor at the scale of the sum divided by the count, or a plain tensor where windows differ in count or
    *x* has a zero point.
    """
    canonical = None if x.training else _canonical(x, windows)
    learns = torch.is_grad_enabled() and x.value.requires_grad
    value = func(x.value, *args, **kwargs) if canonical is None or learns else canonical[0]
    if canonical is not None and learns:
        value = functional.substitute(value, canonical[0])
    differs = canonical is not None and isinstance(canonical[1], Tensor)
    partial = windows.ceil_mode or (not windows.count_include_pad and any(windows.padding))
    if differs or (canonical is None and partial) or not fact(x.zero_point, is_zero):
        return value
    terms = float(windows.terms) if canonical is None else float(canonical[1])
    largest = functional.max_int(False, False, x.bit_width) * math.prod(windows.kernel)
    return x.set(value=value, scale=x.scale / terms, bit_width=functional.ceil_ste(torch.log2(largest)))


def _pool_of(axes: int) -> Callable[..., Any]:
    """The handler of ``avg_pool1d``, ``avg_pool2d`` or ``avg_pool3d``."""

    def pool(
        func: Callable[..., Any],
        x: IntQuantTensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        kernel = _pair(kernel_size, axes)
        strides = _pair(stride, axes) if stride else kernel
        windows = Windows(kernel, strides, _pair(padding, axes), ceil_mode, count_include_pad, divisor_override)
        extra = () if axes == 1 else (divisor_override,)
        return average(func, x, windows, kernel, strides, padding, ceil_mode, count_include_pad, *extra)

    return pool


def _adaptive_of(axes: int) -> Callable[..., Any]:
    """The handler of ``adaptive_avg_pool1d``, ``2d`` or ``3d``."""

    def pool(func: Callable[..., Any], x: IntQuantTensor, output_size: Any) -> Any:
        image = x.value.shape[-axes:]
        out = tuple(n if o is None else o for n, o in zip(image, _pair(output_size, axes), strict=True))
        if any(before % after for before, after in zip(image, out, strict=True)):
            return func(x.value, output_size)  # windows of different sizes: no common grid
        kernel = tuple(before // after for before, after in zip(image, out, strict=True))
        return average(func, x, Windows(kernel, kernel, (0,) * axes), output_size)

    return pool


POOLS: dict[Callable[..., Any], Callable[..., Any]] = {
    F.avg_pool1d: _pool_of(1),
    F.avg_pool2d: _pool_of(2),
    F.avg_pool3d: _pool_of(3),
    F.adaptive_avg_pool1d: _adaptive_of(1),
    F.adaptive_avg_pool2d: _adaptive_of(2),
    F.adaptive_avg_pool3d: _adaptive_of(3),
}
"""Handlers of torch's average pools for quant tensors."""
