"""Exported files opened by others: onnx's checker, qonnx's clean-up, hls4ml's front end; every opset; large files."""

import shutil
import urllib.request

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.transformation.channels_last import ConvertToChannelsLastAndClean
from qonnx.transformation.extract_conv_bias import ExtractBiasFromConv
from qonnx.transformation.extract_quant_scale_zeropt import ExtractQuantScaleZeroPt
from qonnx.transformation.fold_constants import FoldConstants
from qonnx.transformation.gemm_to_matmul import GemmToMatMul
from qonnx.transformation.infer_datatypes import InferDataTypes
from qonnx.transformation.lower_convs_to_matmul import LowerConvsToMatMul
from qonnx.transformation.qcdq_to_qonnx import QCDQToQuant
from qonnx.transformation.qonnx_to_qcdq import QuantToQCDQ
from qonnx.util.cleanup import cleanup, cleanup_model
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


def _transformed(path, *transformations):
    wrapped = cleanup_model(ModelWrapper(str(path)))
    for transformation in transformations:
        wrapped = wrapped.transform(transformation)
    return cleanup_model(wrapped)


def _executed(wrapped, x):
    (feed,), (out,) = wrapped.graph.input, wrapped.graph.output
    return torch.from_numpy(execute_onnx(wrapped, {feed.name: x.numpy()})[out.name])


TRANSFORMATIONS = {
    "data types": (InferDataTypes(),),
    "matrix products": (GemmToMatMul(), ExtractBiasFromConv(), LowerConvsToMatMul()),
    "scales apart": (ExtractQuantScaleZeroPt(),),
    "channels last": (ConvertToChannelsLastAndClean(),),
    "constant weights": (FoldConstants(exclude_op_types=[]),),
    "standard ONNX": (QuantToQCDQ(),),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_transformations_that_compilers_start_with_keep_the_function(trained, qonnx_file, name):
    model, x = trained
    wrapped = _transformed(qonnx_file, *TRANSFORMATIONS[name])
    fed = x.permute(0, 2, 3, 1).contiguous() if wrapped.get_tensor_shape("global_in")[-1] == 2 else x
    assert torch.equal(_executed(wrapped, fed), model(x).detach())


def test_quantizers_are_what_handlers_of_finn_take(qonnx_file):
    """Weights quantize an initializer; activations follow their function; parameters are constants."""
    wrapped = _transformed(qonnx_file, GemmToMatMul(), InferDataTypes())
    quantizers = [n for n in wrapped.graph.node if n.op_type == "Quant"]
    weights = [n for n in quantizers if wrapped.get_initializer(n.input[0]) is not None]
    assert len(quantizers) == 4
    assert len(weights) == 2
    for node in quantizers:
        scale, zero_point, bits = (wrapped.get_initializer(i) for i in node.input[1:])
        assert np.all(zero_point == 0)
        assert np.all(scale > 0)
        assert bits.size == 1
        assert {a.name for a in node.attribute} == {"signed", "narrow", "rounding_mode"}
    for node in weights:
        assert wrapped.find_consumers(node.output[0])[0].op_type in ("Conv", "MatMul", "Transpose")
    before = [wrapped.find_producer(n.input[0]) for n in quantizers if n not in weights]
    assert [n if n is None else n.op_type for n in before] == [None, "Relu"]
    datatypes = {n.name: wrapped.get_tensor_datatype(n.output[0]).name for n in weights}
    assert len(datatypes) == 2


def test_standard_quantizers_are_read_back(trained, tmp_path):
    model, x = trained
    export_onnx_qcdq(model, x, tmp_path / "net.onnx")
    wrapped = _transformed(tmp_path / "net.onnx", QCDQToQuant())
    assert [n.op_type for n in wrapped.graph.node].count("Quant") == 4
    assert torch.equal(_executed(wrapped, x), model(x).detach())


def test_front_end_of_hls4ml_reads_every_layer(trained, qonnx_file, tmp_path):
    hls4ml = pytest.importorskip("hls4ml")
    wrapped = _transformed(qonnx_file, ConvertToChannelsLastAndClean(), GemmToMatMul())
    config = hls4ml.utils.config.config_from_onnx_model(
        wrapped, granularity="name", backend="Vitis", default_precision="fixed<32,16>"
    )
    converted = hls4ml.converters.convert_from_onnx_model(
        wrapped, output_dir=str(tmp_path / "hls"), hls_config=config, backend="Vitis"
    )
    kinds = [layer.class_name for layer in converted.get_layers()]
    assert {"Conv2D", "Dense", "Pooling2D"} <= set(kinds)


@pytest.fixture
def netron_page(qonnx_file):
    """The address under which netron shows the exported file."""
    netron = pytest.importorskip("netron")
    host, port = netron.serve(str(qonnx_file))
    yield f"http://{host}:{port}/"
    netron.stop((host, port))


def test_netron_serves_an_exported_file(netron_page, qonnx_file):
    with urllib.request.urlopen(netron_page) as page:
        text = page.read().decode()
    assert "netron" in text.lower()
    with urllib.request.urlopen(f"{netron_page}data/{qonnx_file.name}") as served:
        assert served.read() == qonnx_file.read_bytes()


@pytest.mark.slow
def test_netron_draws_every_node(netron_page, qonnx_file):
    sync_api = pytest.importorskip("playwright.sync_api")
    browser_path = shutil.which("chromium")
    if browser_path is None:
        pytest.skip("needs chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page()
        problems = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(netron_page)
        page.get_by_text("Accept").click()
        operators = [n.op_type for n in onnx.load(qonnx_file).graph.node]
        page.get_by_text(operators[-1], exact=True).first.wait_for()
        drawn = {op: page.get_by_text(op, exact=True).count() for op in operators}
        browser.close()
    assert problems == []
    assert all(drawn[op] >= operators.count(op) for op in operators), drawn  # labels of attributes count as well


def test_global_pools_have_their_name(tmp_path):
    model = nn.Sequential(qnn.QuantIdentity(act_quant=quant.Int8ActPerTensorFixedPoint), nn.AdaptiveAvgPool2d(1))
    x = torch.randn(2, 3, 4, 4)
    model(x)
    model.eval()
    proto = export_onnx_qcdq(model, x, tmp_path / "net.onnx")
    assert "GlobalAveragePool" in [n.op_type for n in proto.graph.node]
    with torch.no_grad():
        assert torch.equal(_run(tmp_path / "net.onnx", x), model(x))


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_requested_opset_is_written_and_runs(trained, tmp_path, opset):
    model, x = trained
    path = tmp_path / "net.onnx"
    export = export_onnx_qop if opset == 17 else export_onnx_qcdq
    proto = export(model, x, path, opset_version=opset)
    assert {o.domain: o.version for o in proto.opset_import} == {"": opset}
    onnx.checker.check_model(str(path), full_check=True)
    assert torch.equal(_run(path, x), model(x).detach())


@pytest.mark.parametrize("export", [export_qonnx, export_onnx_qcdq, export_onnx_qop])
def test_weights_lie_in_a_file_of_their_own_on_request(export, tmp_path):
    wide = nn.Sequential(qnn.QuantIdentity(act_quant=quant.Int8ActPerTensorFixedPoint), qnn.QuantLinear(64, 64))
    wide(torch.randn(2, 64))
    wide.eval()
    proto = export(wide, torch.randn(1, 64), tmp_path / "wide.onnx", external_data=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["wide.onnx", "wide.onnx.data"]
    read = onnx.load(tmp_path / "wide.onnx")
    for ours, theirs in zip(proto.graph.initializer, read.graph.initializer, strict=True):
        assert np.array_equal(numpy_helper.to_array(ours), numpy_helper.to_array(theirs))


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
