"""Exact products: the bounds decide the number type, and no bit is lost at their edges."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.errors import ModelError
from headrace.ir import exact
from headrace.ir.counting import count_thresholds
from headrace.ir.digits import carrier


@pytest.mark.parametrize(
    ("bound", "kind"),
    [
        (0, np.float32),
        (2**24 - 1, np.float32),
        (2**24, np.float64),
        (2**53 - 1, np.float64),
        (2**53, np.int64),
        (2**63 - 1, np.int64),
    ],
)
def test_carrier(bound: int, kind: type) -> None:
    assert carrier(bound) == np.dtype(kind)


def test_no_type_carries_past_63_bits() -> None:
    with pytest.raises(ModelError, match=r"could reach 2\^63"):
        carrier(2**63)


@pytest.mark.parametrize("bits", [24, 53])
@pytest.mark.parametrize("offset", [-2, -1, 0, 1])
def test_products_at_the_edge_of_a_float(bits: int, offset: int) -> None:
    """A sum of 2^bits + 1 is no float of that significand: one too wide a type choice would lose it."""
    total = 2**bits + offset
    x = np.array([[total // 3, 1, -(total - total // 3 - 1)], [total // 2, total - total // 2 - 1, 1]])
    weights = np.array([[1, -1], [1, 1], [-1, 1]])
    bound = exact.product_bound(weights, 0, np.abs(x).max(axis=0))
    assert bound >= max(abs(int(v)) for v in x.astype(object) @ np.abs(weights.astype(object)).ravel()[::2])
    result = exact.Columns(weights).product(x, bound)
    assert result.tolist() == (x.astype(object) @ weights.astype(object)).tolist()


@pytest.mark.parametrize("limit", [3, 2**10, 2**22, 2**40])
def test_random_products(limit: int) -> None:
    rng = np.random.default_rng(limit)
    x = rng.integers(-limit, limit + 1, (4, 7, 9))
    weights = rng.integers(-limit, limit + 1, (9, 5)) // max(limit // 2**18, 1)
    bound = exact.product_bound(weights, -limit, limit)
    assert exact.Columns(weights).product(x, bound).tolist() == (x.astype(object) @ weights.astype(object)).tolist()


def test_product_bound_is_an_upper_bound_and_refuses_overflow() -> None:
    weights = np.array([[3, -4], [5, 6]])
    assert 4 * 2 + 6 * 7 <= exact.product_bound(weights, np.array([-1, 0]), np.array([2, 7])) <= 4 * 2 + 6 * 7 + 1
    assert exact.product_bound(np.zeros((0, 3), np.int64), 0, 5) == 0
    with pytest.raises(ModelError, match=r"could reach 2\^62"):
        exact.product_bound(np.array([[2**32]]), 0, 2**30)
    assert exact.product_bound(np.array([[2**31]]), 0, 2**30) >= 2**61


def test_accumulator_range_is_reached() -> None:
    """Minimal and sufficient: compared with every combination of the extremes of the inputs."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        depth, width = rng.integers(1, 5, 2)
        weights = rng.integers(-5, 6, (depth, width))
        lo = rng.integers(-8, 3, depth)
        hi = lo + rng.integers(0, 7, depth)
        corners = np.stack([np.where(pick, hi, lo) for pick in np.ndindex(*(2,) * depth)]) @ weights
        low, high = exact.accumulator_range(weights, lo, hi)
        assert low.tolist() == corners.min(axis=0).tolist()
        assert high.tolist() == corners.max(axis=0).tolist()


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("total", [1, 15, 16, 17, 40])
@pytest.mark.parametrize("channels", [1, 3])
def test_count_thresholds(kind: type, total: int, channels: int) -> None:
    """Below and above the limit of comparing one by one, with thresholds that the type of x cannot hold."""
    rng = np.random.default_rng(total)
    limits = np.iinfo(kind)
    x = rng.integers(max(limits.min, -300), min(limits.max, 300) + 1, (5, 2, 3)).astype(kind)
    x.flat[:2] = max(limits.min, -(2**40)), min(limits.max, 2**40)
    thresholds = np.sort(rng.integers(-400, 400, (channels, total)), axis=1)
    thresholds[0, -1] = min(limits.max + 1, 2**50)
    thresholds[0, 0] = -(2**50)
    slow = [
        [
            [sum(int(v) >= int(t) for t in thresholds[c if channels > 1 else 0]) for c, v in enumerate(row)]
            for row in page
        ]
        for page in x.tolist()
    ]
    assert count_thresholds(x, thresholds).tolist() == slow
