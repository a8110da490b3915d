"""QCDQ and QOp export against ONNX Runtime."""

import copy

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import headrace.nn as qnn
from headrace import quant
from headrace.export import ExportError, export_onnx_qcdq, export_onnx_qop, export_qonnx
from headrace.export.opset import at_opset
from headrace.ingest import load_onnx
from headrace.passes import to_integer


def _run(path, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options)
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])


def _ops(model):
    return [n.op_type for n in model.graph.node]


def _initializer(model, name):
    return next(numpy_helper.to_array(i) for i in model.graph.initializer if i.name == name)


class ConvNet(nn.Module):
    """Convolutions with every kind of quantized bias and output, then a classifier."""

    def __init__(self):
        super().__init__()
        act = {"return_quant_tensor": True}
        self.inp = qnn.QuantIdentity(bit_width=8, **act)
        self.conv1 = qnn.QuantConv2d(
            3,
            8,
            3,
            padding=1,
            weight_bit_width=4,
            bias_quant=quant.Int32Bias,
            output_quant=quant.Int8ActPerTensorFloat,
            **act,
        )
        self.conv2 = qnn.QuantConv2d(8, 8, 3, groups=2, weight_bit_width=3, weight_scaling_per_output_channel=True)
        self.bn = nn.BatchNorm2d(8)
        self.act2 = qnn.QuantReLU(bit_width=4, **act)
        self.fc1 = qnn.QuantLinear(8 * 16, 20, bias=False, output_quant=quant.Uint8ActPerTensorFloat, **act)
        self.fc2 = qnn.QuantLinear(20, 5, weight_quant=quant.SignedBinaryWeightPerTensorConst)

    def forward(self, x):
        x = self.conv1(self.inp(x))
        x = self.act2(self.bn(self.conv2(x)))
        x = self.fc1(x.flatten(1))
        return self.fc2(x)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = ConvNet()
    for _ in range(3):
        net(torch.randn(8, 3, 6, 6))
    return net.eval()


@pytest.mark.parametrize("export", [export_onnx_qcdq, export_onnx_qop, export_qonnx])
def test_equals_pytorch_on_the_integer_grid(model, export, tmp_path):
    x = torch.randn(64, 3, 6, 6)
    before = copy.deepcopy(model.state_dict())
    exported = export(model, x, tmp_path / "m.onnx")
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    if export is export_qonnx:
        return  # executed in test_export_qonnx
    assert {n.domain for n in exported.graph.node} == {""}
    actual = _run(tmp_path / "m.onnx", x)
    with torch.no_grad():
        expected = model(x)
        step = float(model.fc1.output_quant.scale()) * 0.1
        bias = model.fc2.bias
    difference = torch.round((actual - bias) / step) - torch.round((expected - bias) / step)
    # A rounding tie upstream may go either way between two float executors; on this data none does.
    assert difference.abs().max() == 0


def test_qcdq_weights_are_small_integers(model, tmp_path):
    exported = export_onnx_qcdq(model, torch.randn(2, 3, 6, 6))
    weight = _initializer(exported, "conv1.weight")
    assert weight.dtype == np.int8
    assert weight.min() >= -7
    assert weight.max() <= 7
    assert _initializer(exported, "conv1.bias").dtype == np.int32
    assert set(np.unique(_initializer(exported, "fc2.weight"))) == {-1, 1}
    axes = {n.name: n.attribute[0].i for n in exported.graph.node if n.op_type == "DequantizeLinear" and n.attribute}
    assert axes == {"conv2.weight_quant.DequantizeLinear": 0}


def test_qop_uses_integer_operators(model):
    ops = _ops(export_onnx_qop(model, torch.randn(2, 3, 6, 6)))
    assert ops.count("QLinearConv") == 1
    assert ops.count("ConvInteger") == 1
    assert ops.count("QLinearMatMul") == 1
    assert ops.count("MatMulInteger") == 1
    assert not {"Conv", "Gemm", "MatMul"} & set(ops)
    # conv1 passes its integers on to conv2 as they are
    first = next(i for i, op in enumerate(ops) if op == "QLinearConv")
    assert "DequantizeLinear" not in ops[first : ops.index("ConvInteger")]


def test_requested_opset(model):
    exported = export_onnx_qcdq(model, torch.randn(2, 3, 6, 6), opset_version=18)
    for opset in (13, 15, 17, 18, 21):
        converted = at_opset(exported, opset)
        assert {o.domain: o.version for o in converted.opset_import} == {"": opset}
        onnx.checker.check_model(converted, full_check=True)


NARROW_WEIGHTS = {
    "2 bits": ({"weight_bit_width": 2}, ("INT8", "INT4", "INT2")),
    "ternary": (
        {"weight_quant": quant.SignedTernaryWeightPerTensorConst, "weight_scaling_const": 0.25},
        ("INT8", "INT4", "INT2"),
    ),
    "binary": (
        {"weight_quant": quant.SignedBinaryWeightPerTensorConst, "weight_scaling_const": 0.25},
        ("INT8", "INT4", "INT2"),
    ),
    "4 bits a channel": (
        {"weight_bit_width": 4, "weight_scaling_per_output_channel": True},
        ("INT8", "INT4", "INT4"),
    ),
    "2 bits with a zero point": (
        {"weight_quant": quant.ShiftedUint8WeightPerTensorFloat, "weight_bit_width": 2},
        ("UINT8", "UINT4", "UINT2"),
    ),
    "5 bits": ({"weight_bit_width": 5}, ("INT8", "INT8", "INT8")),
}
BYTES_A_WEIGHT = {"8": 1.0, "4": 0.5, "2": 0.25}


class NarrowWeights(nn.Module):
    """A layer of every narrow weight, side by side; every scale is a power of two, so that float sums are exact."""

    def __init__(self):
        super().__init__()
        fixed = {"act_quant": quant.Int8ActPerTensorFixedPoint}
        shared = {"bias": False, "weight_restrict_scaling_type": "POWER_OF_TWO"}
        self.inp = qnn.QuantIdentity(**fixed, return_quant_tensor=True)
        self.layers = nn.ModuleList(qnn.QuantLinear(48, 32, **shared, **kind) for kind, _ in NARROW_WEIGHTS.values())
        self.out = qnn.QuantIdentity(**fixed)

    def forward(self, x):
        x = self.inp(x)
        return torch.cat([self.out(layer(x)) for layer in self.layers], 1)


@pytest.mark.parametrize(("opset", "column"), [(18, 0), (21, 1), (25, 2)])
def test_weights_take_the_bits_that_the_opset_has(opset, column, tmp_path):
    model, x, path = NarrowWeights(), torch.randn(16, 48), tmp_path / "narrow.onnx"
    model(x)
    expected = model.eval()(x).detach()
    exported = export_onnx_qcdq(model, x, path, opset_version=opset)
    onnx.checker.check_model(exported, full_check=True)
    weights = {i.name.split(".weight")[0]: i for i in exported.graph.initializer if len(i.dims) == 2}
    for index, (_, types) in enumerate(NARROW_WEIGHTS.values()):
        weight = weights.pop(f"layers.{index}")
        assert onnx.TensorProto.DataType.Name(weight.data_type) == types[column]
        assert len(weight.raw_data) == 48 * 32 * BYTES_A_WEIGHT[types[column][-1]]
    assert weights == {}
    assert torch.equal(_run(path, x), expected)
    source = load_onnx(path)
    (output,) = to_integer(source).graph.run({source.inputs[0]: x.numpy()}).values()
    assert np.array_equal(output, expected.numpy())


def test_opset_before_13_is_refused(model):
    with pytest.raises(ExportError, match="opset_version=11: quantized ONNX needs 13"):
        export_onnx_qcdq(model, torch.randn(2, 3, 6, 6), opset_version=11)


@pytest.mark.parametrize("rounding", ["FLOOR", "CEIL", "ROUND_TO_ZERO"])
def test_rounding_is_not_lost(rounding, tmp_path):
    act = qnn.QuantIdentity(act_quant=quant.ShiftedUint8ActPerTensorFloat, bit_width=5, float_to_int_impl_type=rounding)
    x = torch.randn(1000) + 0.3
    act(x)
    act.eval()
    export_onnx_qcdq(act, x, tmp_path / "m.onnx")
    with torch.no_grad():
        assert torch.equal(_run(tmp_path / "m.onnx", x), act(x))


def test_per_channel_activation(tmp_path):
    act = qnn.QuantIdentity(
        bit_width=4,
        scaling_per_output_channel=True,
        scaling_stats_permute_dims=(1, 0, 2),
        per_channel_broadcastable_shape=(1, 3, 1),
    )
    x = torch.randn(8, 3, 50) * torch.tensor([1.0, 3.0, 9.0]).view(1, 3, 1)
    act(x)
    act.eval()
    export_onnx_qcdq(act, x, tmp_path / "m.onnx")
    with torch.no_grad():
        assert torch.equal(_run(tmp_path / "m.onnx", x), act(x))


def test_dynamic_quantization_is_qcdq_only(tmp_path):
    model = qnn.QuantLinear(3, 8, input_quant=quant.ShiftedUint8DynamicActPerTensorFloat).eval()
    x = torch.randn(7, 3)
    exported = export_onnx_qcdq(model, x, tmp_path / "m.onnx")
    assert _ops(exported).count("DynamicQuantizeLinear") == 1
    with torch.no_grad():
        assert torch.allclose(_run(tmp_path / "m.onnx", x), model(x), atol=1e-6)
    for export in (export_qonnx, export_onnx_qop):
        with pytest.raises(ExportError, match="static format, it cannot hold a dynamic quantizer"):
            export(model, x)


def test_what_the_formats_do_not_have():
    binary = qnn.QuantIdentity(act_quant=quant.SignedBinaryActPerTensorConst).eval()
    with pytest.raises(ExportError, match="act_quant: binary activations have no QCDQ equivalent; use QONNX"):
        export_onnx_qcdq(binary, torch.randn(4))
    wide = qnn.QuantIdentity(bit_width=12)
    wide(torch.randn(4))
    with pytest.raises(ExportError, match="12-bit activations have no QCDQ equivalent"):
        export_onnx_qcdq(wide.eval(), torch.randn(4))
    layer = qnn.QuantLinear(4, 4, weight_bit_width=12, input_quant=quant.Int8ActPerTensorFloat)
    layer(torch.randn(4, 4))
    with pytest.raises(ExportError, match="weight_quant: integer operators take at most 8 bits, got 12"):
        export_onnx_qop(layer.eval(), torch.randn(4, 4))


def test_bias_at_a_scale_of_its_own_has_no_integer_operator():
    layer = qnn.QuantLinear(
        4, 4, input_quant=quant.Int8ActPerTensorFloat, bias_quant=quant.Int8BiasPerTensorFloatInternalScaling
    )
    layer(torch.randn(4, 4))
    with pytest.raises(ExportError, match="use a bias quantizer such as Int32Bias"):
        export_onnx_qop(layer.eval(), torch.randn(4, 4))
