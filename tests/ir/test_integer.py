"""Every integer operator against plain loops, on random data and extremes; types that hold what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ir import slow_ops
from numpy.typing import NDArray

from headrace.errors import ModelError
from headrace.ir import IntRange, Op, TensorType
from headrace.ir import integer as ops
from headrace.ir.exact import accumulator_range
from headrace.ir.ops.convolution import conv_ranges

Array = NDArray[Any]

RNG = np.random.default_rng(7)


def check_type(op: Op, *inputs: tuple[Array, IntRange]) -> Array:
    """Run *op*; what comes out has the type that the type rule gives."""
    (type_,) = op.infer(*(TensorType(x.shape[1:], r) for x, r in inputs))
    (y,) = op.execute(*(x for x, _ in inputs))
    assert y.shape[1:] == type_.shape
    assert y.dtype.kind in "iu"
    r = type_.int_range
    assert r.lo <= y.min()
    assert y.max() <= r.hi
    assert not r.bipolar or not np.any(y == 0)
    return np.asarray(y)


def frames(r: IntRange, *shape: int, count: int = 3) -> Array:
    """Random frames, one with only the smallest value and one with only the largest."""
    x = RNG.integers(r.lo, r.hi + 1, (count, *shape))
    x[0], x[1] = r.lo, r.hi
    return x if not r.bipolar else np.where(x >= 0, 1, -1)


RANGES = [IntRange(-8, 7), IntRange(0, 255), IntRange(-1, 1, bipolar=True), IntRange(-(2**26), 2**26), IntRange(5, 9)]


@pytest.mark.parametrize("r", RANGES, ids=str)
@pytest.mark.parametrize("shape", [(6,), (2, 6), (2, 2, 6)], ids=str)
def test_matmul(r: IntRange, shape: tuple[int, ...]) -> None:
    weights = RNG.integers(-5, 6, (6, 4))
    weights[:, 0], weights[:, 1] = 2**30, -(2**30)
    ranges = np.stack(accumulator_range(weights, r.lo, r.hi))
    x = frames(r, *shape)
    y = check_type(ops.IntMatMul(weights, ranges), (x, r))
    assert y.tolist() == slow_ops.matmul(x, weights)
    assert np.all((y >= ranges[0]) & (y <= ranges[1])), "the ranges hold column by column"


def test_matmul_refuses_other_depths() -> None:
    op = ops.IntMatMul(np.ones((3, 2), np.int64), np.zeros((2, 2), np.int64))
    for shape in ((), (2,), (3, 2)):
        with pytest.raises(ModelError, match="cannot multiply frames"):
            op.infer(TensorType(shape, IntRange(0, 1)))


CONVOLUTIONS = [
    # size, kernel, strides, dilations, pads, channels in, out, groups
    ((5, 4), (3, 2), (1, 1), (1, 1), ((0, 0), (0, 0)), 2, 3, 1),
    ((5, 4), (1, 1), (1, 1), (1, 1), ((0, 0), (0, 0)), 3, 2, 1),
    ((5, 4), (1, 1), (2, 3), (1, 1), ((0, 0), (0, 0)), 3, 2, 1),
    ((5, 6), (3, 2), (2, 1), (1, 2), ((1, 0), (2, 1)), 2, 4, 2),
    ((4, 4), (3, 3), (1, 2), (1, 1), ((1, 1), (1, 1)), 3, 3, 3),
    ((4, 4), (2, 2), (1, 1), (2, 2), ((0, 1), (1, 0)), 2, 4, 2),
    ((7,), (3,), (2,), (2,), ((3, 2),), 2, 3, 1),
    ((3,), (5,), (1,), (1,), ((4, 4),), 1, 1, 1),
    ((1, 1), (3, 3), (1, 1), (1, 1), ((1, 1), (1, 1)), 4, 4, 4),
    ((3, 3), (2, 2), (5, 5), (1, 1), ((0, 0), (0, 0)), 1, 2, 1),
]


@pytest.mark.parametrize("r", [IntRange(-8, 7), IntRange(0, 15), IntRange(-(2**30), 2**30), IntRange(3, 5)], ids=str)
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolution(r: IntRange, case: tuple[Any, ...]) -> None:
    size, kernel, strides, dilations, pads, channels, out, groups = case
    weights = RNG.integers(-8, 8, (out, channels // groups, *kernel))
    weights[0] = 2**20
    lo, hi = (np.full(channels, end) for end in (r.lo, r.hi))
    plain = ops.IntConv(weights, np.zeros((2, out), np.int64), strides, dilations, pads, groups)
    ranges = conv_ranges(plain, size, lo, hi)
    op = ops.IntConv(weights, ranges, strides, dilations, pads, groups)
    x = frames(r, channels, *size)
    y = check_type(op, (x, r))
    expected = np.stack([slow_ops.convolve(frame, weights, (strides, dilations, pads), groups) for frame in x])
    assert np.array_equal(y, expected)
    spatial = tuple(range(2, y.ndim))
    assert np.all(y.min(axis=(0, *spatial)) >= ranges[0])
    assert np.all(y.max(axis=(0, *spatial)) <= ranges[1])


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_ranges_of_convolutions_are_reached(case: tuple[Any, ...]) -> None:
    """The frames that push each output channel to its bounds exist: the bounds are minimal."""
    size, kernel, strides, dilations, pads, channels, out, groups = case
    weights = RNG.integers(-3, 4, (out, channels // groups, *kernel))
    lo = RNG.integers(-4, 2, channels)
    hi = lo + RNG.integers(0, 5, channels)
    op = ops.IntConv(weights, np.zeros((2, out), np.int64), strides, dilations, pads, groups)
    low, high = conv_ranges(op, size, lo, hi)
    per_in, per_out = channels // groups, out // groups
    for o in range(out):
        reached = []
        inputs = slice(o // per_out * per_in, o // per_out * per_in + per_in)
        ends = [(int(a), int(b)) for a, b in zip(lo[inputs], hi[inputs], strict=True)]
        where = np.ones((1, *size), np.int64)
        for _, taps in slow_ops.windows(where[0], kernel, strides, dilations, pads):
            inside = [tap for tap, v in taps if v is not None]
            terms = [[int(weights[(o, i, *tap)]) * e for e in ends[i]] for i in range(per_in) for tap in inside]
            reached.append((sum(map(min, terms)), sum(map(max, terms))))
        assert (low[o], high[o]) == (min(a for a, _ in reached), max(b for _, b in reached))


def test_convolution_refuses_other_channels_and_small_images() -> None:
    op = ops.IntConv(np.ones((2, 3, 3, 3), np.int64), np.zeros((2, 2), np.int64), (1, 1), (1, 1), ((0, 0), (0, 0)))
    with pytest.raises(ModelError, match="cannot convolve frames"):
        op.infer(TensorType((2, 5, 5), IntRange(0, 1)))
    with pytest.raises(ModelError, match="a window of 3 does not fit an image axis of 2"):
        op.infer(TensorType((3, 5, 2), IntRange(0, 1)))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("channels", [1, 4])
def test_activation(axis: int, channels: int) -> None:
    r = IntRange(-20, 20)
    thresholds = np.sort(RNG.integers(-19, 22, (channels, 5)), axis=1)
    base, step = RNG.integers(-4, 4, channels), RNG.choice([-3, 1, 2], channels)
    ends = [base + step * k for k in (0, 5)]
    op = ops.Activation(thresholds, base, step, IntRange(int(np.min(ends)), int(np.max(ends))), axis)
    x = frames(r, 4, 4, count=20)
    y = check_type(op, (x, r))
    for index in np.ndindex(*x.shape):
        c = index[1 + axis] if channels > 1 else 0
        assert y[index] == base[c] + step[c] * sum(x[index] >= t for t in thresholds[c])


def test_activation_refuses_rows_that_are_not_channels() -> None:
    op = ops.Activation(np.zeros((3, 1), np.int64), np.zeros(3, np.int64), np.ones(3, np.int64), IntRange(0, 1), 1)
    with pytest.raises(ModelError, match="3 rows of thresholds for 4 channels"):
        op.infer(TensorType((3, 4), IntRange(0, 1)))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("channels", [1, 4])
def test_lookup(axis: int, channels: int) -> None:
    r = IntRange(-3, 9)
    table = RNG.integers(-50, 51, (channels, r.count))
    op = ops.Lookup(table, r.lo, IntRange(-50, 50), axis)
    x = frames(r, 4, 4)
    y = check_type(op, (x, r))
    for index in np.ndindex(*x.shape):
        assert y[index] == table[index[1 + axis] if channels > 1 else 0, x[index] - r.lo]


@pytest.mark.parametrize("factors", [(1, 1), (3, -2), (0, 1), (2**26, -(2**26))])
def test_add(factors: tuple[int, int]) -> None:
    a, b = IntRange(-5, 9), IntRange(0, 2**31 - 1)
    x, y = frames(a, 2, 3), frames(b, 2, 3)[::-1]
    z = check_type(ops.IntAdd(factors), (x, a), (y, b))
    expected = [factors[0] * int(u) + factors[1] * int(v) for u, v in zip(x.ravel(), y.ravel(), strict=True)]
    assert z.ravel().tolist() == expected
    with pytest.raises(ModelError, match="cannot add frames"):
        ops.IntAdd().infer(TensorType((2,), a), TensorType((3,), a))


def test_small_types_do_not_wrap() -> None:
    x = np.array([[127, -128]], np.int8)
    assert ops.IntAdd((2, 2)).execute(x, x)[0].tolist() == [[508, -512]]
    sums = ops.IntSumPool((2,), (1,), (1,), ((0, 0),)).execute(np.array([[[127, 127]]], np.int8))[0]
    assert sums.tolist() == [[[254]]]
    top = ops.IntTopK(2).execute(np.array([[0, 255, 7]], np.uint8))[0]
    assert top.tolist() == [[1, 2]]


POOLS = [
    ((5, 4), (3, 2), (1, 1), (1, 1), ((0, 0), (0, 0))),
    ((5, 5), (3, 3), (2, 2), (1, 1), ((1, 1), (1, 0))),
    ((5, 5), (2, 2), (1, 2), (2, 1), ((1, 0), (0, 1))),
    ((6,), (3,), (2,), (2,), ((2, 1),)),
    ((1, 1), (1, 1), (1, 1), (1, 1), ((0, 0), (0, 0))),
]


@pytest.mark.parametrize("r", [IntRange(-8, -2), IntRange(0, 255), IntRange(-1, 1, bipolar=True)], ids=str)
@pytest.mark.parametrize("case", POOLS, ids=str)
def test_pools(r: IntRange, case: tuple[Any, ...]) -> None:
    size, *window = case
    x = frames(r, 2, *size)
    biggest = check_type(ops.IntMaxPool(*window), (x, r))
    assert np.array_equal(biggest, np.stack([slow_ops.pool(frame, tuple(window), max) for frame in x]))
    total = check_type(ops.IntSumPool(*window), (x, r))
    assert np.array_equal(total, np.stack([slow_ops.pool(frame, tuple(window), sum) for frame in x]))


def test_pooling_keeps_bipolar() -> None:
    bipolar = TensorType((1, 4), IntRange(-1, 1, bipolar=True))
    assert ops.IntMaxPool((2,), (2,), (1,), ((0, 0),)).infer(bipolar)[0].int_range.bipolar


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 3, 7])
def test_top_k_breaks_ties_by_the_lowest_index(largest: bool, k: int) -> None:
    r = IntRange(-2, 2)
    x = frames(r, 3, 7, count=30)
    y = check_type(ops.IntTopK(k, largest), (x, r))
    for row, found in zip(x.reshape(-1, 7).tolist(), y.reshape(-1, k).tolist(), strict=True):
        order = sorted(range(7), key=lambda i: (-row[i] if largest else row[i], i))
        assert found == order[:k]
    for bad in (0, 8):
        with pytest.raises(ModelError, match=r"k must be 1\.\.7"):
            ops.IntTopK(bad).infer(TensorType((7,), r))


def test_movement() -> None:
    r = IntRange(-9, 99)
    x = frames(r, 2, 3, 4)
    flat = check_type(ops.Reshape((4, 6)), (x, r))
    assert [f.ravel().tolist() for f in flat] == [f.ravel().tolist() for f in x]
    turned = check_type(ops.Transpose((2, 0, 1)), (x, r))
    cut = check_type(ops.Slice(2, 1, 4, 2), (x, r))
    joined = check_type(ops.Concat(1), (x, r), (x[:, :, :1], IntRange(-100, 0)))
    for n, i, j, k in np.ndindex(*x.shape):
        assert turned[n, k, i, j] == x[n, i, j, k]
        if k in (1, 3):
            assert cut[n, i, j, k // 2] == x[n, i, j, k]
        assert joined[n, i, j, k] == x[n, i, j, k]
    assert np.array_equal(joined[:, :, 3], x[:, :, 0])
    assert ops.Concat(0).infer(TensorType((2,), r), TensorType((1,), IntRange(-100, 0)))[0].int_range == IntRange(
        -100, 99
    )


def test_joined_bipolar_stays_bipolar_only_with_bipolar() -> None:
    bipolar, ternary = TensorType((1,), IntRange(-1, 1, bipolar=True)), TensorType((1,), IntRange(-1, 1))
    assert ops.Concat(0).infer(bipolar, bipolar)[0].int_range.bipolar
    assert not ops.Concat(0).infer(bipolar, ternary)[0].int_range.bipolar


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (ops.Reshape((5,)), r"cannot reshape frames \[2, 3\] to \[5\]"),
        (ops.Transpose((0, 0)), r"permutation \[0, 0\] does not fit"),
        (ops.Slice(0, 2, 2), "is empty"),
    ],
)
def test_movement_refuses(op: Op, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        op.infer(TensorType((2, 3), IntRange(0, 1)))


def test_concat_refuses_other_shapes() -> None:
    a, b = TensorType((2, 3), IntRange(0, 1)), TensorType((2, 4), IntRange(0, 1))
    with pytest.raises(ModelError, match="cannot join frames"):
        ops.Concat(0).infer(a, b)
    assert ops.Concat(1).infer(a, b)[0].shape == (2, 7)
