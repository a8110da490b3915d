"""A product and a sum a channel, and batch norms that become it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headrace import config
from headrace.nn.geometry import ScaleGeometry
from headrace.nn.quant_layer import QuantWeightBiasInputOutputLayer
from headrace.quant import Int8WeightPerTensorFloat


class ScaleBias(nn.Module):
    """``x * weight + bias`` with one weight and bias a channel.

    Args:
        num_features: number of channels.
        bias: whether there is a bias.
        runtime_shape: shape in which weight and bias meet the input.
    """

    def __init__(self, num_features: int, bias: bool, runtime_shape: tuple[int, ...] = (1, -1, 1, 1)) -> None:
        super().__init__()
        self.num_features = num_features
        self.weight: Any = nn.Parameter(torch.ones(num_features))
        self.bias: Any = nn.Parameter(torch.zeros(num_features)) if bias else None
        self.runtime_shape = runtime_shape

    def forward(self, input: Tensor) -> Tensor:
        return ScaleGeometry(self.runtime_shape)(input, self.weight, self.bias)


class QuantScaleBias(QuantWeightBiasInputOutputLayer, ScaleBias):
    """:class:`ScaleBias` with quantized weight; quantizer arguments as of :class:`headrace.nn.QuantLinear`."""

    def __init__(
        self,
        num_features: int,
        bias: bool,
        weight_quant: Any = Int8WeightPerTensorFloat,
        bias_quant: Any = None,
        input_quant: Any = None,
        output_quant: Any = None,
        runtime_shape: tuple[int, ...] = (1, -1, 1, 1),
        return_quant_tensor: bool = False,
        **kwargs: object,
    ) -> None:
        ScaleBias.__init__(self, num_features, bias, runtime_shape)
        self._init_quantizers(weight_quant, bias_quant, input_quant, output_quant, return_quant_tensor, kwargs)

    @property
    def out_channels(self) -> int:
        """Number of channels."""
        return self.num_features

    @property
    def output_channel_dim(self) -> int:
        return 0

    @property
    def geometry(self) -> ScaleGeometry:
        return ScaleGeometry(self.runtime_shape)


class _BatchNormToQuantScaleBias(QuantScaleBias):
    """Takes the state dictionary of a batch norm and computes what it computes in evaluation."""

    eps: float

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        mean, var = state_dict.pop(prefix + "running_mean", None), state_dict.pop(prefix + "running_var", None)
        state_dict.pop(prefix + "num_batches_tracked", None)
        if mean is not None and var is not None:
            gain = state_dict[prefix + "weight"] / torch.sqrt(var + self.eps)
            state_dict[prefix + "bias"] = state_dict[prefix + "bias"] - mean * gain
            state_dict[prefix + "weight"] = gain
        super()._load_from_state_dict(state_dict, prefix, *args)
        missing_keys: list[str] = args[2]
        for key in (prefix + "weight", prefix + "bias"):
            if config.IGNORE_MISSING_KEYS and key in missing_keys:
                missing_keys.remove(key)


class BatchNorm1dToQuantScaleBias(_BatchNormToQuantScaleBias):
    """Drop-in for :class:`torch.nn.BatchNorm1d` on ``(N, C, L)``, with quantized gain."""

    runtime = (1, -1, 1)

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        weight_quant: Any = Int8WeightPerTensorFloat,
        bias_quant: Any = None,
        input_quant: Any = None,
        output_quant: Any = None,
        return_quant_tensor: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(
            num_features,
            True,
            weight_quant,
            bias_quant,
            input_quant,
            output_quant,
            self.runtime,
            return_quant_tensor,
            **kwargs,
        )
        self.eps = eps


class BatchNorm2dToQuantScaleBias(BatchNorm1dToQuantScaleBias):
    """Drop-in for :class:`torch.nn.BatchNorm2d` on ``(N, C, H, W)``, with quantized gain."""

    runtime = (1, -1, 1, 1)  # type: ignore[assignment]
