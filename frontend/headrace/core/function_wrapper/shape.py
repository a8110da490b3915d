"""Views that arrange a tensor for statistics: everything, or one row per output channel."""

from __future__ import annotations

from torch import Tensor, nn

from headrace.core.function_wrapper.misc import Identity
from headrace.core.groupwise import grouped


class PermuteDims(nn.Module):
    """``x.permute(permute_dims)``, contiguous."""

    def __init__(self, permute_dims: tuple[int, ...]) -> None:
        super().__init__()
        self.permute_dims = permute_dims

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(*self.permute_dims).contiguous()


class OverTensorView(nn.Module):
    """One dimension with every element."""

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(-1)


class _PermutedView(nn.Module):
    def __init__(self, permute_dims: tuple[int, ...] | None = None) -> None:
        super().__init__()
        self.permute_impl: nn.Module = Identity() if permute_dims is None else PermuteDims(permute_dims)

    def permuted(self, x: Tensor) -> Tensor:
        out: Tensor = self.permute_impl(x)
        return out


class OverOutputChannelView(_PermutedView):
    """``(channels, rest)``."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.permuted(x)
        return y.reshape(y.shape[0], -1)


class OverBatchOverTensorView(_PermutedView):
    """``(batch, rest)``."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.permuted(x)
        return y.reshape(y.shape[0], -1)


class OverBatchOverOutputChannelView(_PermutedView):
    """``(batch, channels, rest)``."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.permuted(x)
        return y.reshape(y.shape[0], y.shape[1], -1)


class OverOutputFeaturesView(_PermutedView):
    """``(rest, features)``."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.permuted(x)
        return y.reshape(-1, y.shape[-1])


class OverSubChannelBlockView(nn.Module):
    """Dimension *group_dim* as ``(groups, group_size)``; see :func:`headrace.core.groupwise.grouped`."""

    def __init__(self, group_size: int, group_dim: int) -> None:
        super().__init__()
        self.group_size = group_size
        self.group_dim = group_dim

    def forward(self, x: Tensor) -> Tensor:
        return grouped(x, self.group_size, self.group_dim)


DynamicOverSubChannelBlockView = OverSubChannelBlockView
"""The same: no view depends on the size of what it gets."""


class StatsInputViewShapeImpl:
    """The views by the names that quantizers use."""

    OVER_TENSOR = OverTensorView
    OVER_OUTPUT_CHANNELS = OverOutputChannelView
    OVER_BATCH_OVER_TENSOR = OverBatchOverTensorView
    OVER_BATCH_OVER_OUTPUT_CHANNELS = OverBatchOverOutputChannelView
    OVER_OUTPUT_FEATURES = OverOutputFeaturesView
    OVER_SUBCHANNEL_BLOCK = OverSubChannelBlockView
    DYNAMIC_OVER_SUBCHANNEL_BLOCK = DynamicOverSubChannelBlockView
