"""Quantizers beyond the basic ones."""

import pytest
import torch
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx

import headrace.nn as qnn
from headrace import quant
from headrace.core.accumulator import l1_norm_bound
from headrace.export import export_qonnx


def _integers(x):
    return torch.round(x.value.detach().double() / x.scale.detach().double())


def _layer(weight_quant, bits, signed=False, **keywords):
    """A layer with a few large weights, as accumulator-aware training makes them."""
    act = quant.Int8ActPerTensorFloat if signed else quant.Uint8ActPerTensorFloat
    layer = qnn.QuantLinear(
        200, 16, bias=False, weight_quant=weight_quant, input_quant=act, input_bit_width=bits, **keywords
    )
    layer.weight.data.normal_().pow_(7).mul_(0.01)
    layer.weight_quant.init_tensor_quant()
    return layer


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("accumulator_bits", [8, 12, 16])
@pytest.mark.parametrize("weight_quant", [quant.Int8AccumulatorAwareWeightQuant])
def test_the_accumulator_stays_within_its_bits(signed, accumulator_bits, weight_quant):
    layer = _layer(weight_quant, 4, signed, weight_bit_width=5, weight_accumulator_bit_width=accumulator_bits)
    optimizer = torch.optim.SGD(layer.parameters(), 1e-4)
    for _ in range(3):
        optimizer.zero_grad()
        layer(torch.randn(8, 200)).pow(2).sum().backward()
        optimizer.step()
    layer.eval()(torch.randn(8, 200))
    n = _integers(layer.quant_weight())
    bound = l1_norm_bound(torch.tensor(float(accumulator_bits)), torch.tensor(4.0), signed)
    assert (n.abs().sum(1) <= float(bound)).all()
    assert n.abs().max() > 0
    low, high = (-8, 7) if signed else (0, 15)
    worst = torch.where(n > 0, high * n, low * n).sum(1).max()
    least = torch.where(n > 0, low * n, high * n).sum(1).min()
    assert worst <= 2 ** (accumulator_bits - 1) - 1
    assert least >= -(2 ** (accumulator_bits - 1))


def test_zero_centered_weights_use_more_of_the_accumulator():
    plain = _layer(quant.Int8AccumulatorAwareWeightQuant, 4, weight_accumulator_bit_width=10)
    centered = _layer(quant.Int8AccumulatorAwareZeroCenterWeightQuant, 4, weight_accumulator_bit_width=10)
    x = torch.randn(8, 200)
    sums = []
    for layer in (plain, centered):
        layer(x)
        sums.append(_integers(layer.quant_weight()).abs().sum(1).mean())
    assert sums[1] > 1.3 * sums[0]


def test_accumulator_awareness_needs_a_quantized_input():
    layer = qnn.QuantLinear(4, 4, weight_quant=quant.Int8AccumulatorAwareWeightQuant)
    with pytest.raises(RuntimeError, match="needs a quantized input: set input_quant"):
        layer(torch.randn(3, 4))
    with pytest.raises(RuntimeError, match="needs a quantized input"):
        layer.quant_weight()


def test_accumulator_aware_weights_are_exported_as_they_are(tmp_path):
    layer = _layer(quant.Int8AccumulatorAwareWeightQuant, 4, weight_bit_width=5, weight_accumulator_bit_width=10)
    layer(torch.randn(8, 200))
    layer.eval()
    x = torch.randn(32, 200)
    path = tmp_path / "a2q.onnx"
    export_qonnx(layer, x, path)
    model = ModelWrapper(str(path))
    actual = execute_onnx(model, {model.graph.input[0].name: x.numpy()})["output"]
    with torch.no_grad():
        expected = layer(x)
    step = layer.input_quant.scale() * layer.quant_weight().scale.view(-1)
    assert torch.equal(torch.round(torch.from_numpy(actual) / step), torch.round(expected / step))


@pytest.mark.parametrize(
    ("weight_quant", "reference"),
    [
        (quant.Int8WeightPerTensorFloatMSE, quant.Int8WeightPerTensorFloat),
        (quant.Int8WeightPerChannelFloatMSE, quant.Int8WeightPerChannelFloat),
    ],
)
def test_search_lowers_the_squared_error(weight_quant, reference):
    errors = []
    for chosen in (weight_quant, reference):
        layer = qnn.QuantLinear(500, 8, weight_quant=chosen, weight_bit_width=3)
        torch.manual_seed(0)
        layer.weight.data.normal_()
        errors.append((layer.quant_weight().value - layer.weight).pow(2).mean())
    assert errors[0] < 0.7 * errors[1]
    assert "weight_quant.tensor_quant.scaling_impl.value" in dict(layer.named_parameters()) or chosen is reference


def test_search_over_activations():
    act = qnn.QuantReLU(act_quant=quant.Uint8ActPerTensorFloatMSE, bit_width=3)
    x = torch.randn(1000).abs() ** 2
    y = act(x)
    plain = qnn.QuantReLU(bit_width=3)(x)
    assert (y - x).pow(2).mean() < 0.7 * (plain - x).pow(2).mean()


def test_scale_per_group():
    layer = qnn.QuantLinear(70, 6, weight_quant=quant.Int8WeightPerGroupFloat, weight_group_size=32, weight_bit_width=4)
    q = layer.quant_weight()
    assert q.value.shape == q.scale.shape == (6, 70)
    for start in (0, 32, 64):
        block = layer.weight[:, start : start + 32]
        expected = block.abs().amax(1, keepdim=True) / 7
        assert torch.allclose(q.scale[:, start : start + 32], expected.expand_as(block))
    assert q.is_valid
    layer(torch.randn(3, 70)).sum().backward()
    assert layer.weight.grad is not None
    conv = qnn.QuantConv2d(8, 4, 3, weight_quant=quant.Int8WeightPerGroupFloat, weight_group_size=4)
    assert conv(torch.randn(1, 8, 5, 5)).shape == (1, 4, 3, 3)
