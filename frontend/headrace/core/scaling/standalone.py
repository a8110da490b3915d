"""Scales that are given: constant or learned."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headrace.core.optional_state import OptionalState
from headrace.core.restrict_val import FloatRestrictValue, RestrictValue, _ClampValue, _RestrictValue
from headrace.core.stateless import StatelessBuffer
from headrace.core.stats import (
    SCALAR_SHAPE,
)
from headrace.inject.errors import QuantizerValueError


def _initial(
    scaling_init: float | Tensor,
    shape: tuple[int, ...] | None,
    restrict: RestrictValue,
    dtype: torch.dtype | None,
    device: torch.device | None,
) -> Tensor:
    """The number to store for the scale *scaling_init*, in *shape*."""
    if isinstance(scaling_init, Tensor):
        init = scaling_init.detach().clone().to(dtype=dtype, device=device)
    else:
        init = torch.tensor(float(scaling_init), dtype=dtype or torch.float32, device=device)
    if not bool(torch.isfinite(init).all()) or bool((init == 0).any()):
        raise QuantizerValueError(f"scaling_init must be finite and not 0, got {init.tolist()}")
    if shape is not None and init.shape not in (torch.Size(SCALAR_SHAPE), torch.Size(shape)):
        raise QuantizerValueError(
            f"scaling_init has shape {tuple(init.shape)}; accepted: a scalar or scaling_shape={tuple(shape)}"
        )
    init = restrict.inverse(init)
    return init.expand(shape).clone() if shape is not None and init.shape != torch.Size(shape) else init


class ConstScaling(nn.Module):
    """A constant scale."""

    follows_input = False
    """Whether the scale depends on the tensor to quantize."""

    def __init__(
        self,
        scaling_init: float | Tensor,
        restrict_scaling_impl: RestrictValue | None = None,
        scaling_min_val: float | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        restrict = restrict_scaling_impl or FloatRestrictValue()
        self.restrict_scaling = _RestrictValue(restrict)
        self.clamp_scaling = _ClampValue(scaling_min_val, restrict)
        self.value = StatelessBuffer(_initial(scaling_init, None, restrict, dtype, device))

    def forward(self, x: Tensor, threshold: Tensor | None = None) -> Tensor:
        scale: Tensor = self.clamp_scaling(self.restrict_scaling(self.value.value))
        return scale if threshold is None else scale / threshold


class LearnedScale(OptionalState):
    """Loading of a learned ``value``, shared by the scales below."""

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        if prefix + "learned_value" in state_dict:
            state_dict[prefix + "value"] = state_dict.pop(prefix + "learned_value")
        super()._load_from_state_dict(state_dict, prefix, *args)


class ParameterScaling(LearnedScale):
    """A learned scale with a given start."""

    follows_input = False
    """Whether the scale depends on the tensor to quantize."""

    def __init__(
        self,
        scaling_init: float | Tensor,
        scaling_shape: tuple[int, ...] | None = None,
        restrict_scaling_impl: RestrictValue | None = None,
        scaling_min_val: float | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        restrict = restrict_scaling_impl or FloatRestrictValue()
        self.value = nn.Parameter(_initial(scaling_init, scaling_shape, restrict, dtype, device))
        self.restrict_scaling = _RestrictValue(restrict)
        self.clamp_scaling = _ClampValue(scaling_min_val, restrict)

    def forward(self, x: Tensor, threshold: Tensor | None = None) -> Tensor:
        scale: Tensor = self.clamp_scaling(self.restrict_scaling(self.value))
        return scale if threshold is None else scale / threshold
