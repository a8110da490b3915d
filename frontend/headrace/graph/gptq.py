"""GPTQ: weights are rounded one input at a time, and the others make up for the error (Frantar et al., 2022).

With ``H = X^T X`` of the inputs of a layer, and ``U`` the upper Cholesky factor of its inverse: after rounding column
``i``, the columns after it change by ``-(w_i - q_i) / U[i, i] * U[i, i + 1:]``, which is the change that keeps the
squared error of the output smallest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from headrace.graph.error_feedback import (
    InputRecorder,
    WeightGrid,
    WeightSearchError,
    checked_batches,
    grouped_weight,
    searched_layers,
)


def gptq(model: nn.Module, batches: Iterable[Any], damping: float = 0.01) -> list[str]:
    """Search the weights of all linear and convolutional layers of a calibrated model, in place, layer by layer.

    Every layer is searched with the inputs that the layers before it, already searched, produce.

    Args:
        model: a calibrated model in evaluation mode.
        batches: inputs of the model: tensors, or tuples of arguments. They are run once a layer.
        damping: part of the mean of the diagonal of ``H`` that is added to it.

    Returns:
        The names of the layers.

    Raises:
        WeightSearchError: no such layers, no batches, or a damping below 0.
    """
    if not damping >= 0:
        raise WeightSearchError(f"damping must be at least 0, got {damping}")
    recorder = InputRecorder(model, checked_batches(batches))
    layers = searched_layers(model)
    for name, layer in layers:
        hessian: Tensor | None = None
        for rows in recorder.rows(layer):
            product = rows.transpose(1, 2) @ rows
            hessian = product if hessian is None else hessian + product
        if hessian is None:  # never called
            continue
        grid = WeightGrid(name, layer)
        grid.write(_search(grouped_weight(layer), hessian, grid, damping))
    return [name for name, _ in layers]


def _search(weight: Tensor, hessian: Tensor, grid: WeightGrid, damping: float) -> Tensor:
    """Rounded weights; *weight* ``(groups, outputs, terms)``, *hessian* ``(groups, terms, terms)``."""
    diagonal = hessian.diagonal(dim1=1, dim2=2)
    added = damping * diagonal.mean(1, keepdim=True) + torch.where(diagonal == 0, 1.0, 0.0) + 1e-12
    order = (diagonal + added).argsort(1, descending=True)  # inputs that matter most are rounded first
    damped = hessian + torch.diag_embed(added)
    along = order.unsqueeze(2).expand_as(damped)
    damped = damped.gather(1, along).gather(2, along.transpose(1, 2))
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped))
    factor = torch.linalg.cholesky(inverse, upper=True)
    columns = order.unsqueeze(1).expand_as(weight)
    rest = weight.gather(2, columns).clone()
    rounded = torch.empty_like(rest)
    for i in range(rest.shape[2]):
        rounded[..., i] = grid.nearest(rest[..., i])
        error = (rest[..., i] - rounded[..., i]) / factor[:, i, i].unsqueeze(1)
        rest[..., i:] -= error.unsqueeze(2) * factor[:, i, i:].unsqueeze(1)
    return torch.empty_like(rounded).scatter_(2, columns, rounded)


__all__ = ["gptq"]
