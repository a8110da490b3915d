"""Adder graphs: equal to the product, proved over all inputs, small, and cut into stages that keep few bits."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headrace.adder_graph import AdderGraph, Rounding, pipeline, prove, solve
from headrace.adder_graph.digits import signed_digits
from headrace.adder_graph.graph import CONSTANT, Adder, Operand, adder_luts
from headrace.adder_graph.pipelining import ADDERS_A_STAGE
from headrace.adder_graph.rows import Digit, Row, RowAdder, Wire, whole
from headrace.adder_graph.solving import cost
from headrace.ir import IntRange

Int = NDArray[np.int64]
RANGES = (
    IntRange(0, 1), IntRange(0, 7), IntRange(0, 15), IntRange(-8, 7), IntRange(-7, 7), IntRange(-1, 0),
    IntRange(2, 5), IntRange(-7, -3), IntRange(0, 255), IntRange(-3, 9), IntRange(-3, 11), IntRange(5, 5),
    IntRange(-1, 1, bipolar=True),
)  # fmt: skip


def vectors(x: IntRange, inputs: int, rng: np.random.Generator, weights: Int) -> Int:
    """Random inputs, both ends, and for every column what makes it smallest and largest."""
    random = rng.integers(x.lo, x.hi, (50, inputs), endpoint=True)
    ends = np.where(weights.T > 0, x.hi, x.lo)
    found = np.concatenate([random, ends, x.lo + x.hi - ends, np.full((1, inputs), x.lo), np.full((1, inputs), x.hi)])
    return np.where(found > 0, 1, -1) if x.bipolar else found


@given(st.integers(-(2**20), 2**20))
def test_signed_digits_add_up_and_are_never_neighbours(number: int) -> None:
    digits = list(signed_digits(number))
    assert sum(sign << shift for shift, sign in digits) == number
    assert all(b - a >= 2 for (a, _), (b, _) in pairwise(digits))


@settings(max_examples=120, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 7),
    st.sampled_from(RANGES),
    st.integers(0, 2**32),
    st.sampled_from([1, 2, 8, 200]),
)
def test_graphs_equal_the_product_and_are_proved(inputs: int, columns: int, x: IntRange, seed: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.integers(-most, most, (inputs, columns), endpoint=True)
    weights[:, rng.integers(columns)] *= rng.integers(0, 2)  # sometimes a column of zeros
    bias = rng.integers(-100, 100, columns)
    graph = solve(weights, x, bias, effort=1)
    prove(graph, weights, bias)
    u = vectors(x, inputs, rng, weights)
    assert np.array_equal(graph.execute(u), u @ weights + bias)


@pytest.mark.parametrize(
    ("x", "weights"),
    [
        (IntRange(-3, 9), [[3], [-3]]),
        (IntRange(-3, 9), [[3, -7], [-1, -7]]),
        (IntRange(-3, 9), [[-2, 7, 0, -2], [0, -7, 0, 0], [0, 0, -7, 6]]),
    ],
)
def test_a_multiple_of_one_shared_sum(x: IntRange, weights: list[list[int]]) -> None:
    """The sum has more bits than its range needs, because its codes do not begin at 0."""
    matrix, bias = np.array(weights), np.zeros(len(weights[0]), np.int64)
    graph = solve(matrix, x, bias)
    prove(graph, matrix, bias)
    u = np.array(list(product(range(x.lo, x.hi + 1), repeat=len(matrix))))
    assert np.array_equal(graph.sums(u), u @ matrix)


@pytest.mark.parametrize(
    ("x", "weights", "bias"),
    [
        (IntRange(-8, 7), [[-13, 83, 91], [2, 13, -38]], 0),
        (IntRange(0, 255), [[-1, -6, -5, -6], [7, 3, -6, -3]], 0),
        (IntRange(-8, 7), [[-1, -2, -6], [-6, -4, -7], [-4, -1, -2], [-6, -5, -8]], 0),
        (IntRange(0, 255), [[-6, 8, 6, -8, -6, -4, 1], [-1, 3, -6, 3, -7, -4, 8], [-8, 8, -4, 2, 8, -5, -7]], 7),
        (IntRange(0, 3), [[-23, -33, 16, 66, -72], [-74, -36, 35, 3, 81], [48, 32, 100, 4, -49]], -9),
    ],
)
def test_ones_that_are_added_late_leave_chains_as_they_are(x: IntRange, weights: list[list[int]], bias: int) -> None:
    matrix = np.array(weights)
    constants = np.full(len(weights[0]), bias)
    graph = solve(matrix, x, constants)
    assert all(adder.fits_chain for adder in graph.adders if isinstance(adder, RowAdder))
    prove(graph, matrix, constants)


def test_random_matrices_are_proved() -> None:
    """:func:`solve` raises where its proof fails."""
    draw_and_solve(np.random.default_rng(23), 150)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_random_matrices_are_proved_many(seed: int) -> None:
    draw_and_solve(np.random.default_rng(seed), 2000)


def draw_and_solve(rng: np.random.Generator, count: int) -> None:
    """Small matrices, sparse ones among them, with constants, rounding and totals that callers know to be narrower."""
    for _ in range(count):
        x = RANGES[rng.integers(len(RANGES))]
        inputs, columns = rng.integers(1, 12), rng.integers(1, 9)
        most = rng.choice([1, 2, 8, 100])
        weights = rng.integers(-most, most, (inputs, columns), endpoint=True)
        weights *= rng.random(weights.shape) < rng.choice([0.5, 1.0])
        bias = rng.integers(-100, 100, columns)
        rounding = Rounding(int(rng.integers(6)), int(rng.integers(1, 8))) if rng.random() < 0.2 else None
        total = None
        if rounding is None and not x.bipolar and rng.random() < 0.3:  # some inputs are always at one end
            some = weights * (rng.random(inputs) < 0.6)[:, np.newaxis]
            rest = (weights - some).sum(axis=0) * x.lo + bias
            low = np.minimum(some * x.lo, some * x.hi).sum(axis=0) + rest
            high = np.maximum(some * x.lo, some * x.hi).sum(axis=0) + rest
            total = IntRange(int(low.min()), int(high.max()))
        graph = solve(weights, x, bias, rounding, effort=int(rng.choice([1, 500])), total=total)
        if total is None and rounding is None:
            u = vectors(x, int(inputs), rng, weights)
            assert np.array_equal(graph.sums(u), u @ weights + bias)


@pytest.mark.parametrize("x", RANGES, ids=str)
def test_larger_matrices_of_every_range(x: IntRange) -> None:
    rng = np.random.default_rng(7)
    weights = rng.integers(-7, 7, (24, 12), endpoint=True)
    bias = rng.integers(-1000, 1000, 12)
    graph = solve(weights, x, bias, effort=1)
    prove(graph, weights, bias)
    u = vectors(x, 24, rng, weights)
    assert np.array_equal(graph.sums(u), u @ weights + bias)


def test_sums_of_nothing_but_zeros_have_a_bit() -> None:
    weights = np.array([[-12, 22], [15, 14], [-12, -36], [-11, -14], [4, 40], [-48, -32]])
    zero = IntRange(0, 0)
    graph = solve(weights, zero, np.zeros(2, np.int64), total=zero)
    prove(graph, weights, np.zeros(2, np.int64))
    assert min(graph.width) == 1
    assert not graph.execute(np.zeros((1, 6), np.int64)).any()


def test_rounding_shifts_and_clamps_the_sums() -> None:
    rng = np.random.default_rng(3)
    weights, x = rng.integers(-7, 7, (16, 8), endpoint=True), IntRange(0, 15)
    graph = solve(weights, x, np.full(8, 4), Rounding(3, 4, base=-8), effort=1)
    u = vectors(x, 16, rng, weights)
    assert np.array_equal(graph.execute(u), np.clip((u @ weights + 4) >> 3, 0, 15) - 8)


def test_the_same_matrix_gives_the_same_graph_and_more_effort_none_that_costs_more() -> None:
    weights = np.random.default_rng(11).integers(-4, 3, (12, 12), endpoint=True)
    small = solve(weights, IntRange(0, 7))
    assert small == solve(weights, IntRange(0, 7))
    assert cost(small) <= cost(solve(weights, IntRange(0, 7), effort=1))


@pytest.mark.parametrize(("bits", "most", "bound"), [(3, 4, 500), (4, 8, 850)])
def test_sharing_is_smaller_than_a_table_for_every_weight(bits: int, most: int, bound: int) -> None:
    """The bound is far under the sum of ``bits`` LUTs a weight and its digits, and above what five seeds take."""
    rng = np.random.default_rng(5)
    weights = rng.integers(-most, most - 1, (16, 16), endpoint=True)
    assert solve(weights, IntRange(0, 2**bits - 1)).luts < bound


def test_identical_columns_cost_no_more_than_their_last_adders() -> None:
    column = np.random.default_rng(2).integers(-7, 7, (16, 1), endpoint=True)
    one, four = (solve(np.repeat(column, n, axis=1), IntRange(0, 15), effort=1).luts for n in (1, 4))
    assert four < 2 * one


def test_a_proof_refuses_what_is_wrong() -> None:
    weights, bias = np.array([[3], [-2]]), np.array([1])
    graph = solve(weights, IntRange(0, 7), bias)
    prove(graph, weights, bias)
    with pytest.raises(ValueError, match="column 0 is not the product"):
        prove(graph, weights, bias + 1)
    with pytest.raises(ValueError, match="column 0 is not the product"):
        prove(graph, np.array([[3], [-1]]), bias)
    with pytest.raises(ValueError, match="does not fit"):
        prove(replace(graph, total=IntRange(-4, 3)), weights, bias)
    narrow = AdderGraph(
        IntRange(0, 7), 2, (Adder(Operand(0), Operand(1), 3), Adder(Operand(2), Operand(0), 5)), (), IntRange(0, 31)
    )
    with pytest.raises(ValueError, match=r"adder 1 reads node 2, which is right modulo 2\*\*3 only"):
        prove(narrow, np.zeros((2, 0), np.int64), np.zeros(0, np.int64))
    bent = Adder(Operand(0, table=(0, 1, 4, 9)), Operand(CONSTANT), 5)
    with pytest.raises(ValueError, match="adder 0: a table is not linear"):
        prove(
            AdderGraph(IntRange(0, 3), 1, (bent,), (), IntRange(0, 31)),
            np.zeros((1, 0), np.int64),
            np.zeros(0, np.int64),
        )


def test_counts_of_five_bits_are_three_digits() -> None:
    """One adder for each digit of the count; every value of the bits, and the one on top of them."""
    wires = tuple(Wire(0, k, inverted=k == 3) for k in range(5))
    for one in (False, True):
        start: Row = tuple(Digit((Wire(0, k),)) for k in (0, 1))
        rows = [(None,) * plane + (Digit(wires, one, plane),) for plane in range(3)]
        adders = [RowAdder(start, rows[0], 3, 0, Wire(0, 4)), RowAdder(whole(1, 3), rows[1], 4, 1)]
        adders.append(RowAdder(whole(2, 4), rows[2], 4, 2))
        graph = AdderGraph(IntRange(0, 31), 1, tuple(adders), (Operand(3),), IntRange(0, 15))
        x = np.arange(32)[:, np.newaxis]
        bits = x >> np.arange(5) & 1
        expected = bits.sum(axis=1) + 1 - 2 * bits[:, 3] + one + (x[:, 0] & 3) + bits[:, 4]
        assert np.array_equal(graph.sums(x)[:, 0], expected)
        assert [adder.luts for adder in adders] == [1, 1, 1]


def test_a_proof_needs_all_digits_of_a_count() -> None:
    weights, bias = np.ones((7, 1), np.int64), np.zeros(1, np.int64)
    graph = solve(weights, IntRange(0, 1))
    prove(graph, weights, bias)
    counted = [
        (j, k)
        for j, adder in enumerate(graph.adders)
        if isinstance(adder, RowAdder)
        for k, digit in enumerate(adder.b)
        if digit and digit.planes > 1
    ]
    assert counted
    for j, k in counted:
        adder = graph.adders[j]
        assert isinstance(adder, RowAdder)
        without = replace(adder, b=(*adder.b[:k], None, *adder.b[k + 1 :]))
        with pytest.raises(ValueError, match=r"column 0 (is not the product|reads node \d+, which is not a sum)"):
            prove(replace(graph, adders=(*graph.adders[:j], without, *graph.adders[j + 1 :])), weights, bias)


def test_a_proof_refuses_rows_that_do_not_fit_a_carry_chain() -> None:
    """Two digits where only one passes, a count as the first operand, and one of more bits than a look-up table has."""
    weights, bias = np.ones((6, 1), np.int64), np.zeros(1, np.int64)
    bits = [Digit((Wire(k, 0),)) for k in range(6)]
    three, six = (Digit(tuple(Wire(k, 0) for k in range(n))) for n in (3, 6))
    for a, b, low in ((bits[0], bits[1], 1), (three, bits[3], 0), (bits[0], six, 0)):
        graph = AdderGraph(IntRange(0, 1), 6, (RowAdder((a,), (b,), 3, low),), (Operand(6),), IntRange(0, 6))
        with pytest.raises(ValueError, match="adder 0 is not one on a carry chain"):
            prove(graph, weights, bias)


def test_luts_of_an_adder_are_the_bits_that_overlap() -> None:
    width = (4, 8)
    assert adder_luts(Adder(Operand(1), Operand(0), 9), width) == 4
    assert adder_luts(Adder(Operand(1), Operand(0, shift=6), 11), width) == 2
    assert adder_luts(Adder(Operand(1), Operand(0, shift=8), 12), width) == 0
    assert adder_luts(Adder(Operand(1), Operand(0, inverted=True), 9), width) == 4
    assert adder_luts(Adder(Operand(0), Operand(1, inverted=True), 9), width) == 8
    assert adder_luts(Adder(Operand(0, inverted=True), Operand(1), 9), width) == 8


def _longest(graph: AdderGraph, stage: tuple[int, ...]) -> int:
    """Most adders in a row within one stage."""
    run = [0] * graph.inputs
    for k, adder in enumerate(graph.adders, graph.inputs):
        before = [run[node] for node in adder.nodes if stage[node] == stage[k]]
        run.append(1 + max(before, default=0))
    return max(run)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 20), st.integers(1, 12), st.integers(1, 5), st.integers(0, 2**32), st.booleans())
def test_stages_are_short_and_in_order(inputs: int, columns: int, adders: int, seed: int, rounded: bool) -> None:
    weights = np.random.default_rng(seed).integers(-7, 7, (inputs, columns), endpoint=True)
    graph = solve(weights, IntRange(0, 15), None, Rounding(2, 4) if rounded else None, effort=1)
    cut = pipeline(graph, adders)
    assert cut.stages == max(-(-(max(graph.depth) + rounded) // adders), 1)
    assert _longest(graph, cut.stage) <= adders
    for k, adder in enumerate(graph.adders, graph.inputs):
        assert all(cut.stage[node] <= cut.stage[k] < cut.stages for node in adder.nodes)
    assert cut.register_bits <= pipeline(graph, adders, sweeps=0).register_bits


def test_the_default_stage() -> None:
    graph = solve(np.random.default_rng(1).integers(-7, 7, (16, 8), endpoint=True), IntRange(0, 15), effort=1)
    assert pipeline(graph) == pipeline(graph, ADDERS_A_STAGE)


def test_a_bit_is_kept_until_it_was_read_last() -> None:
    adders = (Adder(Operand(0), Operand(1), 3), Adder(Operand(3), Operand(2, 2), 3))
    graph = AdderGraph(IntRange(0, 3), 3, adders, (Operand(4),), IntRange(0, 7))
    cut = pipeline(graph, 1)
    assert cut.stages == 2
    assert cut.register_bits == 3 + 1 + 3  # the first sum, one bit of the last input, the output
