"""Functions that rise and fall, after accumulators of any width."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from operators.models import Model, frames, operators, same_in_both_modes

from headrace.ir import IntRange
from headrace.ir.integer import Activation, Lookup
from headrace.passes.segments import in_segments

FUNCTIONS = ("HardSwish", "Silu", "Gelu", "Abs", "Sin", "Mish", "LeakyDown")


def curved(m: Model, x: str, function: str) -> str:
    if function == "Silu":
        return str(m.node("Mul", x, m.node("Sigmoid", x)))
    if function == "Gelu":
        phi = m.node("Add", m.node("Erf", m.node("Div", x, m.constant(2**0.5))), m.constant(1.0))
        return str(m.node("Mul", m.node("Mul", x, phi), m.constant(0.5)))
    if function == "LeakyDown":
        return str(m.node("PRelu", x, m.constant(-0.3)))
    return str(m.node(function, x))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_after_a_convolution(function: str) -> None:
    """Thresholds for the segments, a table of one entry a segment: not one of every accumulator value."""
    rng = np.random.default_rng(len(function))
    m = Model(16, 3, 3, opset=18)
    w = rng.normal(size=(6, 16, 3, 3))
    y = m.node("Conv", m.quant(m.x), m.quant(m.constant(w), np.abs(w).max(axis=(1, 2, 3), keepdims=True) / 7))
    gains = [rng.normal(size=6), rng.normal(size=6), rng.normal(size=6), rng.uniform(1, 9, 6) * 99]
    y = curved(m, m.node("BatchNormalization", y, *(m.constant(g) for g in gains)), function)
    m.output(m.quant(y, 0.17))
    integer = same_in_both_modes(m, {"x": frames(16, 3, 3, count=400)})
    assert operators(integer) == ["IntConv", "Activation", "Lookup"]
    core = integer.partition().core
    table = next(op for op in map(core.op, core) if isinstance(op, Lookup))
    assert table.table.shape[1] <= 256


def test_accumulators_too_wide_for_one_block() -> None:
    m = Model(2, dtype=np.uint8)
    y = m.node("MatMul", m.x, m.quant(m.constant([[1.0, -3.0], [2.0, 5.0]]), 1.0, 8))
    y = m.node("MatMul", y, m.quant(m.constant(np.full((2, 1), 99.0)), 1.0, 8))
    wide = m.node("Mul", m.node("MatMul", y, m.quant(m.constant([[30.0]]), 1.0, 8)), m.constant(1e-6))
    m.output(m.quant(m.node("Mish", m.node("Sub", wide, m.constant(2.0))), 0.05))
    x = np.random.default_rng(0).integers(0, 256, (400, 2)).astype(np.uint8)
    integer = same_in_both_modes(m, {"x": x})
    assert operators(integer)[-2:] == ["Activation", "Lookup"]


def test_small_tables_stay_tables() -> None:
    m = Model(3)
    m.output(m.quant(m.node("Abs", m.quant(m.x)), 0.17))
    assert operators(same_in_both_modes(m, {"x": frames(3)})) == ["Lookup"]


def test_segments_are_the_table() -> None:
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.integers(-9, 10, (3, 40)), 60, axis=1)
    op = Lookup(rows, -1200, rows_range(rows), 0)
    found = in_segments(op, 1199)
    assert found is not None
    count, table = found
    assert isinstance(count, Activation)
    q = np.arange(-1200, 1200)[:, None] * np.ones((1, 3), np.int64)
    assert np.array_equal(table.execute(count.execute(q)[0])[0], op.execute(q)[0])
    noise = rng.integers(-9, 10, (3, 2400))
    assert in_segments(Lookup(noise, -1200, rows_range(noise), 0), 1199) is None


def rows_range(rows: NDArray[np.int64]) -> IntRange:
    return IntRange(int(rows.min()), int(rows.max()))
