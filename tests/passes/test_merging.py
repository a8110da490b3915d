"""Merged operators are the composition, for every integer and channel; what others read stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from headrace.ir import Graph, IntRange, Op, TensorType, Value
from headrace.ir.integer import Activation, IntConv, IntMaxPool, IntSumPool, Lookup
from headrace.ir.per_channel import IntAffine, IntClip
from headrace.ir.resampling import IntPad
from headrace.passes import merge_activations as merging
from headrace.passes.merge_activations import Function, compose, merge_activations
from headrace.passes.merge_padding import merge_padding

Array = NDArray[Any]

CHANNELS = 3
KINDS = ("activation", "lookup", "affine", "rounding", "clip")


def random_function(kind: str, x: Array, axis: int, rng: np.random.Generator) -> Function:
    """A function of the integers *x* ``(n, channels)``, per channel of *axis* or one for all; its range is exact."""
    rows, low, high = int(rng.choice([1, CHANNELS])), int(x.min()), int(x.max())
    wide = IntRange(-(2**60), 2**60)
    op: Function
    if kind == "activation":
        count = int(rng.integers(0, 7))
        thresholds = np.sort(rng.integers(low + 1, high + 2, (rows, count)), axis=1)
        op = Activation(thresholds, rng.integers(-9, 10, rows), rng.choice([-3, -1, 1, 2], rows), wide, axis)
    elif kind == "lookup":
        op = Lookup(rng.integers(-20, 21, (rows, high - low + 1)), low, wide, axis)
    elif kind == "clip":
        ends = np.sort(rng.integers(low - 3, high + 4, (2, rows)), axis=0)
        op = IntClip(ends[0], ends[1], wide, axis)
    else:
        big = 2**20 if kind == "rounding" else 4
        factor, term = rng.integers(-big, big + 1, rows), rng.integers(-9, 10, int(rng.choice([1, CHANNELS])))
        op = IntAffine(factor, term, wide, axis, kind == "rounding")
    found = values(op, x, axis)
    return replace(op, output=IntRange(int(found.min()), int(found.max())))


def values(op: Op, x: Array, axis: int) -> Array:
    """*op* of integers ``(n, channels)``, the channels along *axis* of the frame."""
    return np.asarray(op.execute(x.reshape(-1, *frame(axis)))[0], np.int64).reshape(x.shape)


def every(reach: IntRange) -> Array:
    return np.repeat(np.arange(reach.lo, reach.hi + 1)[:, None], CHANNELS, axis=1)


def frame(axis: int) -> tuple[int, int]:
    return (CHANNELS, 1) if axis == 0 else (1, CHANNELS)


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_composition(first: str, second: str) -> None:
    rng = np.random.default_rng([KINDS.index(first), KINDS.index(second)])
    merged = 0
    for _ in range(150):
        lo = int(rng.integers(-40, 20))
        reach = IntRange(lo, lo + int(rng.integers(0, 60)))
        axis = int(rng.integers(2))
        f = random_function(first, every(reach), axis, rng)
        if f.output.count > 10**5 and second == "lookup":
            continue
        inner = values(f, every(reach), axis)
        g = random_function(second, inner, axis, rng)
        both = compose(f, g, reach)
        if both is None:
            continue
        merged += 1
        expected = values(g, inner, axis)
        assert np.array_equal(values(both, every(reach), axis), expected)
        assert both.output.lo <= expected.min()
        assert expected.max() <= both.output.hi
        assert both.infer(TensorType(frame(axis), reach))[0].shape == frame(axis)
        if isinstance(both, Activation):
            assert np.all(np.diff(both.thresholds, axis=1) >= 0)
    possible = {("affine", "affine"), ("clip", "activation"), ("affine", "activation"), ("rounding", "activation")}
    assert merged > 20 or (first not in ("activation", "lookup") and (first, second) not in possible)


def test_functions_along_different_axes_are_kept_apart() -> None:
    first = Activation(np.array([[1], [2], [3]]), np.zeros(3, np.int64), np.ones(3, np.int64), IntRange(0, 1), 0)
    second = Lookup(np.arange(6).reshape(3, 2), 0, IntRange(0, 5), 1)
    assert compose(first, second, IntRange(0, 4)) is None


def test_a_range_too_large_for_a_table_is_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Lookup(np.arange(100)[None], 0, IntRange(0, 99), 0)
    second = Lookup(np.arange(100)[::-1][None].copy(), 0, IntRange(0, 99), 0)
    assert compose(first, second, IntRange(0, 99)) is not None
    monkeypatch.setattr(merging, "TABLE", 99)
    assert compose(first, second, IntRange(0, 99)) is None


def test_disagreements_are_added() -> None:
    first = Activation(np.array([[1]]), np.zeros(1, np.int64), np.ones(1, np.int64), IntRange(0, 1), 0, 3)
    second = Activation(np.array([[1]]), np.zeros(1, np.int64), np.ones(1, np.int64), IntRange(0, 1), 0, 4)
    both = compose(first, second, IntRange(0, 4))
    assert isinstance(both, Activation)
    assert both.disagreements == 7


def chain(*ops: Op, reach: IntRange, shape: tuple[int, ...] = (CHANNELS,)) -> Graph:
    graph = Graph("net", "net.onnx")
    value = graph.input("x", TensorType(shape, reach))
    for k, op in enumerate(ops):
        value = graph.add(op, (value,), f"n{k}")
    graph.output("y", value)
    return graph


def test_chains_of_any_length_become_one() -> None:
    rng = np.random.default_rng(1)
    for _ in range(40):
        reach, ops = IntRange(-20, 20), []
        inner = every(reach)
        for kind in rng.choice(["activation", "clip", "affine", "lookup"], 4):
            ops.append(random_function(str(kind), inner, 0, rng))
            inner = values(ops[-1], inner, 0)
        graph = chain(*ops, reach=reach, shape=(CHANNELS, 1))
        merged = merge_activations(graph)
        x = np.arange(-20, 21)[:, None, None] * np.ones((1, CHANNELS, 1), np.int64)
        assert np.array_equal(graph.run({"x": x})["y"], merged.run({"x": x})["y"])
        assert len(merged) <= len(graph)
        assert (merged.inputs, merged.outputs, merged.file) == (graph.inputs, graph.outputs, graph.file)


def test_what_others_read_stays() -> None:
    level = Activation(np.array([[0, 2]]), np.zeros(1, np.int64), np.ones(1, np.int64), IntRange(0, 2))
    graph = Graph()
    x = graph.input("x", TensorType((2,), IntRange(-5, 5)))
    first = graph.add(level, (x,), "first")
    second = graph.add(level, (first,), "second")
    graph.output("first", first)
    graph.output("y", second)
    merged = merge_activations(graph)
    assert [n for n in merged if isinstance(merged.op(n), Activation)] == ["first", "second"]


@pytest.mark.parametrize("kind", ["conv", "sum", "max"])
@pytest.mark.parametrize("fill", [0, 3])
@pytest.mark.parametrize("channels", [0, 1])
def test_padding_moves_into_the_window_only_when_it_is_zero(kind: str, fill: int, channels: int) -> None:
    pad = IntPad(((channels, 0), (1, 0), (2, 1)), np.array([fill]))
    plain = ((0, 0), (1, 1))
    window: Op
    count = 2 + channels
    weights = np.random.default_rng(0).integers(-3, 4, (2, count, 2, 2))
    ends = np.array([[-999, -999], [999, 999]])
    if kind == "conv":
        window = IntConv(weights, ends, (1, 2), (1, 1), plain)
    else:
        window = (IntSumPool if kind == "sum" else IntMaxPool)((2, 2), (1, 2), (1, 1), plain)
    graph = chain(pad, window, reach=IntRange(-4, 4), shape=(2, 3, 4))
    merged = merge_padding(graph)
    x = np.random.default_rng(1).integers(-4, 5, (5, 2, 3, 4))
    assert np.array_equal(graph.run({"x": x})["y"], merged.run({"x": x})["y"])
    assert ("n0" in merged) == (kind == "max" or fill != 0 or channels != 0)
    assert merged.type(Value(merged.output_node("y"))).shape == graph.type(Value(graph.output_node("y"))).shape
