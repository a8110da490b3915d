"""Operators on real tensors: the integers they carry along, and what makes them give those up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from headrace.errors import ModelError
from headrace.ir import TensorType
from headrace.ir import integer as integer_ops
from headrace.ir.grid import Constant, Grid, find_grid
from headrace.ir.ops import (
    AddTensors,
    AveragePool,
    Concat,
    Conv,
    MatMul,
    MaxPool,
    Move,
    Mul,
    Pad,
    SourceOp,
    TopK,
    ToReal,
)
from headrace.ir.ops.joins import join_factors
from headrace.ir.ops.linear import align
from headrace.ir.real import Real, as_real
from headrace.ir.scaled import NotExact

Array = NDArray[Any]

TENTH = float(np.float32(0.1))
WINDOW = ((2, 2), (1, 1), (1, 1), ((0, 0), (0, 0)))


def on_grid(q: Array, scale: object, bias: object = 0.0) -> Real:
    """``scale * q + bias`` in canonical arithmetic; scale and bias of the rank of a frame."""
    rank = q.ndim - 1
    s, b = (np.reshape(np.asarray(v, np.float64), (1,) * (rank - np.ndim(v)) + np.shape(v)) for v in (scale, bias))
    value = q.astype(np.float32) * s.astype(np.float32)
    return Real(value + b.astype(np.float32) if np.any(b) else value, Grid(q.astype(np.int64), s, b))


def run(op: SourceOp, *inputs: Real) -> Real:
    (y,) = op.evaluate(*inputs)
    return y


def check_grid(y: Real, exact: Array) -> None:
    """The grid of *y* stands for *exact*."""
    assert y.grid is not None
    assert np.allclose(y.grid.q * y.grid.scale + y.grid.bias, exact, rtol=1e-12, atol=0)


def test_integers_become_their_own_grid() -> None:
    x = as_real(np.array([[2**24 + 1]], np.int32))
    assert x.grid is not None
    assert x.grid.q.item() == 2**24 + 1
    assert x.value.dtype == np.float32
    assert as_real(x) is x
    assert as_real(np.array([[0.5]], np.float64)).value.dtype == np.float32
    assert as_real(np.array([[0.5]])).grid is None


def test_products_accumulate_integers_and_scale_once() -> None:
    """float32 accumulation would round at every step: 2^24 + 1 ones after a large one."""
    q = np.array([[2**24, 1, 1, 1]])
    weights = Constant(np.ones((4, 1), np.float32), find_grid(np.ones((4, 1)), 1))
    y = run(MatMul(weights), on_grid(q, 1.0))
    assert y.grid is not None
    assert y.grid.q.item() == 2**24 + 3
    assert y.value.item() == np.float32(2**24 + 3)


def test_product_with_a_scale_per_input() -> None:
    rng = np.random.default_rng(0)
    q, w = rng.integers(-8, 8, (5, 3)), rng.integers(-4, 5, (3, 2))
    weights = Constant(w * np.float32(0.25), Grid(w, np.array([[0.25]]), np.zeros((1, 1))))
    x = on_grid(q, [0.5, 1.0, 1.5], [1.0, 0.0, -2.0])
    y = run(MatMul(weights), x)
    check_grid(y, (q * [0.5, 1.0, 1.5] + [1.0, 0.0, -2.0]) @ (w * 0.25))
    off = run(MatMul(weights), on_grid(q, [TENTH, 1e-30, 1e30]))
    assert off.grid is None
    assert np.allclose(off.value, (q * [TENTH, 1e-30, 1e30]) @ (w * 0.25))


def test_align_refuses_more_than_62_bits() -> None:
    weights = Grid(np.full((2, 1), 2**36), np.ones((1, 1)), np.zeros((1, 1)))
    with pytest.raises(NotExact, match="share no integer grid"):
        align(weights, np.array([[1.0], [2.0**27]]), np.zeros((1, 1)), 1)
    with pytest.raises(NotExact, match="passes 62 bits"):
        align(weights, np.array([[1.0], [2.0**26]]), np.zeros((1, 1)), 1)
    product = align(weights, np.array([[0.5], [-1.5]]), np.zeros((1, 1)), 1)
    assert product.weights.tolist() == [[2**36], [-3 * 2**36]]
    assert product.scale.tolist() == [0.5]


def test_matmul_of_sequences_keeps_the_rank_of_its_scale() -> None:
    """The scale of a column must not be taken for that of a row by what follows."""
    q = np.random.default_rng(0).integers(-8, 8, (2, 3, 3))
    w = np.array([[1, 0, 2], [0, 1, 1], [3, 1, 0]])
    weights = Constant(w * np.float32([1.0, 0.5, 0.25]), Grid(w, np.array([[1.0, 0.5, 0.25]]), np.zeros((1, 1))))
    y = run(MatMul(weights), on_grid(q, 1.0))
    assert y.grid is not None
    assert y.grid.scale.shape == (1, 3)
    pooled = run(MaxPool((2,), (1,), (1,), ((0, 0),)), y)
    assert pooled.grid is None, "its scale varies along the pooled axis"


def test_padding_an_offset_has_no_integer() -> None:
    q = np.random.default_rng(0).integers(0, 4, (2, 1, 3, 3))
    w = np.ones((1, 1, 2, 2), np.int64)
    weights = Constant(w.astype(np.float32), Grid(w, np.ones((1,) * 4), np.zeros((1,) * 4)))
    padded = Conv(weights, (1, 1), (1, 1), ((1, 0), (0, 0)))
    assert run(padded, on_grid(q, 0.5, 0.25)).grid is None
    assert run(padded, on_grid(q, 0.5)).grid is not None
    assert run(padded, on_grid(q, 0.5, 1.0)).grid is not None, "real 0 is the integer -2"
    assert run(Conv(weights, *WINDOW[1:]), on_grid(q, 0.5, 0.25)).grid is not None


def test_max_pool() -> None:
    q = np.random.default_rng(0).integers(-4, 4, (2, 3, 3, 3))
    pool = MaxPool(*WINDOW)
    for scale, bias in ((0.5, 0.0), (np.reshape([0.5, 1.0, 2.0], (3, 1, 1)), np.reshape([1.0, 0.0, 2.0], (3, 1, 1)))):
        y = run(pool, on_grid(q, scale, bias))
        check_grid(y, y.value.astype(np.float64))
    assert run(pool, on_grid(q, -0.5)).grid is None
    assert run(pool, on_grid(q, np.reshape([0.5, 1.0, 2.0], (3, 1)))).grid is None, "varies over the image"
    assert run(pool, on_grid(q, 0.5, np.reshape([0.5, 1.0, 2.0], (3, 1)))).grid is None


def test_average_pool_counts_what_is_inside() -> None:
    q = np.full((1, 1, 2, 2), 3)
    pads = ((1, 1), (1, 1))
    inside = run(AveragePool((2, 2), (1, 1), (1, 1), pads), on_grid(q, 0.5))
    assert np.all(inside.value == 1.5)
    everything = run(AveragePool((2, 2), (1, 1), (1, 1), pads, True), on_grid(q, 0.5))
    assert everything.value[0, 0].tolist() == [[0.375, 0.75, 0.375], [0.75, 1.5, 0.75], [0.375, 0.75, 0.375]]
    check_grid(everything, everything.value.astype(np.float64))
    assert run(AveragePool(*WINDOW), on_grid(q, 0.5, 0.25)).grid is None
    assert run(AveragePool(*WINDOW), on_grid(q, 0.5, 1.0)).grid is not None


@pytest.mark.parametrize("kind", [MaxPool, AveragePool])
def test_pools_refuse_windows_without_pixels(kind: type[MaxPool] | type[AveragePool]) -> None:
    with pytest.raises(ModelError, match="leave a window of image axis 0 without any pixel"):
        kind((2, 2), (1, 1), (1, 1), ((2, 0), (0, 0))).infer(TensorType((1, 4, 4)))
    assert kind((2, 2), (1, 1), (1, 1), ((1, 0), (0, 0))).infer(TensorType((1, 4, 4)))[0].shape == (1, 4, 3)
    assert AveragePool((2, 2), (1, 1), (1, 1), ((2, 0), (0, 0)), True).infer(TensorType((1, 4, 4)))[0].shape == (
        1,
        5,
        3,
    )


@pytest.mark.parametrize(
    ("a", "b", "factors", "grid"),
    [
        ([0.25], [0.25], (1, 1), [0.25]),
        ([0.25], [0.5], (1, 2), [0.25]),
        ([0.75], [-0.5], (3, -2), [0.25]),
        ([0.0], [0.5], (0, 1), [0.5]),
        ([0.0], [0.0], (1, 1), [0.0]),
        ([1.0, 3.0], [2.0, 6.0], (1, 2), [1.0, 3.0]),
        ([1.0], [0.5, 0.5], (2, 1), [0.5]),
    ],
)
def test_join_factors(a: list[float], b: list[float], factors: tuple[int, int], grid: list[float]) -> None:
    joined = join_factors(np.array(a), np.array(b))
    assert joined is not None
    assert joined[1] == factors
    assert joined[0].tolist() == grid


@pytest.mark.parametrize(
    ("a", "b"),
    [([1.0, 1.0], [2.0, 3.0]), ([1.0], [2.0**27 + 0.5]), ([0.0, 1.0], [1.0, 1.0]), ([TENTH, 1.0], [1.0, 7.0])],
)
def test_no_common_factors(a: list[float], b: list[float]) -> None:
    assert join_factors(np.array(a), np.array(b)) is None


def test_sums_are_exact_on_a_common_grid_and_single_operations_elsewhere() -> None:
    x, y = np.array([[3, -5]]), np.array([[7, 2]])
    joined = run(AddTensors(), on_grid(x, 0.25), on_grid(y, 0.75, 1.0))
    check_grid(joined, x * 0.25 + y * 0.75 + 1.0)
    apart = run(AddTensors(), on_grid(x, [1.0, 1.0]), on_grid(y, [2.0, TENTH]))
    assert apart.grid is None
    assert (
        apart.value.tolist() == (np.float32([[3, -5]]) + np.float32([[14, np.float32(2) * np.float32(0.1)]])).tolist()
    )


def test_sums_of_narrow_arrays_do_not_wrap() -> None:
    q = np.array([[2**20]], np.int32)
    x = Real(q.astype(np.float32), Grid(q, np.array([1.0]), np.zeros(1)))
    y = Real(q.astype(np.float32), Grid(q, np.array([2.0**-25]), np.zeros(1)))
    joined = run(AddTensors(), x, y)
    assert joined.grid is not None
    assert joined.grid.q.item() == 2**20 * 2**25 + 2**20


def test_sums_past_62_bits_are_refused() -> None:
    far = np.array([[2**40]])
    with pytest.raises(ModelError, match="too far apart in magnitude for integers of 62 bits"):
        run(AddTensors(), on_grid(far, 1.0), on_grid(far, 2.0**-26))


def test_concat_keeps_the_scale_of_each_part() -> None:
    x, y = np.array([[[1, 2]]]), np.array([[[3, 4]]])
    joined = run(Concat(0), on_grid(x, 0.5), on_grid(y, TENTH, 1.0))
    check_grid(joined, np.concatenate([x * 0.5, y * TENTH + 1.0], axis=1))
    assert joined.grid is not None
    assert joined.grid.scale.shape == (2, 1)
    assert run(Concat(0), on_grid(x, 0.5), Real(y.astype(np.float32))).grid is None


def test_movement_takes_the_scales_along() -> None:
    q = np.arange(6).reshape(1, 2, 3)
    x = on_grid(q, [[1.0], [0.5]], [[0.0, 1.0, 2.0]])
    turned = run(Move(integer_ops.Transpose((1, 0))), x)
    check_grid(turned, x.value.transpose(0, 2, 1))
    assert run(Move(integer_ops.Slice(1, 0, 2)), Real(x.value)).value.shape == (1, 2, 2)


@pytest.mark.parametrize(
    ("scale", "pads", "value", "kept"),
    [
        ([[0.5]], ((1, 0), (0, 2)), 0.0, True),
        ([[0.5]], ((0, 0), (1, 1)), 1.5, True),
        ([[0.5]], ((0, 0), (1, 1)), 0.25, False),
        ([[0.5], [0.25]], ((0, 0), (1, 1)), 1.5, True),
        ([[0.5], [0.25]], ((1, 0), (0, 0)), 1.5, False),
        ([[0.5, 0.25, 1.0]], ((0, 0), (1, 1)), 1.5, False),
        ([[0.5, 0.25, 1.0]], ((1, 0), (0, 0)), 1.5, False),
    ],
)
def test_padding_keeps_the_grid_where_it_holds_the_value(
    scale: list[list[float]], pads: tuple[tuple[int, int], ...], value: float, kept: bool
) -> None:
    q = np.random.default_rng(0).integers(-8, 8, (4, 2, 3))
    y = run(Pad(pads, value), on_grid(q, scale))
    expected = np.pad(q * np.array(scale), ((0, 0), *pads), constant_values=value)
    assert np.array_equal(y.value, expected.astype(np.float32))
    assert (y.grid is not None) == kept
    if kept:
        check_grid(y, expected)


def test_top_k_prefers_the_lower_index() -> None:
    x = np.float32([[1.0, 3.0, 3.0, -1.0]])
    assert TopK(3).execute(x)[0].tolist() == [[1, 2, 0]]
    assert TopK(2, False).execute(x)[0].tolist() == [[3, 0]]


def test_to_real_gives_value_and_grid() -> None:
    op = ToReal((Mul(np.array([TENTH])),), np.array([TENTH]), np.zeros(1))
    (real,) = op.execute(np.array([[3, -7]], np.int8))
    assert isinstance(real, Real)
    assert np.array_equal(real.value, np.float32([[3, -7]]) * np.float32(0.1))
    check_grid(real, np.array([[3, -7]]) * TENTH)
    (bare,) = ToReal((Mul(np.array([TENTH])),)).execute(np.array([[3]]))
    assert isinstance(bare, Real)
    assert bare.grid is None
