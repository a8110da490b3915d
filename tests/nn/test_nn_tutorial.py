"""The cells of the two documents that users start from: a tutorial of layers and quantizers, and one of ONNX export.

Values are those that the documents print, four decimals.
"""

import inspect
import math

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper
from torch import nn

from headrace import config
from headrace.core.bit_width import BitWidthConst
from headrace.core.function_wrapper import OverTensorView, RoundSte, TensorClamp
from headrace.core.function_wrapper.misc import Identity
from headrace.core.quant import IntQuant, RescalingIntQuant
from headrace.core.restrict_val import FloatRestrictValue
from headrace.core.scaling import IntScaling, ParameterFromRuntimeStatsScaling, ParameterScaling
from headrace.core.stats import AbsPercentile
from headrace.core.zero_point import ZeroZeroPoint
from headrace.export import export_onnx_qcdq, export_qonnx
from headrace.inject import ExtendedInjector, value
from headrace.inject.enum import (
    BitWidthImplType,
    FloatToIntImplType,
    QuantType,
    RestrictValueType,
    ScalingImplType,
    StatsOp,
)
from headrace.nn import QuantConv1d, QuantIdentity, QuantLinear, QuantReLU
from headrace.proxy import ActQuantProxyFromInjector, WeightQuantProxyFromInjector
from headrace.quant import (
    Int8ActPerTensorFloat,
    Int8WeightPerChannelFloat,
    Int8WeightPerTensorFixedPoint,
    Int8WeightPerTensorFloat,
    ShiftedUint8DynamicActPerTensorFloat,
    SignedBinaryWeightPerTensorConst,
    Uint8ActPerTensorFloatMaxInit,
)
from headrace.quant.scaled_int import Int16Bias, Int32Bias
from headrace.quant.solver import ActQuantSolver, WeightQuantSolver


def _equals(tensor, printed):
    assert torch.allclose(tensor.detach(), torch.tensor(printed), atol=6e-5), tensor


OUTPUT = [[-0.9109, -0.4609, 0.3135, -0.6523], [1.2089, 0.6524, -0.3752, 0.8697], [1.3893, 0.2816, -0.9011, 0.9521]]
WEIGHT = [[-0.0046, 0.3803], [-0.5820, -0.5224], [-0.2704, 0.1879], [-0.0137, 0.5591]]
INPUT = [[1.5490, -0.2894], [-2.1788, 0.5617], [-1.0894, -1.3958]]


# Layers


def test_signature():
    parameters = inspect.signature(QuantLinear.__init__).parameters
    assert list(parameters)[3:] == [
        "bias", "weight_quant", "bias_quant", "input_quant", "output_quant", "return_quant_tensor", "device", "dtype",
        "kwargs",
    ]  # fmt: skip
    assert parameters["weight_quant"].default is Int8WeightPerTensorFloat


def test_default_weight():
    weight = QuantLinear(2, 4, bias=True).quant_weight()
    _equals(weight.value, WEIGHT)
    assert float(weight.scale.detach()) == pytest.approx(0.004582525696605444, rel=1e-6)
    assert weight.int().tolist() == [[-1, 83], [-127, -114], [-59, 41], [-3, 122]]
    assert weight.int().dtype == torch.int8


def test_float_input():
    x = torch.randn(3, 2)
    y = QuantLinear(2, 4, bias=False)(x)
    assert type(y) is torch.Tensor
    _equals(y[0], [-0.9036, -0.4586, 0.3096, -0.6472])


def test_fixed_point_and_binary_weights():
    fixed = QuantLinear(2, 4, weight_quant=Int8WeightPerTensorFixedPoint, bias=False).quant_weight()
    assert -math.log2(fixed.scale.detach()) == 7.0
    torch.manual_seed(0)
    binary = QuantLinear(2, 4, weight_quant=SignedBinaryWeightPerTensorConst, bias=False).quant_weight()
    _equals(binary.value, [[-0.1, 0.1], [-0.1, -0.1], [-0.1, 0.1], [-0.1, 0.1]])
    assert binary.scale.shape == ()


def test_quantized_input():
    x = torch.randn(3, 2)
    y = QuantLinear(2, 4, input_quant=Int8ActPerTensorFloat, bias=False, return_quant_tensor=True)(x)
    _equals(y.value, OUTPUT)
    assert float(y.bit_width) == 17
    assert y.scale.item() == pytest.approx(9.0542e-05, rel=1e-4)


def test_identity_before_linear():
    x = torch.randn(3, 2)
    identity, linear = QuantIdentity(return_quant_tensor=True), QuantLinear(2, 4, bias=False, return_quant_tensor=True)
    quantized = identity(x)
    _equals(quantized.value, INPUT)
    assert quantized.scale.item() == pytest.approx(0.017021792009472847, rel=1e-6)
    _equals(linear(quantized).value, OUTPUT)


def test_relu_and_requantization():
    x = torch.randn(3, 2)
    y = QuantReLU(return_quant_tensor=True)(x)
    _equals(y.value, [[1.5410, 0.0], [0.0, 0.5681], [0.0, 0.0]])
    assert y.signed is False
    again = QuantReLU(return_quant_tensor=True)(QuantIdentity(return_quant_tensor=True)(x))
    _equals(again.value, [[1.5490, 0.0], [0.0, 0.5588], [0.0, 0.0]])


def test_quantized_bias():
    x = torch.randn(3, 2)
    with pytest.raises(RuntimeError, match="QuantLayer is not correctly configured"):
        QuantLinear(2, 4, bias=True, bias_quant=Int16Bias, return_quant_tensor=True)(x)
    torch.manual_seed(0)
    x = torch.randn(3, 2)
    layer = QuantLinear(2, 4, input_quant=Int8ActPerTensorFloat, bias_quant=Int16Bias, return_quant_tensor=True)
    y = layer(x)
    _equals(y.value[0], [-0.6541, 0.1263, 0.1680, -0.1231])
    assert float(y.bit_width) == 18


# Operations


def test_add_and_cat():
    a, b = torch.randn(3, 2), torch.randn(3, 2)
    identity = QuantIdentity(return_quant_tensor=True)
    assert hasattr(identity(a) + identity(b), "bit_width")
    identity.eval()
    qa, qb = identity(a), identity(b)
    total, joined = qa + qb, torch.cat([qa, qb], dim=1)
    assert total.scale.item() == pytest.approx(0.015974320471286774, rel=1e-6)
    _equals(total.value, [[1.9329, 0.5431], [-2.7636, 0.1757], [-1.6773, -1.2300]])
    assert float(total.bit_width) == 9
    _equals(joined.value[0], [1.5335, -0.2875, 0.3994, 0.8307])
    assert float(joined.bit_width) == 8


def test_torch_functions():
    x = QuantIdentity(return_quant_tensor=True)(torch.randn(3, 2, 4))
    pooled = torch.nn.functional.max_pool1d(x, kernel_size=2, stride=2)
    assert pooled.scale.item() == pytest.approx(0.018094077706336975, rel=1e-6)
    _equals(pooled.value[0], [[-1.1218, -0.2533], [0.8504, -0.3076]])
    decayed = torch.tanh(x)
    assert type(decayed) is torch.Tensor
    _equals(decayed[0, 0], [-0.8082, -0.8204, -0.2480, -0.4089])


# Customizing quantizers


def test_keyword_overrides():
    assert float(QuantLinear(2, 4, weight_bit_width=5).quant_weight().scale.detach()) == pytest.approx(
        0.03879871591925621
    )
    torch.manual_seed(0)
    layer = QuantLinear(2, 4, weight_bit_width=5, weight_scaling_per_output_channel=True, bias=False)
    _equals(layer.quant_weight().scale, [[0.0253], [0.0388], [0.0182], [0.0374]])
    torch.manual_seed(0)
    assert QuantIdentity(bit_width=3, return_quant_tensor=True)(torch.randn(3, 2)).scale.item() == pytest.approx(
        0.5446973443
    )
    torch.manual_seed(0)
    relu = QuantReLU(max_val=6.0, act_quant=Uint8ActPerTensorFloatMaxInit, return_quant_tensor=True)
    _equals(relu(torch.randn(3, 2)).value, [[1.5294, 0.0], [0.0, 0.5647], [0.0, 0.0]])


class PerChannel3bActQuant(Int8ActPerTensorFloat):
    bit_width = 3
    scaling_per_output_channel = True
    scaling_stats_permute_dims = (1, 0, 2)


@pytest.mark.parametrize(
    "options",
    [
        {
            "input_quant": Int8ActPerTensorFloat,
            "input_bit_width": 3,
            "input_scaling_per_output_channel": True,
            "input_scaling_stats_permute_dims": (1, 0, 2),
        },
        {"input_quant": PerChannel3bActQuant},
    ],
)
def test_per_channel_activation(options):
    x = torch.randn(1, 2, 5)
    shape = {"input_per_channel_broadcastable_shape": (1, 2, 1)}
    layer = QuantConv1d(2, 2, 3, groups=2, bias_quant=Int16Bias, return_quant_tensor=True, **options, **shape)
    y = layer(x)
    _equals(y.value, [[[0.8616, -0.7012, 0.4503], [-1.1285, -0.4937, -0.1901]]])
    assert y.zero_point.flatten().round().tolist() == [-254.0, 406.0]
    assert float(y.bit_width) == 17


class Int8WeightFromEnums(WeightQuantSolver):
    quant_type = QuantType.INT
    bit_width_impl_type = BitWidthImplType.CONST
    float_to_int_impl_type = FloatToIntImplType.ROUND
    scaling_impl_type = ScalingImplType.STATS
    scaling_stats_op = StatsOp.MAX
    restrict_scaling_type = RestrictValueType.FP
    scaling_per_output_channel = False
    bit_width = 8
    signed = True
    narrow_range = True
    zero_point_impl = ZeroZeroPoint


class Int8ActFromEnums(ActQuantSolver):
    quant_type = QuantType.INT
    bit_width_impl_type = BitWidthImplType.CONST
    float_to_int_impl_type = FloatToIntImplType.ROUND
    scaling_impl_type = ScalingImplType.PARAMETER_FROM_STATS
    scaling_stats_op = StatsOp.PERCENTILE
    high_percentile_q = 99.999
    collect_stats_steps = 300
    restrict_scaling_type = RestrictValueType.FP
    scaling_per_output_channel = False
    bit_width = 8
    signed = True
    narrow_range = False
    zero_point_impl = ZeroZeroPoint


def test_quantizers_from_enums():
    _equals(QuantLinear(2, 4, weight_quant=Int8WeightFromEnums).quant_weight().value, WEIGHT)
    torch.manual_seed(0)
    _equals(QuantIdentity(act_quant=Int8ActFromEnums)(torch.randn(3, 2)), INPUT)


class LearnedWeight(Int8WeightPerChannelFloat):
    scaling_impl_type = ScalingImplType.PARAMETER_FROM_STATS
    restrict_scaling_type = RestrictValueType.LOG_FP
    bit_width_impl_type = BitWidthImplType.PARAMETER


class LearnedAct(Int8ActFromEnums):
    bit_width_impl_type = BitWidthImplType.PARAMETER
    restrict_scaling_type = RestrictValueType.LOG_FP


def _learned_layer():
    return QuantLinear(2, 4, input_quant=LearnedAct, weight_quant=LearnedWeight, return_quant_tensor=True, bias=False)


def test_learned_scale_and_bit_width():
    weight = QuantLinear(2, 4, weight_quant=LearnedWeight, bias=False).quant_weight()
    _equals(weight.scale, [[0.0030], [0.0046], [0.0021], [0.0044]])
    assert weight.bit_width.grad_fn is not None
    torch.manual_seed(0)
    x = torch.randn(3, 2)
    y = _learned_layer()(x)
    _equals(y.value[0], [-0.9109, -0.4588, 0.3119, -0.6530])
    assert y.scale.shape == (1, 4)
    y.bit_width.backward()


def test_retraining_from_floating_point(monkeypatch):
    float_layer, layer = nn.Linear(2, 4, bias=False), _learned_layer()
    with pytest.raises(RuntimeError, match="Missing key") as error:
        layer.load_state_dict(float_layer.state_dict())
    for part in ("input_quant.fused_activation_quant_proxy", "weight_quant"):
        assert f'"{part}.tensor_quant.scaling_impl.value"' in str(error.value)
        assert f'"{part}.tensor_quant.msb_clamp_bit_width_impl.bit_width_offset"' in str(error.value)
    monkeypatch.setattr(config, "IGNORE_MISSING_KEYS", True)
    torch.manual_seed(0)
    float_layer, layer = nn.Linear(2, 4, bias=False), _learned_layer()
    _equals(layer.quant_weight().scale, [[0.0015], [0.0017], [0.0053], [0.0023]])
    assert str(layer.load_state_dict(float_layer.state_dict())) == "<All keys matched successfully>"
    _equals(layer.quant_weight().scale, [[0.0030], [0.0046], [0.0021], [0.0044]])


# Quantizers from scratch


def test_module_tree():
    lines = [line.strip() for line in str(QuantReLU()).splitlines()]
    assert "(act_quant): ActQuantProxyFromInjector(" in lines
    for part in ("(float_to_int_impl): RoundSte()", "(clamp_min_ste): ScalarClampMinSte()", "(delay_impl): _NoDelay()"):
        assert part in lines


def test_assembly_by_hand():
    tensor_quant = RescalingIntQuant(
        int_quant=IntQuant(
            float_to_int_impl=RoundSte(),
            tensor_clamp_impl=TensorClamp(),
            input_view_impl=Identity,
            signed=False,
            narrow_range=False,
        ),
        zero_point_impl=ZeroZeroPoint(),
        bit_width_impl=BitWidthConst(bit_width=8),
        int_scaling_impl=IntScaling(signed=False, narrow_range=False),
        scaling_impl=ParameterFromRuntimeStatsScaling(
            scaling_stats_input_view_shape_impl=OverTensorView(),
            scaling_stats_impl=AbsPercentile(high_percentile_q=99.999, stats_reduce_dim=None),
            collect_stats_steps=300,
        ),
    )
    x = torch.relu(torch.randn(3, 2))
    out, scale, _, bit_width = tensor_quant(x)
    assert scale.item() == pytest.approx(1.5410 / 255, rel=1e-4)
    assert (out - x).abs().max() <= scale / 2 + 1e-6
    assert bit_width == 8


class ActFromScratch(ExtendedInjector):
    proxy_class = ActQuantProxyFromInjector
    tensor_quant = RescalingIntQuant
    int_quant = IntQuant
    float_to_int_impl = RoundSte
    zero_point_impl = ZeroZeroPoint
    bit_width_impl = BitWidthConst
    tensor_clamp_impl = TensorClamp
    int_scaling_impl = IntScaling
    scaling_impl = ParameterFromRuntimeStatsScaling
    scaling_stats_input_view_shape_impl = OverTensorView
    scaling_stats_impl = AbsPercentile
    restrict_scaling_impl = FloatRestrictValue
    high_percentile_q = 99.999
    collect_stats_steps = 300
    scaling_shape = ()
    stats_reduce_dim = None
    bit_width = 8
    narrow_range = True
    signed = True


class WeightFromScratch(ExtendedInjector):
    @value
    def scaling_init(module):
        return module.weight.abs().max().detach()

    proxy_class = WeightQuantProxyFromInjector
    tensor_quant = RescalingIntQuant
    int_quant = IntQuant
    float_to_int_impl = RoundSte
    zero_point_impl = ZeroZeroPoint
    bit_width_impl = BitWidthConst
    tensor_clamp_impl = TensorClamp
    int_scaling_impl = IntScaling
    scaling_impl = ParameterScaling
    restrict_scaling_impl = FloatRestrictValue
    input_view_impl = Identity
    scaling_shape = ()
    bit_width = 8
    narrow_range = True
    signed = True


def test_dependency_injection():
    q = QuantIdentity(act_quant=ActFromScratch, return_quant_tensor=True)(torch.randn(3, 2))
    assert q.scale.item() == pytest.approx(2.1788 / 127, rel=1e-4)
    torch.manual_seed(0)
    layer = QuantLinear(2, 4, weight_quant=WeightFromScratch, bias=False)
    _equals(layer.quant_weight().value, WEIGHT)
    before = layer.quant_weight().scale.item()
    layer.weight.data.mul_(3.0)
    assert layer.quant_weight().scale.item() == before
    layer.weight_quant.init_tensor_quant()
    assert layer.quant_weight().scale.item() == pytest.approx(3 * before)


# Export


def test_qonnx_export_of_a_convolution(tmp_path):
    x = torch.randn(1, 2, 5)
    act = {"input_quant": Int8ActPerTensorFloat, "output_quant": Int8ActPerTensorFloat}
    layer = QuantConv1d(2, 4, 3, weight_bit_width=4, bias_quant=Int16Bias, **act)
    with pytest.warns(UserWarning, match="has collected no statistics"):
        model = export_qonnx(layer, input_t=x, export_path=tmp_path / "conv.onnx")
    constants = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    bits = sorted(float(constants[n.input[3]]) for n in model.graph.node if n.op_type == "Quant")
    assert bits == [4.0, 8.0, 8.0, 16.0]
    model = export_qonnx(QuantConv1d(2, 4, 3, weight_bit_width=4), input_t=x)
    assert [n.op_type for n in model.graph.node] == ["Quant", "Conv"]


def _mlp(linear, act):
    return nn.Sequential(QuantLinear(3, 128, **linear), QuantReLU(**act))


def _clips(model):
    constants = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    return sorted(tuple(constants[i].item() for i in n.input[1:]) for n in model.graph.node if n.op_type == "Clip")


@pytest.mark.filterwarnings("ignore:.*collected no statistics")
def test_qcdq_export(tmp_path):
    x = torch.randn(1, 3)
    model = export_onnx_qcdq(QuantLinear(3, 128), args=x, export_path=tmp_path / "m.onnx", opset_version=13)
    assert _clips(model) == [(-127, 127)]
    assert model.opset_import[0].version == 13
    assert [i.name for i in model.graph.input] == ["input"]
    small = _mlp({"weight_bit_width": 3}, {"bit_width": 4}).eval()
    model = export_onnx_qcdq(small, args=x, export_path=tmp_path / "m.onnx", opset_version=13)
    assert _clips(model) == [(-3, 3), (0, 15)]
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    assert np.allclose(session.run(None, {"input": x.numpy()})[0], small(x).detach().numpy())


@pytest.mark.filterwarnings("ignore:.*collected no statistics")
def test_dynamic_and_qgemm(tmp_path):
    dynamic = _mlp(
        {"input_quant": ShiftedUint8DynamicActPerTensorFloat}, {"input_quant": ShiftedUint8DynamicActPerTensorFloat}
    ).eval()
    model = export_onnx_qcdq(dynamic, args=torch.randn(1, 3), export_path=tmp_path / "m.onnx", opset_version=13)
    assert [n.op_type for n in model.graph.node].count("DynamicQuantizeLinear") == 2
    onnx.checker.check_model(model, full_check=True)
    act = {"input_quant": Int8ActPerTensorFloat, "output_quant": Int8ActPerTensorFloat}
    qgemm = QuantLinear(3, 128, weight_bit_width=5, bias_quant=Int32Bias, **act)
    x = torch.randn(16, 3)
    for _ in range(5):
        qgemm(x)
    export_onnx_qcdq(qgemm.eval(), args=x, export_path=tmp_path / "m.onnx")
    actual = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, {"input": x.numpy()})[0]
    scale = qgemm.output_quant.scale().item()
    assert np.array_equal(np.rint(actual / scale), np.rint(qgemm(x).detach().numpy() / scale))
