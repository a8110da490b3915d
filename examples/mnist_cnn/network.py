"""The network: three convolutions and a dense layer, weights and activations of the same few bits."""

from __future__ import annotations

from torch import nn

import headrace.nn as qnn
from headrace.quant import SignedBinaryActPerTensorConst, SignedBinaryWeightPerTensorConst

CHANNELS = (8, 16, 16)
INPUT_BITS = 4


def build_network(bits: int) -> nn.Sequential:
    """Images ``(n, 1, 28, 28)`` to the scores of ten digits, from 14 x 14, 7 x 7 and 4 x 4 pixels.

    Args:
        bits: of weights and activations; 1 is bipolar, values -1 and 1. Images have four bits.
    """
    first, second, third = CHANNELS
    return nn.Sequential(
        qnn.QuantIdentity(bit_width=INPUT_BITS),
        *_convolution(1, first, 2, bits),
        *_convolution(first, second, 1, bits),
        nn.MaxPool2d(2),
        *_convolution(second, third, 2, bits),
        nn.Flatten(),
        qnn.QuantLinear(16 * third, 10, bias=False, weight_bit_width=max(bits, 2)),
    )


def _convolution(inputs: int, outputs: int, stride: int, bits: int) -> tuple[nn.Module, ...]:
    """3 x 3, with batch norm and activation."""
    how = {"weight_quant": SignedBinaryWeightPerTensorConst} if bits == 1 else {"weight_bit_width": bits}
    layer = qnn.QuantConv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False, **how)
    if bits == 1:
        return layer, nn.BatchNorm2d(outputs), qnn.QuantIdentity(act_quant=SignedBinaryActPerTensorConst)
    return layer, nn.BatchNorm2d(outputs), qnn.QuantReLU(bit_width=bits)
