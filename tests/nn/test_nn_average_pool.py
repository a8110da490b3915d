"""Average pools of quant tensors against the canonical arithmetic in int64 and float32."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import headrace.nn as qnn
from headrace import quant
from headrace.nn import finalize
from headrace.quant_tensor import IntQuantTensor


def _tensor(low=-128, high=127, scale=0.3, shape=(2, 3, 7, 9), bits=8):
    n = torch.randint(low, high + 1, shape)
    return n, IntQuantTensor(n.float() * scale, torch.tensor(scale), torch.tensor(0.0), torch.tensor(bits), True, False)


def _mean(n, scale, kernel, stride, padding, include):
    """``fl32(fl32(sum * scale) / count)``, window by window."""
    rows, columns = n.shape[-2:]
    n = n.numpy().astype(np.int64)
    out = []
    for y in range(-padding, rows + padding - kernel + 1, stride):
        for x in range(-padding, columns + padding - kernel + 1, stride):
            taps = n[..., max(y, 0) : y + kernel, max(x, 0) : x + kernel]
            count = kernel**2 if include else taps.shape[-1] * taps.shape[-2]
            total = taps.sum((-1, -2)).astype(np.float32) * np.float32(scale)
            out.append(total / np.float32(count))
    return np.stack(out, -1)


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(3, 3, 0), (3, 2, 1), (2, 1, 1), (7, 7, 0)])
def test_mean_is_the_integer_sum_times_the_scale_by_the_count(kernel, stride, padding, include):
    for low, high in ((-128, 127), (-128, -128), (127, 127)):
        n, x = _tensor(low, high)
        got = F.avg_pool2d(x, kernel, stride, padding, count_include_pad=include)
        value = got.value if isinstance(got, IntQuantTensor) else got
        assert isinstance(got, IntQuantTensor) == (include or not padding)
        assert np.array_equal(value.flatten(2).numpy(), _mean(n, 0.3, kernel, stride, padding, include))


def test_sums_beyond_float32_are_exact():
    n, x = _tensor(2**19, 2**20 - 1, shape=(1, 2, 32, 32), bits=21)
    got = F.avg_pool2d(x, 32)
    total = n.sum((-1, -2), keepdim=True)
    assert torch.equal(got.value, total.float() * 0.3 / 1024)


def test_partial_windows_of_ceil_mode_divide_by_their_own_count():
    n, x = _tensor(shape=(1, 1, 5, 5))
    got = F.avg_pool2d(x, 2, ceil_mode=True)
    assert not isinstance(got, IntQuantTensor)
    assert torch.equal(got[0, 0, 2, 2], n[0, 0, 4, 4].float() * 0.3)
    assert torch.equal(got[0, 0, 0, 2], n[0, 0, :2, 4].sum().float() * 0.3 / 2)


def test_pools_of_other_dimensions():
    n, x = _tensor(shape=(2, 3, 12))
    assert torch.equal(F.avg_pool1d(x, 3).value, n.reshape(2, 3, 4, 3).sum(-1).float() * 0.3 / 3)
    assert torch.equal(F.adaptive_avg_pool1d(x, 2).value, n.reshape(2, 3, 2, 6).sum(-1).float() * 0.3 / 6)
    n, x = _tensor(shape=(1, 2, 2, 2, 2))
    assert torch.equal(F.avg_pool3d(x, 2).value.flatten(), n.flatten(2).sum(-1).flatten().float() * 0.3 / 8)


def test_gradient_is_that_of_the_float_pool():
    _, x = _tensor()
    leaf = x.value.clone().requires_grad_()
    y = F.avg_pool2d(x.set(value=leaf), 3)
    y.value.sum().backward()
    assert torch.equal(y.value, F.avg_pool2d(x, 3).value)
    reference = x.value.clone().requires_grad_()
    F.avg_pool2d(reference, 3).sum().backward()
    assert torch.equal(leaf.grad, reference.grad)


def test_finalized_model_pools_integers_between_plain_layers():
    model = nn.Sequential(qnn.QuantIdentity(bit_width=7), nn.AvgPool2d(3), qnn.QuantConv2d(3, 2, 1, bias=False))
    x = torch.randn(4, 3, 6, 6)
    model(x)
    final = finalize(model.eval(), x)
    assert final.report.float_layers == ()
    q = model[0](x)
    scale = model[0].act_quant.scale()
    total = F.avg_pool2d(torch.round(q / scale).double(), 3, divisor_override=1)
    weight = model[2].quant_weight()
    acc = F.conv2d(total, torch.round(weight.value / weight.scale).double())
    expected = acc.float() * (scale.double() * (1 / 9) * weight.scale.double()).float()
    assert torch.equal(final(x), expected)


def test_truncating_an_accumulator():
    n, x = _tensor(-32768, 32767, shape=(100, 7), bits=16)
    y = qnn.TruncQuantAccumulator(quant.TruncTo8bit).eval()(x)
    assert torch.equal(y.int().long(), n >> 8)
    plain = torch.randn(3)
    assert qnn.TruncQuantAccumulator(quant.TruncTo8bit, return_quant_tensor=False)(plain) is plain
