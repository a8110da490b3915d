"""Tensors of different scales, joined along their channels: the deployed form is the integer graph all the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import headrace.nn as qnn
from headrace import quant
from headrace.export import export_qonnx
from headrace.ingest import from_proto
from headrace.numerics.common_grid import WIDEST_MULTIPLE, common_grid
from headrace.passes import to_integer

SIGNED, UNSIGNED = quant.Int8ActPerTensorFixedPoint, quant.Uint8ActPerTensorFixedPoint
PARTS = {
    "no common grid": lambda: [qnn.QuantIdentity(bit_width=8), qnn.QuantReLU(bit_width=2)],
    "similar floats": lambda: [qnn.QuantIdentity(bit_width=4), qnn.QuantReLU(bit_width=3)],
    "powers of two": lambda: [
        qnn.QuantIdentity(bit_width=4, act_quant=SIGNED),
        qnn.QuantReLU(bit_width=3, act_quant=UNSIGNED),
    ],
    "zero points": lambda: [
        qnn.QuantIdentity(bit_width=4, act_quant=quant.ShiftedUint8ActPerTensorFloat),
        qnn.QuantIdentity(act_quant=quant.SignedBinaryActPerTensorConst),
    ],
    "eight bits": lambda: [
        qnn.QuantIdentity(bit_width=8, act_quant=SIGNED),
        qnn.QuantReLU(bit_width=8, act_quant=UNSIGNED),
    ],
}


class Shuffle(nn.Module):
    def forward(self, x):
        n, c, h, w = x.shape
        return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class Pick(nn.Module):
    def forward(self, x):
        return torch.cat([x[:, 4:], x[:, 1:4]], 1)


def _conv(inputs, **options):
    return qnn.QuantConv2d(inputs, 4, 3, padding=1, weight_bit_width=4, **options)


IMAGE = (3, 6, 6)
BEHIND = {
    "linear": (lambda: qnn.QuantLinear(18, 5, weight_bit_width=4), (9,)),
    "convolution": (lambda: _conv(6), IMAGE),
    "a scale a channel": (lambda: _conv(6, weight_scaling_per_output_channel=True), IMAGE),
    "groups of both": (lambda: qnn.QuantConv2d(12, 4, 3, groups=4, weight_bit_width=4), (6, 6, 6)),
    "depthwise": (lambda: qnn.QuantConv2d(6, 6, 3, groups=6, weight_bit_width=4), IMAGE),
    "transposed": (lambda: qnn.QuantConvTranspose2d(6, 4, 3, stride=2, groups=2, weight_bit_width=4), (3, 4, 4)),
    "relu": (lambda: nn.Sequential(nn.ReLU(), _conv(6)), IMAGE),
    "max pool": (lambda: nn.Sequential(nn.MaxPool2d(2), _conv(6)), IMAGE),
    "average pool": (lambda: nn.Sequential(nn.AvgPool2d(2), _conv(6)), IMAGE),
    "flatten": (lambda: nn.Sequential(nn.Flatten(), qnn.QuantLinear(54, 5, weight_bit_width=4)), (3, 3, 3)),
    "shuffle": (lambda: nn.Sequential(Shuffle(), _conv(6)), IMAGE),
    "pick and join again": (lambda: nn.Sequential(Pick(), _conv(5)), IMAGE),
    "global pool": (
        lambda: nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), qnn.QuantLinear(6, 5, weight_bit_width=4)),
        IMAGE,
    ),
}


class Joined(nn.Module):
    def __init__(self, parts, behind):
        super().__init__()
        self.first, self.parts, self.behind = qnn.QuantIdentity(bit_width=8), nn.ModuleList(parts), behind

    def forward(self, x):
        x = self.first(x)
        return self.behind(torch.cat([part(x) for part in self.parts], 1))


CASES = [
    *(("no common grid", behind) for behind in BEHIND),
    *(("similar floats", behind) for behind in ("convolution", "a scale a channel", "transposed", "shuffle")),
    *(("powers of two", behind) for behind in ("linear", "groups of both", "flatten", "average pool")),
    *(("zero points", behind) for behind in ("convolution", "global pool")),
    ("eight bits", "convolution"),
]


@pytest.mark.parametrize(("parts", "behind"), CASES)
def test_joined_scales(parts, behind):
    layer, shape = BEHIND[behind]
    model = Joined(PARTS[parts](), layer())
    for spread in (1, 2, 3):
        model(torch.randn(16, *shape) * spread)
    x = torch.randn(64, *shape) * 2
    x[0], x[1], x[2] = 1e6, -1e6, 0.0
    final = qnn.finalize(model.eval(), x)
    with torch.no_grad():
        scales = np.array([float(part.act_quant.scale()) for part in model.parts])
    assert (common_grid(scales, WIDEST_MULTIPLE) is None) == (parts == "no common grid")
    deployed = final(x)
    assert final.report.float_layers == ()
    assert torch.equal(torch.cat([final(row[None]) for row in x[:8]]), deployed[:8]), "batches do not matter"
    compiled = to_integer(from_proto(export_qonnx(model, x[:2])))
    (out,) = compiled.graph.run({str(compiled.graph.inputs[0]): x.numpy()}).values()
    assert np.array_equal(out, deployed.numpy())
    assert all("pass 2^53" in b.reason for b in compiled.blockers), (
        "only what hardware could not hold is left to the host"
    )


def test_an_average_of_integers_with_a_zero_point():
    model = nn.Sequential(
        qnn.QuantIdentity(bit_width=4, act_quant=quant.ShiftedUint8ActPerTensorFloat), nn.AvgPool2d(2), _conv(3)
    )
    for _ in range(3):
        model(torch.randn(16, *IMAGE))
    x = torch.randn(64, *IMAGE) * 2
    final = qnn.finalize(model.eval(), x)
    assert final.report.float_layers == ()
    compiled = to_integer(from_proto(export_qonnx(model, x[:2])))
    (out,) = compiled.graph.run({str(compiled.graph.inputs[0]): x.numpy()}).values()
    assert np.array_equal(out, final(x).numpy())
