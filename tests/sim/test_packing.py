"""Packing against a slow definition in plain integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_sim import Port, Stream, pack, unpack
from headrace_sim.packing import padding_is_zero, value_range


@st.composite
def formats(draw: st.DrawFn) -> Stream:
    encoding = draw(st.sampled_from(["signed", "unsigned", "bipolar"]))
    bits = 1 if encoding == "bipolar" else draw(st.integers(1, 63))
    epw = draw(st.integers(1, 70))
    return Stream(
        name="s",
        layer="l",
        signal="s",
        bits=bits,
        encoding=encoding,
        elements_per_word=epw,
        frame_elements=epw * draw(st.integers(1, 3)),
    )


def words_by_definition(row: list[int], fmt: Stream) -> list[int]:
    """Element i of a word takes bits i * bits and up; bipolar -1 is 0."""
    words = []
    for start in range(0, len(row), fmt.elements_per_word):
        word = 0
        for i, value in enumerate(row[start : start + fmt.elements_per_word]):
            code = (value + 1) // 2 if fmt.encoding == "bipolar" else value % 2**fmt.bits
            word |= code << (i * fmt.bits)
        words.append(word)
    return words


@given(fmt=formats(), seed=st.integers(0, 2**32), frames=st.integers(1, 3))
def test_pack_and_unpack(fmt: Stream, seed: int, frames: int) -> None:
    low, high = value_range(fmt)
    rng = np.random.default_rng(seed)
    x = rng.integers(low, high, (frames, fmt.frame_elements), endpoint=True)
    if fmt.encoding == "bipolar":
        x = np.where(x > 0, 1, -1)
    else:
        x.flat[0], x.flat[-1] = low, high
    words = pack(x, fmt)
    assert words.shape == (frames * fmt.words_per_frame, fmt.word_bytes)
    assert [int.from_bytes(word.tobytes(), "little") for word in words] == [
        word for row in x.tolist() for word in words_by_definition(row, fmt)
    ]
    np.testing.assert_array_equal(unpack(words, fmt), x)
    assert padding_is_zero(words, fmt).all()


@pytest.mark.parametrize(("bits", "epw", "tdata_bits"), [(3, 1, 8), (8, 1, 24), (5, 3, 16), (8, 2, 24)])
def test_padding(bits: int, epw: int, tdata_bits: int) -> None:
    port = Port(
        port="p",
        tensor="t",
        bits=bits,
        encoding="unsigned",
        elements_per_word=epw,
        frame_elements=epw,
        tdata_bits=tdata_bits,
    )
    x = np.full((1, epw), 2**bits - 1)
    words = pack(x, port)
    assert words.shape == (1, tdata_bits // 8)
    assert padding_is_zero(words, port).tolist() == [True]
    for bit in range(bits * epw, tdata_bits):
        dirty = words.copy()
        dirty[0, bit // 8] |= 1 << (bit % 8)
        assert padding_is_zero(dirty, port).tolist() == [False]
        np.testing.assert_array_equal(unpack(dirty, port), x)
