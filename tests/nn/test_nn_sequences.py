"""Recurrent networks and attention: against torch's float layers, against Brevitas, and against exact integers."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import headrace.nn as qnn
from headrace.errors import HeadraceError
from headrace.nn import exact
from headrace.quant import Int8ActPerTensorFloat, Int8WeightPerChannelFloat
from headrace.quant_tensor import IntQuantTensor

FLOAT_RNN = {
    "weight_quant": None,
    "bias_quant": None,
    "io_quant": None,
    "gate_acc_quant": None,
}
FLOAT_LSTM = {**FLOAT_RNN, "sigmoid_quant": None, "tanh_quant": None, "cell_state_quant": None}


def _flat(out):
    parts = out if isinstance(out, tuple | list) else [out]
    return [t for p in parts for t in (_flat(p) if isinstance(p, tuple | list) else [p]) if t is not None]


def _close(a, b):
    a, b = _flat(a), _flat(b)
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-6)  # float layers: another order of summation


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True}])
@pytest.mark.parametrize(
    ("quantized", "floating", "off", "states"),
    [(qnn.QuantRNN, nn.RNN, FLOAT_RNN, 1), (qnn.QuantLSTM, nn.LSTM, FLOAT_LSTM, 2)],
)
def test_unquantized_network_loads_torch_weights_and_computes_the_same(quantized, floating, off, states, options):
    reference = floating(6, 5, **options)
    model = quantized(6, 5, **options, **off)
    model.load_state_dict(reference.state_dict())
    x = torch.randn(4, 4, 6)
    first = torch.randn(2 * 2 if options.get("num_layers") else 1, 4, 5)
    hx = first if states == 1 else (first, torch.randn_like(first))
    for arguments in ((x,), (x, hx)):
        _close(model.eval()(*arguments), reference(*arguments))
        _close(model.train()(*arguments), reference(*arguments))


@pytest.mark.parametrize("options", [{}, {"packed_in_proj": False, "add_bias_kv": True, "add_zero_attn": True}])
def test_unquantized_attention_loads_torch_weights_and_computes_the_same(options):
    names = ("in_proj_input", "in_proj_weight", "in_proj_bias", "attn_output_weights", "q_scaled", "k_transposed", "v")
    names += ("out_proj_input", "out_proj_weight", "out_proj_bias")
    packed = options.pop("packed_in_proj", True)
    reference = nn.MultiheadAttention(8, 2, batch_first=True, **options)
    off = {f"{n}_quant": None for n in names}
    model = qnn.QuantMultiheadAttention(8, 2, batch_first=True, packed_in_proj=packed, **options, **off)
    model.load_state_dict(reference.state_dict())
    x = torch.randn(3, 4, 8)
    mask = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
    padding = torch.zeros(3, 4, dtype=torch.bool)
    padding[1, 3] = True
    for module in (model.eval(), reference.eval()):
        module.requires_grad_(False)
    _close(model(x, x, x), reference(x, x, x))
    _close(model(x, x, x, attn_mask=mask), reference(x, x, x, attn_mask=mask))
    _close(model(x, x, x, key_padding_mask=padding), reference(x, x, x, key_padding_mask=padding))
    _close(model(x[0], x[0], x[0]) if packed else (), reference(x[0], x[0], x[0]) if packed else ())
    heads = {"average_attn_weights": False}
    _close(model(x, x, x, **heads), reference(x, x, x, **heads))


CASES = {
    "rnn": lambda lib: lib.QuantRNN(6, 5, 2, bidirectional=True),
    "relu rnn": lambda lib: lib.QuantRNN(6, 5, nonlinearity="relu", bias=False, batch_first=True, weight_bit_width=4),
    "lstm": lambda lib: lib.QuantLSTM(6, 5, 2, bidirectional=True, weight_bit_width=4),
    "coupled lstm": lambda lib: lib.QuantLSTM(
        6, 5, coupled_input_forget_gates=True, shared_intra_layer_gate_acc_quant=True
    ),
    "attention": lambda lib: lib.QuantMultiheadAttention(6, 2, in_proj_weight_bit_width=4),
}


@pytest.mark.parametrize("case", CASES)
def test_equals_brevitas_from_the_same_seed_and_state_dict(case):
    brevitas = pytest.importorskip("brevitas.nn")
    results = []
    for library in (brevitas, qnn):
        torch.manual_seed(0)
        model = CASES[case](library)
        for step in range(3):
            torch.manual_seed(1 + step)
            x = torch.randn(4, 3, 6)
            out = (model.train(step < 2))(*((x,) * (3 if case == "attention" else 1)))
        results.append((model, out, x))
    (theirs, expected, x), (ours, found, _) = results
    for a, b in zip(_flat(found), _flat(expected), strict=True):
        assert torch.allclose(a, b, rtol=0, atol=1e-6)
    assert set(ours.state_dict()) == set(theirs.state_dict())
    fresh = CASES[case](qnn)
    fresh.load_state_dict(theirs.state_dict())
    again = fresh.eval()(*((x,) * (3 if case == "attention" else 1)))
    assert all(torch.equal(a, b) for a, b in zip(_flat(again), _flat(found), strict=True))


def test_gates_accumulate_integers():
    model = qnn.QuantRNN(40, 30, bias_quant=None, weight_quant=Int8WeightPerChannelFloat)
    x = torch.randn(1, 8, 40) * 3
    model(x)
    layer = model.eval().layers[0][0]
    q, steps = layer.steps(x)
    weight = layer.gate_params.input_weight()
    n = torch.round(q.value[0].double() / q.scale.double()).long()
    w = torch.round(weight.value.detach().double() / weight.scale.detach().double()).long()
    scale = (q.scale.double() * weight.scale.double()).float().detach().view(1, -1)
    with torch.no_grad():
        assert torch.equal(layer.gate_params.input_weight.product(steps[0], weight), (n @ w.t()).float() * scale)


def test_products_of_attention_are_exact():
    quantizer = qnn.QuantIdentity(Int8ActPerTensorFloat)
    quantizer(torch.randn(100))
    a, b = (quantizer.eval()(torch.randn(2, 5, 300) * 4) for _ in range(2))
    scale = quantizer.act_quant.scale().detach()
    n_a, n_b = (torch.round(t.double() / scale.double()).long() for t in (a, b))
    expected = (n_a @ n_b.transpose(1, 2)).float() * (scale.double() ** 2).float()
    assert torch.equal(exact.product(a, exact.quantized(b).transpose(1, 2)), expected.detach())
    assert exact.product(torch.randn(2, 2), a) is None


def test_trains_copies_pickles_and_returns_quant_tensors():
    for model in (
        qnn.QuantLSTM(6, 5, return_quant_tensor=True, batch_first=True),
        qnn.QuantRNN(6, 5, return_quant_tensor=True, shared_input_hidden_weights=True, bidirectional=True),
    ):
        x = torch.randn(4, 3, 6)
        out = model(x)[0]
        assert isinstance(out, IntQuantTensor)
        out.value.pow(2).sum().backward()
        assert all(p.grad is not None for n, p in model.named_parameters() if n.endswith("weight"))
        y = model.eval()(x)[0]
        assert y.is_valid
        for clone in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert torch.equal(clone(x)[0].value, y.value)


def test_attention_trains():
    model = qnn.QuantMultiheadAttention(8, 2, dropout=0.1)
    x = torch.randn(4, 3, 8)
    F.mse_loss(model(x, x, x)[0], x).backward()
    assert all(p.grad is not None for n, p in model.named_parameters() if n.endswith("weight"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: qnn.QuantRNN(2, 2, nonlinearity="gelu"), "nonlinearity='gelu'.*'tanh', 'relu'"),
        (lambda: qnn.QuantRNN(2, 2, weight_bitwidth=4), "did you mean 'weight_bit_width'"),
        (lambda: qnn.QuantLSTM(2, 2, shared_input_hidden_weights=True), "bidirectional=True"),
        (lambda: qnn.QuantLSTM(2, 2, return_quant_tensor=True, io_quant=None), "needs io_quant"),
        (lambda: qnn.QuantLSTM(2, 2, shared_cell_state_quant=False), "shared_cell_state_quant=True"),
        (lambda: qnn.QuantMultiheadAttention(8, 3), "num_heads=3 does not divide embed_dim=8"),
        (lambda: qnn.QuantMultiheadAttention(8, 2, softmax_bit_width=4), "unknown keyword 'softmax_bit_width'"),
        (lambda: qnn.QuantMultiheadAttention(8, 2)(*torch.randn(3, 2, 2, 8)), "packed_in_proj=False"),
        (lambda: qnn.QuantMultiheadAttention(8, 2)(*[torch.randn(2, 8, 4)] * 3), "4 features, expected embed_dim=8"),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(HeadraceError, match=message):
        build()


def test_packed_sequences_are_refused():
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(3, 2, 4), [3, 2])
    with pytest.raises(HeadraceError, match="PackedSequence"):
        qnn.QuantLSTM(4, 2)(packed)
