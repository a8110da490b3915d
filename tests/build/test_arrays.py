"""Arrays in and out: everything that is wrong with a file or an array is one clear error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headrace.build.arrays import check_feeds, read_arrays, write_arrays
from headrace.errors import InputError
from headrace.ir import Array, Graph, IntRange, TensorType


@pytest.fixture
def graph() -> Graph:
    graph = Graph("g")
    graph.input("image", TensorType((2, 3)))
    graph.input("codes", TensorType((2,), IntRange(-4, 3)))
    graph.input("signs", TensorType((2,), IntRange(-1, 1, bipolar=True)))
    return graph


def good() -> dict[str, Array]:
    return {
        "image": np.ones((5, 2, 3), np.float32),
        "codes": np.full((5, 2), -4),
        "signs": np.array([[1, -1]] * 5),
    }


def test_good_feeds_keep_their_values(graph: Graph) -> None:
    checked = check_feeds(graph, {**good(), "image": np.full((5, 2, 3), 0.5)})
    assert checked["image"].dtype == np.float32
    assert checked["codes"].dtype == np.int64
    assert {name: a.tolist() for name, a in checked.items()} == {
        name: a.tolist() for name, a in {**good(), "image": np.full((5, 2, 3), 0.5)}.items()
    }


@pytest.mark.parametrize(
    ("name", "array", "says"),
    [
        ("image", np.ones((5, 3, 2), np.float32), "array 'image' has shape [5, 3, 2]; expected [frames, 2, 3]"),
        ("image", np.ones((2, 3), np.float32), "expected [frames, 2, 3]"),
        ("image", np.ones((0, 2, 3), np.float32), "holds no frames"),
        ("image", np.ones((5, 2, 3), np.bool_), "has type bool; expected float32"),
        ("image", np.full((5, 2, 3), None), "has type object; expected float32"),
        ("image", np.full((5, 2, 3), 2**24 + 1), "such as 16777217 at [0, 0, 0]; to round them, cast it with .astype"),
        ("image", np.full((5, 2, 3), 2**63 - 1), "int64 with values that float32 cannot hold"),
        ("image", np.full((5, 2, 3), 2**64 - 1, np.uint64), "uint64 with values that float32 cannot hold"),
        ("image", np.ones((5, 2, 3), np.complex64), "has type complex64; expected float32"),
        ("image", np.full((5, 2, 3), "x"), "expected float32"),
        ("image", np.full((5, 2, 3), 0.1), "float64 with values that float32 cannot hold"),
        ("image", np.full((5, 2, 3), 1e300), "float64 with values that float32 cannot hold"),
        ("image", np.full((5, 2, 3), np.nan, np.float32), "holds nan at [0, 0, 0]"),
        ("image", np.full((5, 2, 3), -np.inf, np.float32), "holds -inf at [0, 0, 0]"),
        ("image", np.ones((4, 2, 3), np.float32), "differ in their number of frames ('image' 4, 'codes' 5"),
        ("codes", np.full((5, 2), 4), "holds 4 at [0, 0]; expected integers from -4 to 3"),
        ("codes", np.full((5, 2), 1.0), "has type float64; expected integers"),
        ("signs", np.zeros((5, 2), np.int8), "holds 0 at [0, 0]; expected integers from -1 and 1"),
    ],
)
def test_bad_array(graph: Graph, name: str, array: Array, says: str) -> None:
    with pytest.raises(InputError) as caught:
        check_feeds(graph, {**good(), name: array}, "x.npz")
    assert says in str(caught.value)
    assert str(caught.value).startswith("x.npz: ")


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8, np.float64, np.float16, np.uint64])
def test_exact_values_of_any_number_type(graph: Graph, kind: type) -> None:
    values = [0, 1, 255] if np.dtype(kind).itemsize < 4 else [0, 3 * 2**29, 2**24 - 1]
    values += [-(2**31)] if np.dtype(kind).itemsize > 2 and kind is not np.uint64 else []
    values += [-(2**63)] if kind is np.int64 else [2**63] if kind is np.uint64 else []
    for value in values:
        checked = check_feeds(graph, {**good(), "image": np.full((5, 2, 3), value, kind)})["image"]
        assert checked.dtype == np.float32
        assert int(checked[4, 1, 2]) == value


@pytest.mark.parametrize("feeds", [np.ones((5, 2, 3), np.float32), [1], None, "x"], ids=lambda x: type(x).__name__)
def test_feeds_without_names(graph: Graph, feeds: object) -> None:
    message = r"dict of arrays by input name: \{'image': array, 'codes': array, 'signs': array\}"
    with pytest.raises(InputError, match=message):
        check_feeds(graph, feeds)  # type: ignore[arg-type]


def test_wrong_names(graph: Graph) -> None:
    with pytest.raises(InputError, match=r"no input 'imag' .did you mean 'image'.*expected 'image', 'codes', 'signs'"):
        check_feeds(graph, {**good(), "imag": np.ones(1)})
    feeds = good()
    del feeds["codes"]
    with pytest.raises(InputError, match="no array 'codes'; expected"):
        check_feeds(graph, feeds)


def test_file_round_trip_with_any_name(tmp_path: Path) -> None:
    arrays = {"file": np.arange(3), "a/b; rm -rf": np.ones((2, 0), np.float32), "../x": np.array(3), "": np.zeros(1)}
    path = tmp_path / "y.npz"
    write_arrays(path, arrays)
    got = read_arrays(path)
    assert {n: (a.dtype, a.tolist()) for n, a in got.items()} == {n: (a.dtype, a.tolist()) for n, a in arrays.items()}
    assert [p.name for p in path.parent.iterdir()] == ["y.npz"]


def test_unwritable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_arrays(tmp_path / "file" / "y.npz", {"y": np.ones(1)})
    with pytest.raises(InputError, match="cannot be written"):
        write_arrays(tmp_path, {"y": np.ones(1)})
    with pytest.raises(InputError, match=r"there is no folder .*missing"):
        write_arrays(tmp_path / "missing" / "y.npz", {"y": np.ones(1)})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]


def test_unreadable(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_arrays(tmp_path / "x.npz")
    with pytest.raises(InputError, match="is a folder"):
        read_arrays(tmp_path)
    path = tmp_path / "x.npz"
    write_arrays(path, {"x": np.arange(1000)})
    whole = path.read_bytes()
    for content in (b"", b"text", whole[: len(whole) // 2], whole[:4000] + bytes(4) + whole[4004:]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"not a readable \.npz file"):
            read_arrays(path)
    with path.open("wb") as file:
        np.save(file, np.arange(3))
    with pytest.raises(InputError, match="single unnamed array"):
        read_arrays(path)
    np.savez(path, x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="pickled objects"):
        read_arrays(path)
