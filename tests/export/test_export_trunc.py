"""Truncating pools through QONNX: PyTorch, the executor of qonnx and the integer graph agree."""

import pytest
import torch
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from torch import nn

import headrace.nn as qnn
from headrace import quant
from headrace.export import ExportError, export_onnx_qcdq, export_onnx_qop, export_qonnx
from headrace.ingest import from_proto
from headrace.nn import finalize
from headrace.passes import to_integer


class Net(nn.Module):
    """Average pool with padding, truncating pools of both kinds, a classifier."""

    def __init__(self):
        super().__init__()
        act = {"return_quant_tensor": True}
        self.inp = qnn.QuantIdentity(bit_width=6, **act)
        self.floor = qnn.TruncAvgPool2d(3, stride=1, trunc_quant=quant.TruncTo8bit, bit_width=5)
        self.mean = nn.AvgPool2d(3, 2, 1, count_include_pad=False)
        self.act = qnn.QuantIdentity(bit_width=5, **act)
        self.nearest = qnn.TruncAdaptiveAvgPool2d(2, trunc_quant=quant.RoundTo8bit, bit_width=4)
        self.fc = qnn.QuantLinear(12, 5, weight_bit_width=4, bias=False)

    def forward(self, x):
        return self.fc(self.nearest(self.act(self.mean(self.floor(self.inp(x))))).flatten(1))


@pytest.fixture(scope="module")
def exported():
    torch.manual_seed(0)
    model = Net()
    model(torch.randn(8, 3, 9, 9))
    x = torch.randn(16, 3, 9, 9) * 2
    x[0], x[1] = 1e6, -1e6
    return model.eval(), x, export_qonnx(model, x)


def test_operators_and_versions(exported):
    *_, proto = exported
    assert [n.op_type for n in proto.graph.node if n.op_type != "Quant"] == [
        "AveragePool",
        "Trunc",
        "AveragePool",
        "AveragePool",
        "Trunc",
        "Reshape",
        "Gemm",
    ]
    assert {o.domain: o.version for o in proto.opset_import}["qonnx.custom_op.general"] == 2
    floor, nearest = (n for n in proto.graph.node if n.op_type == "Trunc")
    modes = [next(a.s for a in n.attribute if a.name == "rounding_mode") for n in (floor, nearest)]
    assert modes == [b"FLOOR", b"ROUND"]


def test_integer_graph_equals_pytorch(exported):
    model, x, proto = exported
    compiled = to_integer(from_proto(proto))
    assert compiled.blockers == ()
    (name,) = (i.name for i in proto.graph.input)
    (out,) = compiled.graph.run({name: x.numpy()}).values()
    assert torch.equal(torch.from_numpy(out), finalize(model)(x))
    assert torch.equal(model(x), finalize(model)(x))


def test_qonnx_executor_agrees_on_the_grid(exported):
    model, x, proto = exported
    wrapped = ModelWrapper(proto)
    out = execute_onnx(wrapped, {wrapped.graph.input[0].name: x.numpy()})[wrapped.graph.output[0].name]
    pooled = model.nearest(model.act(model.mean(model.floor(model.inp(x)))))
    scale = (pooled.scale * model.fc.quant_weight().scale).reshape(-1)
    assert torch.equal(torch.round(torch.from_numpy(out) / scale), torch.round(model(x) / scale))


@pytest.mark.parametrize(("export", "flavour"), [(export_onnx_qcdq, "QCDQ"), (export_onnx_qop, "QOp")])
def test_standard_formats_refuse_truncation_by_name(exported, export, flavour):
    model, x, _ = exported
    with pytest.raises(ExportError, match=rf"floor\.trunc_quant: {flavour} has no operator .*Trunc"):
        export(model, x)
