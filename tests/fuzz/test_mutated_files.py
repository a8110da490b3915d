"""Damaged and malicious files: refused with one sentence or accepted, in bounded time and memory, writing nothing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from fuzz.graphs import random_file
from fuzz.mutations import mutated
from fuzz.sandbox import outcomes
from models import quantized_mlp

BLOCK = 60
SLOW = int(os.environ.get("HEADRACE_FUZZ_BLOCKS", "60"))
CASES = Path(__file__).parents[2].parent / "shared" / "cases" / "cases"


@cache
def seeds() -> tuple[bytes, ...]:
    """Valid files of every dialect."""
    drawn = [random_file(k).model for k in range(14)]
    found = [m.SerializeToString() for m in (quantized_mlp((6, 5, 3), 3, seed=1), *drawn)]
    return tuple(found)


def check_block(block: int, folder: Path, models: tuple[bytes, ...]) -> Counter[str]:
    """Hold the files of one block to everything; how many were accepted and refused."""
    (folder / "secret").write_bytes(b"secret" * 1000)
    place = folder / "models"
    place.mkdir()

    def files() -> Iterator[Path]:
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            path = place / f"m{seed}.onnx"
            path.write_bytes(mutated(seed, models))
            yield path

    found: Counter[str] = Counter()
    faults = []
    for outcome in outcomes(files(), place):
        found[outcome.kind] += 1
        if outcome.kind == "fault":
            faults.append(f"{Path(outcome.file).name}: {outcome.text}")
    assert not faults, "\n\n".join(faults)
    assert {p.name for p in folder.iterdir()} == {"secret", "models"}
    assert {p.suffix for p in place.iterdir()} == {".onnx"}
    return found


@pytest.mark.parametrize("block", range(2))
def test_mutated_files(block: int, tmp_path: Path) -> None:
    found = check_block(block, tmp_path, seeds())
    assert min(found["ok"], found["refused"]) > BLOCK * 0.05, found


@pytest.mark.slow
@pytest.mark.parametrize("block", range(2, 2 + SLOW))
def test_more_mutated_files(block: int, tmp_path: Path) -> None:
    cases = tuple(path.read_bytes() for path in sorted(CASES.glob("*/model.onnx")))
    check_block(block, tmp_path, seeds() + cases)
