"""Clamping and shifting accumulators, hard swish, attention as a function, Hadamard classifier."""

import warnings

import numpy as np
import pytest
import torch
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from torch import nn
from torch.nn import functional as F

import headrace.nn as qnn
from headrace import quant
from headrace.errors import UnsupportedError
from headrace.export import export_qonnx
from headrace.export.errors import ExportError
from headrace.ingest import from_proto
from headrace.passes import to_integer


def _executed(model, x, tmp_path):
    export_qonnx(model, x, tmp_path / "model.onnx")
    file = ModelWrapper(str(tmp_path / "model.onnx"))
    return execute_onnx(file, {file.graph.input[0].name: x.numpy()})[file.graph.output[0].name]


def _compiled(model, x):
    compiled = to_integer(from_proto(export_qonnx(model, x)))
    assert compiled.blockers == ()
    (feed,) = (str(n) for n in compiled.graph.inputs)
    (out,) = compiled.graph.run({feed: x.numpy()}).values()
    return out


def _integers(q):
    return torch.round(q.value.detach().double() / q.scale.detach().double())


def _accumulators(signed=True):
    source = quant.Int8ActPerTensorFloat if signed else quant.Uint8ActPerTensorFloat
    model = nn.Sequential(
        qnn.QuantIdentity(source, bit_width=4, return_quant_tensor=True),
        qnn.QuantLinear(32, 6, bias=False, weight_bit_width=4, return_quant_tensor=True),
    )
    model(torch.randn(64, 32))
    return model.eval()


@pytest.mark.parametrize("bits", [2, 4, 6, 8])
def test_clamping_keeps_the_scale_and_saturates(bits, tmp_path):
    model = _accumulators()
    clamp = qnn.ClampQuantAccumulator(quant.ClampTo8bit, bit_width=bits).eval()
    x = torch.randn(100, 32) * 3
    with torch.no_grad():
        before, after = model(x), clamp(model(x))
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    expected = _integers(before).clamp(low, high)
    assert torch.equal(_integers(after), expected)
    assert float(after.bit_width) == bits
    assert torch.equal(after.scale, before.scale)
    assert (expected == low).any()
    whole = nn.Sequential(*model, clamp)
    deployed = qnn.finalize(whole)(x)
    assert torch.equal(deployed, after.value)
    assert np.array_equal(_compiled(whole, x), deployed.numpy())
    step = float(after.scale)
    assert np.array_equal(np.rint(_executed(whole, x, tmp_path) / step), np.rint(deployed.numpy() / step))


def test_clamping_removes_a_given_or_learned_number_of_bits():
    class Remove(quant.ClampTo8bit):
        bit_width_to_remove = 3

    model = _accumulators()
    x = torch.randn(20, 32)
    before = model(x)
    after = qnn.ClampQuantAccumulator(Remove).eval()(before)
    assert float(after.bit_width) == float(before.bit_width) - 3
    learned = qnn.ClampQuantAccumulator(Remove, bit_width_impl_type="PARAMETER")
    out = learned(before.set(training=True))
    assert float(out.bit_width) == float(before.bit_width) - 3
    out.bit_width.backward()
    (coefficient,) = learned.parameters()
    assert coefficient.grad is not None


def test_clamping_says_what_it_cannot_do():
    clamp = qnn.ClampQuantAccumulator(quant.ClampTo8bit)
    x = qnn.QuantReLU(bit_width=4, return_quant_tensor=True)(torch.randn(5))
    with pytest.raises(RuntimeError, match="signed=True, the integers are unsigned"):
        clamp(x)
    shifted = qnn.QuantIdentity(quant.ShiftedUint8ActPerTensorFloat, return_quant_tensor=True)(torch.randn(5))
    with pytest.raises(RuntimeError, match="zero point is not supported"):
        clamp(shifted)
    plain = torch.randn(5)
    assert qnn.ClampQuantAccumulator(quant.ClampTo8bit, return_quant_tensor=False)(plain) is plain


@pytest.mark.parametrize("signed", [True, False])
def test_shift_round_saturate_equals_brevitas(signed):
    bnn, bquant = pytest.importorskip("brevitas.nn"), pytest.importorskip("brevitas.quant.scaled_int")
    pools, sources = [], []
    for nn_, quant_ in ((qnn, quant), (bnn, bquant)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pools.append(nn_.TruncAvgPool2d(2, trunc_quant=quant_.ShiftRoundSaturateTo8bit, bit_width=4))
        source = quant_.Int8ActPerTensorFloat if signed else quant_.Uint8ActPerTensorFloat
        sources.append(nn_.QuantIdentity(source, bit_width=5, return_quant_tensor=True))
    for step in range(3):
        torch.manual_seed(step)
        x = torch.randn(2, 3, 8, 8)
        a, b = (pool(source(x)) for pool, source in zip(pools, sources, strict=True))
        assert torch.allclose(a.scale, b.scale)
        assert torch.allclose(a.value, b.value, atol=1e-6)
    for module in (*pools, *sources):
        module.eval()
    a, b = (pool(source(x)) for pool, source in zip(pools, sources, strict=True))
    assert torch.allclose(a.value, b.value, atol=1e-6)
    step = torch.log2(a.scale / sources[0](x).scale * 4)
    assert torch.allclose(step, step.round(), atol=1e-4)


def test_shift_round_saturate_is_exported_as_it_is(tmp_path):
    model = nn.Sequential(
        qnn.QuantIdentity(bit_width=5, return_quant_tensor=True),
        qnn.TruncAvgPool2d(2, trunc_quant=quant.ShiftRoundSaturateTo8bit, bit_width=4),
    )
    for _ in range(3):
        model(torch.randn(4, 3, 8, 8))
    model.eval()
    x = torch.randn(4, 3, 8, 8) * 2
    deployed = qnn.finalize(model)(x)
    step = float(model(x).scale)
    assert np.array_equal(np.rint(_executed(model, x, tmp_path) / step), np.rint(deployed.numpy() / step))
    assert np.array_equal(_compiled(model, x), deployed.numpy())


@pytest.mark.parametrize("act_quant", ["Uint8ActPerTensorFloat", "ShiftedUint8ActPerTensorFloat"])
def test_hard_swish(act_quant):
    bnn, bquant = pytest.importorskip("brevitas.nn"), pytest.importorskip("brevitas.quant")
    ours = qnn.QuantHardSwish(getattr(quant, act_quant), bit_width=4)
    theirs = bnn.QuantHardSwish(getattr(bquant, act_quant), bit_width=4)
    for _ in range(3):
        x = torch.randn(100) * 3
        assert torch.allclose(ours(x), theirs(x), atol=1e-6)
    model = nn.Sequential(
        qnn.QuantIdentity(bit_width=6, return_quant_tensor=True),
        qnn.QuantLinear(8, 5, weight_bit_width=4),
        ours,
    )
    for _ in range(3):
        model(torch.randn(100, 8) * 3)
    model.eval()
    x = torch.randn(200, 8) * 4
    deployed = qnn.finalize(model)(x)
    assert torch.equal(model(x), deployed)
    assert np.array_equal(_compiled(model, x), deployed.numpy())
    functional = nn.Sequential(*model[:2], nn.Hardswish(), model[2].act_quant)
    functional[3].fused_activation_quant_proxy.activation_impl = nn.Identity()
    assert torch.equal(qnn.finalize(functional)(x), deployed)


def _attention_inputs(batch=2, heads=2, query=5, keys=7, width=8):
    torch.manual_seed(1)
    return torch.randn(batch, heads, query, width), *(torch.randn(batch, heads, keys, width) for _ in range(2))


MASKS = {
    "none": {},
    "causal": {"is_causal": True},
    "scale": {"scale": 0.3},
    "boolean": {"attn_mask": torch.rand(5, 7) > 0.4},
    "blind": {"attn_mask": torch.tensor([True, False, True, True, False]).view(5, 1).expand(5, 7)},
    "float": {"attn_mask": torch.randn(5, 7)},
}


@pytest.mark.parametrize("kind", MASKS)
def test_attention_without_quantizers_is_that_of_torch(kind):
    none = dict.fromkeys(("attn_output_weights_quant", "q_scaled_quant", "k_transposed_quant", "v_quant"))
    inputs = _attention_inputs()
    expected = F.scaled_dot_product_attention(*inputs, **MASKS[kind])
    for layer in (qnn.QuantScaledDotProductAttention(**none), qnn.ScaledDotProductAttention()):
        assert torch.allclose(layer(*inputs, **MASKS[kind]), expected, atol=1e-6)


@pytest.mark.parametrize("kind", MASKS)
def test_attention_equals_brevitas(kind):
    bnn = pytest.importorskip("brevitas.nn")
    ours, theirs = (m.QuantScaledDotProductAttention(q_scaled_bit_width=6, v_bit_width=5) for m in (qnn, bnn))
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    inputs = _attention_inputs()
    for _ in range(3):
        assert torch.allclose(ours(*inputs, **MASKS[kind]), theirs(*inputs, **MASKS[kind]), atol=1e-5)
    theirs.load_state_dict(ours.state_dict())
    ours.eval(), theirs.eval()
    assert torch.allclose(ours(*inputs, **MASKS[kind]), theirs(*inputs, **MASKS[kind]), atol=1e-5)


def test_attention_accumulates_integers():
    layer = qnn.QuantScaledDotProductAttention(sdpa_output_quant=quant.Int8ActPerTensorFloat)
    q, k, v = _attention_inputs()
    for _ in range(3):
        layer(q, k, v)
    layer.eval()
    seen = {}
    layer.softmax_input_quant.register_forward_pre_hook(lambda _, args: seen.update(scores=args[0]))
    layer.sdpa_output_quant.register_forward_pre_hook(lambda _, args: seen.update(mixed=args[0]))
    layer.attn_output_weights_quant.register_forward_hook(lambda *args: seen.update(weights=args[2]))
    with torch.no_grad():
        whole = layer(q, k, v)
        scores, mixed = seen["scores"], seen["mixed"]
        a = qnn.exact.quantized(layer.q_scaled_quant(q * (1 / np.sqrt(8))))
        b = qnn.exact.quantized(layer.k_transposed_quant(k.transpose(-2, -1)))
        w, n_v = qnn.exact.quantized(seen["weights"]), qnn.exact.quantized(layer.v_quant(v))
        rows = torch.cat([layer(q[i : i + 1], k[i : i + 1], v[i : i + 1]) for i in range(2)])
    for x, y, out in ((a, b, scores), (w, n_v, mixed)):
        acc = (_integers(x).long() @ _integers(y).long()).float()
        assert torch.equal(out, acc * (x.scale.double() * y.scale.double()).float())
    assert torch.equal(whole, rows)


def test_attention_repeats_heads_and_says_what_it_cannot_do():
    none = dict.fromkeys(("attn_output_weights_quant", "q_scaled_quant", "k_transposed_quant", "v_quant"))
    layer = qnn.QuantScaledDotProductAttention(**none)
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8)
    expected = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    assert torch.allclose(layer(q, k, v, enable_gqa=True), expected, atol=1e-6)
    with pytest.raises(RuntimeError, match="2 heads of key and value do not divide 3"):
        layer(q[:, :3], k, v, enable_gqa=True)
    with pytest.raises(RuntimeError, match="exclude each other"):
        layer(q, q, q, attn_mask=torch.ones(5, 5), is_causal=True)
    with pytest.raises(TypeError, match="did you mean 'q_scaled_bit_width'"):
        qnn.QuantScaledDotProductAttention(q_scale_bit_width=4)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = qnn.QuantScaledDotProductAttention()

    def forward(self, x):
        return self.attention(x, x, x)


def test_attention_is_exported(tmp_path):
    model = Attention()
    x = torch.randn(2, 2, 5, 8)
    for _ in range(3):
        model(x)
    model.eval()
    out = _executed(model, x, tmp_path)
    weights, values = model.attention.attn_output_weights_quant, model.attention.v_quant
    step = float(weights.act_quant.scale() * values.act_quant.scale())
    difference = np.abs(np.rint(out / step) - np.rint(model(x).detach().numpy() / step))
    assert (difference > 0).mean() < 0.02  # the executor's softmax rounds otherwise


def test_hadamard_classifier_equals_brevitas():
    bnn = pytest.importorskip("brevitas.nn")
    pytest.importorskip("scipy")
    for fixed in (False, True):
        ours, theirs = (
            qnn.HadamardClassifier(20, 10, fixed),
            bnn.HadamardClassifier(20, 10, fixed, return_quant_tensor=True),
        )
        assert ours.state_dict().keys() == theirs.state_dict().keys()
        act = qnn.QuantIdentity(bit_width=4, return_quant_tensor=True)
        x = torch.randn(6, 20)
        expected = theirs(bnn.QuantIdentity(bit_width=4, return_quant_tensor=True)(x))
        out = ours(act(x))
        assert torch.allclose(out, expected.value, atol=1e-6)
        described = qnn.HadamardClassifier(20, 10, fixed, return_quant_tensor=True)(act(x))
        assert torch.allclose(described.scale, expected.scale)
        assert float(described.bit_width) == float(expected.bit_width)
    loaded = qnn.HadamardClassifier(20, 10)
    loaded.load_state_dict({"scale": torch.tensor(2.0)})
    assert torch.allclose(loaded(x), ours(x) * 2 * np.sqrt(10), atol=1e-5)


def test_hadamard_classifier_is_refused_by_name():
    model = nn.Sequential(
        qnn.QuantIdentity(bit_width=4, return_quant_tensor=True),
        qnn.HadamardClassifier(16, 8),
        qnn.QuantIdentity(bit_width=4),
    )
    x = torch.randn(6, 16)
    model(x)
    with pytest.raises(UnsupportedError, match="node '1\\.") as refusal:
        from_proto(export_qonnx(model.eval(), x))
    assert "between frames" in str(refusal.value)
    with pytest.raises(ValueError, match="must both be at least 1"):
        qnn.HadamardClassifier(0, 8)


def test_random_rounding_is_unbiased_in_training_and_nearest_in_evaluation():
    act = qnn.QuantIdentity(
        quant.Int8ActPerTensorFloatMinMaxInit,
        min_val=-8.0,
        max_val=8.0,
        bit_width=4,
        float_to_int_impl_type="STOCHASTIC_ROUND",
        stochastic_round_seed=3,
    )
    x = torch.full((20000,), 2.3)
    y = act(x)
    assert set(y.tolist()) == {2.0, 3.0}
    assert abs(float(y.mean()) - 2.3) < 0.02
    assert torch.equal(act.eval()(x), torch.full((20000,), 2.0))
    again = qnn.QuantIdentity(
        quant.Int8ActPerTensorFloatMinMaxInit,
        min_val=-8.0,
        max_val=8.0,
        bit_width=4,
        float_to_int_impl_type="STOCHASTIC_ROUND",
        stochastic_round_seed=3,
    )
    assert torch.equal(again(x), y)
    graph = export_qonnx(act, torch.randn(4)).graph
    assert [a.s for n in graph.node for a in n.attribute if a.name == "rounding_mode"] == [b"ROUND"]


def test_random_rounding_in_evaluation_is_not_exported():
    act = qnn.QuantIdentity(bit_width=4, float_to_int_impl_type="STOCHASTIC_ROUND", deterministic_inference=False)
    act(torch.randn(8))
    with pytest.raises(ExportError, match="StochasticRoundSte has no QONNX equivalent"):
        export_qonnx(act.eval(), torch.randn(4))


def test_groups_of_weights_are_exported_and_groups_of_activations_are_refused(tmp_path):
    layer = nn.Sequential(
        qnn.QuantIdentity(bit_width=4, return_quant_tensor=True),
        qnn.QuantLinear(20, 6, weight_quant=quant.ShiftedUint8WeightGroupQuantFloat, weight_group_size=8),
    )
    x = torch.randn(30, 20)
    layer(x)
    layer.eval()
    assert np.allclose(_executed(layer, x, tmp_path), layer(x).detach().numpy(), atol=1e-5)
    act = qnn.QuantIdentity(quant.MXInt8Act, group_dim=1, return_quant_tensor=True)
    act(x)
    with pytest.raises(ExportError, match="no operator with a scale for every group"):
        export_qonnx(act.eval(), x)
    act = qnn.QuantIdentity(quant.MXFloat8e4m3Act, group_dim=1)
    with pytest.raises(ExportError, match="no minifloat quantizer whose scale depends on the input"):
        export_qonnx(act.eval(), x)
