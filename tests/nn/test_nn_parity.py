"""The same seeds, keywords and state dictionaries as Brevitas give the same numbers."""

import warnings

import pytest
import torch
from torch import nn

import headrace.nn as hnn
import headrace.quant as hquant

bnn = pytest.importorskip("brevitas.nn")
bquant = pytest.importorskip("brevitas.quant")

WEIGHTS = {
    "default": {},
    "bits": {"weight_bit_width": 4},
    "channel": {"weight_bit_width": 4, "weight_scaling_per_output_channel": True},
    "channel class": {"weight_quant": "Int8WeightPerChannelFloat"},
    "fixed": {"weight_quant": "Int8WeightPerTensorFixedPoint", "weight_bit_width": 3},
    "binary": {"weight_quant": "SignedBinaryWeightPerTensorConst"},
    "ternary": {"weight_quant": "SignedTernaryWeightPerTensorConst"},
    "shifted": {"weight_quant": "ShiftedUint8WeightPerTensorFloat", "weight_bit_width": 5},
    "shifted channel": {"weight_quant": "ShiftedUint8WeightPerChannelFloat", "weight_bit_width": 5},
    "learned": {"weight_scaling_impl_type": "PARAMETER_FROM_STATS", "weight_bit_width": 4},
    "average": {"weight_scaling_stats_op": "AVE", "weight_bit_width": 4},
    "he": {"weight_scaling_impl_type": "HE", "weight_bit_width": 4},
    "const": {"weight_scaling_impl_type": "CONST", "weight_scaling_const": 0.3, "weight_bit_width": 4},
    "parameter": {"weight_scaling_impl_type": "PARAMETER", "weight_scaling_const": 0.3, "weight_bit_width": 4},
    "floor": {"weight_float_to_int_impl_type": "FLOOR", "weight_bit_width": 4},
    "wide": {"weight_narrow_range": False, "weight_bit_width": 2},
}
ACTS = {
    "identity": ("QuantIdentity", {"bit_width": 4}),
    "relu": ("QuantReLU", {"bit_width": 3}),
    "relu fixed": ("QuantReLU", {"act_quant": "Uint8ActPerTensorFixedPoint", "bit_width": 4}),
    "relu max": ("QuantReLU", {"act_quant": "Uint8ActPerTensorFloatMaxInit", "max_val": 2.0}),
    "tanh": ("QuantTanh", {"bit_width": 4}),
    "sigmoid": ("QuantSigmoid", {"bit_width": 4}),
    "hard tanh": ("QuantHardTanh", {"min_val": -0.5, "max_val": 0.5, "bit_width": 4}),
    "binary": ("QuantIdentity", {"act_quant": "SignedBinaryActPerTensorConst"}),
    "ternary": ("QuantIdentity", {"act_quant": "SignedTernaryActPerTensorConst"}),
    "shifted": ("QuantIdentity", {"act_quant": "ShiftedUint8ActPerTensorFloat", "bit_width": 4}),
    "min max": ("QuantIdentity", {"scaling_stats_op": "MAX", "bit_width": 4}),
    "not quantized": ("QuantReLU", {"act_quant": None}),
    "log": ("QuantReLU", {"restrict_scaling_type": "LOG_FP", "bit_width": 4}),
}


def _options(options, module):
    return {k: getattr(module, v) if k.endswith("_quant") and isinstance(v, str) else v for k, v in options.items()}


def _pair(layer, options, *args):
    built = []
    for nn_module, quant_module in ((hnn, hquant), (bnn, bquant)):
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            built.append(getattr(nn_module, layer)(*args, **_options(options, quant_module)))
    return built


def _close(a, b):
    b = b.reshape(()) if b.shape == (1,) and a.dim() == 0 else b  # Brevitas' binary scales; its tutorial has scalars
    assert a.shape == b.shape
    assert torch.allclose(a, b, rtol=1e-5, atol=1e-6), (a - b).abs().max()


@pytest.mark.parametrize("kind", WEIGHTS)
def test_weights(kind):
    ours, theirs = _pair("QuantLinear", WEIGHTS[kind], 20, 12)
    a, b = ours.quant_weight(), theirs.quant_weight()
    for field in ("value", "scale", "zero_point", "bit_width"):
        _close(getattr(a, field), getattr(b, field))
    x = torch.randn(5, 20)
    for layer in (ours, theirs):
        layer(x).pow(2).sum().backward()
    gradients = dict(ours.named_parameters()), dict(theirs.named_parameters())
    assert gradients[0].keys() == gradients[1].keys()
    for name, parameter in gradients[0].items():
        assert torch.allclose(parameter.grad, gradients[1][name].grad, rtol=1e-4, atol=1e-4), name


@pytest.mark.parametrize("kind", ACTS)
def test_activations(kind):
    layer, options = ACTS[kind]
    ours, theirs = _pair(layer, {**options, "return_quant_tensor": kind != "not quantized"}, *())
    for step in range(4):
        torch.manual_seed(step)
        x = torch.randn(50)
        inputs = x.clone().requires_grad_(), x.clone().requires_grad_()
        a, b = ours(inputs[0]), theirs(inputs[1])
        if kind != "not quantized":
            assert a.signed == b.signed
            _close(a.scale, b.scale)
            _close(a.zero_point, b.zero_point)
            a, b = a.value, b.value
        _close(a, b)
        a.pow(2).sum().backward(), b.pow(2).sum().backward()
        _close(inputs[0].grad, inputs[1].grad)
    ours.eval(), theirs.eval()
    a, b = ours(x), theirs(x)
    _close(a if kind == "not quantized" else a.value, b if kind == "not quantized" else b.value)


def _net(nn_module, quant_module):
    torch.manual_seed(0)
    return nn.Sequential(
        nn_module.QuantIdentity(bit_width=6, return_quant_tensor=True, collect_stats_steps=2),
        nn_module.QuantConv2d(2, 6, 3, weight_bit_width=4, weight_scaling_per_output_channel=True),
        nn.BatchNorm2d(6),
        nn_module.QuantReLU(bit_width=4, return_quant_tensor=True),
        nn.Flatten(),
        nn_module.QuantLinear(6 * 4, 5, weight_bit_width=4, bias_quant=quant_module.Int16Bias),
    )


def test_training_and_state_dictionaries():
    ours, theirs = _net(hnn, hquant), _net(bnn, bquant)
    optimizers = [torch.optim.SGD(m.parameters(), 0.05) for m in (ours, theirs)]
    for step in range(5):
        torch.manual_seed(step)
        x = torch.randn(16, 2, 4, 4)
        for model, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            optimizer.step()
    a, b = ours.state_dict(), theirs.state_dict()
    assert a.keys() == b.keys()
    for name in a:
        assert torch.allclose(a[name].float(), b[name].float(), rtol=1e-4, atol=1e-5), name
    loaded, back = _net(hnn, hquant), _net(bnn, bquant)
    loaded.load_state_dict(b)
    back.load_state_dict(a)
    x = torch.randn(16, 2, 4, 4)
    with torch.no_grad():
        expected = theirs.eval()(x)
        assert torch.allclose(loaded.eval()(x), expected, atol=1e-5)
        assert torch.allclose(back.eval()(x), ours.eval()(x), atol=1e-5)
