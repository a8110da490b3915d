"""The integer operators in plain Python loops: their specification."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def matmul(x: Array, weights: Array) -> list[Any]:
    """Sum of products along the last axis."""
    if x.ndim > 1:
        return [matmul(part, weights) for part in x]
    depth, width = weights.shape
    return [sum(int(x[k]) * int(weights[k, m]) for k in range(depth)) for m in range(width)]


def windows(
    image: Array, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], pads: Sequence[Sequence[int]]
) -> Iterator[tuple[tuple[int, ...], list[tuple[tuple[int, ...], int | None]]]]:
    """For every output position the kernel position and value of each tap; None in the padding."""
    size = [
        (n + sum(p) - (k - 1) * d - 1) // s + 1
        for n, p, k, s, d in zip(image.shape, pads, kernel, strides, dilations, strict=True)
    ]
    for out in itertools.product(*(range(n) for n in size)):
        taps = []
        for tap in itertools.product(*(range(k) for k in kernel)):
            at = [o * s + t * d - p[0] for o, s, t, d, p in zip(out, strides, tap, dilations, pads, strict=True)]
            inside = all(0 <= a < n for a, n in zip(at, image.shape, strict=True))
            taps.append((tap, int(image[tuple(at)]) if inside else None))
        yield out, taps


def convolve(x: Array, weights: Array, window: tuple[Any, ...], groups: int) -> Array:
    """One frame ``(C, *size)``."""
    per_in, per_out = weights.shape[1], weights.shape[0] // groups
    result: dict[tuple[int, ...], int] = {}
    for o in range(weights.shape[0]):
        for i in range(per_in):
            for out, taps in windows(x[o // per_out * per_in + i], weights.shape[2:], *window):
                total = sum(v * int(weights[(o, i, *tap)]) for tap, v in taps if v is not None)
                result[(o, *out)] = result.get((o, *out), 0) + total
    return dense(result)


def pool(x: Array, window: tuple[Any, ...], reduce: Callable[[list[int]], int]) -> Array:
    """One frame ``(C, *size)``; *reduce* sees the taps inside the image."""
    result = {}
    for c, image in enumerate(x):
        for out, taps in windows(image, *window):
            result[(c, *out)] = reduce([v for _, v in taps if v is not None])
    return dense(result)


def dense(values: dict[tuple[int, ...], int]) -> Array:
    """Values by index as an array."""
    shape = tuple(max(index[axis] for index in values) + 1 for axis in range(len(next(iter(values)))))
    array = np.zeros(shape, np.int64)
    for index, value in values.items():
        array[index] = value
    return array
