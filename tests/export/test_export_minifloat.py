"""Minifloats through QONNX's FloatQuant, value by value, and refusals elsewhere."""

import pytest
import torch
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.util.cleanup import cleanup_model
from torch import nn

import headrace.nn as qnn
from headrace import quant
from headrace.errors import HeadraceError
from headrace.export import ExportError, export_onnx_qcdq, export_onnx_qop, export_qonnx
from headrace.ingest import from_proto
from headrace.passes import to_integer
from headrace.quant import float_base


class Fp4(float_base.Fp4e2m1Mixin, quant.FpOCPWeightPerChannelFloat):
    pass


class Fp6(float_base.Fp6e3m2Mixin, quant.FpOCPActPerTensorFloat):
    pass


class ManyFormats(nn.Module):
    """One activation and one weight a format, all in one file."""

    def __init__(self):
        super().__init__()
        acts = (quant.Fp8e4m3Act, quant.Fp8e5m2OCPActPerTensorFloat, quant.Fp8e4m3FNUZAct, Fp6)
        weights = (quant.Fp8e4m3OCPWeightPerTensorFloat, quant.Fp8e5m2WeightPerChannelFloat, Fp4)
        self.acts = nn.ModuleList(qnn.QuantIdentity(act_quant=a) for a in acts)
        self.layers = nn.ModuleList(qnn.QuantLinear(8, 5, bias=False, weight_quant=w) for w in weights)

    def forward(self, x):
        return torch.cat([act(x) for act in self.acts] + [layer(x) for layer in self.layers], dim=1)


@pytest.fixture(scope="module")
def exported():
    torch.manual_seed(0)
    model = ManyFormats()
    model(torch.randn(50, 8))
    x = torch.cat([torch.eye(8), torch.randn(200, 8) * 10.0 ** torch.randint(-6, 4, (200, 8))])
    return model.eval(), x, export_qonnx(model, x)


def test_qonnx_executor_equals_pytorch(exported):
    model, x, proto = exported
    assert [n.op_type for n in proto.graph.node].count("FloatQuant") == 7
    wrapped = cleanup_model(ModelWrapper(proto))
    out = execute_onnx(wrapped, {wrapped.graph.input[0].name: x.numpy()})[wrapped.graph.output[0].name]
    out, expected = torch.from_numpy(out), model(x).detach()
    assert torch.equal(out[:, :32], expected[:, :32])
    assert torch.equal(out[:8, 32:], expected[:8, 32:])  # rows of the identity: the weights themselves


@pytest.mark.parametrize(("export", "flavour"), [(export_onnx_qcdq, "QCDQ"), (export_onnx_qop, "QOp")])
def test_standard_formats_refuse_minifloats_by_name(exported, export, flavour):
    model, x, _ = exported
    with pytest.raises(ExportError, match=rf"acts\.0\.act_quant: {flavour} has no minifloat quantizer"):
        export(model, x)


def test_hardware_refuses_minifloats_by_name(exported):
    *_, proto = exported
    with pytest.raises(HeadraceError, match="FloatQuant"):
        to_integer(from_proto(proto)).partition()
