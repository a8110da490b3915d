"""A classifier whose weight is a fixed Hadamard matrix (Hoffer, Hubara, Soudry, 2018)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from headrace.core import functional
from headrace.inject.errors import QuantizerValueError, QuantLayerError
from headrace.nn.quant_layer import QuantLayer, _flag
from headrace.quant_tensor import IntQuantTensor, unpack_quant_tensor


def hadamard_matrix(size: int) -> Tensor:
    """The matrix of -1 and +1 after Sylvester, ``(size, size)``; *size* a power of two."""
    matrix = torch.ones(1, 1)
    while matrix.shape[0] < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix


class HadamardClassifier(QuantLayer):
    """``-scale * (x / |x|) @ H.T`` with the norm over the whole input, and the first rows and columns of ``H``.

    Nothing but the scale is learned. The norm depends on the input, so there is no integer form: the layer computes in
    floating point in evaluation as well, and the dataflow compiler refuses it.

    Args:
        in_channels, out_channels: features and classes.
        fixed_scale: keep the scale at ``1 / sqrt(out_channels)``.
        return_quant_tensor: return a quant tensor, which needs one as input.

    Raises:
        QuantizerValueError: fewer than one feature or class.
    """

    proj: Tensor
    scale: Any

    def __init__(
        self, in_channels: int, out_channels: int, fixed_scale: bool = False, return_quant_tensor: bool = False
    ) -> None:
        super().__init__()
        if min(in_channels, out_channels) < 1:
            raise QuantizerValueError(
                f"in_channels={in_channels} and out_channels={out_channels} must both be at least 1"
            )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.return_quant_tensor = _flag("return_quant_tensor", return_quant_tensor)
        size = 2 ** math.ceil(math.log2(max(in_channels, out_channels)))
        projection = hadamard_matrix(size)[:out_channels, :in_channels].clone()
        self.register_buffer("proj", projection, persistent=False)
        start = torch.tensor(1.0 / math.sqrt(out_channels))
        if _flag("fixed_scale", fixed_scale):
            self.register_buffer("scale", start)
        else:
            self.scale = nn.Parameter(start)
        self.eps = 1e-8

    def forward(self, input: Any) -> Any:
        x: Tensor = unpack_quant_tensor(input)
        norm = torch.linalg.vector_norm(x) + self.eps
        out = -self.scale * nn.functional.linear(x / norm, self.proj)
        if not isinstance(input, IntQuantTensor) or not self.return_quant_tensor:
            return self._pack(out, self.return_quant_tensor)
        if bool((input.zero_point != 0).any()):
            raise QuantLayerError("HadamardClassifier: return_quant_tensor=True needs an input without a zero point")
        bits = functional.ceil_ste(torch.log2((2.0**input.bit_width - 1.0) * self.in_channels))
        scale = input.scale * self.scale / norm
        return IntQuantTensor(out, scale, input.zero_point, bits, True, self.training)
