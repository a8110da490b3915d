"""The contract between library and compiler: one integer function, whoever computes it.

For every kind of layer, at several bit widths and kinds of scale:

* each layer with weights equals int64 numpy in evaluation,
* ``finalize(model)`` equals ``model.eval()`` where there is no batch norm or transcendental function in between,
* ``finalize(model)`` equals the integer graph that the compiler makes of the QONNX export, on random data, on extremes,
  and, for the small dense layers, on every input there is.
"""

from __future__ import annotations

import importlib.util
import itertools
import pathlib

import numpy as np
import pytest
import torch
from torch import nn

import headrace.nn as qnn
from headrace import quant
from headrace.export import export_qonnx
from headrace.ingest import from_proto
from headrace.nn.quant_layer import QuantWeightBiasInputOutputLayer
from headrace.passes import to_integer

_spec = importlib.util.spec_from_file_location("contract_int64", pathlib.Path(__file__).with_name("int64.py"))
ref = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(ref)


def _act(bits=4, **options):
    return qnn.QuantIdentity(bit_width=bits, return_quant_tensor=True, **options)


def _relu(bits=3, **options):
    return qnn.QuantReLU(bit_width=bits, return_quant_tensor=True, **options)


def _chain(*layers):
    return nn.Sequential(_act(), *layers)


class Add(nn.Module):
    """A residual addition: one quantizer for both branches."""

    def __init__(self):
        super().__init__()
        self.inp, self.shared, self.out = _act(), _act(5), _relu()
        self.conv = qnn.QuantConv2d(3, 3, 3, padding=1, weight_bit_width=3)

    def forward(self, x):
        x = self.inp(x)
        return self.out(self.shared(x) + self.shared(self.conv(x)))


class Cat(nn.Module):
    """A concatenation: one quantizer for both branches."""

    def __init__(self):
        super().__init__()
        self.inp, self.shared = _act(), _act(5)
        self.conv = qnn.QuantConv2d(3, 4, 3, padding=1, weight_bit_width=3)
        self.after = qnn.QuantConv2d(7, 2, 1, weight_bit_width=4)

    def forward(self, x):
        x = self.inp(x)
        return self.after(torch.cat([self.shared(x), self.shared(self.conv(x))], 1))


PER_CHANNEL = {"weight_scaling_per_output_channel": True}
WEIGHTS = {
    "w2": {"weight_bit_width": 2},
    "w4 channel": {"weight_bit_width": 4, **PER_CHANNEL},
    "w8": {"weight_bit_width": 8},
    "fixed point": {"weight_quant": quant.Int8WeightPerTensorFixedPoint, "weight_bit_width": 3},
    "binary": {"weight_quant": quant.SignedBinaryWeightPerTensorConst},
    "ternary": {"weight_quant": quant.SignedTernaryWeightPerTensorConst},
    "zero point": {"weight_quant": quant.ShiftedUint8WeightPerTensorFloat, "weight_bit_width": 4},
    "integer bias": {"weight_bit_width": 4, "bias_quant": quant.Int16Bias},
}
CASES = {
    **{f"linear, {k}": (lambda o=o: _chain(qnn.QuantLinear(6, 5, **o), _relu()), (6,)) for k, o in WEIGHTS.items()},
    "linear, shifted input": (
        lambda: nn.Sequential(
            _act(4, act_quant=quant.ShiftedUint8ActPerTensorFloat), qnn.QuantLinear(6, 5, weight_bit_width=3), _relu()
        ),
        (6,),
    ),
    "linear, binary input": (
        lambda: nn.Sequential(
            qnn.QuantIdentity(act_quant=quant.SignedBinaryActPerTensorConst, return_quant_tensor=True),
            qnn.QuantLinear(6, 5, weight_bit_width=2),
            _relu(),
        ),
        (6,),
    ),
    "conv1d": (lambda: _chain(qnn.QuantConv1d(3, 4, 3, 2, 1, weight_bit_width=3), _relu()), (3, 11)),
    "conv2d": (lambda: _chain(qnn.QuantConv2d(3, 4, (3, 2), (2, 1), (1, 0), **PER_CHANNEL), _relu()), (3, 8, 7)),
    "conv2d dilated": (lambda: _chain(qnn.QuantConv2d(3, 4, 3, dilation=2, weight_bit_width=4), _relu()), (3, 8, 8)),
    "conv2d grouped": (lambda: _chain(qnn.QuantConv2d(4, 6, 3, groups=2, weight_bit_width=3), _relu()), (4, 6, 6)),
    "depthwise": (
        lambda: _chain(qnn.QuantConv2d(4, 4, 3, padding=1, groups=4, weight_bit_width=4, **PER_CHANNEL), _relu()),
        (4, 6, 6),
    ),
    "transposed": (
        lambda: _chain(qnn.QuantConvTranspose2d(3, 4, 3, 2, 1, 1, weight_bit_width=3), _relu()),
        (3, 5, 5),
    ),
    "transposed 1d": (lambda: _chain(qnn.QuantConvTranspose1d(3, 4, 4, 2, weight_bit_width=3), _relu()), (3, 6)),
    "max pool": (lambda: _chain(qnn.QuantMaxPool2d(2), qnn.QuantConv2d(3, 2, 1), _relu()), (3, 6, 6)),
    "average pool": (lambda: _chain(nn.AvgPool2d(2), _act(4)), (3, 6, 6)),
    "truncating pool": (
        lambda: _chain(qnn.TruncAvgPool2d(2, trunc_quant=quant.TruncTo8bit, bit_width=4), qnn.QuantConv2d(3, 2, 1)),
        (3, 6, 6),
    ),
    "add": (Add, (3, 6, 6)),
    "cat": (Cat, (3, 6, 6)),
    "hard tanh": (
        lambda: _chain(
            qnn.QuantLinear(6, 5, weight_bit_width=3),
            qnn.QuantHardTanh(bit_width=3, min_val=-1.0, max_val=1.0, return_quant_tensor=True),
            qnn.QuantLinear(5, 4, weight_bit_width=3),
        ),
        (6,),
    ),
    "sigmoid": (
        lambda: _chain(qnn.QuantLinear(6, 5, weight_bit_width=3), qnn.QuantSigmoid(bit_width=3)),
        (6,),
    ),
    "tanh": (lambda: _chain(qnn.QuantLinear(6, 5, weight_bit_width=3), qnn.QuantTanh(bit_width=4)), (6,)),
    "batch norm": (
        lambda: _chain(qnn.QuantConv2d(3, 4, 3, bias=False, weight_bit_width=3), nn.BatchNorm2d(4), _relu()),
        (3, 6, 6),
    ),
    "activation with a scale a channel": (
        lambda: _chain(
            qnn.QuantConv2d(3, 4, 3, weight_bit_width=3),
            _relu(
                3,
                act_quant=quant.Uint8ActPerTensorFloatMaxInit,
                max_val=2.0,
                scaling_per_output_channel=True,
                per_channel_broadcastable_shape=(1, 4, 1, 1),
            ),
            qnn.QuantConv2d(4, 4, 3, groups=4, weight_bit_width=3),
            _relu(),
        ),
        (3, 8, 8),
    ),
    "upsampling": (lambda: _chain(qnn.QuantUpsample(scale_factor=2), qnn.QuantConv2d(3, 2, 3), _relu()), (3, 4, 4)),
}


def _trained(name):
    make, shape = CASES[name]
    model = make()
    for _ in range(3):
        model(torch.randn(16, *shape))
    x = torch.randn(24, *shape) * 2
    x[0], x[1], x[2] = 1e6, -1e6, 0.0
    return model.eval(), x


def _plain(out):
    return out if isinstance(out, torch.Tensor) else out.value


@pytest.mark.parametrize("name", CASES)
def test_layers_equal_int64(name):
    model, x = _trained(name)
    checked = []

    def check(layer, inputs, out):
        assert np.array_equal(_plain(out).detach().numpy(), ref.layer_output(layer, inputs[0]))
        checked.append(layer)

    layers = [m for m in model.modules() if isinstance(m, QuantWeightBiasInputOutputLayer)]
    for layer in layers:
        layer.register_forward_hook(check)
    with torch.no_grad():
        model(x)
    assert len(checked) == len(layers)


@pytest.mark.parametrize("name", CASES)
def test_compiler_equals_library(name):
    model, x = _trained(name)
    final = qnn.finalize(model)
    deployed = final(x)
    if not any(isinstance(m, nn.BatchNorm2d) for m in model.modules()):
        with torch.no_grad():
            assert torch.equal(_plain(model(x)), deployed)
    compiled = to_integer(from_proto(export_qonnx(model, x)))
    assert compiled.blockers == ()
    (feed,) = (str(n) for n in compiled.graph.inputs)
    (out,) = compiled.graph.run({feed: x.numpy()}).values()
    assert np.array_equal(out, deployed.numpy())


@pytest.mark.parametrize("act_bits", [1, 2, 3])
@pytest.mark.parametrize("options", [{"weight_bit_width": 3}, {"weight_bit_width": 2, **PER_CHANNEL}])
def test_on_every_input(act_bits, options):
    """All ``2 ** (4 * act_bits)`` inputs of a dense layer, batch norm and activation behind it."""
    source = quant.SignedBinaryActPerTensorConst if act_bits == 1 else quant.Int8ActPerTensorFloat
    bits = {} if act_bits == 1 else {"bit_width": act_bits}
    model = nn.Sequential(
        qnn.QuantIdentity(act_quant=source, return_quant_tensor=True, **bits),
        qnn.QuantLinear(4, 6, **options),
        nn.BatchNorm1d(6),
        qnn.QuantReLU(bit_width=2),
    )
    for _ in range(3):
        model(torch.randn(64, 4))
    model.eval()
    scale = float(model[0].act_quant.scale().detach())
    levels = [-1.0, 1.0] if act_bits == 1 else range(-(2 ** (act_bits - 1)), 2 ** (act_bits - 1))
    x = torch.tensor(list(itertools.product(levels, repeat=4)), dtype=torch.float32) * scale
    compiled = to_integer(from_proto(export_qonnx(model, x)))
    (feed,) = (str(n) for n in compiled.graph.inputs)
    (out,) = compiled.graph.run({feed: x.numpy()}).values()
    assert np.array_equal(out, qnn.finalize(model)(x).numpy())
