"""Weight and channel interleaving, index by index, and against QONNX's partition interleaving."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qonnx.util.basic import interleave_matrix_outer_dim_from_partitions

from headrace.errors import FoldingError, InputError
from headrace.numerics import (
    datatype,
    deinterleave_channels,
    deinterleave_weights,
    divisors,
    fold_counts,
    interleave_channels,
    interleave_weights,
    random_array,
    round_up_to_multiple,
    unpack_bytes,
    weight_memory_words,
    weights_from_memory_words,
)

FOLDINGS = [(6, 4, 1, 1), (6, 4, 6, 4), (6, 4, 2, 2), (6, 15, 3, 5), (7, 11, 7, 1), (12, 9, 4, 3)]


@pytest.mark.parametrize(("mh", "mw", "pe", "simd"), FOLDINGS)
def test_every_weight_is_where_the_contract_says(mh: int, mw: int, pe: int, simd: int) -> None:
    kind = datatype("INT9")
    matrix = random_array(kind, (mh, mw), np.random.default_rng(1))
    nf, sf = fold_counts(mh, mw, pe, simd)
    tiles = interleave_weights(matrix, pe, simd)
    words = unpack_bytes(weight_memory_words(matrix, kind, pe, simd), kind, pe * simd)
    assert tiles.shape == (pe, nf * sf, simd)
    assert words.shape == (nf * sf, pe * simd)
    for row in range(mh):
        for column in range(mw):
            step, lane = (row // pe) * sf + column // simd, column % simd
            assert tiles[row % pe, step, lane] == matrix[row, column]
            assert words[step, (row % pe) * simd + lane] == matrix[row, column]


@pytest.mark.parametrize(("mh", "mw", "pe", "simd"), FOLDINGS)
def test_tiles_equal_qonnx(mh: int, mw: int, pe: int, simd: int) -> None:
    matrix = random_array(datatype("INT4"), (mh, mw), np.random.default_rng(2)).astype(np.float32)
    expected = interleave_matrix_outer_dim_from_partitions(matrix, pe).reshape(pe, -1, simd)
    assert np.array_equal(interleave_weights(matrix, pe, simd), expected)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32))
def test_round_trips(nf: int, sf: int, pe: int, simd: int, seed: int) -> None:
    kind = datatype("INT3")
    mh, mw = nf * pe, sf * simd
    matrix = random_array(kind, (mh, mw), np.random.default_rng(seed))
    assert np.array_equal(deinterleave_weights(interleave_weights(matrix, pe, simd), mh, mw), matrix)
    words = weight_memory_words(matrix, kind, pe, simd, pad_to_bits=128)
    assert words.shape == (nf * sf, 16)
    assert np.array_equal(weights_from_memory_words(words, kind, pe, simd, mh, mw), matrix)


def test_channels() -> None:
    thresholds = np.arange(36).reshape(12, 3)
    folded = interleave_channels(thresholds, 4)
    assert folded.shape == (3, 4, 3)
    assert all(np.array_equal(folded[c // 4, c % 4], thresholds[c]) for c in range(12))
    assert np.array_equal(deinterleave_channels(folded), thresholds)


def test_folding_that_does_not_divide_names_what_would() -> None:
    matrix = np.zeros((64, 6))
    with pytest.raises(FoldingError, match="PE=3 does not divide MH=64; valid: 1, 2, 4, 8, 16, 32, 64"):
        interleave_weights(matrix, 3, 1)
    with pytest.raises(FoldingError, match="SIMD=4 does not divide MW=6; valid: 1, 2, 3, 6"):
        weight_memory_words(matrix, datatype("INT2"), 2, 4)
    with pytest.raises(FoldingError, match="PE=0"):
        fold_counts(4, 4, 0, 1)
    with pytest.raises(FoldingError, match="PE=5 does not divide channels=12; valid: 1, 2, 3, 4, 6, 12"):
        interleave_channels(np.zeros(12), 5)
    with pytest.raises(FoldingError, match="MH=0; valid: none"):
        fold_counts(0, 4, 1, 1)


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(InputError, match=r"\(2, 3, 4\) are not a matrix"):
        interleave_weights(np.zeros((2, 3, 4)), 1, 1)
    with pytest.raises(InputError, match="PE, NF"):
        deinterleave_weights(np.zeros((2, 3, 4)), 5, 5)
    with pytest.raises(InputError, match="takes 4 words"):
        weights_from_memory_words(np.zeros((3, 1), np.uint8), datatype("INT2"), 2, 2, 4, 4)
    with pytest.raises(InputError, match="scalar"):
        interleave_channels(np.array(3), 1)
    with pytest.raises(InputError, match="not folded"):
        deinterleave_channels(np.zeros(3))


@given(st.integers(1, 3000))
def test_divisors(number: int) -> None:
    assert divisors(number) == [d for d in range(1, number + 1) if number % d == 0]


@given(st.integers(0, 10**6), st.integers(1, 10**4))
def test_round_up(value: int, factor: int) -> None:
    result = round_up_to_multiple(value, factor)
    assert result % factor == 0
    assert value <= result < value + factor


def test_round_up_refuses() -> None:
    with pytest.raises(InputError, match="at least 1"):
        round_up_to_multiple(3, 0)
