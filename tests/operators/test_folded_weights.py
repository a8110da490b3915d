"""Weights whose DequantizeLinear was folded into float32 numbers are those of the model before."""

from __future__ import annotations

import numpy as np
import pytest
from operators.models import Model, frames, operators, same_in_both_modes

SCALES = {"one": np.float32(0.0123), "per channel": np.float32([0.0123, 0.7, 1 / 3, 0.01])}


def convolution(scale: np.ndarray, folded: bool) -> Model:
    m = Model(3, 5, 5)
    q = np.random.default_rng(0).integers(-8, 8, (4, 3, 3, 3))
    wide = scale.reshape(-1, 1, 1, 1) if scale.ndim else scale
    w = m.constant(q.astype(np.float32) * wide) if folded else m.weights(q, scale)
    m.output(m.quant(m.node("Relu", m.node("Conv", m.quant(m.x, 0.3), w, pads=[1] * 4)), 0.37))
    return m


@pytest.mark.parametrize("scale", SCALES)
def test_a_convolution(scale: str) -> None:
    x = {"x": frames(3, 5, 5, count=100)}
    folded, stated = (same_in_both_modes(convolution(np.asarray(SCALES[scale]), f), x) for f in (True, False))
    assert operators(folded) == operators(stated) == ["IntConv", "Activation"]
    ((one,), (other,)) = (model.graph.run(x).values() for model in (folded, stated))
    assert np.array_equal(one, other)


def test_weights_of_a_training_are_not_taken_for_such() -> None:
    m = Model(4)
    w = m.constant(np.random.default_rng(0).normal(size=(4, 3)))
    m.output(m.node("MatMul", m.quant(m.x), w))
    (blocker,) = same_in_both_modes(m, {"x": frames(4)}, blockers=1).blockers
    assert "its weights are not quantized: they are no integers times one scale" in blocker.reason
