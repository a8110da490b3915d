"""Losses on bit widths, the cost of hardware, and the end of learning."""

import pickle

import pytest
import torch
from torch import nn

import headrace.loss as loss
import headrace.nn as qnn
from headrace.core.bit_width import BitWidthParameter
from headrace.graph.bit_width import freeze_bit_widths
from headrace.inject.enum import BitWidthImplType, RestrictValueType, ScalingImplType
from headrace.loss.hardware_cost import layer_estimate
from headrace.quant import Int8ActPerTensorFloat, Int8WeightPerTensorFloat, Uint8ActPerTensorFloat


class Weight(Int8WeightPerTensorFloat):
    scaling_impl_type = ScalingImplType.PARAMETER_FROM_STATS
    restrict_scaling_type = RestrictValueType.LOG_FP
    bit_width_impl_type = BitWidthImplType.PARAMETER


class Act(Uint8ActPerTensorFloat):
    restrict_scaling_type = RestrictValueType.LOG_FP
    bit_width_impl_type = BitWidthImplType.PARAMETER


def _model():
    return nn.Sequential(
        qnn.QuantConv2d(2, 3, 3, weight_quant=Weight, input_quant=Int8ActPerTensorFloat, return_quant_tensor=True),
        qnn.QuantReLU(act_quant=Act, bit_width=6, return_quant_tensor=True),
        nn.Flatten(),
        qnn.QuantLinear(3 * 16, 5, weight_quant=Weight, weight_bit_width=4, return_quant_tensor=True),
    )


def test_averages_are_weighted_by_size():
    model = _model()
    weights, activations = loss.WeightBitWidthWeightedBySize(model), loss.ActivationBitWidthWeightedBySize(model)
    model(torch.randn(7, 2, 6, 6))
    sizes = 3 * 2 * 9, 5 * 48
    assert float(weights.retrieve().detach()) == pytest.approx((8 * sizes[0] + 4 * sizes[1]) / sum(sizes))
    assert [float(p.detach()) for p in weights.retrieve(as_average=False)] == pytest.approx(
        [8 * sizes[0] / sum(sizes), 4 * sizes[1] / sum(sizes)]
    )
    assert float(activations.log()) == pytest.approx(6)
    weights.retrieve().backward()
    gradients = [m.bit_width_offset.grad for m in model.modules() if isinstance(m, BitWidthParameter)]
    assert sum(g is not None and float(g) > 0 for g in gradients) == 2
    weights.zero_accumulated_values()
    with pytest.raises(loss.BitWidthLossError, match="run the model forward first"):
        weights.retrieve()
    weights.remove_hooks()
    model(torch.randn(7, 2, 6, 6))
    assert weights.weighted_bit_width_list == []


def test_outputs_are_weighted_by_operations():
    model = _model()
    outputs = loss.QuantLayerOutputBitWidthWeightedByOps(model)
    model(torch.randn(2, 2, 6, 6))
    first = model[0](torch.randn(2, 2, 6, 6)).bit_width
    outputs.zero_accumulated_values()
    out = model(torch.randn(2, 2, 6, 6))
    operations = 3 * 16 * 2 * 18, 5 * 2 * 48
    expected = (float(first.detach()) * operations[0] + float(out.bit_width.detach()) * operations[1]) / sum(operations)
    assert float(outputs.retrieve().detach()) == pytest.approx(expected, rel=1e-5)
    outputs.retrieve().backward()


@pytest.mark.parametrize("cycles", [1, 2, 16, 128])
def test_estimate_rises_with_bit_widths(cycles):
    """More bits never cost less, and bit operations are counted exactly."""
    luts = []
    for x, w in [(2, 2), (4, 2), (4, 3), (7, 3), (7, 5)]:
        guess = layer_estimate((16, 8), 1, torch.tensor(float(x)), torch.tensor(float(w)), cycles)
        luts.append(float(guess.luts))
        assert float(guess.bit_operations) == 16 * 8 * x * w
    assert luts == sorted(luts)
    assert luts[0] < luts[-1]


@pytest.mark.parametrize(("x", "w"), [(2, 2), (4, 3), (7, 5)])
def test_estimate_falls_with_the_cycles_that_a_frame_may_take(x, w):
    """Multipliers are shared when there is time."""
    estimates = [layer_estimate((16, 8), 1, torch.tensor(float(x)), torch.tensor(float(w)), c) for c in (1, 2, 16, 128)]
    luts = [float(e.luts) for e in estimates]
    assert luts == sorted(luts, reverse=True)


def test_cost_of_a_model_has_gradients_for_both_operands():
    model = _model()
    cost = loss.HardwareCost(model, cycles=10)
    model(torch.randn(2, 2, 6, 6))
    assert list(cost.layers) == ["0", "3"]
    assert float(cost.bit_operations().detach()) == 16 * 18 * 3 * 8 * 8 + 48 * 5 * 6 * 4
    cost.luts().backward()
    learned = [m for m in model.modules() if isinstance(m, BitWidthParameter)]
    assert len(learned) == 3
    assert all(float(m.bit_width_offset.grad) > 0 for m in learned)


def test_cost_needs_quantized_operands():
    model = nn.Sequential(qnn.QuantLinear(4, 3))
    loss.HardwareCost(model)
    with pytest.raises(loss.BitWidthLossError, match="0: its input is not quantized"):
        model(torch.randn(2, 4))
    with pytest.raises(loss.BitWidthLossError, match="at least 1, got 0"):
        loss.HardwareCost(model, cycles=0)
    with pytest.raises(loss.BitWidthLossError, match="holds no quantized layer"):
        loss.HardwareCost(nn.ReLU())


def test_frozen_bit_widths_compute_the_same_and_last():
    model = _model()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, BitWidthParameter):
                module.bit_width_offset.add_(-0.7)
    for _ in range(3):
        model(torch.randn(8, 2, 6, 6))
    model.eval()
    x = torch.randn(5, 2, 6, 6)
    with torch.no_grad():
        before = model(x).value
        bits = freeze_bit_widths(model)
        assert bits == {"0.weight_quant": 7, "1.act_quant": 5, "3.weight_quant": 3}
        assert not any(isinstance(m, BitWidthParameter) for m in model.modules())
        assert torch.equal(model(x).value, before)
        copied = pickle.loads(pickle.dumps(model))
        copied.load_state_dict(model.state_dict())
        assert torch.equal(copied(x).value, before)
