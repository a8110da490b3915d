"""The arithmetic of the design page in numpy, integers in int64: what the layers are compared with, bit for bit."""

from __future__ import annotations

import numpy as np


def quantize(x, scale, zero_point, low, high):
    """Integers of the canonical quantizer: float32, one rounding an operation, ties to even."""
    ratio = (x / np.float32(scale)).astype(np.float32) + np.float32(zero_point)
    return np.clip(np.rint(ratio.astype(np.float32)), low, high).astype(np.int64)


def dequantize(q, scale, zero_point=0):
    return ((q - zero_point).astype(np.float32) * np.float32(scale)).astype(np.float32)


def linear(n_x, n_w, s_x, s_w, bias=None):
    """``fl32(fl32(acc) * fl32(s_x * s_w))``, then one addition; *s_w* a scalar or one an output channel."""
    acc = n_x @ n_w.T
    scale = (np.float64(s_x) * np.asarray(s_w, np.float64)).astype(np.float32)
    y = acc.astype(np.float32) * scale
    return y if bias is None else y + bias


def batch_norm(x, mean, var, eps, gamma, beta):
    gain = gamma.astype(np.float64) / np.sqrt(var.astype(np.float64) + np.float64(np.float32(eps)))
    offset = beta.astype(np.float64) + (-mean.astype(np.float64) * gain)
    return x * gain.astype(np.float32) + offset.astype(np.float32)
