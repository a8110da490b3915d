"""Statistics from which scales and zero points start.

Each takes a tensor arranged by a view of :mod:`headrace.core.function_wrapper.shape` and reduces it over
``stats_reduce_dim`` (``None``: over everything).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from headrace.core.autograd import abs_max
from headrace.core.optional_state import OptionalState

DEFAULT_MOMENTUM = 0.1
SCALAR_SHAPE: tuple[int, ...] = ()


def _kth(x: Tensor, q: float, dim: int | None, keepdim: bool, up: bool) -> Tensor:
    """The *q*-percentile element of *x* (1-indexed rank, rounded to nearest or up)."""
    count = x.numel() if dim is None else x.shape[dim]
    rank = 0.01 * q * count
    k = min(max(math.ceil(rank) if up else math.floor(rank + 0.5), 1), count)
    flat = x.reshape(-1) if dim is None else x
    values: Tensor = torch.kthvalue(flat, k, dim=0 if dim is None else dim, keepdim=keepdim and dim is not None)[0]
    return values


class _ReducingStats(nn.Module):
    def __init__(self, stats_reduce_dim: int | None = None, keepdim: bool = False) -> None:
        super().__init__()
        self.stats_reduce_dim = stats_reduce_dim
        self.keepdim = keepdim

    def _max(self, x: Tensor) -> Tensor:
        return x.max() if self.stats_reduce_dim is None else x.amax(self.stats_reduce_dim, self.keepdim)

    def _min(self, x: Tensor) -> Tensor:
        return x.min() if self.stats_reduce_dim is None else x.amin(self.stats_reduce_dim, self.keepdim)


class AbsMax(_ReducingStats):
    """``max |x|``."""

    def forward(self, x: Tensor) -> Tensor:
        out = abs_max(x, self.stats_reduce_dim)
        return out.unsqueeze(self.stats_reduce_dim) if self.keepdim and self.stats_reduce_dim is not None else out


class SignedAbsMax(_ReducingStats):
    """Minus the element of largest magnitude, sign included: it maps to the lowest integer, which has no opposite."""

    def forward(self, x: Tensor) -> Tensor:
        rows, dim = (x.reshape(-1), 0) if self.stats_reduce_dim is None else (x, self.stats_reduce_dim)
        at = rows.abs().argmax(dim, keepdim=True)
        largest = -rows.gather(dim, at)
        return largest if self.keepdim and self.stats_reduce_dim is not None else largest.squeeze(dim)


class AbsAve(_ReducingStats):
    """``mean |x|``."""

    def forward(self, x: Tensor) -> Tensor:
        return x.abs().mean() if self.stats_reduce_dim is None else x.abs().mean(self.stats_reduce_dim, self.keepdim)


class AbsMaxAve(nn.Module):
    """Mean over channels of ``max |x|``."""

    def __init__(self, stats_reduce_dim: int) -> None:
        super().__init__()
        self.stats_reduce_dim = stats_reduce_dim

    def forward(self, x: Tensor) -> Tensor:
        return x.abs().amax(self.stats_reduce_dim).mean()


class AbsMaxL2(nn.Module):
    """Root mean square over channels of ``max |x|``."""

    def __init__(self, stats_reduce_dim: int) -> None:
        super().__init__()
        self.stats_reduce_dim = stats_reduce_dim

    def forward(self, x: Tensor) -> Tensor:
        largest = x.abs().amax(self.stats_reduce_dim)
        out: Tensor = largest.norm(p=2) / math.sqrt(largest.numel())
        return out


class _RowNorm(nn.Module):
    power: float

    def __init__(self, stats_reduce_dim: int) -> None:
        super().__init__()
        self.stats_reduce_dim = stats_reduce_dim

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x.norm(p=self.power, dim=self.stats_reduce_dim, keepdim=True)
        return out


class L1Norm(_RowNorm):
    """Sum of magnitudes of each row."""

    power = 1.0


class L2Norm(_RowNorm):
    """Root of the sum of squares of each row."""

    power = 2.0


class AbsMinMax(_ReducingStats):
    """``max(x) - min(x, 0)``."""

    def forward(self, x: Tensor) -> Tensor:
        return (self._max(x) - self._min(x).clamp(max=0.0)).abs()


class AbsPercentile(nn.Module):
    """The ``high_percentile_q`` percentile of ``|x|`` (an element of *x*, not an interpolation)."""

    def __init__(self, high_percentile_q: float, stats_reduce_dim: int | None = None, keepdim: bool = False) -> None:
        super().__init__()
        self.q = high_percentile_q
        self.stats_reduce_dim = stats_reduce_dim
        self.keepdim = keepdim

    def forward(self, x: Tensor) -> Tensor:
        return _kth(x.abs(), self.q, self.stats_reduce_dim, self.keepdim, up=False)


class PercentileInterval(nn.Module):
    """Distance between the ``low_percentile_q`` (at most 0) and the ``high_percentile_q`` percentile."""

    def __init__(
        self,
        low_percentile_q: float,
        high_percentile_q: float,
        stats_reduce_dim: int | None = None,
        keepdim: bool = False,
    ) -> None:
        super().__init__()
        self.low_q = low_percentile_q
        self.high_q = high_percentile_q
        self.stats_reduce_dim = stats_reduce_dim
        self.keepdim = keepdim

    def forward(self, x: Tensor) -> Tensor:
        low = _kth(x, self.low_q, self.stats_reduce_dim, self.keepdim, up=True).clamp(max=0.0)
        high = _kth(x, self.high_q, self.stats_reduce_dim, self.keepdim, up=False)
        return (high - low).abs()


class NegativeMinOrZero(_ReducingStats):
    """``min(x, 0)``."""

    def forward(self, x: Tensor) -> Tensor:
        return self._min(x).clamp(max=0.0)


class NegativePercentileOrZero(nn.Module):
    """The ``low_percentile_q`` percentile, at most 0."""

    def __init__(self, low_percentile_q: float, stats_reduce_dim: int | None = None, keepdim: bool = False) -> None:
        super().__init__()
        self.q = low_percentile_q
        self.stats_reduce_dim = stats_reduce_dim
        self.keepdim = keepdim

    def forward(self, x: Tensor) -> Tensor:
        return _kth(x, self.q, self.stats_reduce_dim, self.keepdim, up=True).clamp(max=0.0)


class _MagnitudeMoments(_ReducingStats):
    epsilon: float

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the magnitudes."""
        magnitude = x.abs()
        if self.stats_reduce_dim is None:
            return magnitude.mean(), (magnitude.var() + self.epsilon).sqrt()
        dim = self.stats_reduce_dim
        return magnitude.mean(dim), (magnitude.var(dim) + self.epsilon).sqrt()


class MeanSigmaStd(_MagnitudeMoments):
    """``mean |x| + sigma * std |x|``."""

    def __init__(self, sigma: float, stats_reduce_dim: int | None = None, std_dev_epsilon: float = 1e-8) -> None:
        super().__init__(stats_reduce_dim)
        self.sigma = sigma
        self.epsilon = std_dev_epsilon

    def forward(self, x: Tensor) -> Tensor:
        mean, deviation = self.moments(x)
        return mean + self.sigma * deviation


class MeanLearnedSigmaStd(OptionalState, _MagnitudeMoments):
    """``mean |x| + sigma * std |x|`` with learned *sigma*.

    Args:
        sigma: where learning starts.
        stats_output_shape: one value, or one a channel.
    """

    def __init__(
        self,
        sigma: float,
        stats_output_shape: tuple[int, ...] = SCALAR_SHAPE,
        stats_reduce_dim: int | None = None,
        std_dev_epsilon: float = 1e-8,
    ) -> None:
        super().__init__(stats_reduce_dim)
        self.epsilon = std_dev_epsilon
        self.value = nn.Parameter(torch.full(stats_output_shape, float(sigma)))

    def forward(self, x: Tensor) -> Tensor:
        mean, deviation = self.moments(x)
        return mean + self.value.reshape(mean.shape) * deviation


class _Stats(nn.Module):
    """A statistic in the shape of the scale."""

    def __init__(self, stats_impl: nn.Module, stats_output_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.stats_output_shape = stats_output_shape
        self.stats_impl = stats_impl

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.stats_impl(x)
        return out.view(self.stats_output_shape)


class _ParameterListStats(nn.Module):
    """A statistic of the parameters that share a quantizer, concatenated.

    The parameters belong to the layers; only references are kept here, outside the state dictionary.
    """

    def __init__(
        self,
        stats_impl: nn.Module,
        stats_output_shape: tuple[int, ...],
        stats_input_view_shape_impl: nn.Module,
        stats_input_concat_dim: int,
        tracked_parameter_list: list[nn.Parameter],
    ) -> None:
        super().__init__()
        self.view_shape_impl = stats_input_view_shape_impl
        self.concat_dim = stats_input_concat_dim
        self._tracked = tuple(tracked_parameter_list)
        self.stats = _Stats(stats_impl, stats_output_shape)

    @property
    def is_single(self) -> bool:
        """Whether the statistic is of the quantized parameter alone."""
        return len(self._tracked) == 1

    def view(self, x: Tensor) -> Tensor:
        """The parameters as the statistic takes them; *x* is the one that is quantized."""
        if len(self._tracked) > 1:
            views = [self.view_shape_impl(parameter) for parameter in self._tracked]
            return torch.cat(views, dim=self.concat_dim)
        out: Tensor = self.view_shape_impl(x)
        return out

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.stats(self.view(x))
        return out


def momentum_update(buffer: Tensor, update: Tensor, momentum: float | None, count: int) -> None:
    """In place: the true average over *count* updates (``momentum=None``) or the exponential one."""
    if count == 1:
        buffer.copy_(update)
    elif momentum is None:
        buffer.mul_((count - 1) / count).add_(update / count)
    else:
        buffer.mul_(1 - momentum).add_(momentum * update)
