"""The linear operations of layers, in float and on integers of any dtype."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

_CONVOLUTION = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


class Geometry:
    """A bilinear operation of input and weight, with output channels."""

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The float operation, for training."""
        raise NotImplementedError

    def integer(self, x: Tensor, weight: Tensor) -> Tensor:
        """The operation by multiplying and adding only, so that it is exact on integers that the dtype holds."""
        raise NotImplementedError

    def output_channels(self, weight: Tensor) -> int:
        """Number of output channels."""
        return weight.shape[0]

    def terms(self, weight: Tensor) -> int:
        """Number of products in an output."""
        return math.prod(weight.shape[1:])

    def sums_per_output(self, weight: Tensor) -> Tensor:
        """Sum of *weight* over everything that enters one output channel."""
        return weight.reshape(weight.shape[0], -1).sum(1)

    def channel_shape(self, y: Tensor) -> tuple[int, ...]:
        """Shape that broadcasts one value an output channel over the output *y*."""
        raise NotImplementedError

    def weight_scale_per_output(self, scale: Tensor, weight: Tensor) -> Tensor | None:
        """The weight scale as a scalar or one an output channel, flat; ``None`` if an output mixes scales."""
        return scale.reshape(-1) if scale.numel() in (1, self.output_channels(weight)) else None

    def input_scale_per_output(self, scale: Tensor, x: Tensor) -> Tensor | None:
        """The input scale as a scalar or one an output channel, flat; ``None`` if an output mixes scales."""
        return scale.reshape(-1) if scale.numel() == 1 else None

    @property
    def input_axis(self) -> int | None:
        """The axis of input channels, counted from the end; ``None`` where outputs do not sum over them."""
        return None

    @property
    def input_groups(self) -> int:
        """Groups of input channels that enter different outputs."""
        return 1

    def over_inputs(self, values: Tensor, weight: Tensor) -> Tensor:
        """One value an input channel, as they broadcast against the weight."""
        raise NotImplementedError


@dataclass(frozen=True)
class LinearGeometry(Geometry):
    """``x @ weight.T``."""

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return F.linear(x, weight, bias)

    def integer(self, x: Tensor, weight: Tensor) -> Tensor:
        return x @ weight.t() if x.dtype == torch.int64 else F.linear(x, weight)

    def channel_shape(self, y: Tensor) -> tuple[int, ...]:
        return (*[1] * (y.dim() - 1), -1)

    @property
    def input_axis(self) -> int | None:
        return -1

    def over_inputs(self, values: Tensor, weight: Tensor) -> Tensor:
        return values.view(1, -1)


@dataclass(frozen=True)
class ConvGeometry(Geometry):
    """Convolution over the last *ndim* dimensions.

    Args:
        ndim: 1, 2 or 3.
        stride, dilation: one number a dimension.
        padding: ``(before, after)`` of each dimension.
        padding_mode: of :func:`torch.nn.functional.pad`.
        groups: number of groups.
    """

    ndim: int
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int
    padding_mode: str = "constant"

    def _pad(self, x: Tensor) -> Tensor:
        amounts = [amount for pair in reversed(self.padding) for amount in pair]
        return F.pad(x, amounts, mode=self.padding_mode) if any(amounts) else x  # negative amounts cut off

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        symmetric = self.padding_mode == "constant" and all(a == b for a, b in self.padding)
        padding = tuple(a for a, _ in self.padding) if symmetric else (0,) * self.ndim
        out: Tensor = _CONVOLUTION[self.ndim](
            x if symmetric else self._pad(x), weight, bias, self.stride, padding, self.dilation, self.groups
        )
        return out

    def integer(self, x: Tensor, weight: Tensor) -> Tensor:
        if x.dtype == torch.float32 and x.device.type == "cpu":
            # oneDNN's direct algorithm multiplies and adds; NNPACK would use Winograd.
            with torch.backends.nnpack.flags(enabled=False):
                return self(x, weight, None)
        return self._by_patches(x, weight)

    def columns(self, x: Tensor, kernel: tuple[int, ...]) -> tuple[Tensor, list[int]]:
        """The patches of *x* that a *kernel* sees, ``(N, groups, positions, channels * taps)``, and the output size."""
        batched = x.dim() == self.ndim + 2
        patches = self._pad(x if batched else x.unsqueeze(0))
        for i in range(self.ndim):
            span = self.dilation[i] * (kernel[i] - 1) + 1
            patches = patches.unfold(2 + i, span, self.stride[i])[..., :: self.dilation[i]]
        n, channels, *rest = patches.shape
        size = rest[: self.ndim]
        columns = patches.reshape(n, self.groups, channels // self.groups, math.prod(size), math.prod(kernel))
        return columns.permute(0, 1, 3, 2, 4).reshape(n, self.groups, math.prod(size), -1), size

    def _by_patches(self, x: Tensor, weight: Tensor) -> Tensor:
        """Patches times weights, one matrix product a group."""
        columns, size = self.columns(x, tuple(weight.shape[2:]))
        matrix = weight.reshape(self.groups, weight.shape[0] // self.groups, -1).transpose(1, 2)
        out = (columns @ matrix).transpose(2, 3).reshape(columns.shape[0], weight.shape[0], *size)
        return out if x.dim() == self.ndim + 2 else out.squeeze(0)

    def channel_shape(self, y: Tensor) -> tuple[int, ...]:
        return (*[1] * (y.dim() - self.ndim - 1), -1, *[1] * self.ndim)

    def input_scale_per_output(self, scale: Tensor, x: Tensor) -> Tensor | None:
        if scale.numel() == 1:
            return scale.reshape(-1)
        channels = x.shape[x.dim() - self.ndim - 1]
        per_channel = (
            scale.numel() == channels and scale.shape[x.dim() - self.ndim - 1 - (x.dim() - scale.dim())] == channels
        )
        return scale.reshape(-1) if per_channel and self.groups == channels else None

    @property
    def input_axis(self) -> int | None:
        return -self.ndim - 1

    @property
    def input_groups(self) -> int:
        return self.groups

    def over_inputs(self, values: Tensor, weight: Tensor) -> Tensor:
        rows = values.view(self.groups, -1).repeat_interleave(weight.shape[0] // self.groups, 0)
        return rows.view(*weight.shape[:2], *[1] * self.ndim)


@dataclass(frozen=True)
class ConvTransposeGeometry(Geometry):
    """Transposed convolution over the last *ndim* dimensions; weight ``(in, out / groups, kernel)``.

    Args:
        ndim: 1, 2 or 3.
        stride, padding, output_padding, dilation: one number a dimension.
        groups: number of groups.
    """

    ndim: int
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    output_padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        out: Tensor = _TRANSPOSED[self.ndim](
            x, weight, bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation
        )
        return out

    def integer(self, x: Tensor, weight: Tensor) -> Tensor:
        if x.dtype != torch.int64 and x.device.type == "cpu":
            # oneDNN (float32) and torch's own kernel (float64) multiply and add only.
            with torch.backends.nnpack.flags(enabled=False):
                return self(x, weight, None)
        return self._by_patches(x, weight)

    def as_convolution(self, kernel: tuple[int, ...]) -> ConvGeometry:
        """The convolution of :meth:`spread` inputs with the :meth:`turned` weight that computes the same."""
        reach = [d * (k - 1) for d, k in zip(self.dilation, kernel, strict=True)]
        before = [r - p for r, p in zip(reach, self.padding, strict=True)]
        pairs = tuple((b, b + extra) for b, extra in zip(before, self.output_padding, strict=True))
        return ConvGeometry(self.ndim, (1,) * self.ndim, pairs, self.dilation, self.groups)

    def spread(self, x: Tensor) -> Tensor:
        """*x* with a batch dimension and zeros between its elements."""
        x = x if x.dim() == self.ndim + 2 else x.unsqueeze(0)
        spread_size = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], self.stride, strict=True)]
        spread = x.new_zeros(*x.shape[:2], *spread_size)
        spread[(slice(None), slice(None), *[slice(None, None, s) for s in self.stride])] = x
        return spread

    def turned(self, weight: Tensor) -> Tensor:
        """The weight turned around, ``(out, in / groups, kernel)``."""
        per_group = weight.shape[0] // self.groups
        kernel = weight.reshape(self.groups, per_group, weight.shape[1], *weight.shape[2:]).transpose(1, 2)
        return kernel.reshape(-1, per_group, *weight.shape[2:]).flip([2 + i for i in range(self.ndim)])

    def turned_back(self, kernel: Tensor) -> Tensor:
        """The inverse of :meth:`turned`."""
        flipped = kernel.flip([2 + i for i in range(self.ndim)])
        grouped = flipped.reshape(self.groups, -1, *flipped.shape[1:]).transpose(1, 2)
        return grouped.reshape(-1, *grouped.shape[2:])

    def _by_patches(self, x: Tensor, weight: Tensor) -> Tensor:
        """The convolution of *x* with zeros put between its elements and the kernel turned around."""
        out = self.as_convolution(tuple(weight.shape[2:]))._by_patches(self.spread(x), self.turned(weight))
        return out if x.dim() == self.ndim + 2 else out.squeeze(0)

    @property
    def input_axis(self) -> int | None:
        return -self.ndim - 1

    @property
    def input_groups(self) -> int:
        return self.groups

    def over_inputs(self, values: Tensor, weight: Tensor) -> Tensor:
        return values.view(-1, *[1] * (self.ndim + 1))

    def output_channels(self, weight: Tensor) -> int:
        return weight.shape[1] * self.groups

    def terms(self, weight: Tensor) -> int:
        taps = math.prod(math.ceil(k / s) for k, s in zip(weight.shape[2:], self.stride, strict=True))
        return weight.shape[0] // self.groups * taps

    def weight_scale_per_output(self, scale: Tensor, weight: Tensor) -> Tensor | None:
        if scale.numel() == weight.shape[1]:  # groups share the scales along dimension 1 of the weight
            return scale.reshape(-1).repeat(self.groups)
        return super().weight_scale_per_output(scale, weight)

    def sums_per_output(self, weight: Tensor) -> Tensor:
        grouped = weight.reshape(self.groups, weight.shape[0] // self.groups, weight.shape[1], -1)
        return grouped.sum((1, 3)).reshape(-1)

    def channel_shape(self, y: Tensor) -> tuple[int, ...]:
        return (*[1] * (y.dim() - self.ndim - 1), -1, *[1] * self.ndim)


@dataclass(frozen=True)
class ScaleGeometry(Geometry):
    """One product a channel: ``x * weight``, in the shape that *runtime_shape* gives the weight."""

    runtime_shape: tuple[int, ...]

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        out = x * weight.view(self.runtime_shape)
        return out if bias is None else out + bias.view(self.runtime_shape)

    def integer(self, x: Tensor, weight: Tensor) -> Tensor:
        return x * weight.view(self.runtime_shape)

    def terms(self, weight: Tensor) -> int:
        return 1

    def channel_shape(self, y: Tensor) -> tuple[int, ...]:
        return self.runtime_shape
