"""Pooling and upsampling of quant tensors."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import nn

from headrace.core import functional
from headrace.inject.errors import QuantLayerError
from headrace.nn.keywords import split_keywords
from headrace.nn.quant_layer import QuantLayer, _build_quantizer, _flag
from headrace.quant import NoneTruncQuant, RoundTo8bit
from headrace.quant_tensor import IntQuantTensor, unpack_quant_tensor

Size = int | tuple[int, ...]


class QuantMaxPool1d(QuantLayer, nn.MaxPool1d):
    """:class:`torch.nn.MaxPool1d`; a quantized input stays quantized."""

    def __init__(self, *args: Any, return_quant_tensor: bool = True, **kwargs: Any) -> None:
        nn.MaxPool1d.__init__(self, *args, **kwargs)
        self.return_quant_tensor = _flag("return_quant_tensor", return_quant_tensor)

    def forward(self, input: Any) -> Any:
        return self._pack(nn.MaxPool1d.forward(self, input), self.return_quant_tensor)


class QuantMaxPool2d(QuantLayer, nn.MaxPool2d):
    """:class:`torch.nn.MaxPool2d`; a quantized input stays quantized."""

    def __init__(self, *args: Any, return_quant_tensor: bool = True, **kwargs: Any) -> None:
        nn.MaxPool2d.__init__(self, *args, **kwargs)
        self.return_quant_tensor = _flag("return_quant_tensor", return_quant_tensor)

    def forward(self, input: Any) -> Any:
        return self._pack(nn.MaxPool2d.forward(self, input), self.return_quant_tensor)


class TruncAvgPool2d(QuantLayer, nn.AvgPool2d):
    """Average pooling of integers: the sum is kept to the most significant bits.

    Args:
        kernel_size, stride, ceil_mode, count_include_pad, divisor_override: of :class:`torch.nn.AvgPool2d`.
        trunc_quant: quantizer of the sum.
        return_quant_tensor: return a quant tensor; needs one as input.
        kwargs: attributes of *trunc_quant* (``bit_width=4``).
    """

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
        trunc_quant: Any = RoundTo8bit,
        return_quant_tensor: bool = True,
        **kwargs: object,
    ) -> None:
        nn.AvgPool2d.__init__(
            self,
            kernel_size,  # type: ignore[arg-type]
            stride,  # type: ignore[arg-type]
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
            divisor_override=divisor_override,
        )
        self.return_quant_tensor = _flag("return_quant_tensor", return_quant_tensor)
        groups = split_keywords(type(self).__name__, kwargs, ("",))
        self.trunc_quant = _build_quantizer(self, "trunc_quant", trunc_quant, NoneTruncQuant, groups[""], {}, "")

    def forward(self, input: Any) -> Any:
        return self._pack(self.trunc_quant(nn.AvgPool2d.forward(self, input)), self.return_quant_tensor)


class TruncAdaptiveAvgPool2d(QuantLayer, nn.AdaptiveAvgPool2d):
    """:class:`torch.nn.AdaptiveAvgPool2d` of integers: the sum is kept to the most significant bits.

    The output size has to divide the input size for a quantized result.
    """

    def __init__(
        self, output_size: Any, trunc_quant: Any = RoundTo8bit, return_quant_tensor: bool = True, **kwargs: object
    ) -> None:
        nn.AdaptiveAvgPool2d.__init__(self, output_size)
        self.return_quant_tensor = _flag("return_quant_tensor", return_quant_tensor)
        groups = split_keywords(type(self).__name__, kwargs, ("",))
        self.trunc_quant = _build_quantizer(self, "trunc_quant", trunc_quant, NoneTruncQuant, groups[""], {}, "")

    def forward(self, input: Any) -> Any:
        return self._pack(self.trunc_quant(nn.AdaptiveAvgPool2d.forward(self, input)), self.return_quant_tensor)


class QuantUpsample(QuantLayer, nn.Upsample):
    """:class:`torch.nn.Upsample`; interpolated values are rounded to the grid of the input."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        return_quant_tensor: bool = True,
    ) -> None:
        nn.Upsample.__init__(self, size=size, scale_factor=scale_factor, mode=mode, align_corners=align_corners)
        self.return_quant_tensor = _flag("return_quant_tensor", return_quant_tensor)

    def forward(self, input: Any) -> Any:
        value = F.interpolate(unpack_quant_tensor(input), self.size, self.scale_factor, self.mode, self.align_corners)
        if not isinstance(input, IntQuantTensor):
            if self.mode not in ("nearest", "nearest-exact"):
                raise QuantLayerError(f"interpolating ({self.mode}) to a grid needs a quant tensor as input")
            return self._pack(value, self.return_quant_tensor)
        if self.mode not in ("nearest", "nearest-exact"):
            value = functional.round_ste(value / input.scale) * input.scale
        return self._pack(input.set(value=value), self.return_quant_tensor)


class QuantUpsamplingNearest2d(QuantUpsample):
    """Nearest-neighbour upsampling of ``(N, C, H, W)``."""

    def __init__(self, size: Any = None, scale_factor: Any = None, return_quant_tensor: bool = True) -> None:
        super().__init__(size, scale_factor, "nearest", None, return_quant_tensor)


class QuantUpsamplingBilinear2d(QuantUpsample):
    """Bilinear upsampling of ``(N, C, H, W)``, rounded to the grid of the input."""

    def __init__(self, size: Any = None, scale_factor: Any = None, return_quant_tensor: bool = True) -> None:
        super().__init__(size, scale_factor, "bilinear", True, return_quant_tensor)
