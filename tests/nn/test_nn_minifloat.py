"""Minifloat quantizers: against the enumerated numbers of each format, torch's float8 types, and Brevitas."""

import copy
import pickle

import pytest
import torch
from torch import nn

import headrace.nn as qnn
from headrace import quant
from headrace.core.float_quant import FloatFormat
from headrace.errors import HeadraceError
from headrace.inject.enum import ScalingPerOutputType
from headrace.quant import experimental, float_base
from headrace.quant.experimental import float as experimental_float
from headrace.quant_tensor import FloatQuantTensor

E4M3 = FloatFormat(4, 3, 7)
E5M2 = FloatFormat(5, 2, 15)
OCP_E4M3 = FloatFormat(4, 3, 7, nan_values=("111",))
OCP_E5M2 = FloatFormat(5, 2, 15, inf_values=("00",), nan_values=("01", "10", "11"))
FORMATS = {
    "e4m3": E4M3,
    "e5m2": E5M2,
    "ocp e4m3": OCP_E4M3,
    "ocp e5m2": OCP_E5M2,
    "fnuz e4m3": FloatFormat(4, 3, 8),
    "e3m2": FloatFormat(3, 2, 3),
    "e2m3": FloatFormat(2, 3, 1),
    "e2m1": FloatFormat(2, 1, 1),
}


def _numbers(f):
    """Every finite magnitude of a format, from its bit patterns."""
    out = []
    for exponent in range(2**f.exponent_bit_width):
        for mantissa in range(2**f.mantissa_bit_width):
            fraction = mantissa / 2**f.mantissa_bit_width
            value = (
                (1 + fraction) * 2.0 ** (exponent - f.exponent_bias)
                if exponent
                else fraction * 2.0 ** (1 - f.exponent_bias)
            )
            out.append(value)
    return torch.tensor([v for v in out if v <= f.largest], dtype=torch.float64)


@pytest.mark.parametrize("name", FORMATS)
def test_rounds_to_the_nearest_number_ties_to_even(name):
    f = FORMATS[name]
    numbers = _numbers(f)
    assert f.largest == float(numbers.max())
    assert torch.equal(f.round(numbers.float()), numbers.float())
    assert torch.equal(f.round(-numbers.float()), -numbers.float())
    middle = ((numbers[1:] + numbers[:-1]) / 2).float()
    up, down = (torch.nextafter(middle, torch.tensor(float(s) * 1e30)) for s in (1, -1))
    assert torch.equal(f.round(up), numbers[1:].float())
    assert torch.equal(f.round(down), numbers[:-1].float())
    even = torch.where(torch.arange(len(middle)) % 2 == 0, numbers[:-1], numbers[1:]).float()
    assert torch.equal(f.round(middle), even)
    beyond = torch.tensor([f.largest * 1.5, 1e38, float("inf")])
    assert torch.equal(f.round(beyond), torch.full((3,), f.largest))
    assert torch.equal(f.round(-beyond), torch.full((3,), -f.largest))


@pytest.mark.parametrize(("f", "dtype"), [(OCP_E4M3, torch.float8_e4m3fn), (OCP_E5M2, torch.float8_e5m2)])
def test_equals_torch_float8(f, dtype):
    x = torch.cat([torch.randn(20000) * 10.0**e for e in range(-7, 6)])
    x = x.clamp(-f.largest, f.largest)
    assert torch.equal(f.round(x), x.to(dtype).float())


def test_overflow_without_saturation():
    f = FloatFormat(5, 2, 15, saturating=False, inf_values=("00",), nan_values=("01", "10", "11"))
    assert f.round(torch.tensor([1e6, -1e6, 57344.0])).tolist() == [float("inf"), float("-inf"), 57344.0]
    nan = FloatFormat(4, 3, 7, saturating=False, nan_values=("111",)).round(torch.tensor([1e6, 448.0]))
    assert nan[0].isnan()
    assert nan[1] == 448.0


@pytest.mark.parametrize("mixin", ["Fp8e4m3", "Fp8e5m2", "Fp6e3m2", "Fp6e2m3", "Fp4e2m1"])
def test_scaled_weights_use_the_whole_format(mixin):
    fragment = getattr(float_base, mixin + "Mixin")

    class PerChannel(fragment, float_base.ScaledFloatWeightBase):
        scaling_per_output_type = ScalingPerOutputType.CHANNEL

    layer = qnn.QuantConv2d(3, 5, 3, weight_quant=PerChannel)
    weight = layer.quant_weight()
    assert isinstance(weight, FloatQuantTensor)
    assert weight.is_valid
    assert weight.scale.shape == (5, 1, 1, 1)
    largest = weight.minifloat().abs().flatten(1).max(1).values
    assert torch.equal(largest, torch.full((5,), weight.format.largest))
    assert float(weight.bit_width) == fragment.attributes()["bit_width"]


NAMES = sorted(name for name in quant.__all__ if name.startswith("Fp8"))


@pytest.mark.parametrize("name", NAMES)
def test_equals_brevitas(name):
    brevitas_nn, brevitas_quant = pytest.importorskip("brevitas.nn"), pytest.importorskip("brevitas.quant")
    if not hasattr(brevitas_quant, name):
        pytest.skip("no such name in Brevitas")
    found = []
    for library, quantizers in ((brevitas_nn, brevitas_quant), (qnn, quant)):
        torch.manual_seed(0)
        quantizer = getattr(quantizers, name)
        if "Weight" in name:
            layer = library.QuantLinear(32, 16, weight_quant=quantizer, bias=False)
            found.append(layer.quant_weight().value.detach())
        else:
            options = {"per_channel_broadcastable_shape": (1, 3, 1, 1)} if "2d" in name else {}
            act = library.QuantIdentity(act_quant=quantizer, **options)
            x = torch.randn(5, 3, 8, 8) * 3
            act(x)
            found.append(act.eval()(x * 2).detach())
    if "PerChannelFloatMSE" in name:  # the search sums squares in another order, so that the scale may round otherwise
        torch.testing.assert_close(*found, rtol=1e-6, atol=0)
    else:
        assert torch.equal(*found)


def test_gradient_is_straight_through_within_the_range():
    act = qnn.QuantIdentity(act_quant=quant.Fp8e4m3Act)
    x = torch.tensor([0.3, -7.0, 479.0, 500.0, -1e4], requires_grad=True)
    act(x).sum().backward()
    assert x.grad.tolist() == [1, 1, 1, 0, 0]


def test_layers_train_copy_pickle_and_return_plain_or_quant_tensors():
    model = nn.Sequential(
        qnn.QuantIdentity(act_quant=quant.Fp8e4m3ActPerTensorFloat, return_quant_tensor=True),
        qnn.QuantLinear(8, 4, weight_quant=quant.Fp8e5m2WeightPerTensorFloat),
    )
    x = torch.randn(16, 8)
    assert isinstance(model[0](x), FloatQuantTensor)
    out = model(x)
    assert type(out) is torch.Tensor
    out.pow(2).mean().backward()
    assert all(p.grad is not None for p in model.parameters())
    expected = model.eval()(x)
    for clone in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(clone(x), expected)


def test_experimental_names_are_the_same_classes():
    assert experimental.__doc__
    assert experimental_float.Fp8e4m3Weight is quant.Fp8e4m3Weight


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: qnn.QuantLinear(2, 2, weight_quant=quant.Fp8e4m3Weight, weight_bit_width=6), "bit_width=6.*mantissa"),
        (lambda: qnn.QuantLinear(2, 2, weight_quant=quant.FpOCPWeight), "no attribute"),
        (lambda: qnn.QuantIdentity(act_quant=quant.Fp8e4m3Act, saturating=False), "saturating=False needs nan_values"),
        (lambda: qnn.QuantIdentity(act_quant=quant.Fp8e4m3Act, mantissa_bitwidth=2), "did you mean"),
        (lambda: qnn.QuantIdentity(act_quant=quant.Fp8e4m3Act, exponent_bit_width=0), "exponent_bit_width=0"),
        (lambda: FloatFormat(4, 3, 7, nan_values=("2",)), "binary digits"),
        (lambda: FloatFormat(4, 3, 7, inf_values=("111",)), "inf_values needs nan_values"),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(HeadraceError, match=message):
        build()
