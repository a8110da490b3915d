"""Tensors of different scales that are joined along their channels, in front of a layer that sums over them.

The compiler brings such scales onto a common grid where there is one: ``s[c] = g * m[c]`` with integers ``m``, which
multiply the weights. Where there is none, it accumulates the float32 values themselves, exactly, rounds once and then
multiplies by the scale of the weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headrace.nn.geometry import Geometry
from headrace.numerics.common_grid import WIDEST_MULTIPLE, common_grid
from headrace.quant_tensor import IntQuantTensor
from headrace.quant_tensor.constants import fact, is_whole, is_zero, largest_magnitude


def joined(tensors: list[IntQuantTensor], dim: int) -> IntQuantTensor | None:
    """``torch.cat`` with scale and zero point a channel of *dim*; ``None`` where those vary along another axis.

    Args:
        tensors: of evaluation, of one rank.
        dim: not the batch.
    """
    axis = dim % tensors[0].value.dim()
    parts = [_along(p, t.value, axis) for t in tensors for p in (t.scale, t.zero_point)]
    known = [p for p in parts if p is not None]
    if axis == 0 or len(known) < len(parts):
        return None
    value, scale, zero = (torch.cat(ps, axis) for ps in ([t.value for t in tensors], known[::2], known[1::2]))
    signed = any(t.signed for t in tensors)
    bits = torch.stack([(t.bit_width.float() + float(signed and not t.signed)).reshape(()) for t in tensors])
    return IntQuantTensor(value, scale, zero, bits.max(), signed, False)


def _along(parameter: Tensor, x: Tensor, axis: int) -> Tensor | None:
    """*parameter* as one value for each index of *axis* of *x*, of its rank."""
    shape = [1] * x.dim()
    shape[axis] = x.shape[axis]
    if parameter.numel() == 1:
        return parameter.detach().reshape([1] * x.dim()).expand(shape)
    return parameter.detach() if list(parameter.shape) == shape else None


def centred(x: IntQuantTensor) -> IntQuantTensor:
    """The same values as integers whose zero is 0, where *x* has integer zero points."""
    if fact(x.zero_point, is_zero) or not fact(x.zero_point, is_whole):
        return x
    bits = math.ceil(math.log2(largest_magnitude(x) + 1)) + 1
    return IntQuantTensor(x.value, x.scale, x.zero_point.new_zeros(()), x.bit_width.new_tensor(bits), True, x.training)


def rearranged(move: Callable[[Tensor], Any], x: IntQuantTensor) -> Any:
    """What *move* makes of *x*, elements of it in other places: their scales and zero points move with them."""
    parts = [move(p.detach().expand(x.shape).contiguous()) for p in (x.scale, x.zero_point)]
    value = move(x.value)
    if isinstance(value, Tensor):
        return x.set(value=value, scale=_compact(parts[0]), zero_point=_compact(parts[1]))
    scales, zeros = ([_compact(p) for p in part] for part in parts)
    return type(value)(x.set(value=v, scale=s, zero_point=z) for v, s, z in zip(value, scales, zeros, strict=True))


def _compact(parameter: Tensor) -> Tensor:
    """*parameter* with every axis along which it is constant reduced to length one."""
    for axis, n in enumerate(parameter.shape):
        first = parameter.narrow(axis, 0, min(n, 1))
        if n > 1 and bool((parameter == first).all()):
            parameter = first
    return parameter


def scale_per_input(scale: Tensor, x: Tensor, geometry: Geometry) -> Tensor | None:
    """The scales ``(channels,)`` of the input channels of *x*; ``None`` where they vary along another axis."""
    axis = geometry.input_axis
    if axis is None or scale.dim() < -axis or not scale.numel() == scale.shape[axis] == x.shape[axis]:
        return None
    return scale.reshape(-1)


def aligned(weight: Tensor, scales: Tensor, geometry: Geometry) -> tuple[Tensor, Tensor] | None:
    """Integers of a weight for inputs on one grid, and that grid for each output channel; ``None`` if there is none.

    Args:
        weight: integers in float64.
        scales: of the input channels.
    """
    rows = scales.double().cpu().numpy().reshape(geometry.input_groups, -1)
    found = [common_grid(row, WIDEST_MULTIPLE) for row in rows]
    grids = [grid for grid in found if grid is not None]
    if len(grids) < len(found):
        return None
    multiples = torch.from_numpy(np.concatenate([m for _, m in grids])).to(weight)
    wide = weight * geometry.over_inputs(multiples, weight)
    outputs = geometry.output_channels(weight)
    if float(wide.abs().max()) * (weight.numel() // outputs) >= 2.0**62:
        return None
    unit = torch.tensor([g for g, _ in grids], dtype=torch.float64, device=weight.device)
    return wide, unit.repeat_interleave(outputs // len(grids))
