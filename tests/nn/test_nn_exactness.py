"""Rules E1 and E2: evaluation equals int64 arithmetic bit for bit."""

import importlib.util
import pathlib

import numpy as np
import pytest
import torch
from torch import nn

import headrace.nn as qnn
from headrace import quant
from headrace.inject.enum import FloatToIntImplType, RestrictValueType
from headrace.numerics.common_grid import WIDEST_MULTIPLE, common_grid

_spec = importlib.util.spec_from_file_location("nn_reference", pathlib.Path(__file__).with_name("reference.py"))
ref = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(ref)


def _ints(quant_tensor):
    """``integer - zero_point`` in int64."""
    value, scale = quant_tensor.value.detach().double(), quant_tensor.scale.detach().double()
    return torch.round(value / scale).long().numpy()


def _extremes(shape):
    """Random data with zeros, ties of many scales, and values far outside of every range."""
    x = torch.randn(*shape) * 3
    flat = x.view(-1)
    flat[0::17] = 0.0
    flat[1::19] = 1e6
    flat[2::23] = -1e6
    flat[3::29] = torch.round(flat[3::29]) + 0.5
    return x


WEIGHTS = {
    "int": {"weight_quant": quant.Int8WeightPerTensorFloat},
    "channel": {"weight_quant": quant.Int8WeightPerChannelFloat},
    "fixed": {"weight_quant": quant.Int8WeightPerTensorFixedPoint},
    "fixed_channel": {"weight_quant": quant.Int8WeightPerChannelFixedPoint},
    "shifted": {"weight_quant": quant.ShiftedUint8WeightPerChannelFloat},
    "learned": {"weight_quant": quant.Int8WeightPerTensorFloat, "weight_scaling_impl_type": "PARAMETER_FROM_STATS"},
    "floor": {"weight_float_to_int_impl_type": FloatToIntImplType.FLOOR},
}


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("weight_bits", [2, 3, 5, 8])
@pytest.mark.parametrize("act_bits", [1, 2, 4, 8, 16])
def test_linear_equals_int64(kind, weight_bits, act_bits):
    signed = act_bits > 1 and act_bits % 4 == 0
    act = quant.Int8ActPerTensorFloat if signed else quant.Uint8ActPerTensorFloat
    identity = qnn.QuantIdentity(act_quant=act, bit_width=act_bits, return_quant_tensor=True)
    layer = qnn.QuantLinear(40, 24, bias=True, weight_bit_width=weight_bits, **WEIGHTS[kind])
    layer(identity(torch.randn(8, 40)))
    identity.eval(), layer.eval()
    x = _extremes((64, 40))
    with torch.no_grad():
        qx = identity(x)
        y = layer(qx).numpy()
        qw = layer.quant_weight()
    n_x = ref.quantize(x.numpy(), qx.scale.numpy(), 0, *_limits(act_bits, signed))
    assert np.array_equal(_ints(qx), n_x)
    expected = ref.linear(n_x, _ints(qw), qx.scale.numpy(), qw.scale.reshape(-1).numpy(), layer.bias.detach().numpy())
    assert layer.last_was_exact
    assert np.array_equal(y, expected)


def _limits(bits, signed):
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)


@pytest.mark.parametrize("weight", [quant.SignedBinaryWeightPerTensorConst, quant.SignedTernaryWeightPerTensorConst])
@pytest.mark.parametrize("act", [quant.SignedBinaryActPerTensorConst, quant.SignedTernaryActPerTensorConst])
def test_binary_and_ternary_equal_int64(weight, act):
    identity = qnn.QuantIdentity(act_quant=act, return_quant_tensor=True).eval()
    layer = qnn.QuantLinear(33, 9, bias=False, weight_quant=weight).eval()
    x = _extremes((50, 33))
    with torch.no_grad():
        qx, qw = identity(x), layer.quant_weight()
        y = layer(qx).numpy()
    if act is quant.SignedBinaryActPerTensorConst:
        n_x = np.where(x.numpy() >= 0, 1, -1)
    else:
        n_x = ref.quantize(x.numpy(), 1.0, 0, -1, 1)
    assert np.array_equal(_ints(qx), n_x)
    assert set(np.unique(_ints(qw))) <= {-1, 0, 1}
    assert np.array_equal(y, ref.linear(n_x, _ints(qw), qx.scale.numpy(), qw.scale.detach().numpy()))


def test_zero_point_of_the_input():
    identity = qnn.QuantIdentity(act_quant=quant.ShiftedUint8ActPerTensorFloat, return_quant_tensor=True)
    layer = qnn.QuantLinear(40, 24, weight_bit_width=4)
    for _ in range(3):
        layer(identity(torch.randn(16, 40) + 0.7))
    identity.eval(), layer.eval()
    x = _extremes((64, 40))
    with torch.no_grad():
        qx, qw = identity(x), layer.quant_weight()
        y = layer(qx).numpy()
    zero_point = float(qx.zero_point)
    assert zero_point != 0
    assert zero_point == round(zero_point)
    n_x = ref.quantize(x.numpy(), qx.scale.numpy(), zero_point, 0, 255) - int(zero_point)
    assert np.array_equal(_ints(qx), n_x)
    assert np.array_equal(
        y, ref.linear(n_x, _ints(qw), qx.scale.numpy(), qw.scale.numpy(), layer.bias.detach().numpy())
    )


@pytest.mark.parametrize("features", [16, 300, 5000])
def test_every_accumulator_width(features):
    """The bound crosses 2**24: float32 no longer holds the sums, the layer has to go on exactly."""
    identity = qnn.QuantIdentity(bit_width=16, return_quant_tensor=True)
    layer = qnn.QuantLinear(features, 4, bias=False, weight_bit_width=12)
    identity(torch.randn(4, features))
    identity.eval(), layer.eval()
    x = torch.full((3, features), 1e6)
    x[1] = -x[1]
    x[2] = torch.randn(features)
    with torch.no_grad():
        qx, qw = identity(x), layer.quant_weight()
        y = layer(qx).numpy()
    expected = ref.linear(_ints(qx), _ints(qw), qx.scale.numpy(), qw.scale.numpy())
    assert np.array_equal(y, expected)


def test_int64_accumulator():
    identity = qnn.QuantIdentity(bit_width=22, return_quant_tensor=True)
    layer = qnn.QuantLinear(4096, 2, bias=False, weight_bit_width=22)
    identity(torch.randn(4, 4096))
    identity.eval(), layer.eval()
    layer.weight.data.uniform_(0.5, 1.0)
    with torch.no_grad():
        qx, qw = identity(torch.full((1, 4096), 9.0)), layer.quant_weight()
        y = layer(qx).numpy()
    acc = _ints(qx) @ _ints(qw).T
    assert abs(acc).max() > 2**53
    assert np.array_equal(y, ref.linear(_ints(qx), _ints(qw), qx.scale.numpy(), qw.scale.detach().numpy()))


CONVOLUTIONS = [
    (qnn.QuantConv1d, (3, 8, 3), {"padding": 1}, (4, 3, 11)),
    (qnn.QuantConv2d, (3, 8, 3), {"padding": 1, "stride": 2}, (2, 3, 9, 7)),
    (qnn.QuantConv2d, (4, 8, (3, 1)), {"groups": 2, "dilation": 2, "padding": "same"}, (2, 4, 9, 8)),
    (qnn.QuantConv2d, (4, 4, 3), {"groups": 4, "padding": 1, "padding_mode": "reflect"}, (2, 4, 9, 8)),
    (qnn.QuantConv3d, (2, 4, 2), {}, (1, 2, 4, 5, 3)),
]


@pytest.mark.parametrize("bits", [4, 12])
@pytest.mark.parametrize(("layer_class", "sizes", "options", "shape"), CONVOLUTIONS)
def test_convolutions_equal_int64(layer_class, sizes, options, shape, bits):
    identity = qnn.QuantIdentity(bit_width=bits, return_quant_tensor=True)
    layer = layer_class(*sizes, weight_bit_width=bits, weight_scaling_per_output_channel=True, **options)
    identity(torch.randn(*shape))
    identity.eval(), layer.eval()
    with torch.no_grad():
        qx, qw = identity(_extremes(shape)), layer.quant_weight()
        y = layer(qx)
    geometry = layer.geometry
    acc = geometry._by_patches(torch.tensor(_ints(qx)), torch.tensor(_ints(qw))).numpy()
    float64 = geometry(torch.tensor(_ints(qx)).double(), torch.tensor(_ints(qw)).double(), None).numpy()
    assert np.array_equal(acc, np.rint(float64).astype(np.int64))  # the patches are those of torch
    scale = (qx.scale.double() * qw.scale.double().view(-1)).float().view(geometry.channel_shape(y)).numpy()
    expected = acc.astype(np.float32) * scale + layer.bias.detach().view(geometry.channel_shape(y)).numpy()
    assert layer.last_was_exact
    assert np.array_equal(y.numpy(), expected)


def test_depthwise_with_a_scale_per_channel():
    conv = qnn.QuantConv1d(
        2,
        2,
        3,
        groups=2,
        input_quant=quant.Int8ActPerTensorFloat,
        input_bit_width=3,
        input_scaling_per_output_channel=True,
        input_scaling_stats_permute_dims=(1, 0, 2),
        input_per_channel_broadcastable_shape=(1, 2, 1),
    )
    conv(torch.randn(4, 2, 7) * torch.tensor([1.0, 5.0]).view(1, 2, 1))
    conv.eval()
    with torch.no_grad():
        qx = conv.input_quant(_extremes((3, 2, 7)))
        y = conv(qx.value)
        qw = conv.quant_weight()
    assert conv.last_was_exact
    acc = conv.geometry._by_patches(torch.tensor(_ints(qx)), torch.tensor(_ints(qw)))
    scale = (qx.scale.double().view(-1) * qw.scale.double()).float().view(1, 2, 1)
    assert torch.equal(y, acc.float() * scale + conv.bias.detach().view(1, 2, 1))


@pytest.mark.parametrize("spread", [2.0, 60.0])
def test_a_scale_per_channel_into_a_dense_layer_is_exact(spread):
    """Scales of similar size share a grid; otherwise the values are summed."""
    conv = qnn.QuantConv1d(
        2,
        2,
        3,
        input_quant=quant.Int8ActPerTensorFloat,
        input_scaling_per_output_channel=True,
        input_scaling_stats_permute_dims=(1, 0, 2),
        input_per_channel_broadcastable_shape=(1, 2, 1),
    )
    conv(torch.randn(4, 2, 7) * torch.tensor([1.0, spread]).view(1, 2, 1))
    x = torch.randn(64, 2, 7)
    with torch.no_grad():
        y = conv.eval()(x)
        weight, values = conv.quant_weight(), conv.input_quant(x)
        assert values.scale.numel() == 2
        n = torch.round(weight.value.double() / weight.scale.double())
        grid = common_grid(values.scale.double().numpy().ravel(), WIDEST_MULTIPLE)
        assert (grid is None) == (spread > 2)
        terms, scale = values.value.double(), weight.scale.double()
        if grid is not None:
            terms = torch.round(terms / values.scale) * torch.from_numpy(grid[1]).view(1, 2, 1)
            scale = scale * grid[0]
        sums = torch.nn.functional.conv1d(terms, n).float()
        expected = sums * scale.float() + conv.bias.view(1, -1, 1)
    assert conv.last_was_exact
    assert torch.equal(y, expected)


def test_plain_tensor_straight_from_a_quantizer_is_exact():
    identity, layer = qnn.QuantIdentity(bit_width=4), qnn.QuantLinear(10, 3)
    identity(torch.randn(5, 10))
    identity.eval(), layer.eval()
    with torch.no_grad():
        x = identity(torch.randn(5, 10))
        assert type(x) is torch.Tensor
        layer(x)
        assert layer.last_was_exact
        x.mul_(1.5)  # no longer on the grid
        layer(x)
        assert not layer.last_was_exact


def test_evaluation_does_not_depend_on_gradients_being_recorded():
    identity, layer = qnn.QuantIdentity(return_quant_tensor=True), qnn.QuantLinear(100, 50)
    identity(torch.randn(5, 100))
    identity.eval(), layer.eval()
    x = torch.randn(64, 100)
    with torch.no_grad():
        expected = layer(identity(x))
    y = layer(identity(x))
    assert torch.equal(y, expected)
    y.sum().backward()
    assert layer.weight.grad is not None


def test_batch_size_and_threads_do_not_matter():
    model = nn.Sequential(
        qnn.QuantIdentity(return_quant_tensor=True),
        qnn.QuantLinear(100, 200),
        nn.BatchNorm1d(200),
        qnn.QuantReLU(bit_width=4, return_quant_tensor=True),
        qnn.QuantLinear(200, 50, weight_scaling_per_output_channel=True),
    )
    for _ in range(3):
        model(torch.randn(32, 100))
    final = qnn.finalize(model)
    x = torch.randn(256, 100)
    whole = final(x)
    rows = torch.cat([final(x[i : i + 1]) for i in range(256)])
    assert torch.equal(whole, rows)
    torch.set_num_threads(2)
    assert torch.equal(final(x), whole)


def test_cached_weight_follows_every_change():
    identity, layer = qnn.QuantIdentity(), qnn.QuantLinear(10, 3, bias=False)
    identity(torch.randn(5, 10))
    identity.eval(), layer.eval()
    x = torch.randn(5, 10)
    with torch.no_grad():
        before = layer(identity(x))
        layer.weight.data.mul_(3.0)  # the version counter does not see this
        assert torch.allclose(layer(identity(x)), 3 * before)
        layer.weight.mul_(2.0)
        assert torch.allclose(layer(identity(x)), 6 * before)
        layer.load_state_dict({"weight": layer.weight / 6})
        assert torch.allclose(layer(identity(x)), before)
        layer.weight = nn.Parameter(-layer.weight)
        assert torch.allclose(layer(identity(x)), -before)


def test_power_of_two_scales_are_powers_of_two():
    for restrict in (RestrictValueType.POWER_OF_TWO, "power_of_two"):
        layer = qnn.QuantLinear(10, 3, weight_restrict_scaling_type=restrict, weight_scaling_per_output_channel=True)
        exponent = torch.log2(layer.quant_weight().scale)
        assert torch.equal(exponent, exponent.round())
    act = qnn.QuantReLU(act_quant=quant.Uint8ActPerTensorFixedPoint)
    act(torch.rand(50) * 5)
    exponent = torch.log2(act.eval().act_quant.scale())
    assert torch.equal(exponent, exponent.round())


def test_a_sum_with_a_bias_off_the_grid_is_not_taken_for_integers():
    identity = qnn.QuantIdentity(return_quant_tensor=True)
    first = qnn.QuantLinear(10, 6, return_quant_tensor=True)
    second = qnn.QuantLinear(6, 4)
    model = nn.Sequential(identity, first, second)
    model(torch.randn(5, 10))
    model.eval()
    with torch.no_grad():
        y = first(identity(torch.randn(5, 10)))
        out = second(y)
        assert not second.last_was_exact
        assert torch.allclose(out, torch.nn.functional.linear(y.value, second.quant_weight().value, second.bias))


def test_integer_sums_pass_on_exactly_without_requantization():
    identity = qnn.QuantIdentity(bit_width=4, return_quant_tensor=True)
    first = qnn.QuantLinear(10, 6, bias=False, weight_bit_width=3, return_quant_tensor=True)
    second = qnn.QuantLinear(6, 4, bias=False, weight_bit_width=3)
    model = nn.Sequential(identity, first, second)
    model(torch.randn(5, 10))
    model.eval()
    with torch.no_grad():
        x = identity(torch.randn(50, 10))
        y = first(x)
        out = second(y)
    n_y = _ints(x) @ _ints(first.quant_weight()).T
    assert np.array_equal(_ints(y), n_y)
    w = second.quant_weight()
    assert second.last_was_exact
    assert np.array_equal(
        out.numpy(), ref.linear(n_y, _ints(w), y.scale.detach().numpy().item(), w.scale.detach().numpy())
    )
