"""Recurrent networks and attention: unrolled, equal in ONNX Runtime and qonnx, refused by name for hardware."""

import onnxruntime
import pytest
import torch
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.util.cleanup import cleanup_model
from torch import nn

import headrace.nn as qnn
from headrace.errors import HeadraceError
from headrace.export import export_onnx_qcdq, export_qonnx
from headrace.ingest import from_proto
from headrace.passes import to_integer


class Sequence(nn.Module):
    """A recurrent or attention layer, then a quantizer."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.out = qnn.QuantIdentity(bit_width=6)

    def forward(self, x):
        arguments = (x, x, x) if isinstance(self.layer, qnn.QuantMultiheadAttention) else (x,)
        return self.out(self.layer(*arguments)[0])


LAYERS = {
    "attention": lambda: qnn.QuantMultiheadAttention(6, 2, batch_first=True),
    "lstm": lambda: qnn.QuantLSTM(6, 4, coupled_input_forget_gates=True, weight_bit_width=4),
    "rnn": lambda: qnn.QuantRNN(6, 4, bidirectional=True, shared_input_hidden_weights=True),
}


def _onnxruntime(proto, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    return session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]


def _qonnx(proto, x):
    model = cleanup_model(ModelWrapper(proto))
    return execute_onnx(model, {model.graph.input[0].name: x.numpy()})[model.graph.output[0].name]


@pytest.mark.parametrize(("name", "export"), [("attention", "qonnx"), ("lstm", "qonnx"), ("rnn", "qcdq")])
def test_exported_network_equals_pytorch_on_the_grid(name, export):
    model = Sequence(LAYERS[name]())
    for _ in range(3):
        model(torch.randn(2, 3, 6))
    model.eval()
    x = torch.randn(2, 3, 6) * 2
    proto = export_qonnx(model, x) if export == "qonnx" else export_onnx_qcdq(model, x)
    out = torch.from_numpy(_qonnx(proto, x) if export == "qonnx" else _onnxruntime(proto, x))
    scale = model.out.act_quant.scale().detach()
    assert torch.equal(torch.round(out / scale), torch.round(model(x).detach() / scale))
    if export == "qonnx":
        with pytest.raises(HeadraceError, match=r"node 'layer\."):
            to_integer(from_proto(proto)).partition()
