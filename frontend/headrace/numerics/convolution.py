"""Padding and the lowering of convolutions to matrix products, for any number of spatial axes.

Pads are ``(begin, ..., end, ...)`` over the spatial axes as in ONNX: ``(top, left, bottom, right)`` for images,
``(begin, end)`` for sequences. A single integer stands for that much on every side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import ArrayLike, NDArray

from headrace.errors import InputError
from headrace.numerics.integers import round_up_to_multiple

S = TypeVar("S", bound=np.generic)


def conv_output_size(size: int, kernel: int, stride: int = 1, pad: int = 0, dilation: int = 1) -> int:
    """Output length of a convolution or pool along one axis.

    Args:
        pad: the sum of both sides.

    Raises:
        InputError: when the dilated kernel does not fit once, or kernel, stride or dilation is below 1.
    """
    if min(kernel, stride, dilation) < 1:
        raise InputError(
            f"kernel={kernel}, stride={stride}, dilation={dilation}: each must be at least 1 along every axis"
        )
    reach = dilation * (kernel - 1) + 1
    if size + pad < reach:
        raise InputError(
            f"a kernel of {kernel} with dilation {dilation} spans {reach} positions; the padded input has {size + pad}"
        )
    return (size + pad - reach) // stride + 1


def same_padding(size: int, kernel: int, stride: int = 1, dilation: int = 1, *, upper: bool = True) -> tuple[int, int]:
    """(begin, end) of ONNX's auto_pad SAME_UPPER (SAME_LOWER with *upper* false): output is ceil(size / stride).

    The odd one goes to the end with *upper*, else to the beginning.
    """
    output = -(-size // stride)
    total = max(0, (output - 1) * stride + dilation * (kernel - 1) + 1 - size)
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)


def pad_spatial(
    x: NDArray[S], pads: int | Sequence[int], value: ArrayLike = 0, *, channels_last: bool = True
) -> NDArray[S]:
    """Pad the spatial axes of [N, ..., C] (or [N, C, ...]).

    Args:
        pads: see the module; none may be negative.
        value: what is written there: one value, or one per channel [C].

    Raises:
        InputError: when *pads* has the wrong length or is negative, or the type of *x* cannot hold *value*.
    """
    spatial = _spatial_rank(x, channels_last)
    before, after = _split_pads(pads, spatial)
    fill = _representable(value, x.dtype)
    if fill.ndim > 1 or (fill.ndim == 1 and fill.shape[0] != x.shape[-1 if channels_last else 1]):
        raise InputError(f"a pad value of shape {fill.shape} is neither one value nor one per channel")
    if not any(before) and not any(after):
        return x
    first = 1 if channels_last else 2
    shape = list(x.shape)
    inside = [slice(None)] * x.ndim
    for axis in range(spatial):
        inside[first + axis] = slice(before[axis], before[axis] + x.shape[first + axis])
        shape[first + axis] += before[axis] + after[axis]
    padded = np.empty(shape, dtype=x.dtype)
    padded[...] = fill if channels_last or fill.ndim == 0 else fill.reshape(-1, *[1] * spatial)
    padded[tuple(inside)] = x
    return padded


def pad_nhwc(x: NDArray[S], pads: int | Sequence[int], value: ArrayLike = 0) -> NDArray[S]:
    """Pad [N, H, W, C] (or [N, L, C]); see :func:`pad_spatial`."""
    return pad_spatial(x, pads, value, channels_last=True)


def pad_nchw(x: NDArray[S], pads: int | Sequence[int], value: ArrayLike = 0) -> NDArray[S]:
    """Pad [N, C, H, W] (or [N, C, L]); see :func:`pad_spatial`."""
    return pad_spatial(x, pads, value, channels_last=False)


def pad_to_multiple(
    x: NDArray[S], multiples: Sequence[int | None], value: ArrayLike = 0, *, centred: bool = False
) -> NDArray[S]:
    """Pad every axis up to a multiple of its entry in *multiples*; None leaves an axis alone.

    Args:
        centred: pad on both sides, the odd one at the end; by default only at the end.

    Raises:
        InputError: when *multiples* does not have one entry an axis, or *x* cannot hold *value*.
    """
    if len(multiples) != x.ndim:
        raise InputError(f"{len(multiples)} multiples for an array of {x.ndim} axes; one an axis is accepted")
    extra = [
        0 if factor is None else round_up_to_multiple(size, factor) - size
        for size, factor in zip(x.shape, multiples, strict=True)
    ]
    before = [total // 2 if centred else 0 for total in extra]
    sides = [(begin, total - begin) for begin, total in zip(before, extra, strict=True)]
    return np.pad(x, sides, constant_values=_representable(value, x.dtype))


def im2col(
    x: NDArray[S],
    kernel: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    pads: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    *,
    pad_value: ArrayLike = 0,
    channels_last: bool = True,
) -> NDArray[S]:
    """Every window of a convolution as a row.

    Args:
        x: [N, H, W, C] or [N, L, C] (with *channels_last*), [N, C, H, W] or [N, C, L] (without).
        kernel, stride, dilation: one integer for all spatial axes, or one for each.
        pads: see the module.
        pad_value: the real zero of *x*: one value, or one per channel.

    Returns:
        [N, OH, OW, KH * KW * C] (or [N, OL, K * C]) for both layouts, columns in the order (kh, kw, c) with the
        channel fastest, as QONNX's Im2Col. Multiply by :func:`conv_weight_matrix` transposed.

    Raises:
        InputError: for shapes that do not fit; see :func:`conv_output_size`.
    """
    spatial = _spatial_rank(x, channels_last)
    kernel, stride, dilation = (_per_axis(v, spatial, n) for v, n in _named(kernel, stride, dilation))
    padded = pad_spatial(x, pads, pad_value, channels_last=channels_last)
    if not channels_last:
        padded = np.moveaxis(padded, 1, -1)
    batch, *sizes, channels = padded.shape
    outputs = [
        conv_output_size(n, k, stride=s, dilation=d) for n, k, s, d in zip(sizes, kernel, stride, dilation, strict=True)
    ]
    of_batch, *of_space, of_channel = padded.strides
    windows = as_strided(
        padded,
        shape=(batch, *outputs, *kernel, channels),
        strides=(
            of_batch,
            *(step * s for step, s in zip(of_space, stride, strict=True)),
            *(step * d for step, d in zip(of_space, dilation, strict=True)),
            of_channel,
        ),
        writeable=False,
    )
    rows = windows.reshape(batch, *outputs, int(np.prod(kernel)) * channels)
    return rows if rows.flags.writeable else rows.copy()  # a 1x1 kernel would return a view of x


def conv_weight_matrix(weights: NDArray[S]) -> NDArray[S]:
    """Convolution weights [OC, IC, KH, KW] (or [OC, IC, K]) as [OC, KH * KW * IC], in :func:`im2col`'s column order."""
    if weights.ndim < 3:
        raise InputError(f"weights of shape {weights.shape} are not of a convolution; [OC, IC, K...] is accepted")
    return np.moveaxis(weights, 1, -1).reshape(weights.shape[0], -1)


def _named(
    kernel: int | Sequence[int], stride: int | Sequence[int], dilation: int | Sequence[int]
) -> list[tuple[int | Sequence[int], str]]:
    return [(kernel, "kernel"), (stride, "stride"), (dilation, "dilation")]


def _per_axis(value: int | Sequence[int], spatial: int, name: str) -> tuple[int, ...]:
    values = (value,) * spatial if isinstance(value, int | np.integer) else tuple(int(v) for v in value)
    if len(values) != spatial:
        raise InputError(f"{name}={list(values)} has {len(values)} entries; one integer or {spatial} are accepted")
    return values


def _split_pads(pads: int | Sequence[int], spatial: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    values = _per_axis(pads, 2 * spatial, "pads")
    if min(values) < 0:
        raise InputError(f"pads={list(values)}: a negative pad would crop; 0 or more is accepted")
    return values[:spatial], values[spatial:]


def _spatial_rank(x: NDArray[np.generic], channels_last: bool) -> int:
    if x.ndim < 3:
        layout = "[N, spatial..., C]" if channels_last else "[N, C, spatial...]"
        raise InputError(f"an array of shape {x.shape} has no spatial axis; {layout} is accepted")
    return x.ndim - 2


def _representable(value: ArrayLike, dtype: np.dtype[S]) -> NDArray[S]:
    given = np.asarray(value)
    with np.errstate(invalid="ignore", over="ignore"):
        stored = given.astype(dtype)
    if not np.array_equal(stored, given):
        raise InputError(f"the pad value {value!r} is not a value of an array of {dtype}")
    return stored
