"""Functions of two tensors, over every pair of integers: what float32 decides, in hardware."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from passes.sources import quantizer, weights

from headrace.ir import Graph, IntRange, Op, TensorType, Value
from headrace.ir.integer import Activation, IntAdd, Lookup
from headrace.ir.ops import (
    AddTensors,
    Arithmetic,
    BatchNorm,
    BipolarQuant,
    Clip,
    Function,
    IntQuant,
    MatMul,
    Mul,
    PRelu,
    Quantizer,
    SourceOp,
    TopK,
)
from headrace.passes import IntegerModel, to_integer

Array = NDArray[Any]

OPERATIONS: dict[str, tuple[SourceOp, Callable[[Array, Array], Array]]] = {
    "+": (AddTensors(), np.add),
    "*": (Arithmetic("*"), np.multiply),
    "/": (Arithmetic("/"), np.divide),
    "max": (Arithmetic("max"), np.maximum),
    "min": (Arithmetic("min"), np.minimum),
}


def joined(
    op: SourceOp, scales: tuple[object, object], ranges: tuple[IntRange, IntRange], steps: list[Op], q: Quantizer | None
) -> Graph:
    """Two integer inputs, each scaled, joined, then *steps* and a quantizer."""
    graph = Graph("net", "net.onnx")
    sides = []
    for name, scale, r in zip("ab", scales, ranges, strict=True):
        factor = np.asarray(scale, np.float64)
        shape = (factor.size, 1) if factor.size > 1 else (1, 1)
        wide = max(np.size(s) for s in scales)
        value = graph.input(name, TensorType((wide, 1), r))
        sides.append(graph.add(Mul(factor.reshape(shape)), (value,)))
    value = graph.add(op, sides, "join")
    for step in steps:
        value = graph.add(step, (value,))
    graph.output("y", value if q is None else graph.add(q, (value,), "q"), "float32")
    return graph


def all_pairs(ranges: tuple[IntRange, IntRange], channels: int) -> dict[str, Array]:
    a, b = np.meshgrid(*(np.arange(r.lo, r.hi + 1) for r in ranges), indexing="ij")
    return {n: np.repeat(v.reshape(-1, 1, 1), channels, axis=1) for n, v in (("a", a), ("b", b))}


def check(graph: Graph, ranges: tuple[IntRange, IntRange]) -> IntegerModel:
    """Both modes agree on every pair."""
    model = to_integer(graph)
    feeds = all_pairs(ranges, graph.type(Value("a")).shape[0])
    real, integer = graph.run(feeds)["y"], model.graph.run(feeds)["y"]
    assert np.array_equal(real, integer)
    return model


def canonical(f: Callable[[Array, Array], Array], scales: tuple[float, float], feeds: dict[str, Array]) -> Array:
    """The join in float32, one rounding an operation."""
    sides = [feeds[n].astype(np.float32) * np.float32(s) for n, s in zip("ab", scales, strict=True)]
    with np.errstate(all="ignore"):
        return f(sides[0], sides[1]).astype(np.float32)


SCALES = [(0.5, 0.5), (0.75, 0.5), (0.1, 0.2), (0.1, 0.37), (1.0, 0.003), (-0.3, 0.7), (0.25, 1e-3), (0.0, 0.5)]
RANGES = [
    (IntRange(-8, 7), IntRange(-8, 7)),
    (IntRange(0, 15), IntRange(-128, 127)),
    (IntRange(-1, 1), IntRange(-2000, 2000)),
]


@pytest.mark.parametrize("ranges", RANGES, ids=str)
@pytest.mark.parametrize("scales", SCALES, ids=str)
@pytest.mark.parametrize("symbol", ["+", "*", "max", "min"])
def test_every_pair(symbol: str, scales: tuple[float, float], ranges: tuple[IntRange, IntRange]) -> None:
    op, f = OPERATIONS[symbol]
    q = quantizer(0.31, 5, 2)
    graph = joined(op, scales, ranges, [], q)
    model = check(graph, ranges)
    assert model.blockers == ()
    feeds = all_pairs(ranges, 1)
    value = canonical(f, scales, feeds)
    codes = np.clip(np.rint(value / np.float32(0.31)), -16, 15)
    assert np.array_equal(graph.run(feeds)["y"], codes.astype(np.float32) * np.float32(0.31))
    doubles = [feeds[n] * np.float64(s) for n, s in zip("ab", scales, strict=True)]
    exact = np.clip(np.rint(f(*doubles) / np.float64(np.float32(0.31))), -16, 15)
    assert sum(model.disagreements.values()) == np.sum(codes != exact)


@pytest.mark.parametrize("scales", [(0.5, 0.5), (0.1, 0.37)], ids=str)
@pytest.mark.parametrize("symbol", OPERATIONS)
@pytest.mark.parametrize(
    "steps",
    [
        [Clip(0.0)],
        [BatchNorm(np.array([[-0.7]]), np.array([[0.2]])), Clip(-1.0, 1.0)],
        [Function("Sigmoid")],
        [PRelu(np.float32([[-0.25]]))],
        [Function("Gelu")],
    ],
    ids=lambda steps: "-".join(map(str, steps)),
)
def test_steps_between_join_and_quantizer(symbol: str, scales: tuple[float, float], steps: list[Op]) -> None:
    ranges = (IntRange(-8, 7), IntRange(1, 15))
    graph = joined(
        OPERATIONS[symbol][0], scales, ranges, steps, IntQuant(np.float32([[0.2]]), np.float32([[3]]), 0, 15)
    )
    assert check(graph, ranges).blockers == ()


@pytest.mark.parametrize("symbol", ["+", "*", "max"])
@pytest.mark.parametrize("where", ["left", "right", "both", "quantizer"])
def test_parameters_per_channel(symbol: str, where: str) -> None:
    ranges = (IntRange(-8, 7), IntRange(-8, 7))
    per = [0.5, 0.1, 0.37]
    scales: tuple[object, object] = (
        per if where in ("left", "both") else 0.3,
        per[::-1] if where in ("right", "both") else 0.3,
    )
    step = [[0.2], [0.3], [0.5]] if where == "quantizer" else 0.25
    if where == "quantizer":
        scales = ([0.3, 0.3, 0.3], 0.7)
    graph = joined(OPERATIONS[symbol][0], scales, ranges, [], quantizer(step, 5, 2))
    assert check(graph, ranges).blockers == ()


@pytest.mark.parametrize("symbol", ["+", "max"])
def test_signs_of_a_join(symbol: str) -> None:
    ranges = (IntRange(-8, 7), IntRange(-20, 20))
    graph = joined(OPERATIONS[symbol][0], (0.3, -0.1), ranges, [], BipolarQuant(np.float32([[1.0]])))
    model = check(graph, ranges)
    assert model.blockers == ()
    assert model.graph.type(Value("q")).int_range.bipolar


@pytest.mark.parametrize("symbol", OPERATIONS)
def test_joins_without_a_quantizer_are_exact_outputs(symbol: str) -> None:
    ranges = (IntRange(-8, 7), IntRange(1, 9))
    for scales in ((0.5, 0.25), (0.1, 0.37)):
        graph = joined(OPERATIONS[symbol][0], scales, ranges, [], None)
        check(graph, ranges)
        expected = canonical(OPERATIONS[symbol][1], scales, all_pairs(ranges, 1))
        assert np.array_equal(graph.run(all_pairs(ranges, 1))["y"], expected)


@pytest.mark.parametrize("symbol", ["+", "*", "/", "max"])
def test_a_tensor_joined_with_a_function_of_itself(symbol: str) -> None:
    """Swish is x times sigmoid(x): both sides come from one integer, so only real pairs count."""
    graph = Graph("net")
    x = graph.add(Mul(np.array([[0.11]])), (graph.input("a", TensorType((1, 1), IntRange(-200, 200))),))
    graph.input("b", TensorType((1, 1), IntRange(0, 0)))
    other = graph.add(Function("Sigmoid"), (x,))
    value = graph.add(OPERATIONS[symbol][0], (x, other), "join")
    graph.output("y", graph.add(quantizer(0.2, 6, 2), (value,), "q"), "float32")
    model = check(graph, (IntRange(-200, 200), IntRange(0, 0)))
    assert model.blockers == ()
    assert isinstance(model.graph.op("q"), Activation | Lookup)
    assert not [n for n in model.graph if isinstance(model.graph.op(n), IntAdd)]


@pytest.mark.parametrize("scales", [(0.5, 0.5, 0.5), (0.5, 0.25, 0.75), (0.1, 0.37, 0.2)], ids=str)
def test_sums_of_three(scales: tuple[float, float, float]) -> None:
    """float32 adds them from the left, rounding twice."""
    graph = Graph("net")
    r = IntRange(-8, 7)
    sides = [
        graph.add(Mul(np.full((1, 1), s)), (graph.input(n, TensorType((1, 1), r)),))
        for n, s in zip("abc", scales, strict=True)
    ]
    value = graph.add(AddTensors(), (graph.add(AddTensors(), sides[:2]), sides[2]))
    graph.output("y", graph.add(quantizer(0.31, 6, 2), (value,)), "float32")
    model = to_integer(graph)
    a, b, c = (v.reshape(-1, 1, 1) for v in np.meshgrid(*[np.arange(-8, 8)] * 3))
    feeds = {"a": a, "b": b, "c": c}
    assert np.array_equal(graph.run(feeds)["y"], model.graph.run(feeds)["y"])
    assert model.blockers == ()


@pytest.mark.parametrize("symbol", ["+", "*"])
def test_disagreements_of_pairs_that_a_channel_cannot_reach_do_not_count(symbol: str) -> None:
    graph = Graph("net")
    x = graph.input("a", TensorType((1, 1), IntRange(-30, 30)))
    columns = graph.add(MatMul(weights([[1, 2]])), (x,))
    sides = (
        graph.add(Mul(np.array([[0.1]])), (columns,)),
        graph.add(Mul(np.array([[0.3]])), (graph.input("b", TensorType((1, 2), IntRange(-9, 9))),)),
    )
    floor = IntQuant(np.float32([[0.1, 0.1]]), np.float32([[0]]), -128, 127, "FLOOR")
    graph.output("y", graph.add(floor, (graph.add(OPERATIONS[symbol][0], sides),), "q"), "float32")
    model = to_integer(graph)
    count = 0
    for reach in (30, 60):
        q, r = np.meshgrid(np.arange(-reach, reach + 1), np.arange(-9, 10))
        value = canonical(OPERATIONS[symbol][1], (0.1, 0.3), {"a": q, "b": r}) / np.float32(0.1)
        exact = OPERATIONS[symbol][1](q * 0.1, r * 0.3) / np.float64(np.float32(0.1))
        count += int(np.sum(np.clip(np.floor(value), -128, 127) != np.clip(np.floor(exact), -128, 127)))
    assert count > 0
    assert sum(model.disagreements.values()) == count


def test_a_join_read_by_many() -> None:
    """A quantizer, a product, a selection and an output: each takes what it needs of one sum."""
    graph = Graph("net")
    r = IntRange(-8, 7)
    sides = [
        graph.add(Mul(np.full((1, 1), s)), (graph.input(n, TensorType((1, 3), r)),))
        for n, s in (("a", 0.1), ("b", 0.2))
    ]
    total = graph.add(AddTensors(), sides, "join")
    graph.output("real", total, "float32")
    graph.output("codes", graph.add(quantizer(0.3, 4, 2), (total,)), "float32")
    graph.output("best", graph.add(TopK(2), (total,)), "int64")
    relu = graph.add(Clip(0.0), (total,))
    graph.output("product", graph.add(MatMul(weights([[1], [2], [-3]])), (relu,)), "float32")
    model = to_integer(graph)
    rng = np.random.default_rng(0)
    feeds = {n: rng.integers(-8, 8, (500, 1, 3)) for n in "ab"}
    real, integer = graph.run(feeds), model.graph.run(feeds)
    assert all(np.array_equal(real[name], integer[name]) for name in graph.outputs)
    assert model.blockers == ()
