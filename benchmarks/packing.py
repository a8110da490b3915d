"""Packing against the element-at-a-time packing of the QONNX tool family, both timed in this run.

    python benchmarks/packing.py

QONNX 1.0 has data types but no packing; FINN packs with them and the ``bitstring`` package (``data_packing``: every
element becomes a bit array that is appended to its word, every word a hexadecimal string). ``pack_one_by_one`` and
``unpack_one_by_one`` do that here. Both sides produce and read the same strings, which is checked. The ratio is the
time of one divided by the time of the other, for the same array; a second column times Headrace's packing to bytes.
Exit status 1 when a ratio is below 5.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from bitstring import BitArray
from numpy.typing import NDArray
from qonnx.core.datatype import BaseDataType
from qonnx.core.datatype import DataType as QonnxType

from headrace.numerics import datatype, pack_bytes, pack_hex, random_array, unpack_bytes, unpack_hex

REQUIRED = 5.0
ELEMENTS = 20_000
CASES = [
    ("BIPOLAR", 64),
    ("INT2", 16),
    ("INT3", 7),
    ("TERNARY", 9),
    ("INT4", 16),
    ("UINT5", 12),
    ("INT8", 8),
    ("INT13", 5),
]
CASES += [("INT32", 4), ("UINT1", 1), ("INT8", 1), ("INT3", 1)]


def pack_one_by_one(values: NDArray[np.float32], kind: BaseDataType, pad_to_bits: int) -> NDArray[np.str_]:
    """Innermost dimension to hexadecimal strings, the last element lowest."""

    def pack(row: NDArray[np.float32]) -> str:
        word = BitArray()
        for value in (row + 1) / 2 if kind.name == "BIPOLAR" else row:
            number = int(value)
            if kind.signed() and kind.name != "BIPOLAR":
                word.append(BitArray(int=number, length=kind.bitwidth()))
            else:
                word.append(BitArray(uint=number, length=kind.bitwidth()))
        word.prepend(BitArray(bin="0" * (pad_to_bits - len(word))))
        return f"0x{word.hex}"

    packed: NDArray[np.str_] = np.apply_along_axis(pack, values.ndim - 1, values)
    return packed


def unpack_one_by_one(strings: NDArray[np.str_], kind: BaseDataType, elements: int) -> NDArray[np.float32]:
    """Inverse of :func:`pack_one_by_one`."""
    bits = kind.bitwidth()
    rows = []
    for text in strings.ravel().tolist():
        digits = bin(int(text, 16))[2:].zfill(elements * bits)[-elements * bits :]
        row = [int(digits[at : at + bits], 2) for at in range(0, elements * bits, bits)]
        if kind.name == "BIPOLAR":
            row = [2 * code - 1 for code in row]
        elif kind.signed():
            row = [code - (code >> (bits - 1) << bits) for code in row]
        rows.append(row)
    return np.asarray(rows, dtype=np.float32)


def best_of(runs: int, function: Callable[[], object]) -> float:
    """Shortest of *runs* timings, in seconds."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def compare(name: str, per_word: int) -> tuple[float, float]:
    """Print one line; the ratios of packing and of unpacking."""
    ours, theirs = datatype(name), QonnxType[name]
    words = ELEMENTS // per_word
    values = random_array(ours, (words, per_word), np.random.default_rng(1), extremes=True).astype(np.float32)
    values = np.clip(values, -(2.0**24), 2.0**24)  # float32, the carrier of that family, holds these exactly
    bits = -(-ours.bits * per_word // 8) * 8
    strings = pack_hex(values, ours, bits)
    if not np.array_equal(strings, pack_one_by_one(values, theirs, bits)):
        raise SystemExit(f"{name} x {per_word}: the two packings differ")
    if not np.array_equal(unpack_one_by_one(strings, theirs, per_word), unpack_hex(strings, ours, per_word)):
        raise SystemExit(f"{name} x {per_word}: the two unpackings differ")
    raw = pack_bytes(values, ours)
    seconds = {
        "pack": best_of(5, lambda: pack_hex(values, ours, bits)),
        "unpack": best_of(5, lambda: unpack_hex(strings, ours, per_word)),
        "pack bytes": best_of(5, lambda: pack_bytes(values, ours)),
        "unpack bytes": best_of(5, lambda: unpack_bytes(raw, ours, per_word)),
        "old pack": best_of(2, lambda: pack_one_by_one(values, theirs, bits)),
        "old unpack": best_of(2, lambda: unpack_one_by_one(strings, theirs, per_word)),
    }
    ratios = seconds["old pack"] / seconds["pack"], seconds["old unpack"] / seconds["unpack"]
    nanoseconds = (seconds[key] * 1e9 / values.size for key in ("pack bytes", "unpack bytes"))
    print(
        f"{name:>8} x {per_word:<3} pack {ratios[0]:7.0f}x   unpack {ratios[1]:6.0f}x   "
        "bytes: pack {:5.1f}, unpack {:5.1f} ns/element".format(*nanoseconds)
    )
    return ratios


def main() -> int:
    print(f"{ELEMENTS} elements; ratio = time of element-at-a-time packing / time of headrace.numerics")
    worst = min(ratio for name, per_word in CASES for ratio in compare(name, per_word))
    print(f"worst ratio {worst:.0f}x (at least {REQUIRED:.0f}x required)")
    return 0 if worst >= REQUIRED else 1


if __name__ == "__main__":
    sys.exit(main())
