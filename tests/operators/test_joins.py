"""Sums and other functions of two tensors: over every pair of integers, the code that float32 arithmetic gives.

onnxruntime adds float32 values as PyTorch does, so it is the judge wherever only sums and quantizers are involved.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from operators.models import Model, frames, operators, same_as_onnxruntime, same_in_both_modes

from headrace.ir.integer import IntAdd
from headrace.passes import IntegerModel

Array = NDArray[Any]


def pairs(scales: tuple[float, float], span: tuple[int, int] = (256, 256), low: int = -128) -> dict[str, Array]:
    """Every pair of codes, as the float32 values that they are read as."""
    a, b = np.meshgrid(np.arange(span[0]) + low, np.arange(span[1]) + low, indexing="ij")
    values = [(q.reshape(-1, 1)).astype(np.float32) * np.float32(s) for q, s in zip((a, b), scales, strict=True)]
    return {"x": values[0], "y": values[1]}


def joined(scales: tuple[float, float], out: float, operator: str = "Add") -> Model:
    m = Model(1)
    left, right = m.qdq(m.x, scales[0]), m.qdq(m.input("y", 1), scales[1])
    m.output(m.qdq(m.node(operator, left, right), out))
    return m


def factors(model: IntegerModel) -> list[tuple[int, int]]:
    ops = [model.graph.op(node) for node in model.graph]
    return [op.factors for op in ops if isinstance(op, IntAdd)]


@pytest.mark.parametrize("operator", ["Add", "Sub"])
@pytest.mark.parametrize(
    ("scales", "out", "largest"),
    [
        ((0.25, 0.25), 0.5, 1),
        ((0.25, 0.5), 1.0, 2),
        ((0.1, 0.1), 0.37, 1),
        ((0.25, 0.1), 0.37, 16),
        ((0.3, 0.7), 0.9, 16),
        ((0.0231, 0.0519), 0.113, 64),
        ((1.0, 0.003), 2.3, 4096),
        ((0.001, 1.0), 0.77, 4096),
    ],
)
def test_sums_of_two_scales(scales: tuple[float, float], out: float, largest: int, operator: str) -> None:
    """The factors are as small as the codes allow: far from the 2^24 of a common grid of float32 numbers."""
    integer = same_as_onnxruntime(joined(scales, out, operator), pairs(scales))
    assert max(abs(n) for pair in factors(integer) for n in pair) <= largest


def test_ties_that_float32_breaks_both_ways() -> None:
    """Sums of equal integers, some rounded up and some down: no function of q0 + q1 gives that."""
    m = Model(1)
    left, right = m.quant(m.x, 0.1), m.quant(m.input("y", 1), 0.1)
    m.output(m.quant(m.node("Add", left, right), 0.2))
    integer = same_in_both_modes(m, pairs((0.1, 0.1), (16, 16), -8))
    assert factors(integer) != [(1, 1)]


def test_ties_at_a_power_of_two_are_those_of_the_sum() -> None:
    m = Model(1)
    left, right = m.quant(m.x, 0.25), m.quant(m.input("y", 1), 0.25)
    m.output(m.quant(m.node("Add", left, right), 0.5))
    assert factors(same_in_both_modes(m, pairs((0.25, 0.25), (16, 16), -8))) == [(1, 1)]


@pytest.mark.parametrize("residual_bits", [2, 4, 8])
def test_an_accumulator_and_a_residual(residual_bits: int) -> None:
    """Per-channel scales and a batch norm on one side: the other side passes a table per channel."""
    rng = np.random.default_rng(residual_bits)
    m = Model(6, 5, 5)
    x = m.quant(m.x, 0.21, residual_bits)
    w = rng.normal(size=(6, 6, 3, 3))
    y = m.node("Conv", x, m.quant(m.constant(w), np.abs(w).max(axis=(1, 2, 3), keepdims=True) / 7), pads=[1] * 4)
    parameters = [
        m.constant(p) for p in (rng.normal(size=6), rng.normal(size=6), rng.normal(size=6), rng.uniform(1, 9, 6))
    ]
    y = m.node("BatchNormalization", y, *parameters)
    m.output(m.quant(m.node("Relu", m.node("Add", y, x)), 0.17, 4, signed=False))
    integer = same_in_both_modes(m, {"x": frames(6, 5, 5, count=200)})
    assert "IntAffine" not in operators(integer)


def test_two_accumulators() -> None:
    rng = np.random.default_rng(1)
    m = Model(8, 4, 4)
    x = m.quant(m.x, 0.21)
    sums = []
    for _ in range(2):
        w = rng.normal(size=(5, 8, 3, 3))
        y = m.node("Conv", x, m.quant(m.constant(w), np.abs(w).max(axis=(1, 2, 3), keepdims=True) / 7))
        parameters = [m.constant(rng.uniform(0.5, 1.5, 5)) for _ in range(4)]
        sums.append(m.node("BatchNormalization", y, *parameters))
    m.output(m.quant(m.node("Relu", m.node("Add", *sums)), 0.9, 4, signed=False))
    same_in_both_modes(m, {"x": frames(8, 4, 4, count=200)})


def test_three_branches() -> None:
    m = Model(1)
    a, b, c = m.qdq(m.x, 0.3), m.qdq(m.input("y", 1), 0.7), m.qdq(m.input("z", 1), 0.5)
    m.output(m.qdq(m.node("Add", m.node("Add", a, b), c), 1.1))
    m.output(m.qdq(m.node("Sub", a, m.node("Add", m.node("Relu", b), c)), 1.3))
    rng = np.random.default_rng(0)
    feeds = {name: rng.integers(-128, 128, (5000, 1)).astype(np.float32) * np.float32(s)
             for name, s in (("x", 0.3), ("y", 0.7), ("z", 0.5))}  # fmt: skip
    same_as_onnxruntime(m, feeds)


def test_branches_of_one_tensor() -> None:
    """Whatever is computed from a single integer is a table of it."""
    m = Model(4)
    x = m.quant(m.x, 0.17, 8)
    m.output(m.quant(m.node("Mul", x, m.node("Sigmoid", x)), 0.1, 8))
    m.output(m.quant(m.node("Add", x, x), 0.3, 8))
    m.output(m.quant(m.node("Mul", x, m.node("HardSigmoid", x, alpha=1 / 6, beta=0.5)), 0.1, 8))
    phi = m.node("Add", m.node("Erf", m.node("Div", x, m.constant(2**0.5))), m.constant(1.0))
    gelu = m.node("Mul", m.node("Mul", x, phi), m.constant(0.5))
    m.output(m.quant(gelu, 0.1, 8))
    integer = same_in_both_modes(m, {"x": frames(4, size=30.0, count=400)})
    assert "IntAdd" not in operators(integer)


@pytest.mark.parametrize("operator", ["Mul", "Div", "Max", "Min"])
def test_tables_of_pairs(operator: str) -> None:
    m = Model(3, 2, 2)
    left, right = m.quant(m.x, 0.3), m.quant(m.input("y", 3, 1, 1), 0.7, 4, signed=operator == "Max", zero=0)
    if operator == "Div":
        right = m.node("Add", right, m.constant(0.5))
    m.output(m.quant(m.node(operator, left, right), 0.41))
    integer = same_in_both_modes(m, {"x": frames(3, 2, 2, count=300), "y": frames(3, 1, 1, count=300, seed=1)})
    assert "IntUpsample" in operators(integer)


def test_a_product_of_too_many_pairs_is_refused() -> None:
    m = Model(2)
    product = m.node("Mul", m.quant(m.x, 0.3, 9), m.quant(m.input("y", 2), 0.7, 8))
    m.output(m.quant(product, 0.4))
    feeds = {"x": frames(2), "y": frames(2, seed=1)}
    integer = same_in_both_modes(m, feeds, blockers=2)
    assert "a product of 512 x 256 integers is too large for a table" in str(integer.blockers[0])
    assert str(integer.blockers[0]).startswith("node 'n_mul")


def test_broadcast_over_the_image() -> None:
    m = Model(3, 4, 5)
    x, y = m.qdq(m.x, 0.3), m.qdq(m.input("y", 3, 1, 1), 0.7)
    z = m.qdq(m.input("z", 1, 5), 0.2)
    m.output(m.qdq(m.node("Add", x, y), 0.9))
    m.output(m.qdq(m.node("Add", z, x), 0.9))
    feeds = {"x": frames(3, 4, 5), "y": frames(3, 1, 1, seed=1)}
    rows = frames(1, 5, seed=2)
    same_in_both_modes(m, feeds | {"z": rows})


def test_what_reads_a_sum() -> None:
    """Products accumulate the integers of the common grid, all others read the float32 sum."""
    rng = np.random.default_rng(4)
    m = Model(3, 6, 6)
    a, b = m.quant(m.x, 0.3), m.quant(m.input("y", 3, 6, 6), 0.7)
    total = m.node("Add", a, b)
    w = m.quant(m.constant(rng.normal(size=(4, 3, 3, 3))), 0.2)
    m.output(m.quant(m.node("Conv", m.node("Relu", total), w), 0.9))
    m.output(m.quant(m.node("MaxPool", total, kernel_shape=[2, 2]), 0.5))
    m.output(m.quant(m.node("Conv", m.node("MaxPool", total, kernel_shape=[2, 2]), w), 0.5))
    m.output(m.quant(m.node("AveragePool", total, kernel_shape=[2, 2]), 0.5))
    m.output(m.quant(m.node("Concat", total, a, axis=1), 0.5))
    m.output(m.quant(m.node("Pad", total, m.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64)), 0.5))
    m.output(m.quant(m.node("Flatten", total), 0.5))
    m.output(m.quant(m.node("Sigmoid", total), 0.05))
    m.output(total)
    same_in_both_modes(m, {"x": frames(3, 6, 6), "y": frames(3, 6, 6, seed=1)})


def test_a_sum_that_is_an_output_is_added_in_hardware_where_that_is_exact() -> None:
    m = Model(3)
    m.output(m.node("Add", m.quant(m.x, 0.5), m.quant(m.input("y", 3), 0.25)))
    integer = same_in_both_modes(m, {"x": frames(3), "y": frames(3, seed=1)})
    assert operators(integer) == ["IntAdd"]
    m = Model(3)
    m.output(m.node("Relu", m.node("Add", m.quant(m.quant(m.x, 0.3), 0.5), m.quant(m.input("y", 3), 0.7))))
    integer = same_in_both_modes(m, {"x": frames(3), "y": frames(3, seed=1)})
    assert operators(integer) == ["Activation"], "float32 rounds 0.7 q: the host adds"


@pytest.mark.parametrize("seed", range(30))
def test_random_scales(seed: int) -> None:
    """Any two scales, any output scale, any rounding of the ties: all 65536 pairs."""
    rng = np.random.default_rng(seed)
    scales = tuple(float(np.float32(2.0 ** rng.uniform(-6, 2))) for _ in range(2))
    out = float(np.float32(max(scales) * 2.0 ** rng.uniform(-2, 3)))
    if seed % 3 == 0:
        out = float(np.float32(2 * scales[0]))
    same_as_onnxruntime(joined((scales[0], scales[1]), out), pairs((scales[0], scales[1])))


def test_functions_of_a_join_that_rise_and_fall() -> None:
    """The segment of the joined value by small factors, then its code."""
    m = Model(1)
    total = m.node("Add", m.quant(m.x, 0.3, 8), m.quant(m.input("y", 1), 0.7, 8))
    m.output(m.quant(m.node("Mul", total, m.node("Sigmoid", total)), 0.4))
    m.output(m.quant(m.node("HardSwish", m.node("Sub", total, m.constant(3.0))), 0.4))
    integer = same_in_both_modes(m, pairs((0.3, 0.7)))
    assert operators(integer).count("Lookup") == operators(integer).count("Activation") == 2
    assert max(n for pair in factors(integer) for n in pair) <= 256


def test_branches_of_a_sum_are_one_tensor() -> None:
    m = Model(3)
    total = m.node("Add", m.quant(m.x, 0.3), m.quant(m.input("y", 3), 0.7))
    m.output(m.quant(m.node("Max", m.node("Relu", total), m.node("Mul", total, m.constant(-0.5))), 0.4))
    m.output(m.quant(m.node("Add", m.node("Relu", total), total), 0.4))
    m.output(m.node("Mul", total, m.node("Tanh", total)))
    same_in_both_modes(m, {"x": frames(3, count=300), "y": frames(3, count=300, seed=1)})
