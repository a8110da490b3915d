"""Dense networks of few bits, for the examples that need nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

import headrace.nn as qnn
from headrace.quant import SignedBinaryActPerTensorConst, SignedBinaryWeightPerTensorConst


def dense(widths: Sequence[int], bits: int, first: nn.Module | None = None) -> nn.Sequential:
    """Quantized input, then per layer a product, a batch norm and an activation; the last product gives scores.

    All scores have one scale, so that hardware can compare them as integers.

    Args:
        widths: of the input and of every layer.
        bits: of weights and activations; 1 is bipolar, values -1 and 1, and 2 gives ternary weights, -1, 0 and 1.
        first: quantizer of the input; one of *bits* when None.
    """
    layers: list[nn.Module] = [first or _input(bits)]
    for inputs, outputs in pairwise(widths):
        layers += [_linear(inputs, outputs, bits), nn.BatchNorm1d(outputs), _activation(bits)]
    return nn.Sequential(*layers[:-2])


def bipolar() -> nn.Module:
    """A quantizer to -1 and 1."""
    return qnn.QuantIdentity(act_quant=SignedBinaryActPerTensorConst)


def _input(bits: int) -> nn.Module:
    return bipolar() if bits == 1 else qnn.QuantIdentity(bit_width=bits)


def _linear(inputs: int, outputs: int, bits: int) -> nn.Module:
    if bits == 1:
        return qnn.QuantLinear(inputs, outputs, bias=False, weight_quant=SignedBinaryWeightPerTensorConst)
    return qnn.QuantLinear(inputs, outputs, bias=False, weight_bit_width=bits)


def _activation(bits: int) -> nn.Module:
    return bipolar() if bits == 1 else qnn.QuantReLU(bit_width=bits)
