"""Calibration and bias correction."""

import pytest
import torch
from torch import nn

import headrace.nn as qnn
from headrace.graph.calibrate import bias_correction_mode, calibration_mode, quantization_disabled


def _model(bias=True):
    return nn.Sequential(
        qnn.QuantIdentity(return_quant_tensor=True, bit_width=4),
        qnn.QuantLinear(4, 8, bias=bias, weight_bit_width=3),
        qnn.QuantReLU(bit_width=4),
    ).eval()


def _float(model, x):
    with quantization_disabled(model), torch.no_grad():
        return model(x)


def test_statistics_are_those_of_the_float_model():
    model = _model()
    x = torch.randn(1000, 4)
    with torch.no_grad(), calibration_mode(model):
        out = model(x)
    assert torch.equal(out, _float(model, x))
    scale = float(model[0].act_quant.scale().detach())
    assert scale == pytest.approx(float(x.abs().max()) / 8, rel=1e-6)
    assert not model.training
    assert not any(m.training for m in model.modules())


def test_everything_is_restored_after_an_error():
    model = _model()
    with pytest.raises(ZeroDivisionError), calibration_mode(model):
        raise ZeroDivisionError
    assert model[0].return_quant_tensor
    assert not model[1].weight_quant.disable_quant
    assert not model[0].act_quant.observe_only


@pytest.mark.parametrize("bias", [True, False])
def test_bias_correction_removes_the_mean_error(bias):
    model = _model(bias)
    x = torch.randn(2000, 4) + 0.3
    with torch.no_grad(), calibration_mode(model):
        model(x)
    layer = model[1]
    with torch.no_grad():
        q = model[0](x)
        with quantization_disabled(layer):
            reference = layer(q.value)
        error = (layer(q) - reference).mean(0).abs().max()
        with bias_correction_mode(model):
            model(x[:1000])
            model(x[1000:])
        corrected = (layer(q) - reference).mean(0).abs().max()
    assert layer.bias is not None
    assert error > 1e-3
    assert corrected < 1e-5


def test_disabled_modes_do_nothing():
    model = _model()
    before = model[1].bias.detach().clone()
    with calibration_mode(model, enabled=False), bias_correction_mode(model, enabled=False):
        model(torch.randn(3, 4))
    assert torch.equal(model[1].bias, before)
    assert not model[0].act_quant.fused_activation_quant_proxy.tensor_quant.scaling_impl.is_initialized
