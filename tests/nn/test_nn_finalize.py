"""The deployed form of a model."""

import copy
import importlib.util
import pathlib
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import headrace.nn as qnn
from headrace import quant

_spec = importlib.util.spec_from_file_location("nn_reference", pathlib.Path(__file__).with_name("reference.py"))
ref = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(ref)


def _trained_norm(features):
    norm = nn.BatchNorm1d(features)
    with torch.no_grad():
        norm.weight.uniform_(-2, 2)
        norm.bias.uniform_(-1, 1)
        norm.running_mean.uniform_(-1, 1)
        norm.running_var.uniform_(1e-6, 3)
    return norm


def _mlp(return_quant_tensor=True, bits=2):
    model = nn.Sequential(
        nn.Flatten(),
        qnn.QuantIdentity(bit_width=bits, return_quant_tensor=return_quant_tensor),
        qnn.QuantLinear(36, 24, weight_bit_width=bits),
        _trained_norm(24),
        nn.Dropout(0.2),
        qnn.QuantReLU(bit_width=bits, return_quant_tensor=return_quant_tensor),
        qnn.QuantLinear(24, 10, weight_bit_width=bits, weight_scaling_per_output_channel=True),
    )
    for _ in range(3):
        model(torch.randn(64, 4, 9))
    return model


def _numpy_mlp(model, x):
    """The canonical arithmetic of :func:`_mlp`, with integers in int64."""
    identity, first, norm, relu, second = (model[i] for i in (1, 2, 3, 5, 6))
    bits = int(identity.act_quant.bit_width())
    s0 = identity.act_quant.scale().detach().numpy()
    s1 = relu.act_quant.scale().detach().numpy()
    w1, w2 = first.quant_weight(), second.quant_weight()
    n1 = np.rint(w1.value.detach().double().numpy() / w1.scale.detach().double().numpy()).astype(np.int64)
    n2 = np.rint(w2.value.detach().double().numpy() / w2.scale.detach().double().numpy()).astype(np.int64)
    flat = x.numpy().reshape(len(x), -1)
    q = ref.quantize(flat, s0, 0, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    y = ref.linear(q, n1, s0, w1.scale.detach().numpy(), first.bias.detach().numpy())
    tensors = (norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias)
    y = ref.batch_norm(y, *(t.detach().numpy() if torch.is_tensor(t) else t for t in tensors))
    q = ref.quantize(np.maximum(y, np.float32(0)), s1, 0, 0, 2**bits - 1)
    return ref.linear(q, n2, s1, w2.scale.detach().numpy().reshape(-1), second.bias.detach().numpy())


@pytest.mark.parametrize("return_quant_tensor", [True, False])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_equals_the_canonical_arithmetic(return_quant_tensor, bits):
    model = _mlp(return_quant_tensor, bits)
    final = qnn.finalize(model)
    model.eval()
    x = torch.randn(200, 4, 9) * 2
    x[0], x[1] = 1e6, -1e6
    y = final(x)
    assert type(y) is torch.Tensor
    assert y.dtype == torch.float32
    assert np.array_equal(y.numpy(), _numpy_mlp(model, x))


def test_the_model_does_not_change():
    model = _mlp()
    before = copy.deepcopy(model.state_dict())
    x = torch.randn(5, 4, 9)
    qnn.finalize(model, x)
    assert model.training
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert isinstance(model[3], nn.BatchNorm1d)
    assert all(p.requires_grad for p in model.parameters())


def test_it_stays_in_evaluation_mode():
    final = qnn.finalize(_mlp())
    final.train()
    assert not any(m.training for m in final.modules())
    x = torch.randn(5, 4, 9)
    assert torch.equal(final(x), final(x))
    assert not final(x.requires_grad_()).requires_grad


def test_report_counts_differences():
    model = _mlp()
    x = torch.randn(500, 4, 9)
    final = qnn.finalize(model, x)
    model.eval()
    with torch.no_grad():
        reference = model(x)
    assert final.report.outputs[0].values == reference.numel()
    assert final.report.differing == int((reference != final(x)).sum())
    assert final.report.float_layers == ()
    assert "differ" in str(final.report)


def test_report_names_layers_that_are_not_integer():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = qnn.QuantLinear(8, 8)
            self.act = qnn.QuantReLU()
            self.fc2 = qnn.QuantLinear(8, 4)

        def forward(self, x):
            return self.fc2(self.act(self.fc1(x)))

    net = Net()
    net(torch.randn(4, 8))
    assert qnn.finalize(net, torch.randn(4, 8)).report.float_layers == ("fc1",)


class _Functional(nn.Module):
    """Grids travel through functions and methods of plain tensors; norms and sigmoids are functions too."""

    def __init__(self):
        super().__init__()
        self.quant = qnn.QuantIdentity(bit_width=4)
        self.conv = qnn.QuantConv2d(2, 4, 3, weight_bit_width=4)
        self.norm = nn.BatchNorm2d(4)
        self.act = qnn.QuantIdentity(bit_width=4)
        self.fc = qnn.QuantLinear(16, 6, weight_bit_width=4)

    def forward(self, x):
        x = self.quant(x)
        x = self.conv(torch.flip(x, (3,)).permute(0, 1, 3, 2))
        n = self.norm
        x = F.batch_norm(x, n.running_mean, n.running_var, n.weight, n.bias, False, 0.1, n.eps)
        x = self.act(torch.sigmoid(x))
        x = F.max_pool2d(F.relu(x), 2)
        return {"logits": self.fc(x.reshape(x.shape[0], -1)), "pooled": x}


def test_grids_travel_through_functions():
    model = _Functional()
    with torch.no_grad():
        model.norm.running_var.uniform_(0.1, 2)
        model.norm.running_mean.uniform_(-1, 1)
    model(torch.randn(4, 2, 6, 6))
    final = qnn.finalize(model, torch.randn(4, 2, 6, 6))
    assert final.model.conv.last_was_exact
    assert final.model.fc.last_was_exact
    assert final.report.float_layers == ()
    assert [o.name for o in final.report.outputs] == ["output['logits']", "output['pooled']"]
    x = torch.randn(8, 2, 6, 6)
    whole, rows = final(x)["logits"], torch.cat([final(row[None])["logits"] for row in x])
    assert torch.equal(whole, rows)


def test_arithmetic_on_the_way_drops_the_grid():
    class Doubled(nn.Module):
        def __init__(self):
            super().__init__()
            self.act, self.fc = qnn.QuantIdentity(), qnn.QuantLinear(4, 4)

        def forward(self, x):
            return self.fc(self.act(x) * 2)

    model = Doubled()
    model(torch.randn(4, 4))
    assert qnn.finalize(model, torch.randn(4, 4)).report.float_layers == ("fc",)


@pytest.mark.parametrize("layer", [qnn.QuantSigmoid, qnn.QuantTanh])
def test_transcendental_functions_are_rounded_from_float64(layer):
    act = layer()
    act(torch.randn(100))
    final = qnn.finalize(act)
    x = torch.randn(5000) * 3
    function = torch.sigmoid if layer is qnn.QuantSigmoid else torch.tanh
    exact = function(x.double()).float().numpy()
    scale = act.eval().act_quant.scale().detach().numpy()
    low, high = (0, 255) if layer is qnn.QuantSigmoid else (-128, 127)
    assert np.array_equal(final(x).numpy(), ref.dequantize(ref.quantize(exact, scale, 0, low, high), scale))


def test_a_norm_alone_and_its_extremes():
    norm = _trained_norm(7)
    with torch.no_grad():
        norm.weight[0] = 0.0
        norm.running_var[1] = 0.0
    x = torch.randn(100, 7) * 1e3
    tensors = (norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias)
    expected = ref.batch_norm(x.numpy(), *(t.detach().numpy() if torch.is_tensor(t) else t for t in tensors))
    assert np.array_equal(qnn.finalize(norm)(x).numpy(), expected)


def test_a_norm_without_running_statistics_is_refused():
    model = nn.Sequential(qnn.QuantIdentity(), nn.BatchNorm1d(4, track_running_stats=False))
    with pytest.raises(RuntimeError, match="1: a batch norm without running statistics"):
        qnn.finalize(model)


def test_it_pickles():
    final = qnn.finalize(_mlp())
    x = torch.randn(5, 4, 9)
    assert torch.equal(pickle.loads(pickle.dumps(final))(x), final(x))


def test_binary_network():
    model = nn.Sequential(
        qnn.QuantIdentity(act_quant=quant.SignedBinaryActPerTensorConst),
        qnn.QuantLinear(20, 10, bias=False, weight_quant=quant.SignedBinaryWeightPerTensorConst),
        _trained_norm(10),
        qnn.QuantIdentity(act_quant=quant.SignedBinaryActPerTensorConst),
    )
    x = torch.randn(64, 20)
    final = qnn.finalize(model, x)
    n_w = np.where(model[1].weight.detach().numpy() >= 0, 1, -1)
    y = ref.linear(np.where(x.numpy() >= 0, 1, -1), n_w, 1.0, np.float32(0.1))
    norm = model[2]
    tensors = (norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias)
    y = ref.batch_norm(y, *(t.detach().numpy() if torch.is_tensor(t) else t for t in tensors))
    assert np.array_equal(final(x).numpy(), np.where(y >= 0, 1, -1).astype(np.float32))


def test_layers_in_floating_point_are_reported():
    x = torch.randn(16, 8)
    for quantize, expected in ((False, ("1",)), (True, ())):
        first = qnn.QuantIdentity(bit_width=4) if quantize else nn.Identity()
        model = nn.Sequential(first, qnn.QuantLinear(8, 3, bias=False, weight_bit_width=4))
        model(x)
        report = qnn.finalize(model.eval(), x).report
        assert report.float_layers == expected
        assert ("not quantized" in str(report)) == bool(expected)
