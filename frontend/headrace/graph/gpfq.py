"""GPFQ: greedy path following quantization (Lybrand and Saab, 2021).

Weights are rounded one input at a time so that the running output error stays small: with ``x_t`` the samples of input
``t`` in the float model, ``y_t`` those that the quantized model produces, and ``u`` the error so far::

    q_t = nearest(<y_t, u + w_t x_t> / <y_t, y_t>)
    u   = u + w_t x_t - q_t y_t
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from headrace.graph.error_feedback import (
    InputRecorder,
    WeightGrid,
    checked_batches,
    float_copy_inputs,
    grouped_weight,
    searched_layers,
)


def gpfq(model: nn.Module, batches: Iterable[Any]) -> list[str]:
    """Search the weights of all linear and convolutional layers of a calibrated model, in place, layer by layer.

    Unlike GPTQ it also corrects what the quantization of earlier layers and of activations did to the inputs.

    Args:
        model: a calibrated model in evaluation mode.
        batches: inputs of the model: tensors, or tuples of arguments. They are run twice a layer; the inputs of one
            layer for all of them are held in memory.

    Returns:
        The names of the layers.

    Raises:
        WeightSearchError: no such layers, or no batches.
    """
    samples = checked_batches(batches)
    recorder = InputRecorder(model, samples)
    reference, float_recorder = float_copy_inputs(model, samples)
    layers = searched_layers(model)
    for name, layer in layers:
        quantized = list(recorder.rows(layer))
        if not quantized:  # never called
            continue
        exact = list(float_recorder.rows(reference.get_submodule(name)))
        grid = WeightGrid(name, layer)
        grid.write(_search(grouped_weight(layer), torch.cat(exact, 1), torch.cat(quantized, 1), grid))
    return [name for name, _ in layers]


def _search(weight: Tensor, exact: Tensor, quantized: Tensor, grid: WeightGrid) -> Tensor:
    """Rounded weights; *weight* ``(groups, outputs, terms)``, inputs ``(groups, samples, terms)``."""
    error = weight.new_zeros(weight.shape[0], weight.shape[1], exact.shape[1])
    rounded = torch.empty_like(weight)
    for t in range(weight.shape[2]):
        y = quantized[..., t]
        error += weight[..., t].unsqueeze(2) * exact[..., t].unsqueeze(1)
        power = y.square().sum(1, keepdim=True)
        wanted = torch.einsum("gos,gs->go", error, y) / power
        rounded[..., t] = grid.nearest(torch.where(power > 0, wanted, weight[..., t]))
        error -= rounded[..., t].unsqueeze(2) * y.unsqueeze(1)
    return rounded


__all__ = ["gpfq"]
