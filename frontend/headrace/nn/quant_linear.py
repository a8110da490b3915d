"""Quantized fully connected layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from headrace.nn.geometry import LinearGeometry
from headrace.nn.quant_layer import QuantWeightBiasInputOutputLayer
from headrace.quant import Int8WeightPerTensorFloat


class QuantLinear(QuantWeightBiasInputOutputLayer, nn.Linear):
    """:class:`torch.nn.Linear` with quantized weight and, where asked for, bias, input and output.

    Args:
        in_features: size of each input sample.
        out_features: size of each output sample.
        bias: whether there is a bias.
        weight_quant: quantizer of the weight, ``None`` for a float weight.
        bias_quant: quantizer of the bias.
        input_quant: quantizer of the input.
        output_quant: quantizer of the output.
        return_quant_tensor: return a quant tensor, which needs a quantized output or quantized input and weight.
        device, dtype: of the parameters.
        kwargs: attributes of the quantizers, prefixed by ``weight_``, ``bias_``, ``input_`` or ``output_``
            (``weight_bit_width=4``).

    Raises:
        QuantizerTypeError: an unknown keyword or a value of the wrong type.
        QuantizerValueError: a value that is not accepted.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
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
        nn.Linear.__init__(self, in_features, out_features, bool(bias), device=device, dtype=dtype)
        self._init_quantizers(weight_quant, bias_quant, input_quant, output_quant, return_quant_tensor, kwargs)

    @property
    def out_channels(self) -> int:
        """Number of output channels."""
        return self.out_features

    @property
    def output_channel_dim(self) -> int:
        return 0

    @property
    def geometry(self) -> LinearGeometry:
        return LinearGeometry()
