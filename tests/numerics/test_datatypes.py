"""Names, ranges and bit patterns of element types, against QONNX's and against Python integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qonnx.core.datatype import DataType as QonnxType
from qonnx.custom_op.general.intquant import max_int, min_int

from headrace.errors import HeadraceError
from headrace.numerics import (
    DataType,
    DataTypeError,
    bits_for_range,
    datatype,
    from_codes,
    integer_range,
    smallest_type,
    to_codes,
)

INTEGER_NAMES = [f"{kind}{bits}" for kind in ("INT", "UINT") for bits in (1, 2, 3, 4, 7, 8, 9, 16, 23, 32, 63, 64)]
FIXED_NAMES = ["FIXED<1,0>", "FIXED<4,2>", "FIXED<8,3>", "FIXED<8,0>", "FIXED<8,-2>", "FIXED<16,15>", "FIXED<32,7>"]
MINI_NAMES = ["FLOAT<4,3,7>", "FLOAT<5,2,15>", "FLOAT<2,1,1>", "FLOAT<3,0,3>", "FLOAT<1,2,0>", "FLOAT<4,3,10>"]
NAMES = [*INTEGER_NAMES, "BINARY", "BIPOLAR", "TERNARY", *FIXED_NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_properties_equal_qonnx(name: str) -> None:
    ours, theirs = datatype(name), QonnxType[name]
    assert ours.name == ours.to_qonnx_name == str(ours) == theirs.name
    assert (ours.bits, ours.lo, ours.hi) == (theirs.bitwidth(), theirs.min(), theirs.max())
    assert (ours.signed, ours.is_integer, ours.is_fixed_point) == (
        theirs.signed(),
        theirs.is_integer(),
        theirs.is_fixed_point(),
    )
    assert ours.num_values == (2**ours.bits if ours.is_fixed_point else theirs.get_num_possible_values())


@pytest.mark.parametrize("name", [n for n in NAMES if "FIXED" not in n])
def test_numpy_dtype_equals_qonnx(name: str) -> None:
    assert datatype(name).numpy_dtype == QonnxType[name].to_numpy_dt()


@pytest.mark.parametrize("name", [n for n in [*NAMES, *MINI_NAMES] if "64" not in n and "63" not in n])
def test_allowed_equals_qonnx(name: str) -> None:
    rng = np.random.default_rng(1)
    kind = datatype(name)
    ends = np.array([kind.lo, kind.hi, 0, -1, 1, 0.5, -0.5, 0.25, 2.0**-9, 2.0**30, -(2.0**30)], dtype=np.float64)
    values = np.concatenate([ends, ends * 2, rng.integers(-300, 300, 400), rng.integers(-3000, 3000, 400) / 64])
    values = values.astype(np.float32).astype(np.float64)  # QONNX reads minifloats through float32
    assert np.array_equal(kind.allowed_mask(values), QonnxType[name].allowed(values))


@pytest.mark.parametrize("name", ["FLOAT32", "FLOAT16", *MINI_NAMES])
def test_float_properties_equal_qonnx(name: str) -> None:
    ours, theirs = datatype(name), QonnxType[name]
    assert (ours.name, ours.bits, ours.lo, ours.hi) == (theirs.name, theirs.bitwidth(), theirs.min(), theirs.max())
    assert ours.signed
    assert not ours.is_integer
    assert not ours.is_fixed_point


def test_scaled_integer_has_a_width_but_no_values() -> None:
    kind = datatype("SCALEDINT<8>")
    assert (kind.name, kind.bits, kind.signed, kind.is_integer) == ("SCALEDINT<8>", 8, True, False)
    with pytest.raises(DataTypeError, match="INT8"):
        kind.allowed(1)
    with pytest.raises(DataTypeError, match="scale"):
        _ = kind.lo


def test_equal_by_value_hashable_and_frozen() -> None:
    assert datatype("UINT1") == datatype("BINARY") == DataType.from_name("BINARY")
    assert datatype("UINT1").name == "BINARY"
    assert datatype("FLOAT<4,3>") == datatype("FLOAT<4,3,7>")
    assert len({datatype(n) for n in ["INT4", "INT4", "UINT4", "FIXED<4,2>", "TERNARY", "INT2"]}) == 5
    assert datatype("FIXED< 8, 3 >") == datatype("FIXED<8,3>")
    with pytest.raises(AttributeError):
        datatype("INT4").width = 5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name",
    [
        *["INT0", "UINT0", "INT-1", "UINT-4", "INT", "INT4.5", "INT1000", "INT4 UINT4", "", "FLOAT8"],
        *["FIXED<0,0>", "FIXED<0,-1>", "FIXED<4,4>", "FIXED<4,5>", "FIXED<8>", "FIXED<8,3,1>", "FIXED<65,3>"],
        *["SCALEDINT<0>", "SCALEDINT8", "FLOAT<0,3>", "FLOAT<9,3>", "FLOAT<4,-1>", "UFIXED<8,3>"],
    ],
)
def test_names_of_no_type_are_refused(name: str) -> None:
    with pytest.raises(DataTypeError, match=r"accepted|needs"):
        datatype(name)


@pytest.mark.parametrize(("name", "nearest"), [("int8", "INT8"), ("BIPOLR", "BIPOLAR"), ("fixed<8,3>", "FIXED<8,3>")])
def test_nearest_name_is_suggested(name: str, nearest: str) -> None:
    with pytest.raises(HeadraceError, match=f"did you mean '{nearest}'"):
        datatype(name)


def test_name_must_be_a_string() -> None:
    with pytest.raises(DataTypeError, match="int"):
        datatype(4)  # type: ignore[arg-type]


@given(st.integers(-(2**70), 2**70), st.integers(0, 2**70))
def test_smallest_type_holds_the_range_and_no_narrower_does(lo: int, extent: int) -> None:
    hi = lo + extent
    kind = smallest_type(lo, hi)
    assert kind.lo <= lo
    assert hi <= kind.hi
    assert (kind.bits, kind.signed) == bits_for_range(lo, hi)
    assert kind.signed == (lo < 0)
    if kind.bits > 1:
        narrower = datatype(f"{'INT' if kind.signed else 'UINT'}{kind.bits - 1}")
        assert lo < narrower.lo or hi > narrower.hi


@pytest.mark.parametrize(
    ("lo", "hi", "name"),
    [
        *[(0, 0, "BINARY"), (0, 1, "BINARY"), (0, 2, "UINT2"), (-1, 0, "INT1"), (-1, 1, "INT2"), (-128, 127, "INT8")],
        *[
            (-129, 0, "INT9"),
            (-5, -3, "INT4"),
            (3, 255, "UINT8"),
            (3, 256, "UINT9"),
            (-1, -1, "INT1"),
            (-8, -8, "INT4"),
        ],
    ],
)
def test_smallest_type_at_the_edges(lo: int, hi: int, name: str) -> None:
    assert smallest_type(lo, hi).name == name
    assert smallest_type(np.int64(lo), np.int64(hi)).name == name


def test_empty_range_is_refused() -> None:
    with pytest.raises(DataTypeError, match=r"\[3, 2\] is empty"):
        smallest_type(3, 2)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("bits", [2, 3, 8, 16])
def test_integer_range_equals_qonnx(bits: int, signed: bool, narrow: bool) -> None:
    assert integer_range(bits, signed=signed, narrow=narrow) == (
        min_int(signed, narrow, bits),
        max_int(signed, narrow, bits),
    )


def all_values(kind: DataType) -> np.ndarray:
    if kind.name == "BIPOLAR":
        return np.array([-1, 1])
    if kind.is_fixed_point:
        step = kind.lo / -(2 ** (kind.bits - 1))
        return np.arange(-(2 ** (kind.bits - 1)), 2 ** (kind.bits - 1)) * step
    return np.arange(kind.lo, kind.hi + 1)


@pytest.mark.parametrize("name", [n for n in NAMES if datatype(n).bits <= 9])
@pytest.mark.parametrize("carrier", [np.float32, np.float64, np.int64])
def test_every_value_has_its_code(name: str, carrier: type) -> None:
    kind = datatype(name)
    values = all_values(kind)
    if carrier is np.int64 and kind.is_fixed_point:
        values = values[values == np.floor(values)]
    scale = 2 ** (kind.bits - int(name[6:-1].split(",")[1])) if kind.is_fixed_point else 1
    expected = [(int(v) + 1) // 2 if name == "BIPOLAR" else int(v * scale) % 2**kind.bits for v in values]
    codes = to_codes(values.astype(carrier), kind)
    assert codes.dtype == np.uint64
    assert codes.tolist() == expected
    assert np.array_equal(from_codes(codes, kind), values)


@given(st.data(), st.sampled_from([f"{k}{b}" for k in ("INT", "UINT") for b in range(1, 65)]))
def test_codes_round_trip_at_any_width(data: st.DataObject, name: str) -> None:
    kind = datatype(name)
    ends = st.sampled_from([kind.lo, kind.hi, 0])
    values = data.draw(st.lists(st.integers(int(kind.lo), int(kind.hi)) | ends, max_size=20))
    array = np.array(values, dtype=np.uint64 if kind.lo == 0 else np.int64)
    codes = to_codes(array, kind)
    assert codes.tolist() == [v % 2**kind.bits for v in values]
    assert from_codes(codes, kind).tolist() == values


@pytest.mark.parametrize("name", MINI_NAMES)
def test_minifloat_codes_follow_the_formula(name: str) -> None:
    kind = datatype(name)
    exponent_bits, mantissa_bits, bias = (int(n) for n in name[6:-1].split(","))
    expected = []
    for code in range(2**kind.bits):
        sign = -1.0 if code >> (kind.bits - 1) else 1.0
        exponent, mantissa = (code >> mantissa_bits) % 2**exponent_bits, code % 2**mantissa_bits
        fraction = mantissa / 2**mantissa_bits + (exponent > 0)
        expected.append(sign * fraction * 2.0 ** (max(exponent, 1) - bias))
    codes = np.arange(2**kind.bits, dtype=np.uint64)
    values = from_codes(codes, kind)
    assert values.tolist() == expected
    assert kind.allowed(values)
    assert np.array_equal(to_codes(values, kind), codes)
    assert max(expected) == kind.hi
    assert all(np.isfinite(expected))


@pytest.mark.parametrize(
    ("name", "carrier", "code"), [("FLOAT32", np.float32, np.uint32), ("FLOAT16", np.float16, np.uint16)]
)
def test_ieee_codes_are_the_bits_of_the_float(name: str, carrier: type, code: type) -> None:
    values = np.array([0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, 6.1e-5, 65504.0], dtype=carrier)
    assert np.array_equal(to_codes(values, datatype(name)), values.view(code))
    assert np.array_equal(from_codes(to_codes(values, datatype(name)), datatype(name)), values)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("INT4", 8), ("INT4", -9), ("INT4", 0.5), ("INT4", np.nan), ("INT4", np.inf), ("UINT3", -1), ("UINT3", 8)],
        *[("BIPOLAR", 0), ("BIPOLAR", np.nan), ("TERNARY", 2), ("TERNARY", -2), ("BINARY", 2), ("FIXED<4,2>", 0.125)],
        *[
            ("FIXED<4,2>", 2.0),
            ("FLOAT<4,3,7>", 1.0625),
            ("FLOAT<4,3,7>", 481.0),
            ("FLOAT16", 1e5),
            ("FLOAT16", 1 + 2**-12),
        ],
        *[("INT32", np.float32(2**31)), ("INT64", 2.0**63), ("INT64", np.uint64(2**63)), ("UINT64", 2.0**64)],
        *[
            ("UINT64", -1),
            ("FLOAT32", 2**24 + 1),
            ("FLOAT32", 2**60 + 1),
            ("UINT8", np.int8(-1)),
            ("INT8", np.uint8(128)),
        ],
    ],
)
def test_values_outside_the_type_are_refused(name: str, value: float) -> None:
    kind = datatype(name)
    values = np.array([kind.hi, value]) if isinstance(value, float) else np.array([value])
    assert kind.allowed_mask(values)[-1] == np.False_
    assert not kind.allowed(value)
    with pytest.raises(DataTypeError, match=name):
        to_codes(values, kind)


def test_the_error_names_value_place_and_range() -> None:
    with pytest.raises(DataTypeError, match=r"9 at index \(1, 0\) is not a value of INT4 \(-8 to 7\)"):
        to_codes([[1, 2], [9, 4]], datatype("INT4"))


def test_other_bad_arrays() -> None:
    with pytest.raises(HeadraceError, match="at most 64 bits"):
        to_codes([1 + 2j], datatype("INT4"))
    with pytest.raises(DataTypeError, match="65 bits cannot be encoded"):
        to_codes([1], datatype("INT65"))
    with pytest.raises(DataTypeError, match="unsigned integer of 3 bits"):
        from_codes([8], datatype("INT3"))
    with pytest.raises(DataTypeError, match="unsigned integers"):
        from_codes([1.0], datatype("INT3"))
    with pytest.raises(DataTypeError, match="0b10"):
        from_codes([2], datatype("TERNARY"))


def test_wide_types_have_ranges() -> None:
    kind = datatype("INT100")
    assert (kind.lo, kind.hi) == (-(2**99), 2**99 - 1)
    assert kind.allowed(np.array([2**63 - 1, -(2**63)]))
    assert kind.allowed(2.0**98)
    assert not kind.allowed(2.0**99)


def test_empty_and_scalar_and_boolean_arrays() -> None:
    assert to_codes(np.zeros((0, 3)), datatype("INT4")).shape == (0, 3)
    assert to_codes(5, datatype("INT4")).shape == ()
    assert to_codes([True, False], datatype("BINARY")).tolist() == [1, 0]


def test_fixed_point_past_53_bits_is_exact_or_refused() -> None:
    kind = datatype("FIXED<64,32>")
    values = np.array([0.5, -(2.0**31), 2.0**31 - 2.0**-21])
    assert np.array_equal(from_codes(to_codes(values, kind), kind), values)
    with pytest.raises(DataTypeError, match="53"):
        from_codes(np.array([2**63 - 1], dtype=np.uint64), kind)
