"""The network: three hidden layers of 64, weights and activations of the same few bits."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

import headrace.nn as qnn
from headrace.quant import SignedBinaryActPerTensorConst, SignedBinaryWeightPerTensorConst

WIDTHS = (784, 64, 64, 64, 10)


def build_network(bits: int) -> nn.Sequential:
    """Quantized input, then per layer a product, a batch norm and an activation; the last product gives logits.

    The logits of all digits have one scale, so that hardware can compare them as integers.

    Args:
        bits: of weights and activations; 1 is bipolar, values -1 and 1.
    """
    layers: list[nn.Module] = [_input(bits)]
    for inputs, outputs in pairwise(WIDTHS):
        layers += [_linear(inputs, outputs, bits), nn.BatchNorm1d(outputs), _activation(bits)]
    return nn.Sequential(*layers[:-2])


def _input(bits: int) -> nn.Module:
    if bits == 1:
        return qnn.QuantIdentity(act_quant=SignedBinaryActPerTensorConst)
    return qnn.QuantIdentity(bit_width=bits)


def _linear(inputs: int, outputs: int, bits: int) -> nn.Module:
    if bits == 1:
        return qnn.QuantLinear(inputs, outputs, bias=False, weight_quant=SignedBinaryWeightPerTensorConst)
    return qnn.QuantLinear(inputs, outputs, bias=False, weight_bit_width=bits)


def _activation(bits: int) -> nn.Module:
    if bits == 1:
        return qnn.QuantIdentity(act_quant=SignedBinaryActPerTensorConst)
    return qnn.QuantReLU(bit_width=bits)
