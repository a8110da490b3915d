"""Several frames in one float, blocks of any size, narrow types: the same integers, at every edge."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from ir import slow_ops
from ir.test_integer import CONVOLUTIONS

from headrace.ir import Graph, IntRange, TensorType, counting, exact, filters
from headrace.ir import integer as ops
from headrace.ir.digits import MOST, SIGNIFICAND, Digits, carrier, fewest_numbers

BOUNDS = sorted({max(2**k + d, 0) for k in (0, 1, 5, 7, 8, 11, 12, 17, 18, 23, 24, 26, 52, 53) for d in (-1, 0, 1)})


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 64])
def test_digits_fit_their_float(bound: int, count: int) -> None:
    digits = fewest_numbers(bound, count)
    assert digits.frames <= max(count, 1)
    if digits.frames == 1:
        assert digits.kind == carrier(bound)
        return
    assert bound < 2 ** (digits.shift - 1), "a digit is told apart from the next"
    most = sum(bound << (digits.shift * digit) for digit in range(digits.frames))
    assert most < 2 ** SIGNIFICAND[digits.kind]


def test_frames_share_floats_as_soon_as_they_fit() -> None:
    single, double = np.dtype(np.float32), np.dtype(np.float64)
    assert fewest_numbers(2**11 - 1, 64) == Digits(single, 2, 12)
    assert fewest_numbers(2**11, 64) == Digits(double, 4, 13)
    assert fewest_numbers(2**7 - 1, 64) == Digits(single, 3, 8)
    assert fewest_numbers(2**12, 64) == Digits(single)
    assert fewest_numbers(2**24, 64) == Digits(double, 2, 26)


@pytest.mark.parametrize("kind", SIGNIFICAND)
@pytest.mark.parametrize("frames", range(1, MOST + 1))
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 9])
def test_packing_and_taking_apart(kind: np.dtype[Any], frames: int, count: int) -> None:
    """Digits as large as they may be, next to one another with either sign."""
    bits = (SIGNIFICAND[kind] + 1) // frames - 1
    digits = Digits(kind, frames, bits + 1)
    edge = 2**bits - 1
    x = np.random.default_rng(count).choice([-edge, -1, 0, 1, edge], (count, 50))
    numbers = np.empty((digits.numbers(count), 50), kind)
    digits.pack(x, 0, numbers)
    result = np.full(x.shape, 77)
    for first in range(0, len(numbers), 2):
        digits.unpack(numbers[first : first + 2].copy(), first, result)
    assert np.array_equal(result, x)


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is packed, and done in pieces that are as small as they get."""
    monkeypatch.setattr(exact, "WORTH_PACKING", 0)
    for module, name in (
        (exact, "BLOCK_BYTES"),
        (filters, "WINDOW_BYTES"),
        (filters, "SUM_BYTES"),
        (ops, "IMAGE_BYTES"),
        (ops, "SMALL_SUMS"),
    ):
        monkeypatch.setattr(module, name, 1)


RANGES = [IntRange(0, 3), IntRange(-8, 7), IntRange(-1, 1, bipolar=True), IntRange(0, 255), IntRange(-(2**15), 2**15)]


def batch(r: IntRange, count: int, *shape: int) -> Any:
    """Frames of extremes and random ones; neighbours among them are both largest, both smallest, and opposite."""
    rng = np.random.default_rng(count)
    x = rng.integers(r.lo, r.hi + 1, (count, *shape))
    for k in range(0, count, 2):
        x[k] = r.hi if k % 4 else r.lo
    return np.where(x >= 0, 1, -1) if r.bipolar else x


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize("r", RANGES, ids=str)
@pytest.mark.parametrize("count", [1, 2, 5, 8])
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_packed_convolutions(r: IntRange, count: int, case: tuple[Any, ...]) -> None:
    size, kernel, strides, dilations, pads, channels, out, groups = case
    weights = np.random.default_rng(1).integers(-1, 2, (out, channels // groups, *kernel))
    weights[0] = 1
    x = batch(r, count, channels, *size)
    (y,) = ops.IntConv(weights, np.zeros((2, out), np.int64), strides, dilations, pads, groups).execute(x)
    expected = [slow_ops.convolve(frame, weights, (strides, dilations, pads), groups) for frame in x]
    assert np.array_equal(y, np.stack(expected))


@pytest.mark.parametrize("largest", [2**15 - 1, 2**15, 2**15 + 1])
def test_sums_at_the_end_of_16_bits_one_multiplication_at_a_time(largest: int) -> None:
    """Depthwise: on the way past what comes out, up and down."""
    weights = np.array([[[[largest // 3, largest // 3, largest - 2 * (largest // 3)]]]] * 2)
    weights[1] = -weights[1]
    x = np.zeros((3, 2, 1, 5), np.int8)
    x[0], x[1, :, :, 1:3] = 1, 1
    (y,) = ops.IntConv(weights, np.zeros((2, 2), np.int64), (1, 1), (1, 1), ((0, 0), (1, 1)), 2).execute(x)
    expected = [slow_ops.convolve(frame, weights, ((1, 1), (1, 1), ((0, 0), (1, 1))), 2) for frame in x]
    assert np.array_equal(y, np.stack(expected))
    assert (y.max(), y.min()) == (largest, -largest)


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize("r", RANGES, ids=str)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 9])
@pytest.mark.parametrize("shape", [(6,), (2, 6)], ids=str)
def test_packed_products(r: IntRange, count: int, shape: tuple[int, ...]) -> None:
    weights = np.random.default_rng(2).integers(-1, 2, (6, 5))
    weights[:, :3] = [1, -1, 0]
    x = batch(r, count, *shape)
    (y,) = ops.IntMatMul(weights, np.zeros((2, 5), np.int64)).execute(x)
    assert y.tolist() == slow_ops.matmul(x, weights)


def test_no_partial_sum_passes_the_bound() -> None:
    """In no order of summation: every subset of the terms."""
    rng = np.random.default_rng(3)
    for _ in range(30):
        weights, x = rng.integers(-5, 6, (5, 3)), rng.integers(-3, 9, (4, 5))
        terms = x[:, :, None] * weights
        picks = [list(pick) for n in range(6) for pick in itertools.combinations(range(5), n)]
        largest = max(int(np.abs(terms[:, pick].sum(axis=1)).max()) for pick in picks)
        assert max(largest, int(np.abs(x).max())) <= exact.Columns(weights).bound(x)
    assert exact.Columns(np.array([[3, -1], [-4, 0]])).bound(np.array([[0, 7]])) == 28, "no more than it takes"


@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("length", [7, 8, 13, 31, 32])
def test_pools_with_long_windows(length: int, dilation: int, stride: int) -> None:
    x = np.random.default_rng(length).integers(-128, 128, (2, 1, 80, 3)).astype(np.int8)
    window = ((length, 2), (stride, 1), (dilation, 1), ((3, 2), (0, 1)))
    for op, pick in ((ops.IntMaxPool(*window), max), (ops.IntSumPool(*window), sum)):
        expected = np.stack([slow_ops.pool(frame, window, pick) for frame in x])
        assert np.array_equal(op.execute(x)[0], expected)


@pytest.mark.parametrize("line", [1, 6, 16, 1000])
@pytest.mark.parametrize("channels_last", [True, False])
def test_thresholds_are_counted_line_by_line(monkeypatch: pytest.MonkeyPatch, line: int, channels_last: bool) -> None:
    monkeypatch.setattr(counting, "LINE", line)
    monkeypatch.setattr(counting, "COMPARED_ELEMENTS", 20)
    rng = np.random.default_rng(line)
    x = rng.integers(-9, 10, (2, 5, 7, 3)).astype(np.int8)
    x = x if channels_last else np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -1, 1)), 1, -1)
    thresholds = np.sort(rng.integers(-9, 11, (3, 4)), axis=1)
    expected = (x[..., None] >= thresholds).sum(axis=-1)
    assert np.array_equal(counting.count_thresholds(x, thresholds), expected)


def test_factors_outside_a_narrow_type() -> None:
    zero = np.zeros((1, 2), np.int8)
    assert ops.IntAdd((2**26, -129)).execute(zero, zero)[0].tolist() == [[0, 0]]
    assert ops.IntAdd((2**26, 1)).execute(zero + np.int8(-2), zero)[0].tolist() == [[-(2**27)] * 2]
    assert ops.IntAdd((1, -1)).execute(zero + np.int8(-128), zero + np.int8(127))[0].tolist() == [[-255] * 2]
    scaled = ops.IntAffine(np.array([1, -300]), np.array([2**33, 1]), IntRange(-(2**17), 2**34))
    assert scaled.execute(zero + np.int8(-128))[0].tolist() == [[2**33 - 128, 38401]]
    clipped = ops.IntClip(np.array([-(2**40), 200]), np.array([-7, 2**33]), IntRange(-(2**40), 2**33))
    assert clipped.execute(zero + np.int8(127))[0].tolist() == [[-7, 200]]


def test_constants_outside_a_narrow_type() -> None:
    """What surrounds pixels may need more bits than they do."""
    x = np.array([[[-5, 100]]], np.int8)
    padded = ops.IntPad(((0, 0), (1, 1)), np.array([-129])).execute(x)[0]
    assert padded.tolist() == [[[-129, -5, 100, -129]]]
    spread = ops.IntZeroInsert((2,), np.array([2**40])).execute(x)[0]
    assert spread.tolist() == [[[-5, 2**40, 100]]]


def test_outputs_can_be_added_up() -> None:
    """Inside a graph 2 bits take a byte; a caller gets numbers that do not overflow at once."""
    graph = Graph()
    x = graph.input("x", TensorType((1,), IntRange(-128, 127)))
    graph.output("y", graph.add(ops.IntClip(np.array([0]), np.array([127]), IntRange(0, 127)), (x,)))
    graph.output("z", x)
    found = graph.run({"x": np.array([[127]], np.int8)})
    assert (found["y"] + found["y"]).tolist() == (found["z"] + found["z"]).tolist() == [[254]]
