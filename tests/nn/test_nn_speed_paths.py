"""The fast paths of training and evaluation give what the plain ones give."""

import copy
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import headrace.nn as qnn
from headrace import quant
from headrace.core import autograd, functional
from headrace.core.tracked_state import TrackedState
from headrace.quant_tensor import IntQuantTensor

ACTIVATIONS = [
    lambda: qnn.QuantReLU(bit_width=3, return_quant_tensor=True),
    lambda: qnn.QuantIdentity(bit_width=4, return_quant_tensor=True),
    lambda: qnn.QuantIdentity(act_quant=quant.ShiftedUint8ActPerTensorFloat, return_quant_tensor=True),
    lambda: qnn.QuantReLU(act_quant=quant.Uint8ActPerTensorFixedPoint, bit_width=2, return_quant_tensor=True),
    lambda: qnn.QuantReLU(
        bit_width=4,
        max_val=3.0,
        scaling_per_output_channel=True,
        per_channel_broadcastable_shape=(1, 6),
        act_quant=quant.Uint8ActPerTensorFloatMaxInit,
        return_quant_tensor=True,
    ),
    lambda: qnn.QuantHardTanh(bit_width=3, min_val=-1.0, max_val=1.0, return_quant_tensor=True),
]


@pytest.mark.parametrize("make", ACTIVATIONS)
def test_constants_of_evaluation_change_nothing(make):
    act = make()
    for _ in range(3):
        act(torch.randn(32, 6))
    act.eval()
    x = torch.cat([torch.randn(64, 6) * 4, torch.tensor([[0.0, -0.0, 1e30, -1e30, 1e-30, 0.5]])])
    with torch.enable_grad():
        plain = act(x)
    with torch.no_grad():
        fast = act(x)
    assert fast.integers_if_known is not None
    assert torch.equal(fast.value, plain.value)
    for name in ("scale", "zero_point", "bit_width"):
        assert torch.equal(getattr(fast, name), getattr(plain, name))
    assert (fast.signed, fast.training) == (plain.signed, plain.training)
    assert torch.equal(fast.int(), plain.int())


def _replace_parameter(scaling):
    scaling.value = nn.Parameter(torch.tensor(0.7))


def _replace_data(scaling):
    scaling.value.data = torch.tensor(0.7)


def _fill_data(scaling):
    scaling.value.data.fill_(0.7)


def _fill(scaling):
    with torch.no_grad():
        scaling.value.fill_(0.7)


@pytest.mark.parametrize("change", [_replace_parameter, _replace_data, _fill_data, _fill])
def test_constants_follow_the_scale(change):
    act = qnn.QuantHardTanh(bit_width=3, min_val=-1.0, max_val=1.0, return_quant_tensor=True).eval()
    layer = qnn.QuantLinear(4, 3, weight_bit_width=3).eval()
    x = torch.randn(5, 4)
    with torch.no_grad():
        before = layer(act(x))
        change(act.act_quant.fused_activation_quant_proxy.tensor_quant.scaling_impl)
        after = layer(act(x))
    fresh = pickle.loads(pickle.dumps(nn.Sequential(act, layer)))
    assert not torch.equal(before, after)
    with torch.no_grad():
        assert torch.equal(after, fresh(x))


def test_constants_follow_calibration_and_loading():
    first, second = (qnn.QuantIdentity(bit_width=4) for _ in range(2))
    first(torch.randn(64)), second(3 * torch.randn(64))
    first.eval(), second.eval()
    x = torch.randn(100)
    with torch.no_grad():
        before = first(x)
        first.load_state_dict(second.state_dict())
        assert torch.equal(first(x), second(x))
        assert not torch.equal(before, second(x))


def test_integers_pass_through_pools_and_views():
    act = qnn.QuantReLU(bit_width=3, return_quant_tensor=True)
    act(torch.randn(2, 3, 8, 8))
    act.eval()
    with torch.no_grad():
        out = act(torch.randn(2, 3, 8, 8))
        moved = F.max_pool2d(out, 2).flatten(1)
    assert isinstance(moved, IntQuantTensor)
    assert "value" not in moved.__dict__
    assert "value" not in out.__dict__
    assert torch.equal(moved.value, F.max_pool2d(out.value, 2).flatten(1))
    for copied in (copy.deepcopy(moved), pickle.loads(pickle.dumps(moved))):
        assert torch.equal(copied.int(), moved.int())


@pytest.mark.parametrize(
    ("low", "high"), [(-8, 7), (-7, 7), (0, 15), (0, 14), (-2, 1), (-1, 1), (0, 1), (-1, 0), (0, 255)]
)
@pytest.mark.parametrize("rectify", [False, True])
def test_gradient_at_every_tie_and_its_neighbours(low, high, rectify):
    """The mask without a mask: what rounds into the range, to the last float32."""
    ties = np.arange(low - 2, high + 2, dtype=np.float32) + np.float32(0.5)
    near = [np.nextafter(ties, np.float32(way)) for way in (-np.inf, np.inf)]
    ratio = torch.from_numpy(np.concatenate([ties, *near, np.arange(low - 2, high + 3, dtype=np.float32)]))
    x = ratio.clone().requires_grad_()
    out = autograd.fake_quantize(x, torch.tensor(1.0), None, low, high, rectify=rectify)
    out.sum().backward()
    seen = torch.relu(ratio) if rectify else ratio
    integer = torch.round(seen)
    lowest = max(low, 0) if rectify else low
    inside = (integer >= lowest) & (integer <= high) & ((ratio > 0) if rectify else True)
    assert torch.equal(out.detach(), integer.clamp(lowest, high))
    assert torch.equal(x.grad, inside.float())


@pytest.mark.parametrize("shape", [(), (1, 5)])
def test_fused_relu_has_the_gradients_of_the_composition(shape):
    x, g = torch.randn(200, 5) * 3, torch.randn(200, 5)
    results = []
    for fused in (True, False):
        leaf, scale = x.clone().requires_grad_(), torch.full(shape, 0.3).requires_grad_()
        if fused:
            out = autograd.fake_quantize(leaf, scale, None, 0, 7, rectify=True)
        else:
            y = functional.round_ste(torch.relu(leaf) / scale)
            out = functional.tensor_clamp(y, torch.tensor(0.0), torch.tensor(7.0)) * scale
        out.backward(g)
        results.append((out.detach(), leaf.grad, scale.grad))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1] != 0, results[1][1] != 0)
    torch.testing.assert_close(results[0][2], results[1][2])


def _network():
    return nn.Sequential(
        qnn.QuantIdentity(bit_width=4, return_quant_tensor=True),
        qnn.QuantConv2d(3, 8, 3, weight_bit_width=4, weight_scaling_per_output_channel=True),
        nn.BatchNorm2d(8),
        qnn.QuantReLU(bit_width=3, return_quant_tensor=True),
        nn.Flatten(),
        qnn.QuantLinear(8 * 36, 5, weight_bit_width=2, bias=False),
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_no_host_synchronisation_on_a_gpu():
    """A training step and a second evaluation never wait for the device."""
    model, x = _network().cuda(), torch.randn(4, 3, 8, 8, device="cuda")
    for module in model.modules():
        if hasattr(module, "collect_stats_steps"):
            module.collect_stats_steps = 1
    for _ in range(3):
        model(x).sum().backward()
    model.eval()
    with torch.no_grad():
        model(x)
    try:
        torch.cuda.set_sync_debug_mode("error")
        with torch.no_grad():
            model(x)
        torch.cuda.set_sync_debug_mode("default")
        model.train()
        torch.cuda.set_sync_debug_mode("error")
        model(x).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


TENSORS = {
    "contiguous": lambda: torch.randn(64, 40),
    "channels last": lambda: torch.randn(8, 16, 5, 5).contiguous(memory_format=torch.channels_last),
    "transposed": lambda: torch.randn(40, 64).t(),
    "columns": lambda: torch.randn(64, 80)[:, ::2],
    "scalar": lambda: torch.tensor(0.5),
    "bfloat16": lambda: torch.randn(3, 4).bfloat16(),
    "float64": lambda: torch.randn(3, 4).double(),
    "whole numbers": lambda: torch.ones(3, dtype=torch.int64),
    "truth values": lambda: torch.zeros(3, dtype=torch.bool),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_tracked_state_sees_changes_without_a_version(kind):
    module = nn.Module()
    module.register_buffer("state", TENSORS[kind]())
    state = TrackedState(module)
    assert state.is_current()
    module.state.data.copy_((module.state == 0) if module.state.dtype == torch.bool else module.state + 1)
    assert not state.is_current()


def test_tracked_state_sees_another_tensor_and_other_memory():
    module = nn.Linear(3, 2)
    state = TrackedState(module)
    module.weight = nn.Parameter(module.weight.detach())
    assert not state.is_current()
    state = TrackedState(module)
    module.weight.data = module.weight.detach().clone()
    assert not state.is_current()
    with torch.inference_mode():
        frozen = nn.Linear(3, 2)
        assert TrackedState(frozen).is_current()
