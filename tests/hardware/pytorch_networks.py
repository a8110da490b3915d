"""Small networks of the kinds that people deploy, in PyTorch with ``headrace.nn``, after a few training batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

import headrace.nn as qnn
from headrace import quant


def act(bits: int) -> nn.Module:
    """A quantized activation; of one bit it is the sign."""
    if bits == 1:
        return qnn.QuantIdentity(act_quant=quant.SignedBinaryActPerTensorConst)
    return qnn.QuantReLU(bit_width=bits)


def weights(bits: int) -> dict[str, object]:
    """Keywords of a layer with weights of so many bits."""
    if bits == 1:
        return {"weight_quant": quant.SignedBinaryWeightPerTensorConst}
    return {"weight_bit_width": bits}


def conv(inputs: int, outputs: int, kernel: int, bits: int, **how: int) -> nn.Sequential:
    """A convolution with its batch norm."""
    layer = qnn.QuantConv2d(inputs, outputs, kernel, bias=False, **weights(bits), **how)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs))


def cnv(weight_bits: int, act_bits: int) -> nn.Module:
    """Convolutions without padding, a pool, dense layers: FINN's CNV, small."""
    layers: list[nn.Module] = [qnn.QuantIdentity(bit_width=8)]
    for inputs, outputs, pooled in ((3, 8, False), (8, 8, True), (8, 16, False)):
        layers += [conv(inputs, outputs, 3, weight_bits), act(act_bits), *([nn.MaxPool2d(2)] if pooled else [])]
    dense = qnn.QuantLinear(16 * 4, 16, bias=False, **weights(weight_bits))
    last = qnn.QuantLinear(16, 5, bias=False, **weights(weight_bits))
    return nn.Sequential(*layers, nn.Flatten(), dense, nn.BatchNorm1d(16), act(act_bits), last)


def mobilenet(bits: int) -> nn.Module:
    """Depthwise separable convolutions and a global average: MobileNetV1, small."""
    layers = [qnn.QuantIdentity(bit_width=8), conv(3, 4, 3, 8, stride=2, padding=1), act(bits)]
    channels = 4
    for outputs, stride in ((8, 1), (8, 2), (12, 1)):
        layers += [conv(channels, channels, 3, bits, stride=stride, padding=1, groups=channels), act(bits)]
        layers += [conv(channels, outputs, 1, bits), act(bits)]
        channels = outputs
    head = qnn.QuantLinear(channels, 5, bias=True, weight_bit_width=8)
    return nn.Sequential(*layers, nn.AvgPool2d(4), qnn.QuantIdentity(bit_width=8), nn.Flatten(), head)


class Block(nn.Module):
    """A residual block; the branches end in quantizers of their own, so that their scales differ."""

    def __init__(self, inputs: int, outputs: int, stride: int, bits: tuple[int, int]) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            conv(inputs, outputs, 3, bits[0], stride=stride, padding=1),
            act(bits[0]),
            conv(outputs, outputs, 3, bits[1], padding=1),
            qnn.QuantIdentity(bit_width=bits[1]),
        )
        plain = inputs == outputs and stride == 1
        self.shortcut = nn.Sequential(
            nn.Identity() if plain else conv(inputs, outputs, 1, bits[0], stride=stride),
            qnn.QuantIdentity(bit_width=bits[0]),
        )
        self.act = act(bits[1])

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.branch(x) + self.shortcut(x))


def resnet(*bits: int) -> nn.Module:
    """Two residual blocks, their layers of the given numbers of bits in turn."""
    first, second = bits[0], bits[-1]
    return nn.Sequential(
        qnn.QuantIdentity(bit_width=8),
        conv(3, 6, 3, 8, padding=1),
        act(first),
        nn.MaxPool2d(3, 2, 1),
        Block(6, 6, 1, (first, second)),
        Block(6, 8, 2, (second, first)),
        nn.AdaptiveAvgPool2d(1),
        qnn.QuantIdentity(bit_width=8),
        nn.Flatten(),
        qnn.QuantLinear(8, 5, bias=True, weight_bit_width=8),
    )


class UNet(nn.Module):
    """Down, up again, and joined with what came before."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.input = qnn.QuantIdentity(bit_width=8)
        self.down = nn.Sequential(conv(1, 4, 3, bits, padding=1), act(bits))
        self.bottom = nn.Sequential(nn.MaxPool2d(2), conv(4, 8, 3, bits, padding=1), act(bits))
        self.up = nn.Upsample(scale_factor=2)
        self.out = nn.Sequential(conv(12, 4, 3, bits, padding=1), act(bits), conv(4, 2, 1, bits))

    def forward(self, x: Tensor) -> Tensor:
        x = self.down(self.input(x))
        return self.out(torch.cat([x, self.up(self.bottom(x))], 1))


def keywords(bits: int) -> nn.Module:
    """One-dimensional convolutions over time, averaged at the end: a keyword spotter."""
    layers: list[nn.Module] = [qnn.QuantIdentity(bit_width=8)]
    for inputs, outputs, stride in ((10, 12, 1), (12, 12, 2), (12, 12, 1)):
        layers.append(qnn.QuantConv1d(inputs, outputs, 5, stride=stride, padding=2, bias=False, weight_bit_width=bits))
        layers += [nn.BatchNorm1d(outputs), act(bits)]
    head = qnn.QuantLinear(12, 5, bias=True, weight_bit_width=bits)
    return nn.Sequential(*layers, nn.AvgPool1d(8), qnn.QuantIdentity(bit_width=8), nn.Flatten(), head)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "cnv_w1a1": (partial(cnv, 1, 1), (3, 12, 12)),
    "cnv_w1a2": (partial(cnv, 1, 2), (3, 12, 12)),
    "cnv_w2a2": (partial(cnv, 2, 2), (3, 12, 12)),
    "mobilenet_w4a4": (partial(mobilenet, 4), (3, 16, 16)),
    "resnet_w4a4": (partial(resnet, 4), (3, 12, 12)),
    "resnet_mixed": (partial(resnet, 3, 5), (3, 12, 12)),
    "unet_w4a4": (partial(UNet, 4), (1, 8, 8)),
    "keywords_w3a3": (partial(keywords, 3), (10, 16)),
}
"""By name: how to make it, and the shape of a frame."""


def trained(name: str) -> tuple[nn.Module, Tensor]:
    """The network of that name after some batches, so that scales and batch norms are not trivial; and other frames."""
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(16, *shape)).square().mean().backward()
        optimizer.step()
    return model.eval(), torch.randn(6, *shape) * 1.5
