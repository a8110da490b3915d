"""Thresholds on straight lines: counted as by comparing with each, for every integer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ir import Array, IntRange, counting
from headrace.ir.counting import Thresholds, count_thresholds
from headrace.ir.integer import Activation
from headrace.ir.straight import straight_line


def quantizer(rng: np.random.Generator, channels: int, total: int, high: int) -> Array:
    """Thresholds of quantizers, those of a channel that reaches few at *high*."""
    scale = rng.uniform(0.5, 0.6 + 2.5 * high / total, (channels, 1))
    thresholds = np.ceil(rng.uniform(-high, high / 2, (channels, 1)) + scale * np.arange(total)).astype(np.int64)
    return np.minimum(thresholds, high)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are looked for, and what is worked on together is little."""
    monkeypatch.setattr(counting, "STRAIGHT_COMPARISONS", 1)
    monkeypatch.setattr(counting, "LINE", 24)
    monkeypatch.setattr(counting, "COMPARED_ELEMENTS", 60)


def slowly(x: Array, thresholds: Array) -> Array:
    return np.asarray((x[..., None] >= thresholds).sum(axis=-1))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(8, 260), st.integers(20, 3000))
def test_lines_count_every_integer_as_comparisons_do(seed: int, channels: int, total: int, high: int) -> None:
    rng = np.random.default_rng(seed)
    thresholds = quantizer(rng, channels, total, high)
    line = straight_line(thresholds, high)
    assert line is not None
    x = np.repeat(np.arange(-2 * high, high)[:, None], channels, axis=1)
    ready = Thresholds(thresholds)
    assert np.array_equal(ready.count(x), slowly(x, thresholds))
    assert np.array_equal(ready.count(x + 1), slowly(x + 1, thresholds))  # some reach the top


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["i1", "u1", "i2", "i4", "i8"]), st.booleans())
def test_any_thresholds_of_any_type_are_counted(seed: int, kind: str, moved: bool) -> None:
    """Lines just missed by one threshold among them, and the ends of the type."""
    rng = np.random.default_rng(seed)
    limits, channels = np.iinfo(kind), int(rng.integers(1, 6))
    thresholds = quantizer(rng, int(rng.choice([1, channels])), int(rng.integers(8, 20)), int(rng.integers(20, 200)))
    thresholds[-1, int(rng.integers(thresholds.shape[1]))] += int(rng.integers(-1, 2))
    thresholds = np.sort(thresholds, axis=1)
    x = rng.integers(max(limits.min, -250), min(limits.max, 250), (7, 5, channels), endpoint=True).astype(kind)
    x[0, 0], x[-1, -1] = limits.min, limits.max
    if moved:
        x = np.moveaxis(np.moveaxis(x, -1, 0).copy(), 0, -1)
    assert np.array_equal(Thresholds(thresholds).count(x), slowly(x, thresholds))


def test_lines_are_found_of_quantizers_alone() -> None:
    rng = np.random.default_rng(0)
    assert straight_line(np.array([[1, 2, 3, 4, 5, 6, 7, 20]])) is None
    assert straight_line(np.array([[1, 2, 3, 4, 5, 6, 7, 20]]), 20) is not None
    assert straight_line(np.sort(rng.integers(-500, 500, (3, 15)), axis=1)) is None
    assert straight_line(quantizer(rng, 40, 15, 3000), 3000) is not None
    assert straight_line(np.full((2, 8), 5), 5) is not None  # none is ever reached


def test_large_integers_that_float32_rounds() -> None:
    """Thresholds one above multiples of 2^27: what float32 cannot tell apart has no line."""
    thresholds = np.arange(-4, 5)[None] * 2**27 + 1
    assert straight_line(thresholds) is None
    x = np.concatenate([thresholds - 1, thresholds, thresholds + 1]).reshape(-1, 1)
    assert np.array_equal(Thresholds(thresholds).count(x), slowly(x, thresholds))
    assert count_thresholds(x, thresholds).tolist() == slowly(x, thresholds).tolist()


@pytest.mark.parametrize("step", [1, -1, -3])
def test_activations_along_lines(step: int) -> None:
    rng = np.random.default_rng(1)
    thresholds, base = quantizer(rng, 6, 15, 400), rng.integers(-3, 4, 6)
    op = Activation(thresholds, base, np.full(6, step), IntRange(-50, 50))
    x = rng.integers(-450, 400, (4, 6, 5, 3)).astype(np.int16)
    (y,) = op.execute(x)
    counted = slowly(np.moveaxis(x, 1, -1), thresholds)
    assert np.array_equal(np.moveaxis(y, 1, -1), base + step * counted)
