"""Quantized convolutions."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from headrace.nn.geometry import ConvGeometry
from headrace.nn.quant_layer import QuantWeightBiasInputOutputLayer
from headrace.quant import Int8WeightPerTensorFloat

Size = int | tuple[int, ...]


class _QuantConv(QuantWeightBiasInputOutputLayer):
    """What the convolutions share."""

    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    kernel_size: tuple[int, ...]
    padding: Any
    padding_mode: str
    _reversed_padding_repeated_twice: list[int]

    @property
    def output_channel_dim(self) -> int:
        return 0

    @property
    def geometry(self) -> ConvGeometry:
        flat = self._reversed_padding_repeated_twice
        pairs = tuple((flat[i], flat[i + 1]) for i in range(len(flat) - 2, -1, -2))
        mode = "constant" if self.padding_mode == "zeros" else self.padding_mode
        return ConvGeometry(len(self.kernel_size), self.stride, pairs, self.dilation, self.groups, mode)


def _conv_class(name: str, base: type[nn.Module], shape: str) -> Any:
    """A quantized convolution on top of *base*."""

    def __init__(
        self: Any,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        bias: bool | None = True,
        weight_quant: Any = Int8WeightPerTensorFloat,
        bias_quant: Any = None,
        input_quant: Any = None,
        output_quant: Any = None,
        return_quant_tensor: bool = False,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
        **kwargs: object,
    ) -> None:
        base.__init__(
            self,
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            padding_mode=padding_mode,
            bias=bool(bias),
            device=device,
            dtype=dtype,
        )
        self._init_quantizers(weight_quant, bias_quant, input_quant, output_quant, return_quant_tensor, kwargs)

    documentation = f"""Quantized convolution of {shape}; arguments of :class:`torch.nn.{base.__name__}` and of
    :class:`headrace.nn.QuantLinear`."""
    namespace = {"__init__": __init__, "__doc__": documentation, "__module__": __name__, "__qualname__": name}
    return type(name, (_QuantConv, base), namespace)


QuantConv1d: Any = _conv_class("QuantConv1d", nn.Conv1d, "(N, C, L)")
QuantConv2d: Any = _conv_class("QuantConv2d", nn.Conv2d, "(N, C, H, W)")
QuantConv3d: Any = _conv_class("QuantConv3d", nn.Conv3d, "(N, C, D, H, W)")
