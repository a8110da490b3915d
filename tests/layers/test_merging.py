"""Activations that an unrolled MVAU takes over: found exactly or not at all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ir import IntRange
from headrace.layers import StreamType
from headrace.layers.comparisons import staircase
from headrace.layers.mvau import MVAU
from headrace.layers.thresholding import Thresholding


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 4), st.integers(0, 3), st.integers(1, 3), st.integers(-40, 10), st.integers(1, 80),
    st.integers(-8, 8), st.integers(0, 2**32), st.booleans(),
)  # fmt: skip
def test_every_shifted_clamp_is_found(
    channels: int, shift: int, bits: int, lo: int, count: int, base: int, seed: int, tidy: bool
) -> None:
    """The thresholds of a random staircase, with those out of reach left in or moved to where nothing reaches them."""
    x, levels = IntRange(lo, lo + count), 1 << bits
    y = IntRange(base, base + levels - 1)
    if y.bits != bits:
        return
    bias = np.random.default_rng(seed).integers(-60, 60, channels)
    thresholds = np.arange(1, levels) * (1 << shift) - bias[:, None]
    if tidy:
        thresholds = np.sort(np.where(thresholds > x.hi, x.hi + 1, np.maximum(thresholds, x.lo)), axis=1)
    found = staircase(thresholds, np.full(channels, base), np.ones(1, np.int64), x, y)
    assert found is not None
    everything = np.arange(x.lo, x.hi + 1)[:, None]
    expected = base + (everything[..., None] >= thresholds).sum(axis=-1)
    assert np.array_equal(found[1].execute(everything + found[0]), expected)


@pytest.mark.parametrize(
    ("thresholds", "step", "output"),
    [
        ([[0, 3, 6]], 1, IntRange(0, 3)),  # steps of 3
        ([[0, 4, 9]], 1, IntRange(0, 3)),  # uneven
        ([[0, 4, 8], [0, 2, 4]], 1, IntRange(0, 3)),  # channels differ
        ([[0, 4, 8]], -1, IntRange(-3, 0)),  # falls
        ([[0, 0, 4]], 1, IntRange(0, 3)),  # jumps
        ([[0, 4]], 1, IntRange(0, 2)),  # not all levels
    ],
)
def test_other_functions_are_left_alone(thresholds: list[list[int]], step: int, output: IntRange) -> None:
    rows = np.array(thresholds)
    assert staircase(rows, np.zeros(1, np.int64), np.array([step]), IntRange(-50, 50), output) is None


def test_only_an_unrolled_layer_takes_its_activation_over() -> None:
    weights = np.arange(-6, 6).reshape(4, 3)
    stream, sums = StreamType((4,), IntRange(0, 7)), IntRange(-84, 63)
    thresholds = np.arange(1, 16)[None] * 4
    after = Thresholding(
        thresholds, np.zeros(1, np.int64), np.ones(1, np.int64), StreamType((3,), sums), IntRange(0, 15), 3
    )
    unrolled = MVAU(weights, stream, sums, 3, 4)
    both = unrolled.absorb(after)
    assert both is not None
    x = np.random.default_rng(0).integers(0, 8, (200, 4))
    assert np.array_equal(both.execute(x)[0], after.execute(unrolled.execute(x)[0])[0])
    assert MVAU(weights, stream, sums, 3, 2).absorb(after) is None
    assert MVAU(weights, stream, sums, 3, 4, "multiply").absorb(after) is None
    assert both.absorb(after) is None
