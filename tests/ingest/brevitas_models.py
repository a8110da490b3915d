"""Small networks of Brevitas layers, as people build them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from brevitas import nn as qnn
from brevitas import quant as q
from brevitas.quant import fixed_point, scaled_int, shifted_scaled_int
from torch import Tensor, nn

Shape = tuple[int, ...]
MODELS: dict[str, Callable[[], tuple[nn.Module, Shape]]] = {}
"""By name, what makes a network, and the shape of its frames."""


def network(make: Callable[[], tuple[nn.Module, Shape]]) -> Callable[[], tuple[nn.Module, Shape]]:
    MODELS[make.__name__] = make
    return make


def identity(bits: int = 8, **options: Any) -> nn.Module:
    return qnn.QuantIdentity(bit_width=bits, return_quant_tensor=True, **options)


def relu(bits: int = 4, **options: Any) -> nn.Module:
    return qnn.QuantReLU(bit_width=bits, return_quant_tensor=True, **options)


def conv(inputs: int, outputs: int, kernel: Any = 3, **options: Any) -> nn.Module:
    options = {"weight_bit_width": 4, "bias": False, **options}
    return qnn.QuantConv2d(inputs, outputs, kernel, **options)


def dense(inputs: int, outputs: int, **options: Any) -> nn.Module:
    return qnn.QuantLinear(inputs, outputs, **{"weight_bit_width": 4, "bias": True, **options})


def _of_bits(bits: int) -> Callable[[], tuple[nn.Module, Shape]]:
    def make() -> tuple[nn.Module, Shape]:
        w: dict[str, Any] = {"weight_bit_width": bits}
        if bits == 1:
            w = {"weight_quant": q.SignedBinaryWeightPerTensorConst}
        a = max(bits, 2)
        first = (identity(), conv(3, 4, padding=1, **w), nn.BatchNorm2d(4), relu(a), nn.MaxPool2d(2))
        return nn.Sequential(*first, conv(4, 4, **w), relu(a), nn.Flatten(), dense(16, 5, **w)), (3, 8, 8)

    return make


MODELS |= {f"bits_{bits}": _of_bits(bits) for bits in range(1, 9)}


@network
def depthwise() -> tuple[nn.Module, Shape]:
    """And it ends in a QuantTensor, of which TorchScript writes every part."""
    first = (identity(), conv(4, 4, padding=1, groups=4), nn.BatchNorm2d(4), relu(), conv(4, 8, 1), nn.BatchNorm2d(8))
    return nn.Sequential(*first, relu(), conv(8, 8, padding=1, stride=2, groups=8), relu()), (4, 6, 6)


@network
def per_channel() -> tuple[nn.Module, Shape]:
    w = {"weight_quant": scaled_int.Int8WeightPerChannelFloat, "weight_bit_width": 4}
    wide = {"per_channel_broadcastable_shape": (1, 6, 1, 1), "scaling_stats_permute_dims": (1, 0, 2, 3)}
    middle = relu(scaling_per_output_channel=True, **wide)
    layers = (identity(), conv(3, 6, **w), middle, conv(6, 6, padding=1, groups=6, **w), relu(), nn.Flatten())
    return nn.Sequential(*layers, dense(96, 3, **w)), (3, 6, 6)


@network
def biases() -> tuple[nn.Module, Shape]:
    first = (identity(), conv(3, 6, padding=1, bias=True, bias_quant=q.Int32Bias), relu())
    second = (conv(6, 4, bias=True, bias_quant=q.Int16Bias), relu(), nn.Flatten())
    return nn.Sequential(*first, *second, dense(64, 5, bias_quant=q.Int8BiasPerTensorFloatInternalScaling)), (3, 6, 6)


@network
def zero_points() -> tuple[nn.Module, Shape]:
    act, w = shifted_scaled_int.ShiftedUint8ActPerTensorFloat, shifted_scaled_int.ShiftedUint8WeightPerTensorFloat
    first = (identity(act_quant=act), conv(3, 6, padding=1, weight_quant=w), identity(act_quant=act))
    return nn.Sequential(*first, conv(6, 4, padding=1), qnn.QuantReLU(act_quant=act)), (3, 6, 6)


@network
def powers_of_two() -> tuple[nn.Module, Shape]:
    w = {"weight_quant": fixed_point.Int8WeightPerTensorFixedPoint}
    unsigned = fixed_point.Uint8ActPerTensorFixedPoint
    first = (identity(act_quant=fixed_point.Int8ActPerTensorFixedPoint), conv(3, 6, padding=1, **w))
    return nn.Sequential(*first, relu(act_quant=unsigned), conv(6, 4, **w), relu(8, act_quant=unsigned)), (3, 6, 6)


class Residual(nn.Module):
    """Two branches on one scale, or each on its own."""

    def __init__(self, shared: bool) -> None:
        super().__init__()
        self.first = nn.Sequential(identity(), conv(3, 6, padding=1), nn.BatchNorm2d(6), relu())
        self.branch = nn.Sequential(conv(6, 6, padding=1), nn.BatchNorm2d(6))
        self.left, self.right = identity(4), identity(4)
        if shared:
            self.right = self.left
        self.add = None if shared else qnn.QuantEltwiseAdd(bit_width=5, return_quant_tensor=True)
        self.last = relu()
        self.pool = qnn.TruncAvgPool2d(4, bit_width=4, return_quant_tensor=True) if shared else nn.AdaptiveAvgPool2d(1)
        self.head = dense(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        left, right = self.left(x), self.right(self.branch(x))
        y: Tensor = self.head(
            self.pool(self.last(left + right if self.add is None else self.add(left, right))).flatten(1)
        )
        return y


@network
def residual() -> tuple[nn.Module, Shape]:
    return Residual(shared=True), (3, 4, 4)


@network
def residual_of_two_scales() -> tuple[nn.Module, Shape]:
    return Residual(shared=False), (3, 4, 4)


@network
def transposed() -> tuple[nn.Module, Shape]:
    first = qnn.QuantConvTranspose2d(
        3, 4, 3, stride=2, padding=1, output_padding=1, weight_bit_width=4, bias=False, groups=1
    )
    w = scaled_int.Int8WeightPerChannelFloat
    second = qnn.QuantConvTranspose2d(4, 2, 2, stride=2, weight_bit_width=3, bias=True, weight_quant=w)
    return nn.Sequential(identity(), first, nn.BatchNorm2d(4), relu(), second, relu()), (3, 4, 4)


@network
def one_dimension() -> tuple[nn.Module, Shape]:
    first = qnn.QuantConv1d(3, 6, 5, padding=2, stride=2, weight_bit_width=4, bias=False)
    second = qnn.QuantConv1d(6, 4, 3, dilation=2, weight_bit_width=4, bias=True)
    layers = (identity(), first, nn.BatchNorm1d(6), relu(), nn.MaxPool1d(2), second, relu())
    return nn.Sequential(*layers), (3, 24)


@network
def pools() -> tuple[nn.Module, Shape]:
    first = (identity(), conv(3, 6, padding=1), relu(), nn.MaxPool2d(3, 2, 1), conv(6, 6, padding=1, groups=2), relu())
    floor = qnn.TruncAvgPool2d(2, bit_width=4, float_to_int_impl_type="floor", return_quant_tensor=True)
    last = (floor, conv(6, 4, 1), relu(), nn.AvgPool2d(3, 2, 1), identity(5), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(*first, *last, identity(), dense(4, 3, bias=False)), (3, 12, 12)


@network
def functions() -> tuple[nn.Module, Shape]:
    layers: list[nn.Module] = [identity()]
    for function in (nn.Hardswish(), nn.SiLU(), nn.GELU(), nn.LeakyReLU(0.1), nn.Hardsigmoid(), nn.PReLU(8), nn.ELU()):
        layers += [dense(8, 8), function, identity(4)]
    for kind in (qnn.QuantSigmoid, qnn.QuantTanh):
        layers += [dense(8, 8), kind(bit_width=4, return_quant_tensor=True)]
    hard = qnn.QuantHardTanh(bit_width=3, min_val=-1.0, max_val=1.0, return_quant_tensor=True)
    return nn.Sequential(*layers, dense(8, 8), hard, dense(8, 5, bias=False), nn.Softmax(1)), (8,)


@network
def resampling() -> tuple[nn.Module, Shape]:
    first = (nn.ZeroPad2d((1, 2, 0, 1)), identity(), conv(3, 6, (3, 2), stride=(2, 1), padding=(0, 1), dilation=(1, 2)))
    second = (relu(), nn.Upsample(scale_factor=2), conv(6, 4, padding=1), nn.ReLU6(), identity(4), nn.Dropout(0.5))
    return nn.Sequential(*first, *second, nn.PixelShuffle(2), conv(1, 2), relu()), (3, 7, 5)


@network
def signs() -> tuple[nn.Module, Shape]:
    one = {"quant_type": "binary", "scaling_impl_type": "const", "scaling_init": 1.0}
    first = (identity(**one), conv(3, 6, weight_quant=q.SignedBinaryWeightPerTensorConst), nn.BatchNorm2d(6))
    second = (identity(1, act_quant=q.SignedBinaryActPerTensorConst), nn.MaxPool2d(2))
    third = (conv(6, 6, 2, weight_quant=q.SignedTernaryWeightPerTensorConst), nn.BatchNorm2d(6))
    fourth = (identity(2, act_quant=q.SignedTernaryActPerTensorConst), nn.Flatten())
    last = dense(6, 4, bias=False, weight_quant=q.SignedBinaryWeightPerTensorConst)
    return nn.Sequential(*first, *second, *third, *fourth, last), (3, 6, 6)


class Joined(nn.Module):
    """A concatenation, a product over the last axis, a mean, the best class."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = identity(), identity(6)
        self.left, self.right, self.act = conv(3, 4, padding=1), conv(3, 5, padding=1, weight_bit_width=3), relu()
        self.last, self.rows, self.head = (
            nn.Sequential(conv(9, 6), relu()),
            nn.Sequential(dense(4, 5), relu()),
            dense(6, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        y = self.rows(self.last(torch.cat([self.act(self.left(x)), self.act(self.right(x))], 1)))
        mean = (y.value if hasattr(y, "value") else y).mean((2, 3))
        return torch.argmax(self.head(self.leave(mean)), 1)


@network
def joined() -> tuple[nn.Module, Shape]:
    return Joined(), (3, 6, 6)


def trained(name: str) -> tuple[nn.Module, Shape]:
    """The network after some calibration, with batch norms that do something."""
    torch.manual_seed(1)
    made, shape = MODELS[name]()
    made.train()
    with torch.no_grad():
        for _ in range(3):
            made(torch.randn(16, *shape))
        for part in made.modules():
            if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
                part.running_mean.normal_().mul_(0.3)
                part.running_var.uniform_(0.3, 2)
                part.weight.normal_()
                part.bias.normal_().mul_(0.3)
    return made.eval(), shape
