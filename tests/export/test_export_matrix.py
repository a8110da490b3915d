"""Every kind of layer in every format, executed by others: ONNX Runtime for QCDQ and QOp, qonnx for QONNX.

Scales are powers of two and sums short, so that float arithmetic is exact in any order: results are equal, not close.
"""

import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from torch import nn

import headrace.nn as qnn
from headrace import quant
from headrace.export import ExportError, export_onnx_qcdq, export_onnx_qop, export_qonnx

ACT = {"act_quant": quant.Int8ActPerTensorFixedPoint, "return_quant_tensor": True}
WEIGHT = {"weight_quant": quant.Int8WeightPerTensorFixedPoint, "weight_bit_width": 4}


def _act(bits=8):
    return qnn.QuantIdentity(bit_width=bits, **ACT)


def _relu(bits=4):
    return qnn.QuantReLU(bit_width=bits, act_quant=quant.Uint8ActPerTensorFixedPoint, return_quant_tensor=True)


def _between(*layers):
    return nn.Sequential(_act(6), *layers, _act(8))


class Join(nn.Module):
    def __init__(self, join):
        super().__init__()
        self.inp, self.shared, self.out, self.join = _act(6), _act(6), _act(8), join
        self.conv = qnn.QuantConv2d(3, 3, 3, padding=1, **WEIGHT)

    def forward(self, x):
        x = self.inp(x)
        return self.out(self.join(self.shared(x), self.shared(self.conv(x))))


IMAGE, ROW = (2, 3, 6, 6), (4, 6)
KINDS = {
    "linear": (lambda: _between(qnn.QuantLinear(6, 5, **WEIGHT)), ROW),
    "linear without bias": (lambda: _between(qnn.QuantLinear(6, 5, bias=False, **WEIGHT)), ROW),
    "linear, integer bias": (lambda: _between(qnn.QuantLinear(6, 5, bias_quant=quant.Int16Bias, **WEIGHT)), ROW),
    "linear, quantized output": (
        lambda: _between(
            qnn.QuantLinear(6, 5, bias=False, output_quant=quant.Int8ActPerTensorFixedPoint, return_quant_tensor=True,
                            **WEIGHT)
        ),
        ROW,
    ),
    "linear, binary weights": (
        lambda: _between(qnn.QuantLinear(6, 5, weight_quant=quant.SignedBinaryWeightPerTensorConst)), ROW),
    "linear, ternary weights": (
        lambda: _between(qnn.QuantLinear(6, 5, weight_quant=quant.SignedTernaryWeightPerTensorConst)), ROW),
    "two linear": (lambda: _between(qnn.QuantLinear(6, 5, **WEIGHT), _relu(), qnn.QuantLinear(5, 3, **WEIGHT)), ROW),
    "linear on sequences": (lambda: _between(qnn.QuantLinear(6, 5, **WEIGHT)), (2, 3, 6)),
    "convolution 1d": (lambda: _between(qnn.QuantConv1d(3, 4, 3, 2, 1, **WEIGHT)), (2, 3, 9)),
    "convolution": (lambda: _between(qnn.QuantConv2d(3, 4, 3, padding=1, **WEIGHT)), IMAGE),
    "convolution, quantized output": (
        lambda: _between(
            qnn.QuantConv2d(3, 4, 3, bias_quant=quant.Int32Bias, output_quant=quant.Int8ActPerTensorFixedPoint,
                            return_quant_tensor=True, **WEIGHT)
        ),
        IMAGE,
    ),
    "strided, dilated, uneven": (
        lambda: _between(qnn.QuantConv2d(3, 4, (3, 2), (2, 1), (1, 0), (1, 2), **WEIGHT)), IMAGE),
    "grouped": (lambda: _between(qnn.QuantConv2d(4, 6, 3, groups=2, **WEIGHT)), (2, 4, 6, 6)),
    "depthwise": (lambda: _between(qnn.QuantConv2d(3, 3, 3, groups=3, padding="same", **WEIGHT)), IMAGE),
    "convolution 3d": (lambda: _between(qnn.QuantConv3d(2, 3, 2, **WEIGHT)), (1, 2, 4, 4, 4)),
    "transposed 1d": (lambda: _between(qnn.QuantConvTranspose1d(3, 4, 3, 2, **WEIGHT)), (2, 3, 5)),
    "transposed": (lambda: _between(qnn.QuantConvTranspose2d(3, 4, 3, 2, 1, 1, **WEIGHT)), IMAGE),
    "transposed, grouped": (lambda: _between(qnn.QuantConvTranspose2d(4, 6, 2, 2, groups=2, **WEIGHT)), (1, 4, 5, 5)),
    "relu": (lambda: _between(_relu()), IMAGE),
    "hard tanh": (
        lambda: _between(
            qnn.QuantHardTanh(
                bit_width=4, min_val=-1.0, max_val=1.0, act_quant=quant.Int8ActPerTensorFixedPointMinMaxInit
            )
        ),
        IMAGE,
    ),
    "max pool": (lambda: _between(qnn.QuantMaxPool2d(2, return_quant_tensor=True)), IMAGE),
    "max pool 1d": (lambda: _between(qnn.QuantMaxPool1d(3, 1, 1, return_quant_tensor=True)), (2, 3, 9)),
    "average pool": (lambda: _between(nn.AvgPool2d(2)), IMAGE),
    "global average pool": (lambda: _between(nn.AdaptiveAvgPool2d(1)), (2, 3, 4, 4)),
    "upsample": (lambda: _between(qnn.QuantUpsample(scale_factor=2, return_quant_tensor=True)), IMAGE),
    "pad": (lambda: _between(nn.ZeroPad2d((1, 2, 0, 1))), IMAGE),
    "addition": (lambda: Join(lambda a, b: a + b), IMAGE),
    "concatenation": (lambda: Join(lambda a, b: torch.cat([a, b], 1)), IMAGE),
    "flatten": (lambda: _between(nn.Flatten(), qnn.QuantLinear(108, 3, **WEIGHT)), IMAGE),
    "pixel shuffle": (lambda: _between(nn.PixelShuffle(2)), (1, 4, 3, 3)),
    "embedding": (
        lambda: nn.Sequential(qnn.QuantEmbedding(7, 5, **WEIGHT), _act(8)), None),
}  # fmt: skip
NOT_IN_QOP = {
    "transposed 1d": "no integer operator in ONNX",
    "transposed": "no integer operator in ONNX",
    "transposed, grouped": "no integer operator in ONNX",
}


def _model(kind):
    torch.manual_seed(0)
    make, shape = KINDS[kind]
    model = make()
    inputs = (lambda: torch.randint(0, 7, (3, 4))) if shape is None else lambda: torch.randn(shape)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1 and parameter.numel() > 1:  # biases that float sums hold exactly
                parameter.copy_(torch.round(parameter * 64) / 64)
    for _ in range(3):
        model(inputs())
    model.eval()
    x = inputs()
    if shape is not None:
        x = torch.cat([x, 100 * torch.sign(x)])
    with torch.no_grad():
        out = model(x)
    return model, x, out if isinstance(out, torch.Tensor) else out.value


def _onnxruntime(path, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options)
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])


def _qonnx(path, x):
    wrapped = ModelWrapper(str(path))
    feed = {wrapped.graph.input[0].name: x.numpy()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.from_numpy(execute_onnx(wrapped, feed)[wrapped.graph.output[0].name])


EXPORTERS = {
    "QCDQ": (export_onnx_qcdq, _onnxruntime),
    "QOp": (export_onnx_qop, _onnxruntime),
    "QONNX": (export_qonnx, _qonnx),
}


RARE = (
    "linear without bias",
    "convolution 3d",
    "transposed 1d",
    "max pool 1d",
    "pad",
    "pixel shuffle",
    "linear, ternary weights",
)


@pytest.mark.parametrize("kind", [pytest.param(k, marks=pytest.mark.slow) if k in RARE else k for k in KINDS])
@pytest.mark.parametrize("flavour", EXPORTERS)
def test_other_executors_compute_the_same(kind, flavour, tmp_path):
    export, run = EXPORTERS[flavour]
    model, x, expected = _model(kind)
    path = tmp_path / "net.onnx"
    if flavour == "QOp" and kind in NOT_IN_QOP:
        with pytest.raises(ExportError, match=NOT_IN_QOP[kind]):
            export(model, x, path)
        assert list(tmp_path.iterdir()) == []
        return
    proto = export(model, x, path)
    assert torch.equal(run(path, x), expected)
    assert expected.unique().numel() > 2
    names = {n.name for n in proto.graph.node} | {i.name for i in proto.graph.initializer}
    assert not any("val_" in name or "/" in name for name in names)
    assert len(proto.graph.input) == 1


NEWEST = onnx.defs.onnx_opset_version()


@pytest.mark.parametrize(
    ("kind", "opsets"),
    [
        ("two linear", (13, 18, NEWEST)),
        pytest.param("linear, integer bias", range(13, NEWEST + 1), marks=pytest.mark.slow),
        pytest.param("convolution", range(13, NEWEST + 1), marks=pytest.mark.slow),
        pytest.param("average pool", range(13, NEWEST + 1), marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("flavour", EXPORTERS)
def test_every_opset_is_written_and_runs(kind, opsets, flavour, tmp_path):
    export, run = EXPORTERS[flavour]
    model, x, expected = _model(kind)
    for opset in opsets:
        path = tmp_path / f"{opset}.onnx"
        proto = export(model, x, path, opset_version=opset)
        assert next(o.version for o in proto.opset_import if o.domain == "") == opset
        onnx.checker.check_model(proto)
        if opset <= 23:  # what the installed runtime reads
            assert torch.equal(run(path, x), expected)


@pytest.mark.parametrize("flavour", EXPORTERS)
def test_weights_are_clipped_to_their_real_range(flavour):
    export, _ = EXPORTERS[flavour]
    model = nn.Sequential(_act(8), qnn.QuantLinear(64, 32, bias=False, weight_bit_width=4))
    model(torch.randn(4, 64))
    proto = export(model.eval(), torch.randn(1, 64))
    (weight,) = (onnx.numpy_helper.to_array(i) for i in proto.graph.initializer if i.name == "1.weight")
    integers = weight if weight.dtype == np.int8 else np.round(weight / float(model[1].quant_weight().scale.detach()))
    assert (integers.min(), integers.max()) in ((-7, 7), (-7, 6), (-6, 7))


def test_functions_between_layers_stay_what_they_are(tmp_path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp, self.fc, self.out = _act(6), qnn.QuantLinear(6, 5, **WEIGHT), _act(8)

        def forward(self, x):
            y = F.relu(self.fc(self.inp(x)))
            return self.out(torch.clamp(y, -1.0, 2.0) * 2.0 - 0.5)

    torch.manual_seed(0)
    model, x = Net(), torch.randn(16, 6)
    with torch.no_grad():
        model.fc.bias.zero_()
    model(x)
    with torch.no_grad():
        expected = model.eval()(x).value
    for name, (export, run) in EXPORTERS.items():
        export(model, x, tmp_path / f"{name}.onnx")
        assert torch.equal(run(tmp_path / f"{name}.onnx", x), expected)
