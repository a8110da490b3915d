"""Functions as thresholds that can be written, and what of a network can be replaced at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from headrace.build.config import BuildConfig
from headrace.build.design import Design
from headrace.build.verify import verify_stages
from headrace.errors import FoldingError, UnsupportedError
from headrace.ingest import from_proto
from headrace.ir import IntRange
from headrace.ir.exact import any_weights_range
from headrace.ir.integer import Activation
from headrace.layers import StreamType
from headrace.layers.runtime_thresholding import RuntimeThresholding, runtime_thresholding
from headrace.schedule.streams import layers

from .networks import ALL, Network


@st.composite
def activations(draw: st.DrawFn) -> tuple[Activation, StreamType]:
    """Any monotone function of up to 15 levels on a channel, rising or falling, of steps of one height or another."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = IntRange(*sorted(draw(st.tuples(st.integers(-40, 40), st.integers(-40, 40)))))
    channels, unit, levels = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(0, 5))
    shared = draw(st.booleans())
    rows = 1 if shared else channels
    thresholds = np.sort(rng.integers(x.lo + 1, x.hi + 2, (rows, levels)), axis=1)
    step = np.where(rng.integers(0, 2, rows) == 1, unit, -unit)
    base = rng.integers(-8, 9, rows)
    reach = np.concatenate([base, base + step * levels])
    bipolar = draw(st.booleans()) and levels == 1
    if bipolar:
        step, base = np.where(step > 0, 2, -2), np.where(step > 0, -1, 1)
        output = IntRange(-1, 1, bipolar=True)
    else:
        spare = draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
        output = IntRange(int(reach.min()) - spare[0], int(reach.max()) + spare[1] + 1)
    op = Activation(thresholds, base, step, output, 0, writable=True)
    return op, StreamType((channels,), x)


@settings(max_examples=300, deadline=None)
@given(activations())
def test_any_monotone_function_has_its_form(drawn: tuple[Activation, StreamType]) -> None:
    op, stream = drawn
    layer = runtime_thresholding(op, stream)
    x = np.repeat(np.arange(stream.range.lo, stream.range.hi + 1)[:, None], stream.shape[-1], axis=1)
    (expected,) = op.execute(x)
    assert isinstance(layer, RuntimeThresholding)
    assert (np.diff(layer.thresholds, axis=1) >= 0).all()
    np.testing.assert_array_equal(layer.execute(x)[0], expected)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.tuples(st.integers(-9, 9), st.integers(-9, 9)), st.integers(1, 4))
def test_no_weights_give_more(seed: int, ends: tuple[int, int], bits: int) -> None:
    """The worst case of a type is reached by some weights, and passed by none."""
    rng = np.random.default_rng(seed)
    x, w = IntRange(*sorted(ends)), IntRange(-(1 << bits - 1), (1 << bits - 1) - 1)
    terms = 5
    low, high = any_weights_range(w, np.full(terms, x.lo), np.full(terms, x.hi))
    values, weights = rng.integers(x.lo, x.hi + 1, (200, terms)), rng.integers(w.lo, w.hi + 1, (terms, 50))
    sums = values @ weights
    assert low <= sums.min()
    assert sums.max() <= high
    corners = [a * b for a in (x.lo, x.hi) for b in (w.lo, w.hi)]
    assert (low, high) == (terms * min(*corners, 0), terms * max(*corners, 0))


def residual(seed: int, form: str = "") -> onnx.ModelProto:
    """A matrix beside a skip connection; *form* changes something that cannot be written then."""
    n = Network(seed)
    q = n.quant("x", "quant_in", 0.5, 4, 1)
    if form == "zero point":
        n.constants.append(numpy_helper.from_array(np.asarray(3, np.uint8), "zp"))
        ends = [n.constant("qdq_scale", 0.5), "zp"]
        n.nodes = [
            helper.make_node("QuantizeLinear", ["x", *ends], ["codes"]),
            helper.make_node("DequantizeLinear", ["codes", *ends], ["real"]),
        ]
        q = "real"
    x = n.product("MatMul", q, "fc", (6, 6))
    n.nodes.append(helper.make_node("Add", [x, q], ["sum"], "add"))
    if form == "both ways":
        n.nodes.append(helper.make_node("Abs", ["sum"], ["abs"], "abs"))
    x = n.quant("abs" if form == "both ways" else "sum", "act", 4.0, 4, 1)
    return n.model("residual", {"x": (6,)}, {x: (6,)})


def designed(model: onnx.ModelProto, folding: Any) -> Design:
    return Design(from_proto(model), BuildConfig.checked(name="net", folding=folding))


def test_a_join_is_written() -> None:
    design = designed(residual(0), ALL)
    found = layers(design.hardware.graph)
    assert [node for node, layer in found.items() if layer.parameters] == ["fc", "act"]
    verify_stages(design, 16, 0)
    own, other = design.runtime_weights(), design.runtime_weights(residual(1))
    assert not np.array_equal(other["fc"].arrays["weights"], own["fc"].arrays["weights"])
    np.testing.assert_array_equal(other["act"].arrays["thresholds"], own["act"].arrays["thresholds"])


@pytest.mark.parametrize(
    ("form", "node", "message"),
    [
        ("zero point", "fc", "layer 'fc': runtime_writeable_weights=1 is not possible: its input has a zero point"),
        ("both ways", "act", "'act'.*runtime_writeable_weights=1"),
    ],
)
def test_what_cannot_be_written_is_refused(form: str, node: str, message: str) -> None:
    with pytest.raises(FoldingError, match=message):
        _ = designed(residual(0, form), {node: {"runtime_writeable_weights": 1}}).hardware


def test_groups_are_refused() -> None:
    n = Network(0)
    x = n.product("Conv", n.quant("x", "quant_in", 0.25, 3, 1), "conv", (4, 2, 3, 3), group=2)
    model = n.model("grouped", {"x": (4, 5, 5)}, {x: (4, 3, 3)})
    with pytest.raises(FoldingError, match=r"layer 'conv'.*its 2 groups become one matrix.*accepted: a convolution of"):
        _ = designed(model, {"conv": {"runtime_writeable_weights": 1}}).hardware


def test_wide_thresholds_are_refused() -> None:
    op = Activation(np.array([[5]]), np.array([0]), np.array([1]), IntRange(0, 1), 0, writable=True)
    with pytest.raises(UnsupportedError, match="not possible for thresholds of 42 bits; accepted: up to 32"):
        runtime_thresholding(op, StreamType((2,), IntRange(-(2**40), 2**40)))
