"""Exported files opened by others: onnx's checker, qonnx's clean-up, hls4ml's front end; every opset; large files."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.util.cleanup import cleanup
from torch import nn

import headrace.nn as qnn
from headrace import quant
from headrace.export import export_onnx_qcdq, export_onnx_qop, export_qonnx, writing


class Net(nn.Module):
    """A convolution, a pool and a classifier."""

    def __init__(self):
        super().__init__()
        self.inp = qnn.QuantIdentity(bit_width=8, act_quant=quant.Int8ActPerTensorFixedPoint)
        self.conv = qnn.QuantConv2d(
            2, 4, 3, bias=False, weight_quant=quant.Int8WeightPerTensorFixedPoint, weight_bit_width=4
        )
        self.act = qnn.QuantReLU(bit_width=4, act_quant=quant.Uint8ActPerTensorFixedPoint)
        self.pool = nn.MaxPool2d(2)
        self.fc = qnn.QuantLinear(16, 3, weight_quant=quant.Int8WeightPerTensorFixedPoint, weight_bit_width=4)

    def forward(self, x):
        return self.fc(self.pool(self.act(self.conv(self.inp(x)))).flatten(1))


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(0)
    model = Net()
    model(torch.randn(16, 2, 6, 6))
    return model.eval(), torch.randn(1, 2, 6, 6) * 2


@pytest.fixture(scope="module")
def qonnx_file(trained, tmp_path_factory):
    path = tmp_path_factory.mktemp("importers") / "net.onnx"
    export_qonnx(*trained, path)
    return path


def _run(path, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options)
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])


def test_convolution_without_bias_has_none_in_the_file(qonnx_file):
    ops = {n.op_type: n for n in onnx.load(qonnx_file).graph.node}
    assert not {"Shape", "Expand", "CastLike"} & set(ops)
    assert len(ops["Conv"].input) == 2


def test_cleanup_of_qonnx_keeps_the_function(trained, qonnx_file, tmp_path):
    model, x = trained
    cleaned = tmp_path / "clean.onnx"
    cleanup(str(qonnx_file), out_file=str(cleaned))
    wrapped = ModelWrapper(str(cleaned))
    assert [i.name for i in wrapped.graph.input] == ["global_in"]
    assert all(wrapped.get_tensor_shape(t) is not None for n in wrapped.graph.node for t in n.output)
    out = execute_onnx(wrapped, {"global_in": x.numpy()})["global_out"]
    assert torch.equal(torch.from_numpy(out), model(x).detach())  # scales are powers of two: float sums are exact


def test_front_end_of_hls4ml_reads_every_layer(qonnx_file, tmp_path):
    hls4ml = pytest.importorskip("hls4ml")
    channels_last = pytest.importorskip("qonnx.transformation.channels_last").ConvertToChannelsLastAndClean
    cleaned = tmp_path / "clean.onnx"
    cleanup(str(qonnx_file), out_file=str(cleaned))
    wrapped = ModelWrapper(str(cleaned)).transform(channels_last())
    config = hls4ml.utils.config.config_from_onnx_model(wrapped, granularity="name", backend="Vivado")
    converted = hls4ml.converters.convert_from_onnx_model(wrapped, output_dir=str(tmp_path / "hls"), hls_config=config)
    kinds = {layer.class_name for layer in converted.get_layers()}
    assert {"Conv2D", "Dense"} & kinds


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_requested_opset_is_written_and_runs(trained, tmp_path, opset):
    model, x = trained
    path = tmp_path / "net.onnx"
    export = export_onnx_qop if opset == 17 else export_onnx_qcdq
    proto = export(model, x, path, opset_version=opset)
    assert {o.domain: o.version for o in proto.opset_import} == {"": opset}
    onnx.checker.check_model(str(path), full_check=True)
    assert torch.equal(_run(path, x), model(x).detach())


def test_file_that_would_be_too_large_is_split(tmp_path, monkeypatch):
    wide = nn.Sequential(qnn.QuantLinear(64, 64, bias=False, weight_bit_width=4)).eval()
    monkeypatch.setattr(writing, "LARGEST_FILE", 2**10)
    path = tmp_path / "wide.onnx"
    export_qonnx(wide, torch.randn(1, 64), path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["wide.onnx", "wide.onnx.data"]
    assert path.stat().st_size < 2**12
    onnx.checker.check_model(str(path))
    (weight,) = (numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer if i.name == "0.weight")
    assert np.array_equal(weight, wide[0].quant_weight().value.detach().numpy())
    moved = tmp_path / "moved"
    moved.mkdir()
    for file in list(tmp_path.glob("wide.*")):
        file.rename(moved / file.name)
    y = torch.randn(1, 64)
    wrapped = ModelWrapper(str(moved / "wide.onnx"))
    out = execute_onnx(wrapped, {wrapped.graph.input[0].name: y.numpy()})[wrapped.graph.output[0].name]
    torch.testing.assert_close(torch.from_numpy(out), wide(y).detach(), rtol=0, atol=1e-5)  # float input: sums round
