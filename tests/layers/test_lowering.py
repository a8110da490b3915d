"""Operators of the integer graph and the layers that they become compute the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import FoldingError, ModelError, UnsupportedError
from headrace.ir import Array, IntRange, Op, TensorType
from headrace.ir.integer import IntConv, IntMaxPool, IntPad, IntSumPool, IntUpsample, IntZeroInsert
from headrace.layers import StreamType
from headrace.layers.base import Layer, lower
from headrace.layers.max_pool import MaxPool
from headrace.layers.swg import SWG
from headrace.layers.vvau import VVAU

BIPOLAR = IntRange(-1, 1, bipolar=True)
RANGES = (BIPOLAR, IntRange(-8, 7), IntRange(0, 3), IntRange(2, 5), IntRange(-5, -2))


def frames(draw: st.DrawFn, shape: tuple[int, ...], values: IntRange) -> Array:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if values.bipolar:
        return rng.choice(np.array([-1, 1]), (3, *shape))
    x = rng.integers(values.lo, values.hi, (3, *shape), endpoint=True)
    x[0], x[1] = values.lo, values.hi
    return x


@st.composite
def windows(draw: st.DrawFn, axes: int) -> dict[str, tuple[object, ...]]:
    def pair(low: int, high: int) -> tuple[int, ...]:
        return draw(st.tuples(*[st.integers(low, high)] * axes))

    pads = draw(st.tuples(*[st.tuples(st.integers(0, 2), st.integers(0, 2))] * axes))
    return {"strides": pair(1, 3), "dilations": pair(1, 2), "pads": pads}


def assert_same(op: Op, x: Array, values: IntRange) -> list[Layer]:
    """*op* on channels-first frames, and its layers on channels-last ones, folded in every extreme."""
    (expected,) = op.execute(x)
    (type_,) = op.infer(TensorType(x.shape[1:], values))
    chain = list(lower(op, [StreamType((*x.shape[2:], x.shape[1]), values)], "node"))
    for extreme in (min, max):
        stream = np.moveaxis(x, 1, -1)
        for layer in chain:
            folded = layer.with_folding(**{name: extreme(c) for name, c in layer.folding_choices.items()})
            assert stream.shape[1:] == folded.inputs[0].shape
            (stream,) = folded.execute(stream)
            assert stream.shape[1:] == folded.outputs[0].shape
            assert folded.cycles >= max(s.words for s in (*folded.inputs, *folded.outputs)) or folded.kind == "MVAU"
        np.testing.assert_array_equal(np.moveaxis(stream, -1, 1), expected)
    assert chain[-1].outputs[0].range == type_.int_range
    return chain


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_convolutions(data: st.DataObject) -> None:
    draw = data.draw
    axes, groups = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    per_group, members = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    size = draw(st.tuples(*[st.integers(1, 6)] * axes))
    kernel = draw(st.tuples(*[st.integers(1, 3)] * axes))
    values = draw(st.sampled_from(RANGES))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = rng.integers(-4, 4, (groups * members, per_group, *kernel))
    reach = np.abs(weights).reshape(groups * members, -1).sum(axis=1) * 8
    op = IntConv(weights, np.stack([-reach, reach]), groups=groups, **draw(windows(axes)))  # type: ignore[arg-type]
    x = frames(draw, (groups * per_group, *size), values)
    try:
        op.infer(TensorType(x.shape[1:], values))
    except ModelError:
        return
    assert_same(op, x, values)


@settings(max_examples=80, deadline=None)
@given(st.data(), st.sampled_from([IntMaxPool, IntSumPool]))
def test_pools(data: st.DataObject, kind: type[IntMaxPool] | type[IntSumPool]) -> None:
    draw = data.draw
    axes = draw(st.integers(1, 2))
    size = draw(st.tuples(*[st.integers(1, 6)] * axes))
    kernel = draw(st.tuples(*[st.integers(1, 3)] * axes))
    values = draw(st.sampled_from(RANGES))
    op = kind(kernel=kernel, **draw(windows(axes)))  # type: ignore[arg-type]
    x = frames(draw, (draw(st.sampled_from([1, 2, 6])), *size), values)
    try:
        op.infer(TensorType(x.shape[1:], values))
        assert_same(op, x, values)
    except ModelError:  # a window past the image, or in the padding alone
        return


@pytest.mark.parametrize("op", [IntUpsample((2, 3)), IntZeroInsert((2, 1), np.array([-3]))])
def test_resampling(op: Op) -> None:
    x = np.random.default_rng(0).integers(-4, 3, (3, 4, 3, 2), endpoint=True)
    assert_same(op, x, IntRange(-4, 3))


@pytest.mark.parametrize(("values", "fill"), [((2, 4), 3), ((2, 4), 5), ((-5, -3), -1), ((1, 3), -1), ((5, 5), 5)])
def test_constants_widen_the_range_no_further_than_they_must(values: tuple[int, int], fill: int) -> None:
    """Integer graph and layer agree on what leaves a padding: 0 is not part of it unless it is there."""
    r = IntRange(*values)
    x = np.random.default_rng(0).integers(r.lo, r.hi, (3, 2, 3, 2), endpoint=True)
    assert_same(IntZeroInsert((2, 2), np.array([fill])), x, r)
    pad = IntPad(((1, 1), (0, 2), (0, 0)), np.array([fill]))
    (layer,) = lower(pad, [StreamType((3, 2, 2), r)], "node")
    assert layer.outputs[0].range == pad.infer(TensorType((3, 2, 2), r))[0].int_range


def test_kinds_of_convolution() -> None:
    def kinds(shape: tuple[int, ...], groups: int, stride: int = 1) -> list[str]:
        weights = np.ones(shape, np.int64)
        ranges = np.array([[-100] * shape[0], [100] * shape[0]])
        op = IntConv(weights, ranges, (stride, stride), (1, 1), ((0, 0), (0, 0)), groups)
        return [layer.kind for layer in lower(op, [StreamType((4, 4, shape[1] * groups), RANGES[1])], "node")]

    assert kinds((6, 4, 1, 1), 1) == ["MVAU"]
    assert kinds((6, 4, 1, 1), 1, stride=2) == ["SWG", "MVAU"]
    assert kinds((6, 4, 3, 3), 1) == ["SWG", "MVAU"]
    assert kinds((8, 1, 3, 3), 4) == ["VVAU"]
    assert kinds((8, 2, 3, 3), 2) == ["SWG", "MVAU"]


def test_padded_signs_become_numbers() -> None:
    swg = SWG((4, 4, 2), BIPOLAR, (3, 3), (1, 1), (1, 1), ((1, 1), (1, 1)))
    assert swg.outputs[0].range == IntRange(-1, 1)
    assert swg.outputs[0].bits == 2
    plain = SWG((4, 4, 2), BIPOLAR, (3, 3), (1, 1), (1, 1), ((0, 0), (0, 0)))
    assert plain.outputs[0].range == BIPOLAR


def test_errors_name_the_legal_values() -> None:
    swg = SWG((4, 4, 6), RANGES[1], (3, 3), (1, 1), (1, 1), ((1, 1), (1, 1)))
    with pytest.raises(FoldingError, match="1, 2, 3, 6, 18, 54"):
        swg.with_folding(SIMD=4)
    vvau = VVAU(
        np.ones((6, 1, 9), np.int64), swg.inputs[0], IntRange(-72, 63), (3, 3), (1, 1), (1, 1), ((1, 1), (1, 1))
    )
    with pytest.raises(FoldingError, match="1, 3, 9"):
        vvau.with_folding(SIMD=2)
    with pytest.raises(UnsupportedError, match="smaller than the window"):
        MaxPool(swg.inputs[0], (1, 1), (1, 1), (1, 1), ((1, 1), (1, 1)))
