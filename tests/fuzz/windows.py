"""Sliding windows, gathered one output position at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Pads = Sequence[tuple[int, int]]


def window(a: dict[str, Any], kernel: Sequence[int]) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    n = len(kernel)
    flat = a.get("pads", [0] * 2 * n)
    return a.get("strides", [1] * n), a.get("dilations", [1] * n), list(zip(flat[:n], flat[n:], strict=True))


def views(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[tuple[int, int]],
    fill: float,
) -> Array:
    """Every window, ``(N, C, *out, taps)``, gathered one output position at a time."""
    x = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    sizes = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True)]
    out = np.empty((*x.shape[:2], *sizes, int(np.prod(kernel))), x.dtype)
    for position in np.ndindex(*sizes):
        index = tuple(
            slice(p * s, p * s + (k - 1) * d + 1, d)
            for p, k, s, d in zip(position, kernel, strides, dilations, strict=True)
        )
        out[(slice(None), slice(None), *position)] = x[(slice(None), slice(None), *index)].reshape(*x.shape[:2], -1)
    return out


def conv(
    x: Array, w: Array, strides: Sequence[int], dilations: Sequence[int], pads: Sequence[tuple[int, int]], groups: int
) -> Array:
    windows = views(x, w.shape[2:], strides, dilations, pads, 0)
    per_in, per_out = w.shape[1], w.shape[0] // groups
    channels = []
    for m in range(w.shape[0]):
        first = m // per_out * per_in
        taps = w[m].reshape(per_in, *(1,) * (w.ndim - 2), -1)
        channels.append((windows[:, first : first + per_in] * taps).sum(axis=(1, -1)))
    return np.stack(channels, axis=1)


def pool(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[tuple[int, int]],
    fill: float,
    reduce: Callable[..., Array],
) -> Array:
    return reduce(views(x, kernel, strides, dilations, pads, fill), axis=-1)


def scatter(x: Array, w: Array, a: dict[str, Any]) -> Array:
    """A transposed convolution: every pixel adds its multiple of the kernel; weights ``(O, C/groups, *kernel)``."""
    n, kernel, groups = w.ndim - 2, w.shape[2:], a.get("group", 1)
    strides, dilations, pads = window(a, kernel)
    extra = a.get("output_padding", [0] * n)
    size = [
        s * (m - 1) + d * (k - 1) + 1 + e
        for m, k, s, d, e in zip(x.shape[2:], kernel, strides, dilations, extra, strict=True)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *size), x.dtype)
    per_in, per_out = w.shape[1], w.shape[0] // groups
    for o in range(w.shape[0]):
        first = o // per_out * per_in
        for at in np.ndindex(*x.shape[2:]):
            for tap in np.ndindex(*kernel):
                where = tuple(p * s + t * d for p, s, t, d in zip(at, strides, tap, dilations, strict=True))
                pixels = x[(slice(None), slice(first, first + per_in), *at)]
                out[(slice(None), o, *where)] += pixels @ w[(o, slice(None), *tap)]
    crop = tuple(slice(b, m - e) for m, (b, e) in zip(size, pads, strict=True))
    return out[(slice(None), slice(None), *crop)]
