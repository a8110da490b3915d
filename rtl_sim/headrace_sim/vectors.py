"""Vectors: integers for a design's inputs, and what its outputs (and inner streams) must be, in one `.npz` file.

They are what an RTL regression needs besides the design, so that it runs without the compiler and without the model:

    from headrace_sim import read_vectors
    vectors = read_vectors("rtl/vectors.npz")
    rtl_sim("rtl", vectors.inputs, expected=vectors.expected)
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from headrace_sim.errors import ArrayError

GROUPS = ("input", "expected")


@dataclass(frozen=True, eq=False)
class Vectors:
    """Arrays (frames, frame_elements) of integers.

    `inputs` has one per input of the design, by tensor name; `expected` one per output, and per inner stream that is
    to be compared, by tensor or stream name.
    """

    inputs: Mapping[str, NDArray[np.integer]]
    expected: Mapping[str, NDArray[np.integer]]

    @property
    def frames(self) -> int:
        return len(next(iter(self.inputs.values()))) if self.inputs else 0


def write_vectors(path: Path | str | BinaryIO, vectors: Vectors) -> None:
    """Write `vectors` to `path`, or a file that is open, in the smallest integer type that holds each array."""
    arrays = {}
    for group, members in zip(GROUPS, (vectors.inputs, vectors.expected), strict=True):
        for name, array in members.items():
            arrays[f"{group}:{name}"] = _narrow(array)
    # np.savez would add a suffix to the name of a path
    with open(path, "wb") if isinstance(path, Path | str) else nullcontext(path) as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def _narrow(array: NDArray[np.integer]) -> NDArray[np.integer]:
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    signed = np.int8, np.int16, np.int32, np.int64
    unsigned = np.uint8, np.uint16, np.uint32, np.uint64
    for kind in signed if low < 0 else unsigned:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return array.astype(kind)
    raise ArrayError(f"values {low} to {high} do not fit 64 bits")


def read_vectors(path: Path | str) -> Vectors:
    """The vectors in `path`.

    Raises:
        ArrayError: it cannot be read, or holds something else.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except Exception as error:  # damaged files make numpy and zipfile raise anything
        raise ArrayError(f"{path}: not a file of vectors ({' '.join(str(error).split())})") from error
    groups: dict[str, dict[str, NDArray[np.integer]]] = {group: {} for group in GROUPS}
    for key, array in arrays.items():
        group, separator, name = key.partition(":")
        if not separator or group not in groups:
            raise ArrayError(f"{path}: array {key!r} is neither 'input:<tensor>' nor 'expected:<tensor>'")
        if not isinstance(array, np.ndarray):  # what is no array, numpy hands out as bytes
            raise ArrayError(f"{path}: member {key!r} is no array")
        if array.dtype.kind not in "iu" or array.ndim < 2:
            shape = f"{array.dtype} of shape {array.shape}"
            raise ArrayError(f"{path}: array {key!r} is {shape}; integers (frames, frame_elements) are expected")
        groups[group][name] = array
    if not groups["input"] or not groups["expected"]:
        raise ArrayError(f"{path}: there must be at least one 'input:' and one 'expected:' array")
    return Vectors(groups["input"], groups["expected"])
