"""Integer ranges: the narrowest encoding, and what is refused."""

from __future__ import annotations

import pytest

from headrace.ir import FloatType, IntRange, TensorType


@pytest.mark.parametrize("lo", range(-17, 18))
def test_bits_are_the_fewest_that_hold_every_value(lo: int) -> None:
    for hi in range(lo, 18):
        r = IntRange(lo, hi)
        bits = 1
        while not (-(2 ** (bits - 1)) <= lo and hi < 2 ** (bits - 1) if lo < 0 else hi < 2**bits):
            bits += 1
        assert (r.bits, r.signed, r.encoding) == (bits, lo < 0, "signed" if lo < 0 else "unsigned")
        assert r.count == len(range(lo, hi + 1))


@pytest.mark.parametrize(
    ("lo", "hi", "bits"),
    [(0, 0, 1), (-1, 0, 1), (-1, -1, 1), (0, 2**63, 64), (-(2**62), 2**62 - 1, 63), (-(2**62) - 1, 0, 64), (5, 5, 3)],
)
def test_extreme_ranges(lo: int, hi: int, bits: int) -> None:
    assert IntRange(lo, hi).bits == bits


def test_bipolar_is_one_bit() -> None:
    r = IntRange(-1, 1, bipolar=True)
    assert (r.bits, r.signed, r.encoding, str(r)) == (1, False, "bipolar", "BIPOLAR")
    assert IntRange(-1, 1).bits == 2


def test_refused_ranges() -> None:
    with pytest.raises(ValueError, match=r"empty integer range \[1, 0\]"):
        IntRange(1, 0)
    with pytest.raises(ValueError, match=r"a bipolar range is \[-1, 1\], not \[0, 1\]"):
        IntRange(0, 1, bipolar=True)


def test_tensor_types() -> None:
    t = TensorType((2, 3), IntRange(-4, 3))
    assert t.is_integer
    assert t.int_range == IntRange(-4, 3)
    assert str(t) == "INT3[-4..3][2, 3]"
    real = TensorType((2, 3))
    assert real == TensorType((2, 3), FloatType())
    assert not real.is_integer
    assert str(real) == "FLOAT32[2, 3]"
    with pytest.raises(TypeError, match="not an integer type"):
        _ = real.int_range
