"""Faults that the property tests have found, each a test with a name."""

import numpy as np
import torch
from torch import nn

import headrace.nn as qnn
from headrace import quant
from headrace.export import export_qonnx
from headrace.ingest import from_proto
from headrace.passes import to_integer


class _Joined(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = qnn.QuantIdentity(bit_width=4, return_quant_tensor=True)
        self.shared = qnn.QuantIdentity(bit_width=4, return_quant_tensor=True)
        self.after = qnn.QuantLinear(8, 3, bias_quant=quant.Int16Bias, weight_bit_width=4)
        self.out = qnn.QuantReLU(bit_width=3)

    def forward(self, x):
        x = self.inp(x)
        return self.out(self.after(torch.cat([self.shared(x), self.shared(-x)], 1)))


def test_a_concatenation_of_quant_tensors_stays_quantized_in_the_deployed_form():
    """It became a plain tensor, so that a bias at the scale of the accumulator found no input scale."""
    torch.manual_seed(0)
    model = _Joined()
    for _ in range(3):
        model(torch.randn(16, 4))
    x = torch.randn(64, 4) * 2
    deployed = qnn.finalize(model)(x)
    with torch.no_grad():
        assert torch.equal(model.eval()(x), deployed)
    compiled = to_integer(from_proto(export_qonnx(model, x)))
    assert compiled.blockers == ()
    (feed,) = (str(n) for n in compiled.graph.inputs)
    (out,) = compiled.graph.run({feed: x.numpy()}).values()
    assert np.array_equal(out, deployed.numpy())


def test_weight_normalization_of_one_weight_a_channel():
    """The maximum over no dimension was taken over all of them."""
    layer = qnn.QuantScaleBias(4, True, weight_quant=quant.Int8WeightNormL2PerChannelFixedPoint, weight_bit_width=2)
    assert layer.quant_weight().scale.shape == (4,)
