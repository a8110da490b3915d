"""Canonical elementwise arithmetic of the deployed form (rule E2).

Library kernels do not agree to the last bit. Fixed here: every step is one correctly rounded float32 operation, a
batch norm is one multiplication and one addition by constants, transcendental functions are computed in float64 and
rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


def through_float64(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """``function(x)`` computed in float64, rounded once to the dtype of *x*."""
    return function(x.double()).to(x.dtype)


class Sigmoid(nn.Sigmoid):
    """Sigmoid; canonical in evaluation."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) if self.training else through_float64(torch.sigmoid, input)


class Tanh(nn.Tanh):
    """Hyperbolic tangent; canonical in evaluation."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) if self.training else through_float64(torch.tanh, input)


class Softmax(nn.Softmax):
    """Softmax; canonical in evaluation."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) if self.training else through_float64(super().forward, input)


def hard_swish(x: Tensor) -> Tensor:
    """``x * clamp(x / 6 + 1/2, 0, 1)``."""
    return x * (x / 6.0 + 0.5).clamp(0.0, 1.0)


class Hardswish(nn.Hardswish):
    """Hard swish; canonical in evaluation."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) if self.training else through_float64(hard_swish, input)


STANDARD: dict[type[nn.Module], Callable[[Any], nn.Module]] = {
    Sigmoid: lambda module: nn.Sigmoid(),
    Tanh: lambda module: nn.Tanh(),
    Softmax: lambda module: nn.Softmax(module.dim),
    Hardswish: lambda module: nn.Hardswish(),
}
"""The torch module for a canonical one: a file names the function, its arithmetic is the reader's."""


def batch_norm_constants(
    mean: Tensor, var: Tensor, eps: float, gamma: Tensor | None, beta: Tensor | None
) -> tuple[Tensor, Tensor]:
    """``(a, b)`` of the canonical batch norm ``y = x * a + b``, float32, one value a channel.

    Computed in float64 and rounded once each: ``a = gamma / sqrt(var + eps)``,
    ``b = beta - mean * (gamma / sqrt(var + eps))`` with the unrounded quotient. *eps* is taken in float32, as a model
    file holds it.
    """
    deviation = torch.sqrt(var.detach().double() + torch.tensor(eps, dtype=torch.float32).double())
    gain = (torch.ones_like(deviation) if gamma is None else gamma.detach().double()) / deviation
    offset = -mean.detach().double() * gain
    if beta is not None:
        offset = beta.detach().double() + offset
    return gain.float(), offset.float()


class CanonicalBatchNorm(nn.Module):
    """A batch norm in evaluation: ``fl32(fl32(x * a) + b)`` over channels in dimension 1.

    Attributes of the batch norm it stands for (``weight``, ``running_mean``) remain readable.
    """

    scale: Tensor
    offset: Tensor

    def __init__(self, norm: nn.modules.batchnorm._BatchNorm) -> None:
        super().__init__()
        if norm.running_mean is None or norm.running_var is None:
            raise ValueError("a batch norm without running statistics has no constant deployed form")
        a, b = batch_norm_constants(norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias)
        self.register_buffer("scale", a)
        self.register_buffer("offset", b)
        self.norm = norm

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "norm":
                raise
            return getattr(self.norm, name)

    def forward(self, x: Tensor) -> Tensor:
        shape = (1, -1, *[1] * (x.dim() - 2))
        return x * self.scale.view(shape) + self.offset.view(shape)
