"""Quantized transposed convolutions."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from headrace.inject.errors import QuantizerValueError
from headrace.nn.geometry import ConvTransposeGeometry
from headrace.nn.quant_layer import QuantWeightBiasInputOutputLayer
from headrace.quant import Int8WeightPerTensorFloat

Size = int | tuple[int, ...]


class _QuantConvTranspose(QuantWeightBiasInputOutputLayer):
    """What the transposed convolutions share."""

    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    kernel_size: tuple[int, ...]
    padding: Any
    output_padding: Any

    @property
    def output_channel_dim(self) -> int:
        return 1

    @property
    def geometry(self) -> ConvTransposeGeometry:
        return self._geometry(tuple(self.output_padding))

    def _geometry(self, output_padding: tuple[int, ...]) -> ConvTransposeGeometry:
        return ConvTransposeGeometry(
            len(self.kernel_size), self.stride, tuple(self.padding), output_padding, self.dilation, self.groups
        )

    def forward(self, input: Any, output_size: list[int] | None = None) -> Any:
        if output_size is None:
            return self._run(input, self.geometry)
        padding: Any = self._output_padding(  # type: ignore[operator]
            input, output_size, self.stride, self.padding, self.kernel_size, len(self.kernel_size), self.dilation
        )
        return self._run(input, self._geometry(tuple(padding)))


def _conv_transpose_class(name: str, base: type[nn.Module], shape: str) -> Any:
    """A quantized transposed convolution on top of *base*."""

    def __init__(
        self: Any,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
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
            output_padding=output_padding,
            groups=groups,
            bias=bool(bias),
            dilation=dilation,
            padding_mode=padding_mode,
            device=device,
            dtype=dtype,
        )
        if groups > 1 and kwargs.get("weight_scaling_per_output_channel"):
            raise QuantizerValueError(
                f"{name} with groups takes one weight scale: its weight has no dimension of output channels; set "
                "weight_scaling_per_output_channel=False"
            )
        self._init_quantizers(weight_quant, bias_quant, input_quant, output_quant, return_quant_tensor, kwargs)

    documentation = f"""Quantized transposed convolution of {shape}; arguments of :class:`torch.nn.{base.__name__}` and
    of :class:`headrace.nn.QuantLinear`."""
    namespace = {"__init__": __init__, "__doc__": documentation, "__module__": __name__, "__qualname__": name}
    return type(name, (_QuantConvTranspose, base), namespace)


QuantConvTranspose1d: Any = _conv_transpose_class("QuantConvTranspose1d", nn.ConvTranspose1d, "(N, C, L)")
QuantConvTranspose2d: Any = _conv_transpose_class("QuantConvTranspose2d", nn.ConvTranspose2d, "(N, C, H, W)")
QuantConvTranspose3d: Any = _conv_transpose_class("QuantConvTranspose3d", nn.ConvTranspose3d, "(N, C, D, H, W)")
