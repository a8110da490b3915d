"""Arranging a dimension in groups that share a scale, and back."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

__all__ = ["group_axis", "grouped", "ungrouped"]


def group_axis(dim: int) -> int:
    """Dimension of the elements of a group in what :func:`grouped` returns."""
    return dim + 1 if dim >= 0 else dim


def grouped(x: Tensor, size: int, dim: int) -> Tensor:
    """*x* with dimension *dim* split in ``(groups, size)``; zeros fill the last group."""
    missing = -x.shape[dim] % size
    if missing:
        after = x.dim() - 1 - (dim % x.dim())
        x = F.pad(x, [0, 0] * after + [0, missing])
    axis = dim % x.dim()
    return x.reshape(*x.shape[:axis], x.shape[axis] // size, size, *x.shape[axis + 1 :])


def ungrouped(x: Tensor, length: int, dim: int) -> Tensor:
    """The inverse of :func:`grouped` for a dimension of *length* elements."""
    first = dim if dim >= 0 else dim - 1
    return x.flatten(first, first + 1).narrow(dim, 0, length)
