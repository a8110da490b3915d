"""Padding and im2col against QONNX's and against the definition of a convolution."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from qonnx.custom_op.general.im2col import compute_conv_output_dim, im2col_indices_nchw
from qonnx.util.basic import auto_pad_to_explicit_padding, pad_tensor_to_multiple_of, roundup_to_integer_multiple

from headrace.errors import InputError
from headrace.numerics import (
    conv_output_size,
    conv_weight_matrix,
    im2col,
    pad_nchw,
    pad_nhwc,
    pad_to_multiple,
    round_up_to_multiple,
    same_padding,
)


def qonnx_im2col(x: np.ndarray, kernel, stride, pads, dilation, value) -> np.ndarray:
    """What QONNX's Im2Col node computes, one image at a time (its batch order is wrong for more)."""
    _, height, width, channels = x.shape
    rows = compute_conv_output_dim(height, kernel[0], stride[0], pads[0] + pads[2], dilation[0])
    columns = compute_conv_output_dim(width, kernel[1], stride[1], pads[1] + pads[3], dilation[1])
    images = []
    for image in x.transpose(0, 3, 1, 2):
        flat = im2col_indices_nchw(
            image[None],
            height,
            width,
            *kernel,
            list(pads),
            *stride,
            value,
            dilation_h=dilation[0],
            dilation_w=dilation[1],
        )
        split = flat.reshape(channels, *kernel, rows, columns).transpose(3, 4, 1, 2, 0)
        images.append(split.reshape(rows, columns, -1))
    return np.stack(images)


CASES = [
    ((3, 3), (1, 1), (0, 0, 0, 0), (1, 1), 0),
    ((3, 2), (2, 1), (1, 0, 2, 1), (1, 1), 0),
    ((2, 3), (1, 2), (0, 3, 1, 0), (2, 1), -1),
    ((1, 1), (3, 2), (0, 0, 0, 0), (1, 1), 0),
    ((3, 3), (1, 1), (2, 2, 2, 2), (2, 2), 7),
    ((6, 7), (1, 1), (0, 0, 0, 0), (1, 1), 0),
]


@pytest.mark.parametrize(("kernel", "stride", "pads", "dilation", "value"), CASES)
@pytest.mark.parametrize("channels", [1, 3])
def test_im2col_equals_qonnx(kernel, stride, pads, dilation, value, channels: int) -> None:
    x = np.random.default_rng(1).integers(-8, 8, (2, 6, 7, channels)).astype(np.float32)
    expected = qonnx_im2col(x, kernel, stride, pads, dilation, value)
    assert np.array_equal(im2col(x, kernel, stride, pads, dilation, pad_value=value), expected)
    nchw = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    assert np.array_equal(im2col(nchw, kernel, stride, pads, dilation, pad_value=value, channels_last=False), expected)


def convolve(x: np.ndarray, w: np.ndarray, stride: int, pads: tuple[int, int], dilation: int, fill: int) -> np.ndarray:
    """Cross-correlation of [N, L, C] with [OC, C, K], by its definition."""
    batch, length, channels = x.shape
    outputs, _, taps = w.shape
    size = (length + sum(pads) - dilation * (taps - 1) - 1) // stride + 1
    y = np.zeros((batch, size, outputs), dtype=np.int64)
    for n, o, oc, k, c in itertools.product(*map(range, (batch, size, outputs, taps, channels))):
        at = o * stride + k * dilation - pads[0]
        y[n, o, oc] += w[oc, c, k] * (x[n, at, c] if 0 <= at < length else fill)
    return y


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 3), st.integers(1, 3), st.integers(0, 3), st.integers(0, 3)
)
def test_sequences_convolve_by_definition(seed: int, length: int, taps: int, stride: int, begin: int, end: int) -> None:
    rng = np.random.default_rng(seed)
    dilation, fill = int(rng.integers(1, 3)), int(rng.integers(-2, 3))
    assume(length + begin + end >= dilation * (taps - 1) + 1)
    x, w = rng.integers(-8, 8, (2, length, 2)), rng.integers(-8, 8, (3, 2, taps))
    columns = im2col(x, taps, stride, (begin, end), dilation, pad_value=fill)
    expected = convolve(x, w, stride, (begin, end), dilation, fill)
    assert np.array_equal(columns @ conv_weight_matrix(w).T, expected)
    channels_first = im2col(x.swapaxes(1, 2), taps, stride, (begin, end), dilation, pad_value=fill, channels_last=False)
    assert np.array_equal(channels_first, columns)


def test_images_convolve_like_their_matrix() -> None:
    rng = np.random.default_rng(2)
    x, w = rng.integers(-8, 8, (1, 5, 5, 2)), rng.integers(-8, 8, (3, 2, 3, 2))
    y = im2col(x, (3, 2)) @ conv_weight_matrix(w).T
    assert y.shape == (1, 3, 4, 3)
    for oh, ow, oc in itertools.product(range(3), range(4), range(3)):
        window = x[0, oh : oh + 3, ow : ow + 2, :]
        assert y[0, oh, ow, oc] == (window * w[oc].transpose(1, 2, 0)).sum()


def test_im2col_returns_its_own_memory() -> None:
    x = np.zeros((1, 4, 4, 2), dtype=np.int64)
    im2col(x, 1)[...] = 5
    assert not x.any()


@given(st.integers(1, 40), st.integers(1, 7), st.integers(1, 5), st.integers(0, 6), st.integers(1, 4))
def test_output_size(size: int, kernel: int, stride: int, pad: int, dilation: int) -> None:
    reach = dilation * (kernel - 1) + 1
    if size + pad < reach:
        with pytest.raises(InputError, match=f"spans {reach} positions"):
            conv_output_size(size, kernel, stride, pad, dilation)
    else:
        starts = [at for at in range(0, size + pad, stride) if at + reach <= size + pad]
        assert conv_output_size(size, kernel, stride, pad, dilation) == len(starts)
        assert len(starts) == compute_conv_output_dim(size, kernel, stride, pad, dilation)


@given(st.integers(1, 40), st.integers(1, 7), st.integers(1, 5), st.integers(1, 3), st.booleans())
def test_same_padding_keeps_the_strided_size(size: int, kernel: int, stride: int, dilation: int, upper: bool) -> None:
    begin, end = same_padding(size, kernel, stride, dilation, upper=upper)
    assert conv_output_size(size, kernel, stride, begin + end, dilation) == -(-size // stride)
    assert end - begin in ((0, 1) if upper else (0, -1))


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5])
def test_same_padding_equals_qonnx_at_stride_one(mode: str, kernel: int) -> None:
    begin, end = same_padding(9, kernel, upper=mode == "SAME_UPPER")
    assert [begin, begin, end, end] == auto_pad_to_explicit_padding(mode, 9, 9, kernel, kernel, 1, 1, 2)


def test_pad_writes_the_value_outside_only() -> None:
    x = np.arange(24, dtype=np.int8).reshape(1, 2, 3, 4)
    padded = pad_nhwc(x, (1, 2, 0, 1), -7)
    assert padded.dtype == np.int8
    assert padded.shape == (1, 3, 6, 4)
    assert np.array_equal(padded, np.pad(x, ((0, 0), (1, 0), (2, 1), (0, 0)), constant_values=-7))
    assert np.array_equal(pad_nhwc(x, 2, 1), np.pad(x, ((0, 0), (2, 2), (2, 2), (0, 0)), constant_values=1))
    nchw = pad_nchw(x.transpose(0, 3, 1, 2), (1, 2, 0, 1), -7)
    assert np.array_equal(nchw, padded.transpose(0, 3, 1, 2))


def test_pad_with_one_value_per_channel() -> None:
    x = np.ones((2, 3, 2), dtype=np.int64)
    padded = pad_nhwc(x, (1, 0), [5, 6])
    assert padded[:, 0].tolist() == [[5, 6], [5, 6]]
    assert np.array_equal(pad_nchw(x.swapaxes(1, 2), (1, 0), [5, 6]), padded.swapaxes(1, 2))


@pytest.mark.parametrize("multiples", [(4, 3), (None, 5), (1, 1), (7, None)])
@pytest.mark.parametrize("centred", [False, True])
def test_pad_to_multiple_equals_qonnx(multiples, centred: bool) -> None:
    x = np.random.default_rng(3).integers(-8, 8, (5, 6)).astype(np.float32)
    expected = pad_tensor_to_multiple_of(x, [-1 if m is None else m for m in multiples], val=3, distr_pad=centred)
    assert np.array_equal(pad_to_multiple(x, multiples, 3, centred=centred), expected)


@given(st.integers(1, 1000), st.integers(1, 100))
def test_round_up_equals_qonnx(value: int, factor: int) -> None:
    assert round_up_to_multiple(value, factor) == roundup_to_integer_multiple(value, factor)


def test_bad_geometry_is_refused() -> None:
    x = np.zeros((1, 4, 4, 2), dtype=np.int8)
    for bad, message in [
        (lambda: im2col(x, (3, 3, 3)), r"kernel=\[3, 3, 3\] has 3 entries; one integer or 2"),
        (lambda: im2col(x, 3, (1, 2, 3)), "stride"),
        (lambda: im2col(x, 3, pads=(1, 2)), r"pads=\[1, 2\] has 2 entries; one integer or 4"),
        (lambda: im2col(x, 3, pads=-1), "negative"),
        (lambda: im2col(x, 5), "spans 5 positions; the padded input has 4"),
        (lambda: im2col(x, 3, 0), "at least 1"),
        (lambda: im2col(np.zeros((4, 4)), 1), "no spatial axis"),
        (lambda: pad_nhwc(x, 1, 200), "200 is not a value of an array of int8"),
        (lambda: pad_nhwc(x, 1, 0.5), "0.5 is not a value"),
        (lambda: pad_nhwc(x, 1, [1, 2, 3]), "one per channel"),
        (lambda: pad_to_multiple(x, (2, 2)), "2 multiples for an array of 4 axes"),
        (lambda: conv_weight_matrix(np.zeros((2, 3))), "not of a convolution"),
    ]:
        with pytest.raises(InputError, match=message):
            bad()
