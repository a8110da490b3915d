"""Nothing in a forward or backward pass reads a value back to Python: on a GPU that would wait for the device.

An operator that reads a value is refused. The first pass may read: it plans integer arithmetic, and learns about
constants such as zero points. Where the code reads what lies in the memory of the CPU it is told that nothing does.
"""

import contextlib

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import headrace.nn as qnn
from headrace import quant
from headrace.core import autograd
from headrace.core.bit_width import BitWidthParameter
from headrace.inject.enum import BitWidthImplType, ScalingImplType
from headrace.loss import HardwareCost

aten = torch.ops.aten
READS_VALUES = {aten._local_scalar_dense, aten.nonzero, aten.equal, aten.is_nonzero, aten.masked_select, aten._unique2}


class NoReads(TorchDispatchMode):
    """Refuses operators whose result Python can see, or whose shape depends on values."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        masked = func.overloadpacket in (aten.index, aten.index_put, aten.index_put_) and any(
            i is not None and i.dtype == torch.bool for i in args[1]
        )
        if func.overloadpacket in READS_VALUES or masked:
            raise AssertionError(f"{func} reads values")
        return func(*args, **(kwargs or {}))


class LearnedBits(quant.Int8WeightPerTensorFloat):
    scaling_impl_type = ScalingImplType.PARAMETER_FROM_STATS
    bit_width_impl_type = BitWidthImplType.PARAMETER


class LearnedActBits(quant.Int8ActPerTensorFloat):
    bit_width_impl_type = BitWidthImplType.PARAMETER


class Joined(nn.Module):
    def __init__(self, join):
        super().__init__()
        self.inp, self.join = qnn.QuantIdentity(bit_width=4, return_quant_tensor=True), join

    def forward(self, x):
        a = self.inp(x)
        return self.join([a, a]) if isinstance(self.join, qnn.QuantCat) else self.join(a, a)


def _after_input(*layers, **options):
    return nn.Sequential(qnn.QuantIdentity(bit_width=4, return_quant_tensor=True, **options), *layers)


ACT = {"return_quant_tensor": True}
LAYERS = {
    "linear": (lambda: _after_input(qnn.QuantLinear(6, 5, weight_bit_width=4, bias_quant=quant.Int32Bias)), (4, 6)),
    "linear, float input": (lambda: nn.Sequential(qnn.QuantLinear(6, 5, weight_bit_width=4)), (4, 6)),
    "linear, quantized output": (
        lambda: _after_input(qnn.QuantLinear(6, 5, output_quant=quant.Int8ActPerTensorFloat, **ACT)),
        (4, 6),
    ),
    "linear, accumulator as quant tensor": (lambda: _after_input(qnn.QuantLinear(6, 5, **ACT)), (4, 6)),
    "linear, learned bit width": (lambda: _after_input(qnn.QuantLinear(6, 5, weight_quant=LearnedBits)), (4, 6)),
    "linear, binary": (
        lambda: _after_input(qnn.QuantLinear(6, 5, weight_quant=quant.SignedBinaryWeightPerTensorConst)),
        (4, 6),
    ),
    "linear, ternary": (
        lambda: _after_input(qnn.QuantLinear(6, 5, weight_quant=quant.SignedTernaryWeightPerTensorConst)),
        (4, 6),
    ),
    "linear, zero point": (
        lambda: _after_input(
            qnn.QuantLinear(6, 5, weight_quant=quant.ShiftedUint8WeightPerTensorFloat),
            act_quant=quant.ShiftedUint8ActPerTensorFloat,
        ),
        (4, 6),
    ),
    "linear, accumulator-aware": (
        lambda: _after_input(qnn.QuantLinear(6, 5, weight_quant=quant.Int8AccumulatorAwareWeightQuant)),
        (4, 6),
    ),
    "linear, fixed point": (
        lambda: _after_input(
            qnn.QuantLinear(6, 5, weight_quant=quant.Int8WeightPerTensorFixedPoint),
            act_quant=quant.Int8ActPerTensorFixedPoint,
        ),
        (4, 6),
    ),
    "convolution": (
        lambda: _after_input(qnn.QuantConv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), qnn.QuantReLU(bit_width=3)),
        (4, 3, 6, 6),
    ),
    "convolution, a scale a channel": (
        lambda: _after_input(qnn.QuantConv2d(4, 4, 3, groups=4, weight_scaling_per_output_channel=True)),
        (4, 4, 6, 6),
    ),
    "convolution 1d": (lambda: _after_input(qnn.QuantConv1d(3, 4, 3)), (4, 3, 6)),
    "convolution 3d": (lambda: _after_input(qnn.QuantConv3d(3, 4, 2)), (2, 3, 4, 4, 4)),
    "transposed convolution": (lambda: _after_input(qnn.QuantConvTranspose2d(3, 4, 3, stride=2)), (2, 3, 4, 4)),
    "hard tanh": (lambda: nn.Sequential(qnn.QuantHardTanh(bit_width=3, min_val=-1.0, max_val=1.0)), (4, 6)),
    "sigmoid": (lambda: nn.Sequential(qnn.QuantSigmoid(bit_width=3)), (4, 6)),
    "tanh": (lambda: nn.Sequential(qnn.QuantTanh(bit_width=3)), (4, 6)),
    "max pool": (lambda: _after_input(qnn.QuantMaxPool2d(2, **ACT)), (4, 3, 6, 6)),
    "average pool": (lambda: _after_input(qnn.TruncAvgPool2d(2, **ACT)), (4, 3, 6, 6)),
    "upsample": (lambda: _after_input(qnn.QuantUpsample(scale_factor=2, **ACT)), (4, 3, 6, 6)),
    "scale and bias": (lambda: _after_input(qnn.QuantScaleBias(3, True, runtime_shape=(1, -1, 1, 1))), (4, 3, 6, 6)),
    "addition": (lambda: Joined(qnn.QuantEltwiseAdd(**ACT)), (4, 6)),
    "concatenation": (lambda: Joined(qnn.QuantCat(**ACT)), (4, 6)),
    "concatenation, learned bit width": (lambda: Joined(qnn.QuantCat(LearnedActBits, **ACT)), (4, 6)),
}


def _warm(make, shape):
    """Past the collection of statistics, as nearly every step of a training is."""
    model = make()
    for module in model.modules():
        if hasattr(module, "collect_stats_steps"):
            module.collect_stats_steps = 2
    for _ in range(4):
        model(torch.randn(shape))
    return model


def _value(out):
    return out if isinstance(out, torch.Tensor) else out.value


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("collecting", [False, True])
def test_training_reads_no_value(kind, collecting, monkeypatch):
    make, shape = LAYERS[kind]
    model = make() if collecting else _warm(make, shape)
    monkeypatch.setattr(autograd, "reading_waits", lambda tensor: True)
    for guard in (contextlib.nullcontext(), NoReads(), NoReads()):
        x = torch.randn(shape, requires_grad=True)
        with guard:
            _value(model(x)).sum().backward()
        assert x.grad is not None


@pytest.mark.parametrize("kind", LAYERS)
def test_evaluation_reads_no_value_after_its_first_pass(kind):
    make, shape = LAYERS[kind]
    model = _warm(make, shape).eval()
    with torch.no_grad():
        expected = _value(model(torch.ones(shape)))
        with NoReads():
            again = _value(model(torch.ones(shape)))
    assert torch.equal(again, expected)


def test_cost_of_hardware_reads_no_value():
    model = nn.Sequential(
        qnn.QuantIdentity(bit_width=4, **ACT),
        qnn.QuantLinear(6, 5, weight_quant=LearnedBits),
        qnn.QuantReLU(bit_width=3, **ACT),
        qnn.QuantLinear(5, 2, weight_quant=LearnedBits),
    )
    cost = HardwareCost(model, cycles=4)
    model(torch.randn(4, 6))
    with NoReads():
        loss = model(torch.randn(4, 6)).sum() + cost.luts() + cost.bit_operations()
        loss.backward()
    assert all(m.bit_width_offset.grad is not None for m in model.modules() if isinstance(m, BitWidthParameter))


def test_reads_are_noticed():
    with NoReads(), pytest.raises(AssertionError, match="reads values"):
        float(torch.ones(()))
    with NoReads(), pytest.raises(AssertionError, match="reads values"):
        torch.ones(3)[torch.ones(3, dtype=torch.bool)]
