"""Layers in numpy int64, written for clarity: what exact means for the library and for the compiler."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import nn

import headrace.nn as qnn


def integers(quantized):
    """``integer - zero_point`` of a quant tensor, int64."""
    n = quantized.value.detach().double() / quantized.scale.detach().double()
    rounded = np.rint(n.numpy())
    assert np.abs(n.numpy() - rounded).max(initial=0) < 1e-3
    return rounded.astype(np.int64)


def linear(x, w):
    return x @ w.T


def convolution(x, w, stride, padding, dilation, groups):
    """``(N, C, *size)`` by ``(O, C / groups, *kernel)``."""
    ndim = w.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in padding]])
    size = [
        (n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation, strict=True)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *size), np.int64)
    per_in, per_out = w.shape[1], w.shape[0] // groups
    for g in range(groups):
        inputs, outputs = slice(g * per_in, (g + 1) * per_in), slice(g * per_out, (g + 1) * per_out)
        for tap in itertools.product(*map(range, w.shape[2:])):
            at = tuple(slice(t * dilation[i], t * dilation[i] + stride[i] * (size[i] - 1) + 1, stride[i])
                       for i, t in enumerate(tap))  # fmt: skip
            seen = x[(slice(None), inputs, *at)]
            out[:, outputs] += np.einsum("nc...,oc->no...", seen, w[(outputs, slice(None), *tap)])
    assert out.ndim == ndim + 2
    return out


def transposed(x, w, stride, padding, output_padding, dilation, groups):
    """``(N, C, *size)`` by ``(C, O / groups, *kernel)``: every input is spread over the outputs it reaches."""
    per_in, per_out = w.shape[0] // groups, w.shape[1]
    full = [
        (n - 1) * s + d * (k - 1) + 1 + op
        for n, s, d, k, op in zip(x.shape[2:], stride, dilation, w.shape[2:], output_padding, strict=True)
    ]
    out = np.zeros((x.shape[0], per_out * groups, *full), np.int64)
    for g in range(groups):
        inputs, outputs = slice(g * per_in, (g + 1) * per_in), slice(g * per_out, (g + 1) * per_out)
        for tap in itertools.product(*map(range, w.shape[2:])):
            at = tuple(slice(t * dilation[i], t * dilation[i] + stride[i] * (x.shape[2 + i] - 1) + 1, stride[i])
                       for i, t in enumerate(tap))  # fmt: skip
            out[(slice(None), outputs, *at)] += np.einsum(
                "nc...,co->no...", x[:, inputs], w[(inputs, slice(None), *tap)]
            )
    crop = tuple(slice(p, n - p) for p, n in zip(padding, full, strict=True))
    return out[(slice(None), slice(None), *crop)]


def dequantized(acc, input_scale, weight_scale, channel_shape, bias):
    """``fl32(fl32(acc) * fl32(s_x * s_w))``, then one float32 addition."""
    scale = (np.float64(input_scale) * np.asarray(weight_scale, np.float64)).astype(np.float32).reshape(-1)
    y = acc.astype(np.float32) * scale.reshape(channel_shape if scale.size > 1 else ())
    return y if bias is None else y + bias.reshape(channel_shape)


def layer_output(layer, x):
    """What the layer *layer* has to return for *x*, computed here."""
    seen = qnn.exact.quantized(layer.input_quant(x))
    weight = layer.quant_weight()
    n_x, n_w = integers(seen), integers(weight)
    if isinstance(layer, qnn.QuantLinear):
        acc = linear(n_x, n_w)
    elif isinstance(layer, qnn.QuantScaleBias):
        acc = n_x * n_w.reshape(layer.runtime_shape)
    elif isinstance(layer, nn.modules.conv._ConvTransposeNd):
        extra = (layer.output_padding, layer.dilation, layer.groups)
        acc = transposed(n_x, n_w, layer.stride, layer.padding, *extra)
    else:
        acc = convolution(n_x, n_w, layer.stride, layer.padding, layer.dilation, layer.groups)
    bias = None
    if layer.bias is not None:
        quantized = layer.bias_quant(layer.bias, seen, weight)
        bias = (quantized if isinstance(quantized, torch.Tensor) else quantized.value).detach().numpy()
    channels = (1, -1, *[1] * (acc.ndim - 2))
    scales = (t.detach().numpy().reshape(-1) for t in (seen.scale, weight.scale))
    return dequantized(acc, *scales, channels, bias)
