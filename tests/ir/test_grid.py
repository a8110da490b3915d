"""Integer grids of constants: found exactly or not at all."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from headrace.ir.grid import FAR, WIDEST_WEIGHT, Clamp, Grid, compact, find_grid
from headrace.numerics.common_grid import common_grid, mantissas

Array = NDArray[Any]

TENTH = float(np.float32(0.1))


def exactly(values: object) -> list[Fraction]:
    return [Fraction(v) for v in np.asarray(values, np.float64).ravel().tolist()]


def check_grid(values: Array, grid: Grid | None) -> Grid:
    """*grid* gives exactly *values*, in rational arithmetic."""
    assert grid is not None
    assert grid.q.dtype == np.int64
    scale = np.broadcast_to(grid.scale, values.shape)
    products = [Fraction(s) * q for s, q in zip(scale.ravel().tolist(), grid.q.ravel().tolist(), strict=True)]
    assert products == exactly(values)
    assert not np.any(grid.bias)
    return grid


@pytest.mark.parametrize(
    "values",
    [
        [0.0],
        [1.0, -1.0, 0.0],
        [0.1, 0.2, 1e-300, -1e300],
        [5e-324, 1.0],
        [2.0**-149, 3 * 2.0**-149],
        [-0.0, 2.0**52 + 1],
        [],
    ],
)
def test_mantissas_are_exact(values: list[float]) -> None:
    whole, exponent = mantissas(np.array(values))
    assert [Fraction(m) * Fraction(2) ** exponent for m in whole] == exactly(values)


def test_common_grid_is_the_largest() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        unit = float(np.float32(rng.uniform(1e-4, 10))) * 2.0 ** int(rng.integers(-100, 100))
        n = rng.integers(-50, 51, 4)
        found = common_grid(unit * n.astype(np.float64), 100)
        assert found is not None
        g, multiples = found
        assert [Fraction(g) * int(m) for m in multiples] == [Fraction(unit) * int(k) for k in n]
        assert np.gcd.reduce(multiples) in (0, 1), "no coarser grid holds them all"


def test_common_grid_of_zeros_and_its_limit() -> None:
    zeros = common_grid(np.zeros((2, 1)), 0)
    assert zeros is not None
    assert zeros[0] == 1.0
    assert zeros[1].tolist() == [[0], [0]]
    alone = common_grid(np.array([0.0, -TENTH]), 1)
    assert alone is not None
    assert (alone[0], alone[1].tolist()) == (TENTH, [0, -1])
    assert common_grid(np.array([1.0, 8.0]), 8) is not None
    assert common_grid(np.array([1.0, 8.0]), 7) is None
    assert common_grid(np.array([1.0, -8.0]), 7) is None
    assert common_grid(np.array([1e-300, 1e300]), 2**40) is None


@pytest.mark.parametrize("scale", [1.0, 0.5, 3.0, 2.0**-140, 2.0**100, -0.25])
def test_weights_on_one_dyadic_grid(scale: float) -> None:
    q = np.random.default_rng(1).integers(-100, 101, (4, 5))
    check_grid(q * scale, find_grid(np.float32(q * scale), 1))


@pytest.mark.parametrize("scale", [0.1, 1 / 3, 0.7231])
def test_multiples_of_a_float32_scale(scale: float) -> None:
    """Multiples that float32 holds exactly are found, and so are those that were rounded to it."""
    step = np.float32(scale)
    exact = np.array([[-4, 2, 0, 1, 4, 8]]) * np.float64(step)
    grid = check_grid(exact, find_grid(np.float32(exact), None))
    assert grid.q.tolist() == [[-4, 2, 0, 1, 4, 8]]
    rounded = np.arange(-100, 100, dtype=np.float32).reshape(20, 10) * step
    found = find_grid(rounded, 1)
    assert found is not None
    assert np.array_equal(found.q, np.arange(-100, 100).reshape(20, 10))
    assert found.scale.item() == step


def test_whole_numbers_are_their_own_grid_up_to_the_limit() -> None:
    for values in ([0.0, 2.0, -4.0], [float(WIDEST_WEIGHT)], [-float(WIDEST_WEIGHT), 1.0]):
        grid = check_grid(np.array(values), find_grid(np.array(values, np.float32), None))
        assert grid.q.tolist() == values
        assert np.all(grid.scale == 1)
    assert find_grid(np.array([WIDEST_WEIGHT + 1.0, 1.0]), None) is None


def test_a_scale_per_channel() -> None:
    q = np.array([[1, -2, 3], [4, 5, -8], [0, 0, 0]])
    scale = np.array([[TENTH], [float(np.float32(2.0**-30 / 3))], [1.0]])
    values = q * scale
    assert find_grid(values, None) is None
    grid = check_grid(values, find_grid(values, 0))
    assert grid.scale.shape == (3, 1)
    across = check_grid(values.T, find_grid(values.T, 1))
    assert across.scale.shape == (1, 3)
    assert find_grid(values, 1) is None


def test_unquantized_weights_have_no_grid() -> None:
    values = np.random.default_rng(0).normal(size=(8, 9)).astype(np.float32)
    assert find_grid(values, 0) is None
    similar = np.random.default_rng(0).uniform(0.5, 1, (8, 9)).astype(np.float32)
    assert common_grid(similar.astype(np.float64), 2**24) is not None, "they do share a grid of 24 bits"
    assert find_grid(similar, 0) is None
    assert find_grid(np.random.default_rng(0).normal(size=(300, 300)).astype(np.float32), None) is None


@pytest.mark.parametrize("largest", [1, 3, 7, 127, 255])
@pytest.mark.parametrize("seed", range(5))
def test_values_rounded_after_they_were_scaled(largest: int, seed: int) -> None:
    """As a folded DequantizeLinear leaves them: float32 products of a scale with integers."""
    rng = np.random.default_rng(seed)
    q = rng.integers(-largest, largest + 1, (5, 4, 3, 3))
    for scale in (np.float32(rng.uniform(0.001, 3)), rng.uniform(0.001, 3, (5, 1, 1, 1)).astype(np.float32)):
        values = q.astype(np.float32) * scale
        grid = find_grid(values, 0)
        assert grid is not None
        assert np.array_equal(grid.q.astype(np.float32) * grid.scale.astype(np.float32), values)
        assert np.abs(grid.q).max() <= largest
    values[2] = 0
    grid = find_grid(values, 0)
    assert grid is not None, "pruned channels have any scale"
    assert not grid.q[2].any()


def test_one_value_off_the_rounded_grid_is_enough() -> None:
    values = np.random.default_rng(0).integers(-7, 8, (300, 40)).astype(np.float32) * np.float32(0.0123)
    assert find_grid(values, None) is not None
    values[17, 3] = np.nextafter(values[17, 3] + np.float32(0.0123 * 3), np.float32(9))
    assert find_grid(values, 1) is None
    assert find_grid(np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32), 1) is None


def test_tiny_values() -> None:
    values = np.float32([[2.0**-149, -(2.0**-148)], [0.0, 2.0**-140]])
    grid = check_grid(values, find_grid(values, None))
    assert grid.q.tolist() == [[1, -2], [0, 2**9]]


def test_compact_shortens_constant_axes() -> None:
    a = np.broadcast_to(np.array([[1.0], [2.0]]), (3, 2, 4))
    assert compact(a).tolist() == [[[1.0], [2.0]]]
    assert compact(np.ones((2, 2))).shape == (1, 1)
    assert compact(np.arange(4).reshape(2, 2)).shape == (2, 2)
    assert compact(np.zeros((0, 2))).shape == (0, 1)


def test_a_grid_moves_with_its_values() -> None:
    rng = np.random.default_rng(0)
    q = rng.integers(-9, 10, (2, 3, 4))
    grid = Grid(q, np.array([[0.5], [1.0], [2.0]]), np.array([[1.0, 2.0, 3.0, 4.0]]))
    value = grid.scale * q + grid.bias
    for move in (lambda x: x.transpose(0, 2, 1), lambda x: x.reshape(x.shape[0], -1), lambda x: x[:, 1:, ::2]):
        moved = grid.map(move)
        assert np.array_equal(moved.scale * moved.q + moved.bias, move(value))


def test_clamps() -> None:
    q = np.arange(-10, 11)[:, None]
    rng = np.random.default_rng(0)
    for _ in range(200):
        a, b = (np.sort(rng.integers(-12, 13, (2, 3)), axis=0) for _ in range(2))
        a[1, 0], b[0, 0] = FAR, -FAR
        first, second = Clamp(a[0], a[1]), Clamp(b[0], b[1])
        both = first.then(second)
        assert np.array_equal(both(q), second(first(q)))
        assert np.all(both.lo <= both.hi)
    moved = Clamp(np.array([[0], [1]]), np.array([[5], [6]])).map(lambda x: x[::-1])
    assert moved(np.full((2, 1), 9)).tolist() == [[6], [5]]
    assert first.then(None) is first
