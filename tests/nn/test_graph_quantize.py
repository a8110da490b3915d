"""Post-training quantization: graph mode, layer by layer, and searched weights."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import headrace.nn as qnn
from headrace.graph.calibrate import bias_correction_mode, calibration_mode
from headrace.graph.equalize import equalize
from headrace.graph.error_feedback import WeightSearchError
from headrace.graph.fold import fold_batch_norms
from headrace.graph.gpfq import gpfq
from headrace.graph.gptq import gptq
from headrace.graph.quantize import NothingToQuantizeError, QuantizeConfig, quantize, quantize_
from headrace.inject.errors import QuantizerTypeError, QuantizerValueError


class Block(nn.Module):
    """The basic block of ResNet-18."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    """ResNet-18 in shape, not in size."""

    def __init__(self, widths=(8, 12)):
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(Block(widths[0], widths[0], 1), Block(widths[0], widths[0], 1))
        self.layer2 = nn.Sequential(Block(widths[0], widths[1], 2), Block(widths[1], widths[1], 1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(widths[1], 10)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Inverted(nn.Module):
    """The inverted residual block of MobileNetV2."""

    def __init__(self, inputs, outputs, stride, expand):
        super().__init__()
        hidden = inputs * expand
        self.use_residual = stride == 1 and inputs == outputs
        self.conv = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x):
        return x + self.conv(x) if self.use_residual else self.conv(x)


class MobileNet(nn.Module):
    """MobileNetV2 in shape, not in size."""

    def __init__(self):
        super().__init__()
        stem = (nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6())
        blocks = (Inverted(8, 8, 1, 2), Inverted(8, 8, 1, 2), Inverted(8, 12, 2, 3))
        self.features = nn.Sequential(*stem, *blocks)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(12, 10))

    def forward(self, x):
        return self.classifier(self.features(x).mean([2, 3]))


def _trained(model, shape=(8, 3, 32, 32)):
    """Batch norms with statistics and parameters that are far from the start."""
    model.train()
    for _ in range(3):
        model(torch.randn(shape))
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.weight.uniform_(0.5, 2.0)
                module.bias.uniform_(-0.5, 0.5)
    return model.eval()


def _calibrated(model, x):
    with torch.no_grad(), calibration_mode(model):
        model(x)
    return model


@pytest.mark.parametrize("make", [ResNet, MobileNet])
def test_folding_and_equalization_keep_the_function(make):
    model = _trained(make())
    traced = torch.fx.symbolic_trace(copy.deepcopy(model))
    norms = sum(isinstance(m, nn.BatchNorm2d) for m in model.modules())
    assert fold_batch_norms(traced) == norms
    x = torch.randn(4, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(traced(x), model(x), rtol=1e-3, atol=1e-4)
        assert equalize(traced) == (6 if make is MobileNet else 4)
        torch.testing.assert_close(traced(x), model(x), rtol=1e-3, atol=1e-4)


def test_equalization_gives_channels_the_same_range():
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)))
    assert equalize(traced, 50) == 1
    out_range = getattr(traced, "0").weight.abs().amax(1)
    in_range = getattr(traced, "2").weight.abs().amax(0)
    torch.testing.assert_close(out_range, in_range, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("transposed", [nn.Conv2d, nn.ConvTranspose2d])
@pytest.mark.parametrize("groups", [1, 2])
def test_norms_fold_into_every_convolution(transposed, groups):
    model = _trained(nn.Sequential(transposed(3 if groups == 1 else 4, 6, 3, groups=groups), nn.BatchNorm2d(6)),
                     (4, 3 if groups == 1 else 4, 5, 5))  # fmt: skip
    traced = torch.fx.symbolic_trace(copy.deepcopy(model))
    assert fold_batch_norms(traced) == 1
    x = torch.randn(2, 3 if groups == 1 else 4, 5, 5)
    torch.testing.assert_close(traced(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [ResNet, MobileNet])
def test_eight_bits_are_close_and_no_float_layer_is_left(make):
    model, x = _trained(make()), torch.randn(16, 3, 32, 32)
    quantized = _calibrated(quantize(model, weight_bit_width=8, act_bit_width=8), x)
    with torch.no_grad():
        expected, got = model(x), quantized(x)
    assert (got - expected).norm() / expected.norm() < 0.1
    called = [quantized.get_submodule(n.target) for n in quantized.graph.nodes if n.op == "call_module"]
    assert not any(
        isinstance(m, nn.ReLU | nn.ReLU6 | nn.BatchNorm2d) or type(m) in (nn.Conv2d, nn.Linear) for m in called
    )
    layers = [m for m in quantized.modules() if isinstance(m, qnn.QuantConv2d | qnn.QuantLinear)]
    assert all(layer.last_was_exact for layer in layers)


def test_branches_of_an_addition_share_one_quantizer():
    quantized = quantize(_trained(ResNet()), QuantizeConfig(act_bit_width=4))
    calls = [n for n in quantized.graph.nodes if n.op == "call_module" and "shared_quant" in str(n.target)]
    assert len({str(n.target) for n in calls}) == 4
    assert len(calls) == 4
    for node in quantized.graph.nodes:
        if getattr(node.target, "__name__", "") in ("add", "iadd"):
            (call,) = {operand.args[0] for operand in node.args}
            assert call in calls


def test_bias_correction_after_quantization_lowers_the_error():
    model, x = _trained(ResNet()), torch.randn(32, 3, 32, 32)
    quantized = _calibrated(quantize(model, weight_bit_width=3, act_bit_width=8), x)
    with torch.no_grad():
        expected, before = model(x), quantized(x)
        with bias_correction_mode(quantized):
            quantized(x)
        after = quantized(x)
    assert (after - expected).mean(0).norm() < (before - expected).mean(0).norm()


def test_quantize_in_place_layer_by_layer():
    model, x = _trained(MobileNet()), torch.randn(8, 3, 32, 32)
    with torch.no_grad():
        expected = model(x)
    weight = model.classifier[1].weight
    assert quantize_(model, QuantizeConfig(weight_bit_width=8)) is model
    assert model.classifier[1].weight is weight
    assert isinstance(model.features[0], qnn.QuantConv2d)
    _calibrated(model, x)
    with torch.no_grad():
        assert (model(x) - expected).norm() / expected.norm() < 0.1


def test_quantize_in_place_chooses_layers_and_weights_only():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    quantize_(model, QuantizeConfig(act_bit_width=None), chosen=lambda name, module: name == "1")
    assert type(model[0]) is nn.Linear
    assert isinstance(model[1], qnn.QuantLinear)
    assert not model[1].input_quant.is_quant_enabled


def test_bad_input():
    with pytest.raises(QuantizerTypeError, match=r"weight_bit_width must be an integer, got 3\.5"):
        QuantizeConfig(weight_bit_width=3.5)
    with pytest.raises(QuantizerValueError, match="act_bit_width must be from 1 to 32, got 0"):
        QuantizeConfig(act_bit_width=0)
    with pytest.raises(QuantizerValueError, match="needs quantized activations"):
        QuantizeConfig(act_bit_width=None, bias_bit_width=8)
    with pytest.raises(NothingToQuantizeError, match="no layer to quantize"):
        quantize_(nn.Sequential(nn.ReLU()))
    with pytest.raises(NothingToQuantizeError, match="calls no linear"):
        quantize(nn.Sequential(nn.ReLU()))
    with pytest.raises(WeightSearchError, match="holds no QuantLinear"):
        gptq(nn.Sequential(nn.ReLU()), [torch.zeros(1)])
    with pytest.raises(WeightSearchError, match="no batches"):
        gpfq(nn.Sequential(qnn.QuantLinear(2, 2)), [])


def _layer(kind, per_channel):
    options = {"weight_bit_width": 3, "weight_scaling_per_output_channel": per_channel}
    if kind == "linear":
        return qnn.QuantLinear(24, 10, **options), torch.randn(200, 24) @ torch.randn(24, 24)
    groups = {"conv": 1, "grouped": 2}[kind]
    layer = qnn.QuantConv2d(4, 6, 3, padding=1, groups=groups, **options)
    return layer, F.avg_pool2d(torch.randn(16, 4, 12, 12), 3, 1)


@pytest.mark.parametrize("search", [gptq, gpfq])
@pytest.mark.parametrize("kind", ["linear", "conv", "grouped"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_searched_weights_lower_the_error_of_the_layer(search, kind, per_channel):
    layer, x = _layer(kind, per_channel)
    layer.eval()
    with torch.no_grad():
        exact = layer.geometry(x, layer.weight, layer.bias)
        scale = layer.quant_weight().scale
        nearest = (layer(x) - exact).square().sum()
        search(layer, [x[: len(x) // 2], x[len(x) // 2 :]])
        searched = (layer(x) - exact).square().sum()
        assert searched < nearest
        quantized = layer.quant_weight()
        torch.testing.assert_close(quantized.scale, scale, rtol=1e-6, atol=0)
        assert int(quantized.int().abs().max()) <= 3
        again = _layer(kind, per_channel)[0].eval()
        again.weight_quant.quant_injector = layer.weight_quant.quant_injector
        again.weight_quant.init_tensor_quant()
        again.load_state_dict(layer.state_dict())
        assert torch.equal(again(x), layer(x))


@pytest.mark.parametrize("search", [gptq, gpfq])
def test_searched_weights_lower_the_error_of_a_network(search):
    model, x = _trained(ResNet()), torch.randn(24, 3, 32, 32)
    quantized = _calibrated(quantize(model, weight_bit_width=3, act_bit_width=8), x)
    with torch.no_grad():
        expected, before = model(x), quantized(x)
        names = search(quantized, [x])
        after = quantized(x)
    assert len(names) == 11
    assert (after - expected).norm() < (before - expected).norm()
