"""The scale that a weight is divided by where it is not the one that it is multiplied by."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headrace.core.optional_state import OptionalState
from headrace.core.restrict_val import RestrictValue, SignedFloatRestrictValue, _ClampValue, _RestrictValue
from headrace.core.stats import _Stats
from headrace.inject.errors import QuantizerValueError


class ParameterPreScalingWeightNorm(OptionalState):
    """``scale * norm(w) / g`` with a learned norm ``g`` a channel: weight normalization (Salimans, Kingma, 2016).

    Args:
        scaling_impl: the scale after the rounding.
        normalize_stats_impl: the norm.
        scaling_stats_input_view_shape_impl: arranges the weight for it.
        tracked_parameter_list: the weight, whose norm ``g`` starts from.
        pre_scaling_shape: shape of ``g``.
        restrict_pre_scaling_impl: restriction of ``g``, ``None`` for none.
        pre_scaling_min_val: lower bound of ``g``.

    Raises:
        QuantizerValueError: several layers share the quantizer.
    """

    def __init__(
        self,
        scaling_impl: nn.Module,
        normalize_stats_impl: nn.Module,
        scaling_stats_input_view_shape_impl: nn.Module,
        tracked_parameter_list: list[nn.Parameter],
        pre_scaling_shape: tuple[int, ...],
        restrict_pre_scaling_impl: RestrictValue | None = None,
        pre_scaling_min_val: float | None = None,
    ) -> None:
        super().__init__()
        if len(tracked_parameter_list) != 1:
            raise QuantizerValueError(
                f"{len(tracked_parameter_list)} layers share a quantizer with weight normalization; accepted: one"
            )
        self.stats = _Stats(normalize_stats_impl, pre_scaling_shape)
        self.stats_input_view_shape_impl = scaling_stats_input_view_shape_impl
        self.scaling_impl = scaling_impl
        restrict = restrict_pre_scaling_impl or SignedFloatRestrictValue()
        self.restrict_clamp_scaling = _RestrictValue(restrict)
        self.clamp_scaling = _ClampValue(pre_scaling_min_val)
        with torch.no_grad():
            norm = self.clamp_scaling(self._norm(tracked_parameter_list[0]))
            self.value = nn.Parameter(restrict.inverse(norm).clone())

    def _norm(self, w: Tensor) -> Tensor:
        out: Tensor = self.stats(self.stats_input_view_shape_impl(w))
        return out

    def forward(self, x: Tensor) -> Tensor:
        g: Tensor = self.clamp_scaling(self.restrict_clamp_scaling(self.value))
        scale: Tensor = self.scaling_impl(x)
        return scale * self._norm(x) / g
