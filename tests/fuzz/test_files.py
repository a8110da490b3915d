"""Random files as converters write them: ONNX Runtime's values where arithmetic is exact, the same bits everywhere."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from fuzz.graphs import Case, random_file
from numpy.typing import NDArray

from headrace.errors import HeadraceError, UnsupportedError
from headrace.ingest import from_proto
from headrace.passes import to_integer
from headrace.passes.to_hardware import to_hardware

Array = NDArray[Any]

BLOCK = 25
FAST, SLOW = range(6), range(6, 200)


def check(case: Case) -> str:
    """Hold one file to everything; whether it has a "hardware" part or is left to the "host"."""
    source = from_proto(case.model)
    real = source.run(case.feeds)
    for name, values in case.expected.items():
        assert real[name].shape == values.shape, (name, real[name].shape, values.shape)
        assert real[name].dtype == values.dtype, name
        if name in case.exact:
            assert np.array_equal(real[name], values), f"{name}: {np.sum(real[name] != values)} of {values.size} differ"
        elif values.dtype.kind == "f":
            size = float(np.abs(values).max(initial=1e-6))
            assert np.median(np.abs(real[name] - values)) <= 1e-4 * size, f"{name} is something else"
    integer = to_integer(source)
    whole = integer.graph.run(case.feeds)
    for name, values in real.items():
        assert np.array_equal(values, whole[name]), f"mode float and mode integer differ in {name}"
    try:
        parts = integer.partition()
    except UnsupportedError as error:
        if not integer.blockers and "no quantizer followed" not in str(error):
            raise
        return "host"
    known = {**case.feeds, **parts.head.run({name: case.feeds[name] for name in parts.head.inputs})}
    core = parts.core.run(feeds := {name: known[name] for name in parts.core.inputs})
    known |= core
    for name, values in to_hardware(parts.core).run(feeds).items():
        assert np.array_equal(values, core[name]), f"integer graph and layers differ in {name}"
    last = parts.tail.run({name: known[name] for name in parts.tail.inputs})
    for name, values in real.items():
        assert np.array_equal(values, last[name]), f"the parts in turn differ in {name}"
    return "hardware"


def check_block(block: int) -> None:
    found: Counter[str] = Counter()
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        try:
            found[check(random_file(seed))] += 1
        except Exception as error:
            if isinstance(error, HeadraceError | AssertionError):
                raise AssertionError(f"seed {seed}: {error}") from error
            error.add_note(f"seed {seed}")
            raise
    assert found["hardware"] > BLOCK * 0.6, f"most files must have a hardware part: {found}"


@pytest.mark.parametrize("block", FAST)
def test_files(block: int) -> None:
    check_block(block)


@pytest.mark.slow
@pytest.mark.parametrize("block", SLOW)
def test_more_files(block: int) -> None:
    check_block(block)
