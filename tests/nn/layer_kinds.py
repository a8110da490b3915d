"""One of every kind of layer, and an input for it: the axes of the tests that hold for all of them."""

from __future__ import annotations

import torch
from torch import nn

import headrace.nn as qnn
from headrace import quant


class _Twice(nn.Module):
    """A layer of two inputs called with one tensor."""

    def __init__(self, layer: nn.Module, how: str) -> None:
        super().__init__()
        self.layer = layer
        self.how = how

    def forward(self, x):
        return self.layer([x, x]) if self.how == "list" else self.layer(*[x] * (2 if self.how == "two" else 3))


class _First(nn.Module):
    """The first output of a layer with several."""

    def __init__(self, layer: nn.Module, *, thrice: bool = False) -> None:
        super().__init__()
        self.layer = layer
        self.thrice = thrice

    def forward(self, x):
        return self.layer(x, x, x)[0] if self.thrice else self.layer(x)[0]


def _after(layer: nn.Module) -> nn.Module:
    """*layer* behind a quantizer, for layers that take quant tensors."""
    return nn.Sequential(qnn.QuantIdentity(bit_width=4, return_quant_tensor=True), layer)


def _accumulating(layer: nn.Module) -> nn.Module:
    linear = qnn.QuantLinear(6, 4, bias=False, weight_bit_width=4, return_quant_tensor=True)
    return nn.Sequential(qnn.QuantIdentity(bit_width=4, return_quant_tensor=True), linear, layer)


IMAGE, VECTOR, LINE, VOLUME, SEQUENCE = (2, 3, 6, 6), (5, 6), (2, 3, 9), (2, 3, 4, 4, 4), (4, 2, 6)
KINDS = {
    "QuantLinear": (lambda: qnn.QuantLinear(6, 4, weight_bit_width=4), VECTOR),
    "QuantConv1d": (lambda: qnn.QuantConv1d(3, 4, 3, weight_bit_width=4), LINE),
    "QuantConv2d": (lambda: qnn.QuantConv2d(3, 4, 3, padding=1, weight_bit_width=4), IMAGE),
    "QuantConv3d": (lambda: qnn.QuantConv3d(3, 4, 2, weight_bit_width=4), VOLUME),
    "QuantConvTranspose1d": (lambda: qnn.QuantConvTranspose1d(3, 4, 3, stride=2), LINE),
    "QuantConvTranspose2d": (lambda: qnn.QuantConvTranspose2d(3, 4, 3, stride=2), IMAGE),
    "QuantConvTranspose3d": (lambda: qnn.QuantConvTranspose3d(3, 4, 2), VOLUME),
    "QuantScaleBias": (lambda: qnn.QuantScaleBias(3, True), IMAGE),
    "BatchNorm1dToQuantScaleBias": (lambda: qnn.BatchNorm1dToQuantScaleBias(3), LINE),
    "BatchNorm2dToQuantScaleBias": (lambda: qnn.BatchNorm2dToQuantScaleBias(3), IMAGE),
    "QuantEmbedding": (lambda: qnn.QuantEmbedding(9, 4, weight_bit_width=4), None),
    "QuantIdentity": (lambda: qnn.QuantIdentity(bit_width=4), VECTOR),
    "QuantReLU": (lambda: qnn.QuantReLU(bit_width=4), VECTOR),
    "QuantHardTanh": (lambda: qnn.QuantHardTanh(bit_width=4, min_val=-1.0, max_val=1.0), VECTOR),
    "QuantSigmoid": (lambda: qnn.QuantSigmoid(bit_width=4), VECTOR),
    "QuantTanh": (lambda: qnn.QuantTanh(bit_width=4), VECTOR),
    "QuantHardSwish": (lambda: qnn.QuantHardSwish(bit_width=4), VECTOR),
    "QuantEltwiseAdd": (lambda: _Twice(qnn.QuantEltwiseAdd(input_bit_width=4, output_bit_width=4), "two"), VECTOR),
    "QuantCat": (lambda: _Twice(qnn.QuantCat(input_bit_width=4, output_bit_width=4), "list"), VECTOR),
    "QuantMaxPool1d": (lambda: _after(qnn.QuantMaxPool1d(2)), LINE),
    "QuantMaxPool2d": (lambda: _after(qnn.QuantMaxPool2d(2)), IMAGE),
    "TruncAvgPool2d": (lambda: _after(qnn.TruncAvgPool2d(2, bit_width=4)), IMAGE),
    "TruncAdaptiveAvgPool2d": (lambda: _after(qnn.TruncAdaptiveAvgPool2d(2, bit_width=4)), IMAGE),
    "QuantUpsample": (lambda: _after(qnn.QuantUpsample(scale_factor=2)), IMAGE),
    "QuantUpsamplingNearest2d": (lambda: _after(qnn.QuantUpsamplingNearest2d(scale_factor=2)), IMAGE),
    "QuantUpsamplingBilinear2d": (lambda: _after(qnn.QuantUpsamplingBilinear2d(scale_factor=2)), IMAGE),
    "TruncQuantAccumulator": (lambda: _accumulating(qnn.TruncQuantAccumulator(quant.RoundTo8bit)), VECTOR),
    "ClampQuantAccumulator": (lambda: _accumulating(qnn.ClampQuantAccumulator(quant.ClampTo8bit)), VECTOR),
    "HadamardClassifier": (lambda: _after(qnn.HadamardClassifier(6, 4)), VECTOR),
    "QuantRNN": (lambda: _First(qnn.QuantRNN(6, 4)), SEQUENCE),
    "QuantLSTM": (lambda: _First(qnn.QuantLSTM(6, 4)), SEQUENCE),
    "QuantMultiheadAttention": (lambda: _First(qnn.QuantMultiheadAttention(6, 2), thrice=True), SEQUENCE),
    "QuantScaledDotProductAttention": (lambda: _Twice(qnn.QuantScaledDotProductAttention(), "three"), SEQUENCE),
    "ScaledDotProductAttention": (lambda: _Twice(qnn.ScaledDotProductAttention(), "three"), SEQUENCE),
    "ScaleBias": (lambda: qnn.ScaleBias(3, True), IMAGE),
}
NOT_LAYERS = {"Finalized", "FinalizeReport", "OutputDifference", "finalize"}


def example(kind: str) -> torch.Tensor:
    """An input for the layer *kind*."""
    shape = KINDS[kind][1]
    return torch.randint(0, 9, (3, 5)) if shape is None else torch.randn(*shape)


def made(kind: str, *, trained: bool = True) -> nn.Module:
    """A layer of *kind*, after a few steps of collecting statistics."""
    torch.manual_seed(0)
    module = KINDS[kind][0]()
    if trained:
        for _ in range(3):
            module(example(kind))
    return module


def plain(out):
    """The value of a quant tensor."""
    return out if isinstance(out, torch.Tensor) else out.value
