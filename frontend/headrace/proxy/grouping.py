"""Quantizers that see a dimension in groups."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from headrace.core.groupwise import ungrouped
from headrace.inject.resolver import Resolver
from headrace.proxy.quant_proxy import QuantProxyFromInjector


class Grouping(QuantProxyFromInjector):
    """Mixin of the proxies whose quantizer divides a dimension in groups: undoes that in its results.

    Attributes:
        group_size: elements of a group.
        group_dim: dimension that the groups divide.
    """

    group_size: int
    group_dim: int

    def _use(self, resolver: Resolver) -> None:
        super()._use(resolver)
        if self.is_quant_enabled:
            self.group_size = resolver["group_size"]  # type: ignore[assignment]
            self.group_dim = resolver["group_dim"]  # type: ignore[assignment]

    def without_groups(self, out: tuple[Any, ...], x: Tensor) -> tuple[Any, ...]:
        """*out* (value, scale, zero point, ...) of the groups of *x* in the shape of *x*."""
        value, scale, zero_point, *rest = out
        length = x.shape[self.group_dim]

        def spread(t: Tensor) -> Tensor:
            return ungrouped(t.expand_as(value), length, self.group_dim) if t.dim() == value.dim() else t

        return ungrouped(value, length, self.group_dim), spread(scale), spread(zero_point), *rest
