"""Transposed convolutions against onnxruntime, and their ranges against every reachable sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operators.models import Model, frames, operators, same_as_onnxruntime, same_in_both_modes

from headrace.ir import Value
from headrace.ir.integer import IntConv

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "stride": {"strides": [2, 2]},
    "uneven": {"strides": [2, 1], "pads": [1, 0, 0, 2]},
    "output padding": {"strides": [2, 3], "pads": [1, 1, 1, 1], "output_padding": [1, 2]},
    "dilation": {"dilations": [2, 1], "strides": [1, 2]},
    "cropped beyond the kernel": {"strides": [3, 3], "pads": [3, 4, 3, 3]},
    "valid": {"strides": [2, 2], "auto_pad": "VALID"},
    "same upper": {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
    "same lower": {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
    "output shape": {"strides": [2, 2], "output_shape": [8, 9]},
    "shape and same": {"strides": [2, 2], "output_shape": [7, 8], "auto_pad": "SAME_UPPER"},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("groups", [1, 2])
def test_like_onnxruntime(case: str, groups: int) -> None:
    rng = np.random.default_rng(len(case))
    m = Model(4, 4, 5)
    q = rng.integers(-7, 8, (4, 6 // groups, 3, 2))
    scale = 2.0 ** -np.arange(1, 1 + 6 // groups)
    bias = m.constant(rng.integers(-8, 8, 6) / 8)
    y = m.node("ConvTranspose", m.qdq(m.x), m.weights(q, scale, axis=1), bias, group=groups, **CASES[case])
    m.output(m.qdq(y, 0.5))
    same_as_onnxruntime(m, {"x": frames(4, 4, 5)})


def test_one_dimension_and_zero_point() -> None:
    """What lies between the spread pixels is real 0: the zero point of the codes."""
    rng = np.random.default_rng(1)
    m = Model(2, 6)
    x = m.qdq(m.x, 0.25, 37, np.uint8)
    w = m.weights(rng.integers(-7, 8, (2, 3, 4)))
    m.output(m.qdq(m.node("ConvTranspose", x, w, strides=[3], pads=[1, 2]), 1.0, -3))
    integer = same_as_onnxruntime(m, {"x": frames(2, 6)})
    assert operators(integer)[:3] == ["IntZeroInsert", "IntPad", "IntConv"]


def test_scales_per_channel_of_any_size() -> None:
    rng = np.random.default_rng(2)
    m = Model(3, 4, 4)
    w = rng.normal(size=(3, 2, 3, 3))
    scale = np.abs(w).max(axis=(0, 2, 3), keepdims=True) / 7
    y = m.node("ConvTranspose", m.quant(m.x, 0.3), m.quant(m.constant(w), scale), strides=[2, 2], output_padding=[1, 1])
    m.output(m.quant(y, 0.7))
    integer = same_in_both_modes(m, {"x": frames(3, 4, 4)})
    assert operators(integer) == ["IntZeroInsert", "IntConv", "Activation"]


@pytest.mark.parametrize("case", ["stride", "output padding", "cropped beyond the kernel"])
def test_ranges_are_reached(case: str) -> None:
    """For each output channel there are frames that give the smallest and the largest accumulator."""
    rng = np.random.default_rng(3)
    m = Model(2, 3, 3)
    q = rng.integers(-3, 4, (2, 2, 3, 2))
    m.output(m.node("ConvTranspose", m.quant(m.x, 1.0, 3), m.weights(q, 1.0), **CASES[case]))
    core = same_in_both_modes(m, {"x": frames(2, 3, 3)}).partition().core
    node = next(n for n in core if isinstance(core.op(n), IntConv))
    op, feeds = core.op(node), []
    assert isinstance(op, IntConv)
    impulses = np.eye(18, dtype=np.int64).reshape(18, 2, 3, 3)
    responses = core.values({core.inputs[0]: impulses}, [node])[node]  # (input element, channel, h, w)
    for channel in range(2):
        flat = responses[:, channel].reshape(18, -1)
        for position in range(flat.shape[1]):
            feeds += [np.where(flat[:, position] > 0, 3, -4), np.where(flat[:, position] > 0, -4, 3)]
    sums = core.values({core.inputs[0]: np.array(feeds).reshape(-1, 2, 3, 3)}, [node])[node]
    assert np.array_equal(sums.min(axis=(0, 2, 3)), op.ranges[0])
    assert np.array_equal(sums.max(axis=(0, 2, 3)), op.ranges[1])
    assert core.type(Value(node)).int_range.lo == op.ranges[0].min()
