"""Arrays on their way in and out: files read without trust, feeds checked and run, files written whole."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.build.journal import Journal
from headrace.errors import InputError, did_you_mean
from headrace.ir import Array, Graph, TensorType
from headrace.ir.real import Real
from headrace.whole_files import output_file

UNPACKED = 2**30
MOST_PACKED = 100
"""Arrays that unpack to more than so many bytes, and to so many times the size of their file, are not read."""

LIVE_ELEMENTS = 2**24
"""Most elements of one tensor that a graph computes at once; a larger batch is run in pieces."""


def read_arrays(path: Path) -> dict[str, Array]:
    """The named arrays of an ``.npz`` file.

    Raises:
        InputError: when the file is missing, is no archive of arrays, or holds pickled objects.
    """
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "no such file"
        raise InputError(f"{path}: {what}; expected an .npz file of arrays")
    try:
        with path.open("rb") as file:
            start = file.read(6)
        if start == b"\x93NUMPY":
            raise InputError(f"{path}: a single unnamed array; expected an .npz file with an array per graph input")
        if not start.startswith(b"PK"):  # numpy would take anything else for a pickle
            raise InputError(f"{path}: not a readable .npz file of arrays")
        with zipfile.ZipFile(path) as members:
            size = sum(member.file_size for member in members.infolist())
        if size > max(UNPACKED, MOST_PACKED * path.stat().st_size):
            raise InputError(f"{path}: {size:,} bytes of arrays are packed in far fewer; save them with numpy.savez")
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except MemoryError as error:
        raise InputError(f"{path}: there is not enough memory for its arrays") from error
    except InputError:
        raise
    except Exception as error:  # damaged files make numpy and zipfile raise anything
        if "pickle" in str(error).lower():
            raise InputError(f"{path}: holds pickled objects, which are never loaded; save plain arrays") from error
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: not a readable .npz file of arrays ({reason})") from error
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # what is no array, numpy hands out as bytes
            raise InputError(f"{path}: its member '{name}' is no array")
    return arrays


def read_array(path: Path) -> Array:
    """The array of an ``.npy`` file.

    Raises:
        InputError: when the file is missing, is no array, or holds pickled objects.
    """
    try:
        with path.open("rb") as file:
            return np.asarray(np.lib.format.read_array(file, allow_pickle=False))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); expected an .npy file") from error
    except MemoryError as error:
        raise InputError(f"{path}: there is not enough memory for its array") from error
    except Exception as error:  # damaged files make numpy and zipfile raise anything
        raise InputError(f"{path}: not a readable .npy file of numbers") from error


def check_writable(path: Path) -> None:
    """Refuse an output file that is a folder, or lies in none.

    Raises:
        InputError: names the folder.
    """
    if path.is_dir():
        raise InputError(f"{path}: cannot be written: it is a folder; expected the name of an .npz file to write")
    if not path.parent.is_dir():
        raise InputError(f"{path}: cannot be written: there is no folder {path.parent}; make it first")


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write an ``.npz`` file that is whole or absent; names may be any text.

    Raises:
        InputError: when *path* cannot be written.
    """
    check_writable(path)
    try:
        with output_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                entry = zipfile.ZipInfo(f"{name}.npy")  # without a date: equal arrays give equal files
                with archive.open(entry, "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


def write_array(path: Path, array: Array) -> None:
    """Write an ``.npy`` file that is whole or absent."""
    with output_file(path) as file:
        np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)


def plain_arrays(results: Mapping[str, object]) -> dict[str, Array]:
    """The results of a graph as arrays: what the reference execution knows beyond the values is dropped."""
    return {name: np.asarray(r.value if isinstance(r, Real) else r) for name, r in results.items()}


def check_feeds(graph: Graph, feeds: Mapping[str, Array], origin: str = "feeds") -> dict[str, Array]:
    """*feeds* as the arrays that ``graph.run`` takes: float32, or int64 for integer inputs.

    Real inputs take numbers of any float or integer type, as long as every value is one of float32: nothing is rounded.

    Args:
        graph: the graph whose inputs they are for.
        feeds: one array ``(frames, *shape)`` per graph input.
        origin: what to call the feeds in messages, for example their file.

    Raises:
        InputError: for a wrong or missing name, a wrong shape, type or number of frames, a value out of range, NaN or
            infinity.
    """
    if not isinstance(feeds, Mapping):
        example = ", ".join(f"'{name}': array" for name in graph.inputs)
        raise InputError(
            f"{origin}: expected a dict of arrays by input name: {{{example}}}, not {type(feeds).__name__}"
        )
    expected = ", ".join(f"'{name}'" for name in graph.inputs)
    for name in feeds:
        if name not in graph.inputs:
            hint = did_you_mean(name, graph.inputs)
            raise InputError(f"{origin}: the model has no input '{name}'{hint}; expected {expected}")
    missing = [name for name in graph.inputs if name not in feeds]
    if missing:
        raise InputError(f"{origin}: no array '{missing[0]}'; expected {expected}")
    types = {name: graph.types(graph.input_node(name))[0] for name in graph.inputs}
    checked = {name: _check(name, np.asarray(feeds[name]), types[name], origin) for name in graph.inputs}
    frames = {name: len(array) for name, array in checked.items()}
    if len(set(frames.values())) > 1:
        listing = ", ".join(f"'{n}' {k}" for n, k in frames.items())
        raise InputError(f"{origin}: inputs differ in their number of frames ({listing})")
    return checked


def _check(name: str, array: Array, type_: TensorType, origin: str) -> Array:
    where = f"{origin}: array '{name}'"
    if array.ndim != 1 + len(type_.shape) or array.shape[1:] != type_.shape:
        shape = ", ".join(["frames", *map(str, type_.shape)])
        raise InputError(f"{where} has shape {list(array.shape)}; expected [{shape}]")
    if len(array) == 0:
        raise InputError(f"{where} holds no frames; expected at least one")
    return _integers(where, array, type_) if type_.is_integer else _reals(where, array)


def _reals(where: str, array: Array) -> Array:
    if array.dtype.kind not in "fiu":
        raise InputError(f"{where} has type {array.dtype}; expected float32")
    with np.errstate(over="ignore"):
        reals = array.astype(np.float32)
    if not np.isfinite(array).all():
        index = [int(i) for i in np.argwhere(~np.isfinite(array))[0]]
        raise InputError(f"{where} holds {array[tuple(index)]} at {index}; every value must be a finite number")
    lost = ~_held(array) if array.dtype.kind in "iu" else reals != array
    if lost.any():
        index = [int(i) for i in np.argwhere(lost)[0]]
        raise InputError(
            f"{where} has type {array.dtype} with values that float32 cannot hold, such as {array[tuple(index)]} at "
            f"{index}; to round them, cast it with .astype(np.float32)"
        )
    return reals


def _held(integers: Array) -> NDArray[np.bool_]:
    """Which integers are values of float32: those of at most 24 bits from the highest set one to the lowest."""
    bits = integers.astype(np.uint64)
    size = np.where(integers < 0, ~bits + np.uint64(1), bits)
    lowest = size & (~size + np.uint64(1))
    return np.asarray(size // np.maximum(lowest, np.uint64(1)) < 2**24)


def _integers(where: str, array: Array, type_: TensorType) -> Array:
    if array.dtype.kind not in "iub":
        raise InputError(f"{where} has type {array.dtype}; expected integers, {type_.element}")
    allowed = type_.int_range
    outside = (array < allowed.lo) | (array > allowed.hi)
    if allowed.bipolar:
        outside |= array == 0
    if outside.any():
        index = [int(i) for i in np.argwhere(outside)[0]]
        values = "-1 and 1" if allowed.bipolar else f"{allowed.lo} to {allowed.hi}"
        raise InputError(f"{where} holds {array[tuple(index)]} at {index}; expected integers from {values}")
    return array.astype(np.int64)


def run_frames(graph: Graph, feeds: Mapping[str, Array], journal: Journal) -> dict[str, Array]:
    """*graph* on a batch of any size, in pieces where memory would not hold it: a frame depends on no other."""
    largest = max(prod(type_.shape) for node in graph for type_ in graph.types(node))
    size = max(1, LIVE_ELEMENTS // largest)
    frames = len(next(iter(feeds.values())))
    pieces = []
    for start in range(0, frames, size):
        journal.progress("frames", start, frames)
        pieces.append(plain_arrays(graph.run({name: array[start : start + size] for name, array in feeds.items()})))
    computed = {name: np.concatenate([piece[name] for piece in pieces]) for name in graph.outputs}
    return computed | graph.constant_outputs
