"""Straight-through gradients: fused against composed, and against formulas."""

import pytest
import torch

import headrace.nn as qnn
from headrace import quant
from headrace.core import autograd
from headrace.core.bit_width import BitWidthConst
from headrace.core.function_wrapper import FloorSte, RoundSte, TensorClamp, TensorClampSte
from headrace.core.quant import IntQuant


@pytest.mark.parametrize("rounding", [RoundSte, FloorSte])
@pytest.mark.parametrize("clamp", [TensorClamp, TensorClampSte])
@pytest.mark.parametrize(("signed", "narrow"), [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("per_channel", [False, True])
def test_fused_equals_composed(rounding, clamp, signed, narrow, per_channel):
    int_quant = IntQuant(narrow, signed, float_to_int_impl=rounding(), tensor_clamp_impl=clamp())
    x = torch.randn(6, 40, dtype=torch.float64)
    scale = torch.rand(6, 1, dtype=torch.float64) * 0.2 + 0.1 if per_channel else torch.tensor(0.3, dtype=torch.float64)
    zero_point = torch.tensor(1.0, dtype=torch.float64)
    g = torch.randn(6, 40, dtype=torch.float64)
    results = []
    for fused in (True, False):
        leaves = [t.clone().requires_grad_() for t in (x, scale, zero_point)]
        if fused:
            out = int_quant.fused(leaves[1], leaves[2], 3, leaves[0], rounding.rounding)
        else:
            out = int_quant(leaves[1], leaves[2], BitWidthConst(3)().double(), leaves[0])
        out.backward(g)
        results.append((out.detach(), *(leaf.grad for leaf in leaves)))
    for fused, composed in zip(*results, strict=True):
        assert torch.allclose(fused, composed, rtol=1e-12, atol=1e-12)
    assert torch.equal(results[0][0], results[1][0])


def test_gradient_passes_inside_the_range_only():
    x = torch.tensor([-9.0, -0.3, 0.2, 9.0], requires_grad=True)
    autograd.fake_quantize(x, torch.tensor(0.1), None, -8, 7).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 1.0, 0.0]


def test_gradient_of_the_scale():
    """``dvalue/dscale`` is the bound where clamped, ``q - x/s`` inside."""
    x = torch.tensor([-9.0, 0.26, 9.0])
    scale = torch.tensor(0.1, requires_grad=True)
    autograd.fake_quantize(x, scale, None, -8, 7).sum().backward()
    assert scale.grad.item() == pytest.approx(-8 + (3 - 2.6) + 7, abs=1e-5)


def test_binary_activation_has_no_gradient_outside():
    act = qnn.QuantIdentity(act_quant=quant.SignedBinaryActPerTensorConst)
    x = torch.tensor([-1.5, -0.5, 0.0, 0.5, 1.5], requires_grad=True)
    y = act(x)
    assert y.tolist() == [-1.0, -1.0, 1.0, 1.0, 1.0]
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]


def test_learned_bit_width_gets_a_gradient():
    layer = qnn.QuantLinear(4, 4, weight_bit_width_impl_type="PARAMETER", weight_bit_width=4)
    layer(torch.randn(3, 4)).pow(2).sum().backward()
    assert layer.weight_quant.tensor_quant.msb_clamp_bit_width_impl.bit_width_offset.grad is not None


def test_training_lowers_the_loss():
    model = torch.nn.Sequential(
        qnn.QuantIdentity(bit_width=4, return_quant_tensor=True),
        qnn.QuantLinear(8, 16, weight_bit_width=2),
        torch.nn.BatchNorm1d(16),
        qnn.QuantReLU(bit_width=2, return_quant_tensor=True, collect_stats_steps=10),
        qnn.QuantLinear(16, 2, weight_bit_width=2),
    )
    x = torch.randn(256, 8)
    target = (x[:, 0] * x[:, 1] > 0).long()
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    losses = []
    for _ in range(150):
        loss = torch.nn.functional.cross_entropy(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    assert model[3].act_quant.fused_activation_quant_proxy.tensor_quant.scaling_impl.value.grad is not None
