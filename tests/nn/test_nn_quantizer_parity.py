"""Every quantizer that both libraries have: the same numbers from the same seeds, and the same state dictionaries."""

import importlib
import warnings

import pytest
import torch

import headrace.nn as hnn

bnn = pytest.importorskip("brevitas.nn")

SCALED, SHIFTED, MX, FIXED = "scaled_int", "shifted_scaled_int", "mx_quant_ocp", "fixed_point"
GROUP = {"weight_group_size": 8}
WEIGHTS = {
    "Int8WeightPerTensorFloatMSE": (SCALED, {}),
    "Int8WeightPerChannelFloatMSE": (SCALED, {}),
    "Int8WeightPerTensorFloatHQO": (SCALED, {}),
    "Int8WeightPerChannelFloatHQO": (SCALED, {}),
    "Int4WeightPerTensorFloatDecoupled": (SCALED, {}),
    "Int8WeightPerChannelFloatDecoupled": (SCALED, {}),
    "Int8WeightNormL2PerChannelFixedPoint": (SCALED, {}),
    "Int8WeightPerTensorFixedPointMSE": (FIXED, {}),
    "Int8WeightPerChannelFixedPointMSE": (FIXED, {}),
    "Int4WeightPerTensorFixedPointDecoupled": (FIXED, {}),
    "ShiftedUint8WeightPerTensorFloat": (SHIFTED, {}),
    "ShiftedUint8WeightPerChannelFloat": (SHIFTED, {}),
    "ShiftedUint8WeightPerTensorFloatMSE": (SHIFTED, {}),
    "ShiftedUint8WeightPerChannelFloatMSE": (SHIFTED, {}),
    "ShiftedUint8WeightPerTensorFloatHQO": (SHIFTED, {}),
    "ShiftedUint8WeightPerChannelFloatHQO": (SHIFTED, {}),
    "ShiftedUint8WeightGroupQuantFloat": (SHIFTED, GROUP),
    "ShiftedUint8WeightPerGroupFloatHQO": (SHIFTED, {"weight_group_size": 5}),  # Brevitas finds NaN in filled groups
}
ACTS = {
    "Int8ActPerTensorFloatMSE": (SCALED, "QuantIdentity"),
    "Uint8ActPerTensorFloatMSE": (SCALED, "QuantReLU"),
    "Int8ActPerTensorFixedPointMSE": (FIXED, "QuantIdentity"),
    "Uint8ActPerTensorFixedPointMSE": (FIXED, "QuantReLU"),
    "ShiftedUint8ActPerTensorFloatMSE": (SHIFTED, "QuantIdentity"),
    "ShiftedUint8ActPerTensorFixedPointMSE": (SHIFTED, "QuantIdentity"),
    "ShiftedUint8ActPerTensorFloatHQO": (SHIFTED, "QuantIdentity"),
}


CARRIED_OVER = {n for n in ACTS if n.startswith("Shifted")}
"""Searches that Brevitas starts from what the batch before has left in them; ours forget it."""


def _quantizer(library, module, name):
    return getattr(importlib.import_module(f"{library}.quant.{module}"), name)


def _pair(layer, *args, **options):
    built = []
    for library, nn_module in (("headrace", hnn), ("brevitas", bnn)):
        given = {k: _quantizer(library, *v) if k.endswith("_quant") else v for k, v in options.items()}
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            built.append(getattr(nn_module, layer)(*args, **given))
    return built


def _integers(q):
    return torch.round(q.value.detach() / q.scale.detach() + q.zero_point.detach())


def _flat(t, like):
    t = t.detach()
    return t.reshape(()) if t.numel() == 1 else t.expand_as(like)


@pytest.mark.parametrize("bits", [3, 8])
@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_equal_brevitas(name, bits):
    module, options = WEIGHTS[name]
    ours, theirs = _pair("QuantLinear", 20, 12, weight_quant=(module, name), weight_bit_width=bits, **options)
    a, b = ours.quant_weight(), theirs.quant_weight()
    assert a.signed == b.signed
    assert torch.allclose(_flat(a.scale, a.value), _flat(b.scale, a.value), rtol=1e-6)
    assert torch.allclose(_flat(a.zero_point, a.value), _flat(b.zero_point, a.value), rtol=1e-5, atol=1e-5)
    assert torch.allclose(a.value, b.value, rtol=1e-5, atol=1e-7)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.mul_(1.25)
    ours.load_state_dict(theirs.state_dict())
    assert torch.allclose(ours.quant_weight().value, theirs.quant_weight().value, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", WEIGHTS)
def test_gradients_equal_brevitas(name):
    module, options = WEIGHTS[name]
    ours, theirs = _pair("QuantLinear", 20, 12, weight_quant=(module, name), weight_bit_width=4, **options)
    x = torch.randn(5, 20)
    for layer in (ours, theirs):
        layer(x)  # searches and initializes
        layer.zero_grad()
        layer(x).pow(2).sum().backward()
    expected = {key: parameter.grad for key, parameter in theirs.named_parameters()}
    if "NormL2" in name:  # one scale, of which Brevitas has a copy
        copied = expected.pop("weight_quant.tensor_quant.scaling_impl.value")
        expected["weight_quant.tensor_quant.pre_scaling_impl.scaling_impl.value"] += copied
    assert dict(ours.named_parameters()).keys() == expected.keys()
    for key, parameter in ours.named_parameters():
        assert torch.allclose(parameter.grad, expected[key], rtol=1e-3, atol=1e-3), key


@pytest.mark.parametrize("name", ACTS)
def test_activations_equal_brevitas(name):
    module, layer = ACTS[name]
    ours, theirs = _pair(layer, act_quant=(module, name), bit_width=4, return_quant_tensor=True, collect_stats_steps=2)
    for step in range(4):
        torch.manual_seed(step)
        x = torch.randn(64) + 0.3
        a, b = ours(x), theirs(x)
        if step and name in CARRIED_OVER:
            return
        assert torch.allclose(a.scale, b.scale, rtol=1e-5), step
        assert torch.allclose(a.zero_point, b.zero_point.reshape(()), atol=1e-4), step
        assert torch.allclose(a.value, b.value, atol=1e-5), step
    ours.eval(), theirs.eval()
    assert torch.allclose(ours(x).value, theirs(x).value, atol=1e-5)


@pytest.mark.parametrize("implementation", ["SIGMOID", "HARD_SIGMOID", "IDENTITY"])
def test_learned_rounding_equals_brevitas(implementation):
    ours, theirs = _pair(
        "QuantLinear",
        20,
        12,
        weight_quant=(SCALED, "Int8WeightPerChannelFloat"),
        weight_bit_width=4,
        weight_float_to_int_impl_type="LEARNED_ROUND",
        weight_learned_round_impl_type=implementation,
    )
    key = "weight_quant.tensor_quant.int_quant.float_to_int_impl.value"
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    torch.manual_seed(1)
    decisions = torch.randn(12, 20)
    for layer in (ours, theirs):
        layer.load_state_dict({**layer.state_dict(), key: decisions})
    x = torch.randn(5, 20)
    assert torch.allclose(ours.quant_weight().value, theirs.quant_weight().value, atol=1e-6)
    for layer in (ours, theirs):
        layer(x).pow(2).sum().backward()
    parameters = dict(ours.named_parameters()), dict(theirs.named_parameters())
    assert torch.allclose(parameters[0][key].grad, parameters[1][key].grad, rtol=1e-3, atol=1e-4)
    ours.eval(), theirs.eval()
    assert torch.equal(_integers(ours.quant_weight()), _integers(theirs.quant_weight()))
    assert ours.quant_weight().is_valid


def test_minifloat_groups_equal_brevitas():
    ours, theirs = _pair("QuantLinear", 20, 12, weight_quant=(MX, "MXFloat8e4m3Weight"), weight_group_size=8)
    assert torch.equal(ours.quant_weight().value, theirs.quant_weight().value)
    assert torch.equal(ours.quant_weight().scale, theirs.quant_weight().scale)


def test_minifloat_groups_of_activations_equal_brevitas():
    torch.manual_seed(0)
    x = torch.randn(5, 64)
    ours, theirs = _pair("QuantIdentity", act_quant=(MX, "MXFloat8e4m3Act"), group_dim=1, return_quant_tensor=True)
    assert torch.equal(ours(x).value, theirs(x).value)
    assert torch.equal(ours.eval()(x).value, theirs.eval()(x).value)


@pytest.mark.parametrize("name", ["MXInt8Weight", "ShiftedMXUInt8Weight", "MXInt8WeightMSE", "ShiftedMXUInt8WeightMSE"])
def test_shared_exponents_follow_the_specification(name):
    """The OCP's integers have one digit before the binary point: nothing is cut off (Brevitas halves the range)."""
    torch.manual_seed(0)
    layer = hnn.QuantLinear(70, 6, weight_quant=_quantizer("headrace", MX, name))
    w, q = layer.weight.detach(), layer.quant_weight()
    exponent = torch.log2(q.scale)
    assert torch.equal(exponent, exponent.round())
    if name == "MXInt8Weight":
        for start in (0, 32, 64):
            block = w[:, start : start + 32]
            shared = torch.floor(torch.log2(block.abs().amax(1, keepdim=True)))
            scale = torch.pow(2.0, shared - 6).expand_as(block)
            assert torch.equal(q.scale[:, start : start + 32], scale)
            assert torch.equal(q.value[:, start : start + 32], (block / scale).round().clamp(-128, 127) * scale)
    assert q.is_valid
    if not name.endswith("MSE"):
        assert ((q.value - w).abs() <= q.scale).all()


def test_the_search_over_integers_with_a_zero_point_lowers_the_error():
    errors = {}
    for name in ("ShiftedUint8WeightPerChannelFloat", "ShiftedUint8WeightPerChannelFloatMSE"):
        torch.manual_seed(0)
        layer = hnn.QuantLinear(500, 8, weight_quant=_quantizer("headrace", SHIFTED, name), weight_bit_width=3)
        layer.weight.data.normal_()
        layer.weight_quant.init_tensor_quant()
        errors[name] = float((layer.quant_weight().value - layer.weight).detach().pow(2).mean())
    assert errors["ShiftedUint8WeightPerChannelFloatMSE"] < 0.8 * errors["ShiftedUint8WeightPerChannelFloat"]
