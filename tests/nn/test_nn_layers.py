"""Layers beyond the linear and convolutional ones, and quant tensors through functions."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import headrace.nn as qnn
from headrace import config, quant
from headrace.nn import exact
from headrace.quant_tensor import IntQuantTensor, unpack_quant_tensor


def _integers(x):
    return torch.round(x.value.detach().double() / x.scale.detach().double()).long()


TRANSPOSED = [
    (qnn.QuantConvTranspose1d, (3, 5, 4), {"stride": 2, "padding": 1, "output_padding": 1}, (2, 3, 7)),
    (qnn.QuantConvTranspose2d, (4, 6, 3), {"stride": 2, "groups": 2, "dilation": 2}, (2, 4, 5, 4)),
    (qnn.QuantConvTranspose2d, (2, 3, (3, 2)), {"padding": (2, 0), "bias": False}, (1, 2, 5, 4)),
    (qnn.QuantConvTranspose3d, (2, 3, 2), {"stride": 2}, (1, 2, 3, 4, 2)),
]


@pytest.mark.parametrize("bits", [4, 12])
@pytest.mark.parametrize(("layer_class", "sizes", "options", "shape"), TRANSPOSED)
def test_transposed_convolutions_equal_int64(layer_class, sizes, options, shape, bits):
    identity = qnn.QuantIdentity(bit_width=bits, return_quant_tensor=True)
    per_channel = "groups" not in options
    layer = layer_class(*sizes, weight_bit_width=bits, weight_scaling_per_output_channel=per_channel, **options)
    identity(torch.randn(*shape))
    identity.eval(), layer.eval()
    with torch.no_grad():
        x, w = identity(torch.randn(*shape) * 2), layer.quant_weight()
        y = layer(x)
    geometry = layer.geometry
    acc = geometry._by_patches(_integers(x), _integers(w))
    assert torch.equal(acc.double(), geometry(_integers(x).double(), _integers(w).double(), None))
    shape = geometry.channel_shape(y)
    expected = acc.float() * (x.scale.double() * w.scale.double().view(-1)).float().view(shape)
    if layer.bias is not None:
        expected = expected + layer.bias.detach().view(shape)
    assert layer.last_was_exact
    assert torch.equal(y, expected)


def test_transposed_convolution_to_a_given_size():
    layer = qnn.QuantConvTranspose2d(2, 3, 3, stride=2)
    x = torch.randn(1, 2, 4, 4)
    assert layer(x, output_size=[10, 10]).shape == (1, 3, 10, 10)
    assert layer(x).shape == (1, 3, 9, 9)


def test_transposed_accumulator_is_wide_enough():
    layer = qnn.QuantConvTranspose1d(64, 2, 3, bias=False, return_quant_tensor=True)
    layer.weight.data.fill_(1.0)
    x = qnn.QuantIdentity(return_quant_tensor=True)(torch.full((1, 64, 8), -1.0))
    y = layer(x)
    assert y.is_valid
    assert float(y.bit_width) == 24  # ceil(log2(64 * 3 * 255 * 255))


def test_transposed_convolution_with_groups_takes_one_scale():
    with pytest.raises(ValueError, match="weight_scaling_per_output_channel=False"):
        qnn.QuantConvTranspose2d(4, 4, 3, groups=2, weight_scaling_per_output_channel=True)


def test_average_pool_keeps_the_most_significant_bits():
    identity = qnn.QuantIdentity(act_quant=quant.Uint8ActPerTensorFloat, bit_width=4, return_quant_tensor=True)
    identity(torch.rand(2, 3, 8, 8))
    x = identity.eval()(torch.rand(2, 3, 8, 8))
    total = F.avg_pool2d(_integers(x).double(), 4, divisor_override=1)
    for trunc, rounding in ((quant.TruncTo8bit, torch.floor), (quant.RoundTo8bit, torch.round)):
        pooled = qnn.TruncAvgPool2d(4, trunc_quant=trunc, bit_width=4).eval()(x)
        # 16 * 15 needs 8 bits; 4 are kept
        assert float(pooled.bit_width) == 4
        assert torch.equal(_integers(pooled), rounding(total / 16).clamp(0, 15).long())
        adaptive = qnn.TruncAdaptiveAvgPool2d(2, trunc_quant=trunc, bit_width=4).eval()(x)
        assert torch.equal(adaptive.value, pooled.value)
    assert type(qnn.TruncAvgPool2d(4, trunc_quant=None, return_quant_tensor=False)(x)) is torch.Tensor


def test_adaptive_pool_with_unequal_windows_is_plain():
    x = qnn.QuantIdentity(return_quant_tensor=True)(torch.randn(1, 1, 5, 5))
    assert not isinstance(F.adaptive_avg_pool2d(x, 2), IntQuantTensor)


def test_max_pool_and_upsample():
    x = qnn.QuantIdentity(return_quant_tensor=True)(torch.randn(1, 2, 4, 4))
    assert torch.equal(qnn.QuantMaxPool2d(2)(x).value, F.max_pool2d(x.value, 2))
    assert qnn.QuantMaxPool1d(2)(x[0]).is_valid
    assert torch.equal(qnn.QuantUpsample(scale_factor=2)(x).value, F.interpolate(x.value, scale_factor=2))
    smooth = qnn.QuantUpsamplingBilinear2d(scale_factor=2)(x)
    assert smooth.is_valid
    assert (
        smooth.value - F.interpolate(x.value, scale_factor=2, mode="bilinear", align_corners=True)
    ).abs().max() <= x.scale / 2 + 1e-6
    with pytest.raises(RuntimeError, match="needs a quant tensor"):
        qnn.QuantUpsamplingBilinear2d(scale_factor=2)(torch.randn(1, 2, 4, 4))


def test_add_and_cat_are_on_one_grid():
    for layer, join in ((qnn.QuantEltwiseAdd, lambda m, a, b: m(a, b)), (qnn.QuantCat, lambda m, a, b: m([a, b]))):
        module = layer(return_quant_tensor=True, input_bit_width=4, output_bit_width=6)
        for _ in range(3):
            join(module, torch.randn(4, 6), torch.randn(4, 6))
        out = join(module.eval(), torch.randn(4, 6), torch.randn(4, 6))
        assert out.is_valid
        assert float(out.bit_width) == 6
        tied = layer(output_quant=None, tie_input_output_quant=True)
        assert tied.output_quant is tied.input_quant
        with pytest.raises(TypeError, match="takes one quantizer"):
            layer(tie_input_output_quant=True)


def test_embedding():
    layer = qnn.QuantEmbedding(10, 4, weight_bit_width=3, return_quant_tensor=True)
    out = layer(torch.tensor([1, 2, 9]))
    assert out.is_valid
    assert torch.equal(out.value, layer.quant_weight().value[[1, 2, 9]])
    assert layer.eval()(torch.tensor([3])).value.shape == (1, 4)


def test_scale_bias_takes_the_place_of_a_batch_norm():
    norm = nn.BatchNorm2d(3)
    for _ in range(3):
        norm(torch.randn(8, 3, 4, 4) * 2 + 1)
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2)
        norm.bias.uniform_(-1, 1)
    layer = qnn.BatchNorm2dToQuantScaleBias(3, weight_bit_width=16)
    layer.load_state_dict(norm.state_dict())
    x = torch.randn(2, 3, 4, 4)
    assert torch.allclose(layer(x), norm.eval()(x), atol=1e-3)


def test_scale_bias_is_exact():
    identity = qnn.QuantIdentity(bit_width=4, return_quant_tensor=True)
    layer = qnn.QuantScaleBias(3, True, weight_scaling_per_output_channel=False, weight_bit_width=4)
    layer.weight.data.uniform_(0.5, 2)
    identity(torch.randn(2, 3, 4, 4))
    with torch.no_grad():
        x = identity.eval()(torch.randn(2, 3, 4, 4))
        y = layer.eval()(x)
        w = layer.quant_weight()
    scale = (x.scale.double() * w.scale.double()).float()
    expected = (_integers(x) * _integers(w).view(1, 3, 1, 1)).float() * scale + layer.bias.detach().view(1, 3, 1, 1)
    assert torch.equal(y, expected)


# Quant tensors


def _quant_tensor(*shape, bit_width=8, seed=0, training=False):
    generator = torch.Generator().manual_seed(seed)
    identity = qnn.QuantIdentity(bit_width=bit_width, return_quant_tensor=True)
    x = identity(torch.randn(*shape, generator=generator))
    return x.set(value=x.value.detach(), scale=torch.tensor(0.5), training=training).set(
        value=torch.round(x.value.detach() / x.scale.detach()) * 0.5
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.flatten(1),
        lambda x: x.reshape(-1),
        lambda x: x.view(2, -1),
        lambda x: x.transpose(0, 1),
        lambda x: x.permute(1, 0, 2),
        lambda x: x[:, 1:],
        lambda x: x[0],
        lambda x: x.unsqueeze(0),
        lambda x: torch.flatten(x, 1),
        lambda x: torch.cat([x, x], 1),
        lambda x: torch.chunk(x, 3, 1)[1],
        lambda x: torch.flip(x, (0,)),
        lambda x: F.relu(x),
        lambda x: F.max_pool1d(x, 2),
        lambda x: F.pad(x, (1, 1)),
        lambda x: F.dropout(x, 0.5, training=False),
        lambda x: F.interpolate(x, scale_factor=2),
        lambda x: nn.ReLU()(nn.MaxPool1d(2)(x)),
        lambda x: -x,
        lambda x: abs(x),
        lambda x: x + x,
        lambda x: x - x,
        lambda x: x * x,
        lambda x: x @ x.transpose(1, 2),
        lambda x: torch.add(x, x),
        lambda x: x + 1.0,
    ],
)
def test_functions_that_keep_the_grid(function):
    x = _quant_tensor(2, 3, 4)
    y = function(x)
    assert isinstance(y, IntQuantTensor)
    assert y.is_valid
    plain = function(x.value)
    assert torch.equal(y.value, plain)


@pytest.mark.parametrize(
    "function",
    [
        torch.tanh,
        torch.sigmoid,
        F.relu6,
        lambda x: F.pad(x, (1, 1), value=0.3),
        lambda x: F.dropout(x, 0.5, training=True),
        lambda x: x * 0.3,
        lambda x: x / 2,
        lambda x: 1 / (x + 100.0),
        lambda x: x.mean(),
        lambda x: F.interpolate(x, scale_factor=2, mode="linear"),
        lambda x: F.softmax(x, 1),
        lambda x: torch.cat([x, unpack_quant_tensor(x)]),
    ],
)
def test_functions_that_leave_the_grid(function):
    x = _quant_tensor(2, 3, 4)
    torch.manual_seed(1)
    y = function(x)
    assert type(y) is torch.Tensor
    torch.manual_seed(1)
    assert torch.equal(y, function(x.value))


@pytest.mark.parametrize(("signed", "bits", "result"), [(False, 1, 2), (True, 8, 9), (False, 8, 9), (True, 2, 3)])
def test_bits_of_a_sum(signed, bits, result):
    x = IntQuantTensor(torch.ones(2), 1.0, 0.0, float(bits), signed, False)
    assert float((x + x).bit_width) == result


def test_different_grids_in_evaluation():
    a, b = _quant_tensor(3), _quant_tensor(3)
    other = b.set(scale=b.scale * 2)
    for operation in (lambda: a + other, lambda: torch.cat([a, other]), lambda: torch.add(a, other)):
        with pytest.raises(RuntimeError, match=r"Scaling factors are different: \[0.5\] and \[1.0\]"):
            operation()
    with pytest.raises(RuntimeError, match="Bit widths are different"):
        torch.cat([a, b.set(bit_width=torch.tensor(4.0))])
    with pytest.raises(RuntimeError, match="Signs are different"):
        torch.cat([a, b.set(signed=False)])
    mixed = a.set(training=True) + other.set(training=True)
    assert float(mixed.scale) == 0.75


def test_int_of_values_off_the_grid():
    with pytest.raises(RuntimeError, match="QuantTensor not valid"):
        IntQuantTensor(torch.tensor([0.4]), 1.0, 0.0, 8.0, True, False).int()
    with pytest.raises(RuntimeError, match="QuantTensor not valid"):
        IntQuantTensor(torch.tensor([300.0]), 1.0, 0.0, 8.0, True, False).int()


@pytest.mark.parametrize(
    ("signed", "bits", "dtype"), [(True, 8, torch.int8), (False, 8, torch.uint8), (True, 9, torch.int32)]
)
def test_int_takes_the_smallest_type(signed, bits, dtype):
    x = IntQuantTensor(torch.tensor([1.0, 0.0]), 0.5, 0.0, float(bits), signed, False)
    assert x.int().dtype == dtype
    assert x.int().tolist() == [2, 0]


# Modules as torch has them


def _model():
    return nn.Sequential(
        qnn.QuantIdentity(return_quant_tensor=True),
        qnn.QuantLinear(4, 8, weight_bit_width=3, bias_quant=quant.Int16Bias),
        qnn.QuantReLU(bit_width=4),
        qnn.QuantLinear(8, 2, weight_scaling_impl_type="PARAMETER_FROM_STATS", weight_restrict_scaling_type="LOG_FP"),
    )


def test_pickle_and_deepcopy():
    model = _model()
    x = torch.randn(5, 4)
    model(x)
    model.eval()
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert torch.equal(other(x), model(x))
        assert other[1].weight_quant.tracked_module_list == [other[1]]
        other[1].weight_quant.init_tensor_quant()
        assert torch.equal(other(x), model(x))
    y = pickle.loads(pickle.dumps(_quant_tensor(3)))
    assert torch.equal(y.value, _quant_tensor(3).value)
    assert torch.equal(copy.deepcopy(y).value, y.value)


def test_state_dict_round_trip():
    model, other = _model(), _model()
    for _ in range(3):
        model(torch.randn(5, 4))
    other.load_state_dict(model.state_dict())
    x = torch.randn(5, 4)
    assert torch.equal(model.eval()(x), other.eval()(x))
    assert other[0].act_quant.fused_activation_quant_proxy.tensor_quant.scaling_impl.is_collecting is False


def test_float_state_dict(monkeypatch):
    model = _model()
    float_model = nn.Sequential(nn.Identity(), nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    with pytest.raises(RuntimeError, match="Missing key"):
        model.load_state_dict(float_model.state_dict())
    monkeypatch.setattr(config, "IGNORE_MISSING_KEYS", True)
    model.load_state_dict(float_model.state_dict())
    assert torch.equal(model[1].weight, float_model[1].weight)


def test_shared_weight_quantizer():
    first = qnn.QuantLinear(4, 3, bias=False)
    second = qnn.QuantLinear(4, 3, bias=False, weight_quant=first.weight_quant)
    second.weight.data.mul_(10)
    expected = torch.maximum(first.weight.abs().max(), second.weight.abs().max()) / 127
    assert torch.equal(first.quant_weight().scale, expected)
    assert torch.equal(second.quant_weight().scale, expected)


def test_bfloat16_autocast():
    model = _model()
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(torch.randn(5, 4)).float().pow(2).mean()
    loss.backward()
    assert all(p.grad is not None for p in (model[1].weight, model[3].weight))


def test_data_parallel_layers_keep_the_gradient_of_unused_scales():
    """The scale that still follows statistics gets a zero gradient, so that no process waits for it."""
    model = _model()
    model(torch.randn(5, 4)).sum().backward()
    assert all(p.grad is not None for name, p in model.named_parameters() if "scaling_impl" in name)


def test_plain_tensors_in_inference_mode_are_not_trusted():
    identity, layer = qnn.QuantIdentity(), qnn.QuantLinear(4, 3)
    identity(torch.randn(5, 4))
    identity.eval(), layer.eval()
    with torch.inference_mode():
        x = identity(torch.randn(5, 4))
        assert exact.quantized(x) is None
        layer(x)


def _train_in_process(rank, path, results):
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(
        qnn.QuantIdentity(return_quant_tensor=True, collect_stats_steps=3),
        qnn.QuantLinear(4, 8, weight_bit_width=3, weight_scaling_impl_type="PARAMETER_FROM_STATS"),
        qnn.QuantReLU(bit_width=4, collect_stats_steps=3),
        qnn.QuantLinear(8, 2),
    )
    parallel = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), 0.1)
    torch.manual_seed(rank + 1)
    for _ in range(6):
        optimizer.zero_grad()
        parallel(torch.randn(5, 4) * (rank + 1)).pow(2).sum().backward()
        optimizer.step()
    torch.save(model.state_dict(), f"{results}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_distributed_processes_stay_equal(tmp_path):
    torch.multiprocessing.spawn(_train_in_process, (str(tmp_path / "store"), str(tmp_path)), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    assert any("scaling_impl" in name for name in first)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_compiled_model_is_the_same():
    model = _model()
    model(torch.randn(5, 4))
    compiled = torch.compile(copy.deepcopy(model), backend="eager")
    x = torch.randn(5, 4)
    assert torch.equal(compiled(x), model(x))
    model.eval(), compiled.eval()
    assert torch.equal(compiled(x), model(x))
