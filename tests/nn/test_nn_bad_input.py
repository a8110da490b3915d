"""Bad input to every kind of layer and quantizer: the exception, and a sentence that says what, where and what else."""

import importlib.util
import inspect
import pathlib

import pytest
import torch
from torch import nn

import headrace.nn as qnn
from headrace import quant
from headrace.errors import HeadraceError
from headrace.export import export_onnx_qcdq, export_onnx_qop, export_qonnx
from headrace.export.errors import ExportError
from headrace.inject.enum import QuantType

_spec = importlib.util.spec_from_file_location("layer_kinds", pathlib.Path(__file__).with_name("layer_kinds.py"))
kinds = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(kinds)
KINDS = kinds.KINDS


def _fails(build, error, *fragments):
    with pytest.raises(error) as info:
        build()
    assert isinstance(info.value, HeadraceError), repr(info.value)
    message = str(info.value)
    for fragment in fragments:
        assert fragment in message, message
    assert "\n" not in message


# Layers.

ARGUMENTS = {
    "QuantLinear": (6, 4),
    "QuantConv1d": (3, 4, 3),
    "QuantConv2d": (3, 4, 3),
    "QuantConv3d": (3, 4, 3),
    "QuantConvTranspose1d": (3, 4, 3),
    "QuantConvTranspose2d": (3, 4, 3),
    "QuantConvTranspose3d": (3, 4, 3),
    "QuantScaleBias": (3, True),
    "BatchNorm1dToQuantScaleBias": (3,),
    "BatchNorm2dToQuantScaleBias": (3,),
    "QuantEmbedding": (9, 4),
    "QuantIdentity": (),
    "QuantReLU": (),
    "QuantSigmoid": (),
    "QuantTanh": (),
    "QuantHardSwish": (),
    "QuantEltwiseAdd": (),
    "QuantCat": (),
    "TruncAvgPool2d": (2,),
    "TruncAdaptiveAvgPool2d": (2,),
    "TruncQuantAccumulator": (quant.TruncTo8bit,),
    "ClampQuantAccumulator": (quant.ClampTo8bit,),
    "QuantRNN": (6, 4),
    "QuantLSTM": (6, 4),
    "QuantMultiheadAttention": (6, 2),
    "QuantScaledDotProductAttention": (),
}
PREFIX = {
    **dict.fromkeys((n for n in ARGUMENTS if "Conv" in n or "ScaleBias" in n), "weight_"),
    **dict.fromkeys(("QuantLinear", "QuantEmbedding", "QuantRNN", "QuantLSTM"), "weight_"),
    **dict.fromkeys(("QuantEltwiseAdd", "QuantCat"), "input_"),
    "QuantMultiheadAttention": "in_proj_weight_",
    "QuantScaledDotProductAttention": "q_scaled_",
}


NESTED = {"QuantMultiheadAttention": ("in_proj_", "weight_"), "QuantScaledDotProductAttention": ("q_scaled_", "")}


def _nearest(name):
    """What the message suggests for a misspelt bit width."""
    _, inner = NESTED.get(name, ("", PREFIX.get(name, "")))
    return f"did you mean '{inner}bit_width'"


def _layer(name, **options):
    return lambda: getattr(qnn, name)(*ARGUMENTS[name], **options)


def test_every_layer_with_a_quantizer_is_here():
    takes_quantizers = {
        n for n in KINDS if any(p.endswith("_quant") for p in inspect.signature(getattr(qnn, n).__init__).parameters)
    }
    assert takes_quantizers - set(ARGUMENTS) - {"QuantHardTanh"} == set()


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_misspelt_keyword(name):
    prefix = PREFIX.get(name, "")
    _fails(_layer(name, **{prefix + "bitwidth": 4}), TypeError, _nearest(name), "unknown keyword")
    if name in NESTED:
        where = f"{name}, keywords that start with '{NESTED[name][0]}'"
        _fails(_layer(name, **{prefix + "bitwidth": 4}), TypeError, where)
    _fails(_layer(name, bit_widht_of_everything=4), TypeError, "bit_widht_of_everything")


@pytest.mark.parametrize("given", [0, -1, 33])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_bit_width_out_of_range(name, given):
    keyword = PREFIX.get(name, "") + "bit_width"
    _fails(_layer(name, **{keyword: given}), ValueError, "bit_width", repr(given), "an integer from 1 to 32")


@pytest.mark.parametrize("given", [3.5, "4", None, True])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_bit_width_of_the_wrong_type(name, given):
    keyword = PREFIX.get(name, "") + "bit_width"
    _fails(_layer(name, **{keyword: given}), TypeError, "bit_width", repr(given), "an integer from 1 to 32")


@pytest.mark.parametrize("given", [8, "Int8WeightPerTensorFloat", nn.ReLU, QuantType.INT])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_something_else_than_a_quantizer(name, given):
    parameters = inspect.signature(getattr(qnn, name).__init__).parameters
    for keyword in (p for p in parameters if p.endswith("_quant") and parameters[p].annotation != "bool"):
        arguments = () if keyword in ("trunc_quant", "clamp_quant") and "Accumulator" in name else ARGUMENTS[name]
        _fails(
            lambda k=keyword, a=arguments: getattr(qnn, name)(*a, **{k: given}),
            TypeError,
            "is not a quantizer",
            "or None",
        )


@pytest.mark.parametrize("name", [n for n in ARGUMENTS if n != "QuantScaledDotProductAttention"])
def test_a_flag_of_the_wrong_type(name):
    _fails(_layer(name, return_quant_tensor="yes"), TypeError, "return_quant_tensor must be True or False", "'yes'")


# Quantizers.


def _host(name):
    """A layer for the quantizer *name*, taking its attributes as keywords."""
    quantizer = getattr(quant, name)
    if "Bias" in name:
        return lambda **k: qnn.QuantLinear(6, 4, bias_quant=quantizer, **{"bias_" + a: v for a, v in k.items()})
    if "Trunc" in name or ("Shift" in name and "Round" in name) or name == "RoundTo8bit":
        return lambda **k: qnn.TruncQuantAccumulator(quantizer, **k)
    if "Clamp" in name:
        return lambda **k: qnn.ClampQuantAccumulator(quantizer, **k)
    if "Act" in name:
        channels = {"per_channel_broadcastable_shape": (1, 3, 1, 1)} if "PerChannel" in name else {}
        groups = {"group_dim": 1} if name.startswith("MX") else {}
        limits = {"max_val": 1.0, **({"min_val": -1.0} if "MinMax" in name else {})} if name.endswith("Init") else {}
        return lambda **k: qnn.QuantIdentity(quantizer, **{**channels, **groups, **limits, **k})
    return lambda **k: qnn.QuantLinear(6, 4, weight_quant=quantizer, **{"weight_" + a: v for a, v in k.items()})


def _declared(name, attribute):
    return attribute in getattr(quant, name).attributes()


READY = [
    n
    for n in quant.__all__
    if not n.startswith("None") and "Mixin" not in n and n not in ("AccumulatorAwareWeightQuant", "IntBias")
    and n != "AccumulatorAwareZeroCenterWeightQuant" and "Fp" not in n.removeprefix("MX")
]  # fmt: skip
INTEGER = [n for n in READY if "Binary" not in n and "Float8" not in n]
MINIFLOAT = [n for n in quant.__all__ if n.startswith("Fp8") or "Float8" in n]


@pytest.mark.parametrize("name", READY)
def test_every_quantizer_can_be_built(name):
    _host(name)()


@pytest.mark.parametrize("name", INTEGER)
def test_bit_widths_of_every_quantizer(name):
    for given in (0, -3, 40):
        _fails(lambda g=given: _host(name)(bit_width=g), ValueError, name, "an integer from 1 to 32")
    for given in (3.5, "8", None):
        _fails(lambda g=given: _host(name)(bit_width=g), TypeError, name, "an integer from 1 to 32")


@pytest.mark.parametrize("name", MINIFLOAT)
def test_bits_of_every_minifloat(name):
    _fails(lambda: _host(name)(exponent_bit_width=0), ValueError, "exponent_bit_width", "an integer from 1 to 8")
    _fails(lambda: _host(name)(mantissa_bit_width=2.5), TypeError, "mantissa_bit_width", "an integer from 0 to 10")
    _fails(lambda: _host(name)(mantissa_bit_width=7), ValueError, "is not the sum of sign")


@pytest.mark.parametrize("name", READY + MINIFLOAT)
def test_misspelt_attributes_of_every_quantizer(name):
    _fails(lambda: _host(name)(bit_widht=4), TypeError, "bit_widht", "did you mean")
    if not name.startswith("Fp"):
        misspelt = type("Misspelt", (getattr(quant, name),), {"narow_range": True})
        host = _host(name)
        assert host is not None
        kind = "bias_quant" if "Bias" in name else "act_quant" if "Act" in name else "weight_quant"
        build = qnn.QuantIdentity if kind == "act_quant" else lambda **k: qnn.QuantLinear(6, 4, **k)
        if "8bit" not in name and "Init" not in name and "Act" not in name[:5] and not name.startswith("MX"):
            _fails(lambda: build(**{kind: misspelt}), TypeError, "Misspelt", "'narow_range'", "narrow_range")


@pytest.mark.parametrize("name", [n for n in INTEGER if _declared(n, "narrow_range") and "Bias" not in n])
def test_a_narrow_range_at_one_bit(name):
    if "Trunc" in name or "Clamp" in name or "Round" in name:
        pytest.skip("takes no narrow range of one bit: the width depends on the input")
    _fails(
        lambda: _host(name)(bit_width=1, narrow_range=True),
        ValueError,
        "narrow_range=True at 1 bit",
        "narrow_range=False",
    )
    _fails(lambda: _host(name)(narrow_range="yes"), TypeError, "narrow_range", "True or False")


CONSTANT = {"scaling_impl_type": "CONST"}


@pytest.mark.parametrize("given", [0.0, -1.0, float("nan"), float("inf")])
def test_scales_that_are_none(given):
    for name in ("Int8WeightPerTensorFloat", "Int8WeightPerChannelFixedPoint", "SignedBinaryWeightPerTensorConst"):
        for kind in ("CONST", "PARAMETER"):
            build = _host(name)
            _fails(
                lambda b=build, k=kind: b(scaling_impl_type=k, scaling_const=given), ValueError, "scaling_const", name
            )
    _fails(
        lambda: _host("SignedBinaryActPerTensorConst")(scaling_const=given), ValueError, "a number above 0", repr(given)
    )
    _fails(
        lambda: _host("Int8WeightPerTensorFloat")(scaling_min_val=-abs(given) or -1.0), ValueError, "scaling_min_val"
    )


@pytest.mark.parametrize("given", [0.0, -0.5, float("nan"), float("inf")])
@pytest.mark.parametrize("export", [export_qonnx, export_onnx_qcdq, export_onnx_qop])
def test_a_learned_scale_that_is_none_is_not_exported(export, given):
    act = qnn.QuantIdentity(restrict_scaling_type="SIGNED_FP", scaling_min_val=None, bit_width=4)
    model = nn.Sequential(act, qnn.QuantLinear(6, 4, weight_bit_width=4))
    model(torch.randn(3, 6))
    scaling = act.act_quant.fused_activation_quant_proxy.tensor_quant.scaling_impl
    scaling.init_scale()
    scaling.value.data.fill_(given)
    _fails(
        lambda: export(model.eval(), torch.randn(3, 6)), ExportError, "0.act_quant", "scale must be positive and finite"
    )


# Quant tensors on different grids.


def _on_two_grids(training=False):
    acts = [qnn.QuantIdentity(bit_width=4, return_quant_tensor=True) for _ in range(2)]
    acts[0](torch.randn(20)), acts[1](torch.randn(20) * 7)
    return [act.train(training)(torch.randn(2, 4)) for act in acts]


JOINS = {
    "add": lambda a, b: a + b,
    "torch.add": torch.add,
    "subtract": lambda a, b: a - b,
    "torch.sub": torch.sub,
    "cat": lambda a, b: torch.cat([a, b]),
    "torch.concat": lambda a, b: torch.concat([a, b]),
    "QuantCat": lambda a, b: qnn.QuantCat(None, None).eval()([a, b]),
    "QuantEltwiseAdd": lambda a, b: qnn.QuantEltwiseAdd(None, None).eval()(a, b),
}


@pytest.mark.parametrize("how", JOINS)
def test_joining_two_grids_in_evaluation(how):
    a, b = _on_two_grids()
    _fails(lambda: JOINS[how](a, b), RuntimeError, "Scaling factors are different", "through the same quantizer")


@pytest.mark.parametrize("how", JOINS)
def test_joining_two_grids_in_training_passes(how):
    out = JOINS[how](*_on_two_grids(training=True))
    assert torch.isfinite(kinds.plain(out)).all()


# Exports.

EXPORTS = {"QONNX": export_qonnx, "QCDQ": export_onnx_qcdq, "QOp": export_onnx_qop}


@pytest.mark.parametrize("flavour", EXPORTS)
def test_exporting_in_training_mode(flavour):
    model = nn.Sequential(qnn.QuantIdentity(bit_width=4), qnn.QuantConv2d(3, 4, 3), nn.BatchNorm2d(4), qnn.QuantReLU())
    model(torch.randn(2, 3, 6, 6))
    _fails(
        lambda: EXPORTS[flavour](model, torch.randn(2, 3, 6, 6)),
        ExportError,
        "training mode",
        "call model.eval() first",
    )
    _fails(
        lambda: EXPORTS[flavour](nn.Sequential(nn.Dropout(), qnn.QuantIdentity()), torch.randn(3)), ExportError, "0 ("
    )
    nested = nn.Sequential(nn.Sequential(qnn.QuantIdentity(bit_width=4)))
    nested(torch.randn(5))
    _fails(lambda: EXPORTS[flavour](nested, torch.randn(5)), ExportError, "0.0.act_quant")


@pytest.mark.parametrize("flavour", ["QONNX", "QOp"])
def test_dynamic_quantizers_in_static_formats(flavour):
    model = nn.Sequential(
        nn.Sequential(qnn.QuantIdentity(quant.ShiftedUint8DynamicActPerTensorFloat)), qnn.QuantLinear(6, 4)
    )
    _fails(
        lambda: EXPORTS[flavour](model.eval(), torch.randn(3, 6)),
        ExportError,
        "0.0.act_quant",
        f"{flavour} is a static format",
        "use QCDQ",
    )


@pytest.mark.parametrize("flavour", EXPORTS)
@pytest.mark.parametrize("kind", ["QuantLinear", "QuantConv2d", "QuantReLU", "QuantTanh", "QuantCat", "QuantMaxPool2d"])
def test_a_refused_export_leaves_the_model_as_it_was(kind, flavour):
    model = nn.Sequential(kinds.made(kind), qnn.QuantIdentity(quant.MXInt8Act, group_dim=1)).eval()
    x = kinds.example(kind)
    before, state = model(x), {k: v.clone() for k, v in model.state_dict().items()}
    with pytest.raises(ExportError, match=r"1\.act_quant"):
        EXPORTS[flavour](model, x)
    assert torch.equal(kinds.plain(model(x)), kinds.plain(before))
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
