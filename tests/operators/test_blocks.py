"""Products over channels of two scales: two products with narrow weights, joined like any two branches."""

from __future__ import annotations

import numpy as np
import pytest
from operators.models import Model, frames, operators, same_in_both_modes

from headrace.ir.integer import IntAdd, IntConv, IntMatMul


def concatenated(m: Model, scales: tuple[float, ...], zeros: tuple[float, ...] = (0, 0, 0)) -> str:
    parts = [m.x, *(m.input(name, *(2, 5, 5)) for name in ("y", "z")[: len(scales) - 1])]
    return str(
        m.node("Concat", *(m.quant(x, s, zero=z) for x, s, z in zip(parts, scales, zeros, strict=False)), axis=1)
    )


def feeds(count: int) -> dict[str, object]:
    return {name: frames(2, 5, 5, count=150, seed=k) for k, name in zip(range(count), "xyz", strict=False)}


@pytest.mark.parametrize("zeros", [(0, 0), (3, -2)])
@pytest.mark.parametrize("function", ["", "Relu", "Sigmoid"])
def test_convolution_of_two_scales(zeros: tuple[float, float], function: str) -> None:
    rng = np.random.default_rng(1)
    m = Model(2, 5, 5)
    joined = concatenated(m, (0.1, 0.37), zeros)
    w = rng.normal(size=(3, 4, 3, 3))
    y = m.node("Conv", joined, m.quant(m.constant(w), np.abs(w).max(axis=(1, 2, 3), keepdims=True) / 7), pads=[1] * 4)
    m.output(m.quant(m.node(function, y) if function else y, 0.3 if function != "Sigmoid" else 0.1))
    integer = same_in_both_modes(m, feeds(2))
    core = integer.partition().core
    ops = [core.op(node) for node in core]
    assert [op.weights.shape[1] for op in ops if isinstance(op, IntConv)] == [2, 2]
    assert max(int(np.abs(op.weights).max()) for op in ops if isinstance(op, IntConv)) <= 8
    assert max(core.types(node)[0].int_range.bits for node in core) < 24, "a common grid takes 35"
    assert "Slice" not in operators(integer), "what was joined is not cut again"


def test_what_else_reads_it() -> None:
    rng = np.random.default_rng(2)
    m = Model(2, 5, 5)
    w = m.quant(m.constant(rng.normal(size=(3, 4, 3, 3))), 0.2)
    y = m.node("Conv", concatenated(m, (0.1, 0.37)), w)
    m.output(y)
    m.output(m.quant(m.node("MaxPool", y, kernel_shape=[2, 2]), 0.3))
    m.output(m.quant(m.node("AveragePool", y, kernel_shape=[2, 2]), 0.3))
    m.output(m.quant(m.node("Conv", y, m.quant(m.constant(rng.normal(size=(2, 3, 1, 1))), 0.2)), 0.7))
    m.output(m.quant(m.node("Add", y, m.node("Relu", y)), 0.9))
    same_in_both_modes(m, feeds(2))


def test_matrix_product_of_two_scales() -> None:
    rng = np.random.default_rng(3)
    m = Model(9)
    scale = np.where(np.arange(9) < 4, 0.1, 0.37)
    w = m.quant(m.constant(rng.normal(size=(9, 5))), 0.3)
    m.output(m.quant(m.node("MatMul", m.quant(m.x, scale), w), 0.6))
    integer = same_in_both_modes(m, {"x": frames(9, count=400)})
    core = integer.partition().core
    assert sum(isinstance(core.op(node), IntMatMul) for node in core) == 2
    assert sum(isinstance(core.op(node), IntAdd) for node in core) == 1


def test_scales_that_are_small_multiples_stay_in_the_weights() -> None:
    m = Model(2, 5, 5)
    w = m.quant(m.constant(np.random.default_rng(4).normal(size=(3, 4, 3, 3))), 0.2)
    m.output(m.quant(m.node("Conv", concatenated(m, (0.25, 0.5)), w), 0.3))
    assert operators(same_in_both_modes(m, feeds(2))) == ["Concat", "IntConv", "Activation"]


def test_three_scales() -> None:
    m = Model(2, 5, 5)
    w = m.quant(m.constant(np.random.default_rng(5).normal(size=(3, 6, 3, 3))), 0.2)
    m.output(m.quant(m.node("Conv", concatenated(m, (0.1, 0.37, 0.23)), w, pads=[1] * 4), 0.3))
    same_in_both_modes(m, feeds(3))
