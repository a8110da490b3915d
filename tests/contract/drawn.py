"""Layers and their quantizers drawn at random: every kind of layer, bit width, scale, sign, range and zero point."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from hypothesis import strategies as st
from torch import nn

import headrace.nn as qnn
from headrace import quant

BITS = st.integers(1, 8)
SCALES = st.sampled_from(["FP", "POWER_OF_TWO", "LOG_FP"])
ROUNDING = st.sampled_from(["ROUND", "ROUND", "FLOOR", "CEIL", "ROUND_TO_ZERO"])


@dataclass
class Drawn:
    """How to build a model, readable in a failing example."""

    kind: str
    source: dict
    layer: dict
    sink: dict
    activation: str
    norm: bool
    seed: int
    shape: tuple[int, ...] = ()
    extra: dict = field(default_factory=dict)

    def __repr__(self) -> str:
        def shown(options):
            return {k: v.__name__ if isinstance(v, type) else v for k, v in options.items()}

        return (
            f"{self.kind} seed={self.seed} norm={self.norm} source={shown(self.source)} layer={shown(self.layer)} "
            f"{self.activation}={shown(self.sink)} {self.extra}"
        )


@st.composite
def activations(draw, signed=None, zero_point=True):
    """Options of an activation quantizer: bits, sign, range, zero point, scale, rounding."""
    bits = draw(BITS)
    quantizers = {True: quant.Int8ActPerTensorFloat, False: quant.Uint8ActPerTensorFloat}
    kind = draw(st.sampled_from(["plain", "plain", "stats", "given", "shifted", "binary", "ternary"]))
    is_signed = draw(st.booleans()) if signed is None else signed
    if kind == "binary" and signed is None:
        return {"act_quant": quant.SignedBinaryActPerTensorConst, "scaling_const": draw(st.sampled_from([0.5, 0.3]))}
    if kind == "ternary" and signed is None:
        constants = {"scaling_const": draw(st.sampled_from([0.5, 0.7])), "threshold": draw(st.sampled_from([0.4, 0.5]))}
        return {"act_quant": quant.SignedTernaryActPerTensorConst, "quant_type": "TERNARY", **constants}
    common = {"bit_width": bits, "float_to_int_impl_type": draw(ROUNDING)}
    if kind == "shifted" and zero_point:
        return {"act_quant": quant.ShiftedUint8ActPerTensorFloat, **common}
    if is_signed and bits == 1:
        common["bit_width"] = 2
    if common["bit_width"] > 1:
        common["narrow_range"] = draw(st.booleans())
    common["restrict_scaling_type"] = draw(SCALES)
    if kind == "given":
        limits = {"min_val": -1.5, "max_val": draw(st.sampled_from([1.5, 0.9]))}
        given = quant.Int8ActPerTensorFloatMinMaxInit if is_signed else quant.Uint8ActPerTensorFloatMaxInit
        return {"act_quant": given, **common, **(limits if is_signed else {"max_val": limits["max_val"]})}
    if kind == "stats":
        common |= {"scaling_impl_type": "STATS", "scaling_stats_op": draw(st.sampled_from(["MAX", "AVE"]))}
    return {"act_quant": quantizers[is_signed], **common}


@st.composite
def weights(draw):
    """Options of a weight quantizer."""
    kind = draw(
        st.sampled_from(
            ["plain"] * 4 + ["binary", "ternary", "shifted", "search", "decoupled", "norm", "learned round"]
        )
    )
    channel = draw(st.booleans())
    if kind in ("binary", "ternary"):
        name = {"binary": quant.SignedBinaryWeightPerTensorConst, "ternary": quant.SignedTernaryWeightPerTensorConst}
        return {"weight_quant": name[kind], "weight_scaling_const": draw(st.sampled_from([0.1, 0.25]))}
    bits = draw(st.integers(2, 8))
    if kind == "shifted":
        per = quant.ShiftedUint8WeightPerChannelFloat if channel else quant.ShiftedUint8WeightPerTensorFloat
        return {"weight_quant": per, "weight_bit_width": draw(BITS)}
    if kind == "search":
        per = quant.Int8WeightPerChannelFloatMSE if channel else quant.Int8WeightPerTensorFixedPointMSE
        return {"weight_quant": per, "weight_bit_width": bits}
    if kind == "decoupled":
        return {"weight_quant": quant.Int8WeightPerChannelFloatDecoupled, "weight_bit_width": bits}
    if kind == "norm":
        return {"weight_quant": quant.Int8WeightNormL2PerChannelFixedPoint, "weight_bit_width": bits}
    options = {
        "weight_bit_width": bits,
        "weight_scaling_per_output_channel": channel,
        "weight_restrict_scaling_type": draw(SCALES),
        "weight_scaling_impl_type": draw(st.sampled_from(["STATS", "PARAMETER_FROM_STATS"])),
        "weight_float_to_int_impl_type": "LEARNED_ROUND" if kind == "learned" else draw(ROUNDING),
    }
    if draw(st.booleans()):
        options |= {"weight_narrow_range": False}
    if draw(st.booleans()) and kind == "plain":
        options |= {"weight_signed": False, "weight_narrow_range": False, "weight_bit_width": draw(BITS)}
    return options


@st.composite
def biases(draw):
    """Options of a bias: none, float, integer at the scale of the accumulator or at its own."""
    kind = draw(st.sampled_from(["none", "float", "accumulator", "own"]))
    if kind == "none":
        return {"bias": False}
    if kind == "float":
        return {}
    if kind == "accumulator":
        return {"bias_quant": quant.IntBias, "bias_bit_width": draw(st.sampled_from([8, 16, 32]))}
    return {"bias_quant": quant.Int8BiasPerTensorFloatInternalScaling}


LAYERS = {
    "linear": (qnn.QuantLinear, (6, 5), {}, (6,)),
    "small": (qnn.QuantLinear, (3, 5), {}, (3,)),
    "conv1d": (qnn.QuantConv1d, (3, 4, 3), {"stride": 2, "padding": 1}, (3, 9)),
    "conv2d": (qnn.QuantConv2d, (3, 4, (3, 2)), {"padding": (1, 0)}, (3, 5, 6)),
    "dilated": (qnn.QuantConv2d, (2, 3, 2), {"dilation": 2}, (2, 6, 5)),
    "grouped": (qnn.QuantConv2d, (4, 6, 2), {"groups": 2}, (4, 4, 5)),
    "depthwise": (qnn.QuantConv2d, (4, 4, 3), {"groups": 4, "padding": 1}, (4, 5, 4)),
    "transposed": (qnn.QuantConvTranspose2d, (3, 4, 3), {"stride": 2, "padding": 1, "output_padding": 1}, (3, 4, 3)),
    "scale bias": (qnn.QuantScaleBias, (4,), {"bias": True}, (4, 3, 3)),
    "transposed 1d": (qnn.QuantConvTranspose1d, (3, 4, 4), {"stride": 2}, (3, 5)),
}
CHANNELS = {name: args[1] for name, (_, args, _, _) in LAYERS.items() if len(args) > 1}
ACTIVATIONS = {
    "QuantIdentity": (None, True),
    "QuantReLU": (False, True),
    "QuantHardTanh": (True, False),
    "QuantSigmoid": (False, False),
    "QuantTanh": (True, False),
    "QuantHardSwish": (False, True),
}


@st.composite
def chains(draw, kinds=tuple(k for k in LAYERS if k != "small")):
    """A quantizer, a layer with weights, perhaps a batch norm, an activation."""
    kind = draw(st.sampled_from(sorted(kinds)))
    source = draw(activations())
    options = {**draw(weights()), **draw(biases()), **LAYERS[kind][2]}
    if kind == "scale bias":
        options["bias"] = draw(st.booleans())
    padded = ("padding" in LAYERS[kind][2] and "stride" not in LAYERS[kind][2]) or kind == "conv1d"
    if padded and source["act_quant"] is quant.SignedBinaryActPerTensorConst:
        source = {"bit_width": 2}  # padding needs a real 0
    activation = draw(st.sampled_from(sorted(ACTIVATIONS)))
    signed, shifted = ACTIVATIONS[activation]
    sink = draw(activations(signed, shifted))
    if activation == "QuantHardTanh" and "min_val" not in sink:
        sink = {"bit_width": draw(st.integers(2, 8)), "min_val": -0.8, "max_val": 0.8}
    norm = draw(st.booleans()) and LAYERS[kind][0] is qnn.QuantConv2d
    shape = LAYERS[kind][3]
    return Drawn(kind, source, options, sink, activation, norm, draw(st.integers(0, 9999)), shape)


def built(drawn: Drawn) -> nn.Sequential:
    """The model after a few steps of training, in evaluation mode."""
    torch.manual_seed(drawn.seed)
    layer, args, _, shape = LAYERS[drawn.kind]
    parts = [qnn.QuantIdentity(return_quant_tensor=True, **drawn.source), layer(*args, **drawn.layer)]
    if drawn.norm:
        parts.append(nn.BatchNorm2d(CHANNELS[drawn.kind]))
    model = nn.Sequential(*parts, getattr(qnn, drawn.activation)(return_quant_tensor=True, **drawn.sink))
    for _ in range(3):
        model(torch.randn(8, *shape))
    for name, parameter in model.named_parameters():
        if name.endswith("float_to_int_impl.value"):
            parameter.data.normal_()  # learned rounding: decisions
    return model.eval()


def inputs(drawn: Drawn, model: nn.Module, rows: int = 16) -> torch.Tensor:
    """Random numbers, extremes and the ties of the first quantizer."""
    torch.manual_seed(drawn.seed + 1)
    x = torch.randn(rows, *drawn.shape) * 2
    x[0], x[1], x[2] = 1e6, -1e6, 0.0
    scale = model[0].act_quant.scale().detach()
    x[3:6] = (torch.randint(-9, 9, x[3:6].shape) + 0.5) * scale
    return x


class Joined(nn.Module):
    """Two branches on the grid of one quantizer, added or concatenated."""

    def __init__(self, how: str, shared: dict) -> None:
        super().__init__()
        self.how = how
        self.branch = qnn.QuantConv2d(3, 3, 3, padding=1, weight_bit_width=3, return_quant_tensor=False)
        self.shared = qnn.QuantIdentity(return_quant_tensor=True, **shared)

    def forward(self, x):
        a, b = self.shared(x), self.shared(self.branch(x))
        return a + b if self.how == "add" else torch.cat([a, b], 1)


MIDDLES = ("none", "max pool", "average pool", "truncating pool", "shifting pool", "upsampling", "add", "cat", "clamp")


@st.composite
def networks(draw):
    """A quantizer, something between layers, a convolution, an activation; images of 3 channels."""
    source = draw(activations())
    middle = draw(st.sampled_from(MIDDLES))
    if middle in ("add", "cat") and source["act_quant"] in (quant.SignedBinaryActPerTensorConst,):
        source = {"act_quant": quant.Int8ActPerTensorFloat, "bit_width": 2}  # the branch pads, which needs a real 0
    if middle in ("truncating pool", "shifting pool") and "Shifted" in source["act_quant"].__name__:
        source = {"act_quant": quant.Int8ActPerTensorFloat, "bit_width": 3}  # Trunc does not shift a zero point
    extra = {
        "bits": draw(st.integers(1, 6)),
        "rounding": draw(st.sampled_from(["FLOOR", "ROUND", "CEIL"])),
        "shared": draw(activations(zero_point=False)),
    }
    layer = {**draw(weights()), **draw(biases())}
    sink = draw(activations(False))
    seed = draw(st.integers(0, 9999))
    return Drawn(middle, source, layer, sink, "QuantReLU", draw(st.booleans()), seed, (3, 6, 6), extra)


def _middle(drawn: Drawn) -> list[nn.Module]:
    bits, rounding = max(drawn.extra["bits"], 2), drawn.extra["rounding"]
    if drawn.kind == "max pool":
        return [qnn.QuantMaxPool2d(2)]
    if drawn.kind == "average pool":
        return [nn.AvgPool2d(2), qnn.QuantIdentity(bit_width=bits, return_quant_tensor=True)]
    if drawn.kind in ("truncating pool", "shifting pool"):
        kind = quant.TruncTo8bit if drawn.kind == "truncating pool" else quant.ShiftRoundSaturateTo8bit
        return [qnn.TruncAvgPool2d(2, trunc_quant=kind, bit_width=bits, float_to_int_impl_type=rounding)]
    if drawn.kind == "upsampling":
        return [qnn.QuantUpsample(scale_factor=2)]
    if drawn.kind == "clamp":
        act = qnn.QuantConv2d(3, 3, 2, bias=False, weight_bit_width=3, return_quant_tensor=True)
        return [act, qnn.ClampQuantAccumulator(quant.ClampTo8bit, bit_width=bits)]
    return [Joined(drawn.kind, drawn.extra["shared"])] if drawn.kind in ("add", "cat") else []


def built_network(drawn: Drawn) -> nn.Sequential:
    """The model after a few steps of training, in evaluation mode."""
    torch.manual_seed(drawn.seed)
    if drawn.kind == "clamp" and not _signed_without_zero_point(drawn.source):
        drawn.source = {"bit_width": 3}
    parts = [qnn.QuantIdentity(return_quant_tensor=True, **drawn.source), *_middle(drawn)]
    parts.append(qnn.QuantConv2d(6 if drawn.kind == "cat" else 3, 4, 2, **drawn.layer))
    if drawn.norm:
        parts.append(nn.BatchNorm2d(4))
    model = nn.Sequential(*parts, qnn.QuantReLU(return_quant_tensor=True, **drawn.sink))
    for _ in range(3):
        model(torch.randn(8, *drawn.shape))
    return model.eval()


def _signed_without_zero_point(source: dict) -> bool:
    return "Shifted" not in source["act_quant"].__name__ and "Binary" not in source["act_quant"].__name__
