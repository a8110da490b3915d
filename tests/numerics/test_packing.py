"""Packing against words built with Python integers, and against element-by-element packing through bitstring.

QONNX 1.0 has no packing of its own, so the oracle is the method of FINN's ``data_packing``, written anew: QONNX's data
type decides, ``bitstring`` appends one element after the other.
"""

from __future__ import annotations

import numpy as np
import pytest
from bitstring import BitArray
from hypothesis import given, settings
from hypothesis import strategies as st
from qonnx.core.datatype import DataType as QonnxType

from headrace.errors import HeadraceError, InputError
from headrace.numerics import (
    DataTypeError,
    datatype,
    from_hex,
    ints_to_words,
    pack_bytes,
    pack_hex,
    pack_stream,
    random_array,
    to_codes,
    to_hex,
    to_hex_text,
    unpack_bytes,
    unpack_hex,
    unpack_stream,
    word_bits,
    words_to_ints,
)

SHAPES = [("INT3", 7), ("UINT5", 3), ("INT4", 16), ("BIPOLAR", 9), ("TERNARY", 5), ("INT8", 3), ("UINT12", 4)]
SHAPES += [("INT13", 9), ("INT1", 1), ("BINARY", 64), ("UINT7", 8), ("INT33", 2), ("UINT64", 2), ("INT17", 24)]
SHAPES += [("FIXED<6,2>", 5), ("FLOAT<4,3,7>", 3), ("FLOAT32", 2), ("UINT63", 11), ("INT16", 1), ("UINT9", 23)]


def word_of(codes: list[int], bits: int) -> int:
    """The specification: element i occupies bits i * bits and up."""
    return sum(code << (i * bits) for i, code in enumerate(codes))


def finn_hex(row: np.ndarray, name: str, pad_to_bits: int, *, reverse: bool = False) -> str:
    kind = QonnxType[name]
    word = BitArray()
    for value in row[::-1] if reverse else row:
        assert kind.allowed(value)
        if name == "BIPOLAR":
            word.append(BitArray(uint=int(value > 0), length=1))
        elif kind.signed():
            word.append(BitArray(int=int(value), length=kind.bitwidth()))
        else:
            word.append(BitArray(uint=int(value), length=kind.bitwidth()))
    word.prepend(BitArray(bin="0" * (pad_to_bits - len(word))))
    return f"0x{word.hex}"


@pytest.mark.parametrize(("name", "elements"), SHAPES)
@pytest.mark.parametrize("spare", [None, 0, 5, 64])
def test_words_equal_the_specification(name: str, elements: int, spare: int | None) -> None:
    kind = datatype(name)
    values = random_array(kind, (3, 5, elements), np.random.default_rng(2), extremes=True)
    pad = None if spare is None else kind.bits * elements + spare
    words = pack_bytes(values, kind, pad)
    bits = word_bits(kind, elements, pad)
    assert words.dtype == np.uint8
    assert words.shape == (3, 5, (bits + 7) // 8)
    expected = [word_of(row, kind.bits) for row in to_codes(values, kind).reshape(15, elements).tolist()]
    assert [int.from_bytes(row.tobytes(), "little") for row in words.reshape(15, -1)] == expected
    assert words_to_ints(words) == expected
    assert np.array_equal(unpack_bytes(words, kind, elements), values)


@settings(deadline=None)
@given(st.data(), st.integers(1, 64), st.booleans(), st.integers(1, 40), st.integers(0, 4))
def test_round_trip_at_any_width(data: st.DataObject, bits: int, signed: bool, elements: int, rows: int) -> None:
    kind = datatype(f"{'INT' if signed else 'UINT'}{bits}")
    values = random_array(kind, (rows, elements), np.random.default_rng(data.draw(st.integers(0, 2**32))))
    words = pack_bytes(values, kind)
    assert words_to_ints(words) == [word_of(row, bits) for row in to_codes(values, kind).tolist()]
    assert np.array_equal(unpack_bytes(words, kind, elements), values)
    hexadecimal = to_hex(words, bits * elements)
    assert np.array_equal(from_hex(hexadecimal, bits * elements), words)
    assert np.array_equal(ints_to_words(words_to_ints(words), bits * elements), words)


@pytest.mark.parametrize("carrier", [np.float32, np.float64, np.int8, np.int16, np.int64])
def test_any_carrier_type_packs_alike(carrier: type) -> None:
    values = random_array(datatype("INT5"), (4, 6), np.random.default_rng(3), extremes=True)
    assert np.array_equal(pack_bytes(values.astype(carrier), datatype("INT5")), pack_bytes(values, datatype("INT5")))


def test_non_contiguous_views_pack_alike() -> None:
    values = random_array(datatype("INT3"), (8, 10, 12), np.random.default_rng(4))
    view = values.transpose(2, 0, 1)[::2, :, ::-1]
    assert np.array_equal(pack_bytes(view, datatype("INT3")), pack_bytes(view.copy(), datatype("INT3")))
    words = pack_bytes(view, datatype("INT3"))
    assert np.array_equal(unpack_bytes(words[::-1, ::3], datatype("INT3"), 10), view[::-1, ::3])


def test_the_argument_is_left_alone() -> None:
    values = np.array([[1, 2, 3]], dtype=np.uint8)
    pack_bytes(values, datatype("UINT8"))[...] = 7
    words = np.array([[1, 2, 3]], dtype=np.uint8)
    unpack_bytes(words, datatype("UINT8"), 3)[...] = 9
    assert values.tolist() == words.tolist() == [[1, 2, 3]]


def test_bits_above_the_elements_are_ignored_when_unpacking() -> None:
    words = np.array([[0b11111010, 0xFF, 0xAA]], dtype=np.uint8)
    assert unpack_bytes(words, datatype("UINT3"), 2).tolist() == [[2, 7]]


def test_stream_is_cut_in_order() -> None:
    kind = datatype("INT3")
    values = random_array(kind, (2, 4, 21), np.random.default_rng(5))
    words = pack_stream(values, kind, 7, pad_to_bits=24)
    assert words.shape == (2, 4, 3, 3)
    assert np.array_equal(words[1, 2, 2], pack_bytes(values[1, 2, 14:21], kind))
    assert np.array_equal(unpack_stream(words, kind, 7), values)


@pytest.mark.parametrize(("name", "elements"), [s for s in SHAPES if "FLOAT" not in s[0] and "FIXED" not in s[0]])
@pytest.mark.parametrize("reverse", [False, True])
def test_hex_strings_equal_finn(name: str, elements: int, reverse: bool) -> None:
    kind = datatype(name)
    values = random_array(kind, (2, 3, elements), np.random.default_rng(6), extremes=True)
    bits = -(-kind.bits * elements // 4) * 4 + 8
    expected = [finn_hex(row, name, bits, reverse=reverse) for row in values.reshape(6, elements)]
    strings = pack_hex(values, kind, bits, reverse_inner=reverse)
    assert strings.shape == (2, 3)
    assert strings.ravel().tolist() == expected
    assert np.array_equal(unpack_hex(strings, kind, elements, reverse_inner=reverse), values)


@pytest.mark.parametrize(("name", "elements"), [s for s in SHAPES if "FLOAT" not in s[0] and "FIXED" not in s[0]])
@pytest.mark.parametrize("reverse_inner", [False, True])
@pytest.mark.parametrize("reverse_endian", [False, True])
def test_bytes_equal_finn(name: str, elements: int, reverse_inner: bool, reverse_endian: bool) -> None:
    kind = datatype(name)
    values = random_array(kind, (6, elements), np.random.default_rng(7), extremes=True)
    bits = -(-kind.bits * elements // 8) * 8
    big_endian = [bytes.fromhex(finn_hex(row, name, bits, reverse=reverse_inner)[2:]) for row in values]
    expected = [raw[::-1] if reverse_endian else raw for raw in big_endian]
    words = pack_bytes(values if reverse_inner else values[:, ::-1], kind)
    assert [row.tobytes() for row in (words if reverse_endian else words[:, ::-1])] == expected


def test_documented_examples_of_finn() -> None:
    binary, uint2 = datatype("BINARY"), datatype("UINT2")
    assert pack_hex([[1, 1, 1, 0], [0, 1, 1, 0]], binary, 8, prefix="").tolist() == ["0e", "06"]
    assert pack_hex([[[3, 3], [3, 3]], [[1, 3], [3, 1]]], uint2, 8).tolist() == [["0x0f", "0x0f"], ["0x07", "0x0d"]]
    assert pack_hex([1, 1, 0, 1], binary, reverse_inner=True).tolist() == "0xb"
    assert pack_hex([1, 0], binary).tolist() == "0x2"


@pytest.mark.parametrize("bits", [1, 3, 4, 5, 8, 21, 64, 65, 127])
def test_memory_files_are_read_by_readmemh_rules(bits: int) -> None:
    ints = [0, 1, 2**bits - 1, 2 ** (bits - 1), 5 % 2**bits]
    words = ints_to_words(ints, bits)
    text = to_hex_text(words, bits)
    assert text.splitlines() == [f"{number:0{(bits + 3) // 4}x}" for number in ints] == to_hex(words, bits)
    assert text.endswith("\n")
    assert np.array_equal(from_hex(text, bits), words)
    assert words_to_ints(words) == ints


def test_hex_of_other_makers() -> None:
    text = "// weights\n0x0F 1_f\n/* two\nlines */ A // end\n000001\n"
    assert words_to_ints(from_hex(text, 8)) == [15, 31, 10, 1]
    assert from_hex("", 8).shape == (0, 1)
    assert to_hex_text(np.zeros((0, 1), np.uint8), 8) == ""
    assert from_hex(["ff", "0"], 9).tolist() == [[255, 0], [0, 0]]


@pytest.mark.parametrize(
    ("text", "bits", "word"),
    [
        *[
            ("12 1g", 8, "word 1: '1g'"),
            ("100", 8, "'100'"),
            ("8", 3, "'8'"),
            ("1ff ffff", 9, "'ffff'"),
            ("0x", 8, "'0x'"),
        ],
        *[(["1 2"], 16, "'1 2'"), ("@10 5", 8, "'@10'"), ("xx", 8, "'xx'"), (["é"], 8, "'é'"), ([""], 8, "''")],
    ],
)
def test_bad_hex_is_refused(text: str | list[str], bits: int, word: str) -> None:
    with pytest.raises(InputError, match=f"{word} is not a hexadecimal number of at most {bits} bits"):
        from_hex(text, bits)


def test_strings_of_other_makers_unpack() -> None:
    kind = datatype("UINT4")
    for strings in (["0x12", "0xaF"], ["12", "AF"], ["0x12", "0x0af"], ["0X1_2", "0xAF"], ["0x00012", "0x000aF"]):
        assert unpack_hex(strings, kind, 2).tolist() == [[1, 2], [10, 15]]
    assert unpack_hex(["0x2", "0xf"], kind, 2).tolist() == [[0, 2], [0, 15]]
    assert unpack_hex("0x12", kind, 2, reverse_inner=True).tolist() == [2, 1]
    assert unpack_hex(np.array([], dtype=str), kind, 2).shape == (0, 2)
    for strings in (["0x1g"], ["0x 1"], ["0x1 "], ["0x 12 "], ["0x"], ["0x1\u0661"], [""]):
        with pytest.raises(InputError, match=r"word 0: .* is not a hexadecimal number"):
            unpack_hex(strings, kind, 2)


def test_bad_words_are_refused() -> None:
    kind = datatype("INT3")
    for bad, message in [
        (lambda: pack_bytes(3, kind), "scalar"),
        (lambda: pack_stream(3, kind, 1), "scalar"),
        (lambda: pack_bytes([[1, 2]], kind, 5), "pad_to_bits=5 is too narrow for 2 x INT3, which take 6 bits"),
        (lambda: pack_bytes(np.zeros((2, 0)), kind), "at least 1"),
        (
            lambda: pack_stream(np.zeros((2, 12)), kind, 5),
            "elements_per_word=5 does not divide elements=12; valid: 1, 2, 3",
        ),
        (lambda: pack_stream(np.zeros((2, 12)), kind, 0), "elements_per_word=0"),
        (lambda: unpack_bytes(np.zeros((2, 1), np.uint8), kind, 3), "too narrow for 3 x INT3, which take 9 bits"),
        (lambda: unpack_bytes(np.zeros((2, 1), np.int64), kind, 2), "uint8 array"),
        (lambda: unpack_stream(np.zeros(2, np.uint8), kind, 2), "not a stream"),
        (lambda: ints_to_words([3, 8], 3), "word 1: 8"),
        (lambda: ints_to_words([-1], 3), "word 0: -1"),
        (lambda: ints_to_words([1], 0), "at least 1"),
        (lambda: to_hex(np.array([[1], [8]], np.uint8), 3), "word 1 has a bit set above its 3 bits"),
        (lambda: to_hex(np.zeros((1, 2), np.uint8), 3), "1 bytes, not 2"),
        (lambda: pack_hex(3, kind), "scalar"),
    ]:
        with pytest.raises(HeadraceError, match=message):
            bad()
    with pytest.raises(DataTypeError, match=r"4 at index \(0, 1\) is not a value of INT3"):
        pack_bytes([[1, 4]], kind)
