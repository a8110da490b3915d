"""Random arrays of a type, and snapping to a type."""

from __future__ import annotations

import numpy as np
import pytest
from qonnx.core.datatype import DataType as QonnxType
from qonnx.util.basic import gen_finn_dt_tensor

from headrace.numerics import DataTypeError, datatype, from_codes, random_array, snap_to_type

SMALL = ["BINARY", "BIPOLAR", "TERNARY", "INT1", "INT2", "INT4", "UINT3", "FIXED<4,2>", "FIXED<5,0>", "FLOAT<2,1,1>"]
LARGE = ["INT8", "INT17", "UINT32", "INT64", "UINT64", "FIXED<16,4>", "FLOAT32", "FLOAT16"]


@pytest.mark.parametrize("name", SMALL)
def test_every_value_is_reached_and_no_other(name: str) -> None:
    kind = datatype(name)
    values = random_array(kind, 4000, np.random.default_rng(1))
    codes = np.arange(2**kind.bits, dtype=np.uint64)
    every = from_codes(codes[codes != 2] if name == "TERNARY" else codes, kind)
    assert set(values.tolist()) == set(every.tolist())


@pytest.mark.parametrize("name", [n for n in SMALL if "FLOAT" not in n])
def test_same_values_as_qonnx(name: str) -> None:
    theirs = gen_finn_dt_tensor(QonnxType[name], (4000,))
    assert set(theirs.tolist()) == set(random_array(datatype(name), 4000, np.random.default_rng(2)).tolist())


@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_arrays_are_of_the_type_with_extremes_on_request(name: str) -> None:
    kind = datatype(name)
    values = random_array(kind, (3, 4), np.random.default_rng(3), extremes=True)
    assert values.shape == (3, 4)
    assert kind.allowed(values)
    assert (values == kind.lo).any()
    assert (values == kind.hi).any()
    assert random_array(kind, 1, np.random.default_rng(4), extremes=True)[0] in (kind.lo, kind.hi)
    assert random_array(kind, (2, 0), np.random.default_rng(4), extremes=True).shape == (2, 0)


def test_seeded_draws_repeat() -> None:
    draws = [random_array(datatype("INT8"), 50, np.random.default_rng(5)).tolist() for _ in range(2)]
    assert draws[0] == draws[1]


@pytest.mark.parametrize("name", ["SCALEDINT<8>", "INT65"])
def test_types_without_values_are_refused(name: str) -> None:
    with pytest.raises(DataTypeError):
        random_array(datatype(name), 3, np.random.default_rng(6))


def test_snapping() -> None:
    near = np.array([2.999, -4.001, 0.0], dtype=np.float32)
    assert snap_to_type(near, datatype("INT3"), 0.01).tolist() == [3.0, -4.0, 0.0]
    assert snap_to_type(np.array([3, -4]), datatype("INT3"), 0).tolist() == [3, -4]
    with pytest.raises(DataTypeError, match=r"at index \(1,\) is further than 0.0001 from a value of INT3"):
        snap_to_type(np.array([1.0, 2.999]), datatype("INT3"), 1e-4)
    with pytest.raises(DataTypeError, match=r"4.0 at index \(0,\) is not a value of INT3"):
        snap_to_type(np.array([3.999]), datatype("INT3"), 0.01)
    with pytest.raises(DataTypeError, match="further than"):
        snap_to_type(np.array([np.nan]), datatype("INT3"), 0.01)
    with pytest.raises(DataTypeError, match="not an integer type"):
        snap_to_type(np.array([1.0]), datatype("FIXED<4,2>"), 0.01)
