"""MVAU, Thresholding, Lookup and LabelSelect: what their operators lower to, foldings, and normal forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.codegen.render import render_module
from headrace.errors import FoldingError
from headrace.ir import Array, IntRange, Op, TensorType
from headrace.ir.exact import accumulator_range
from headrace.ir.integer import Activation, IntMatMul, IntTopK
from headrace.ir.integer import Lookup as LookupOp
from headrace.layers import StreamType, lower, threshold_line
from headrace.layers.comparisons import comparisons
from headrace.layers.fifo import FIFO
from headrace.layers.label_select import LabelSelect
from headrace.layers.lookup import Lookup
from headrace.layers.mvau import MVAU
from headrace.layers.threshold_line import fit_line
from headrace.layers.thresholding import Thresholding
from headrace.layers.vvau import VVAU
from headrace.layers.width_converter import StreamingDataWidthConverter
from layers.cases.weight_memories import CASES as MEMORIES

BIPOLAR = IntRange(-1, 1, bipolar=True)
RANGES = (BIPOLAR, IntRange(-8, 7), IntRange(0, 3), IntRange(2, 5), IntRange(-5, -2), IntRange(0, 0))


def frames(rng: np.random.Generator, shape: tuple[int, ...], values: IntRange) -> Array:
    if values.bipolar:
        return rng.choice(np.array([-1, 1]), (4, *shape))
    x = rng.integers(values.lo, values.hi, (4, *shape), endpoint=True)
    x[0], x[1] = values.lo, values.hi
    return x


def assert_lowers_to(op: Op, x: Array, values: IntRange, layer_class: type) -> None:
    (layer,) = lower(op, [StreamType(x.shape[1:], values)], "node")
    assert isinstance(layer, layer_class)
    (type_,) = op.infer(TensorType(x.shape[1:], values))
    for extreme in (min, max):
        folded = layer.with_folding(**{name: extreme(c) for name, c in layer.folding_choices.items()})
        np.testing.assert_array_equal(folded.execute(x)[0], op.execute(x)[0])
        assert folded.outputs[0].shape == type_.shape
        assert folded.outputs[0].range == type_.int_range
        resources = folded.resources()
        assert resources.lut > 0
        assert min(resources.ff, resources.dsp, resources.bram18) >= 0


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(RANGES), st.sampled_from([(-1, 1), (-8, 7), (0, 1), (-128, 127)]))
def test_matmul(seed: int, values: IntRange, weight_range: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    lead = tuple(rng.integers(1, 4, rng.integers(0, 3)))
    weights = rng.integers(*weight_range, rng.integers(1, 13, 2), endpoint=True)
    low, high = accumulator_range(weights, values.lo, values.hi)
    op = IntMatMul(weights, np.stack([low, high]))
    assert_lowers_to(op, frames(rng, (*lead, weights.shape[0]), values), values, MVAU)


def random_activation(rng: np.random.Generator, channels: int, values: IntRange) -> Activation:
    rows = int(rng.choice([1, channels]))
    thresholds = np.sort(rng.integers(values.lo - 1, values.hi + 3, (rows, rng.integers(0, 6))), axis=1)
    base, step = rng.integers(-4, 5, rows), rng.integers(-2, 3, rows)
    ends = np.concatenate([base, base + step * thresholds.shape[1]])
    return Activation(thresholds, base, step, IntRange(int(ends.min()), int(ends.max())), 0)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(RANGES))
def test_activation(seed: int, values: IntRange) -> None:
    rng = np.random.default_rng(seed)
    channels = int(rng.integers(1, 9))
    op = random_activation(rng, channels, values)
    x = frames(rng, (channels,), values)
    assert_lowers_to(op, x, values, Thresholding)
    f = comparisons(op.thresholds, op.base, op.step, values)
    codes = (x + 1) // 2 if values.bipolar else x
    reached = (codes[:, :, np.newaxis] > f.cuts[np.newaxis]).sum(axis=2)
    np.testing.assert_array_equal(f.base + f.step * reached, op.execute(x)[0])
    assert f.cuts.min() >= f.range.lo
    assert f.cuts.max() <= f.range.hi
    assert np.all(f.step != 0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(RANGES), st.integers(0, 3))
def test_lookup(seed: int, values: IntRange, spare: int) -> None:
    """The operator's table may cover more than the range that arrives."""
    rng = np.random.default_rng(seed)
    channels = int(rng.integers(1, 9))
    table = rng.integers(-5, 6, (int(rng.choice([1, channels])), values.count + 2 * spare))
    op = LookupOp(table, values.lo - spare, IntRange(-5, 5), 0)
    assert_lowers_to(op, frames(rng, (channels,), values), values, Lookup)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(RANGES), st.booleans())
def test_top_k(seed: int, values: IntRange, largest: bool) -> None:
    rng = np.random.default_rng(seed)
    channels = int(rng.integers(1, 13))
    op = IntTopK(int(rng.integers(1, channels + 1)), largest)
    assert_lowers_to(op, frames(rng, (2, channels), values), values, LabelSelect)


STREAM = StreamType((12,), IntRange(-8, 7))
WEIGHTS = np.ones((12, 6), np.int64)


def test_folding_errors_name_the_value_and_the_choices() -> None:
    layer = MVAU(WEIGHTS, STREAM, IntRange(-96, 84))
    with pytest.raises(FoldingError, match=r"MVAU: PE=4 does not divide 6; valid: 1, 2, 3, 6"):
        layer.with_folding(PE=4)
    with pytest.raises(FoldingError, match=r"MVAU: SIMD=5 does not divide 12; valid: 1, 2, 3, 4, 6, 12"):
        MVAU(WEIGHTS, STREAM, IntRange(-96, 84), 1, 5)
    with pytest.raises(FoldingError, match=r"MVAU has no folding 'pe'; it has: PE, SIMD"):
        layer.with_folding(pe=2)
    with pytest.raises(FoldingError, match=r"5 elements a word do not divide 12"):
        StreamingDataWidthConverter(STREAM, 5)
    with pytest.raises(FoldingError, match=r"FIFO: depth=-1"):
        FIFO(STREAM, -1)
    with pytest.raises(FoldingError, match=r"LabelSelect: PE=5 does not divide 12; valid: 1, 2"):
        LabelSelect(STREAM, pe=5)


def test_folding_gives_the_cycles_it_promises() -> None:
    layer = MVAU(WEIGHTS, StreamType((4, 12), IntRange(-8, 7)), IntRange(-96, 84))
    assert layer.cycles == 4 * 12 * 6
    folded = layer.with_folding(PE=3, SIMD=4)
    assert folded.folding == {"PE": 3, "SIMD": 4}
    assert folded.cycles == 4 * 3 * 2
    assert folded.inputs[0].elements == 4
    assert folded.outputs[0].elements == 3


@pytest.mark.parametrize(
    ("x", "weights", "styles"),
    [
        (BIPOLAR, (-1, 1), {"xnor"}),
        (IntRange(0, 1), (-1, 1), {"and", "select"}),
        (BIPOLAR, (-2, 3), {"select"}),
        (IntRange(0, 3), (-1, 0, 1), {"select", "pairs", "table", "packed", "multiply"}),
        (IntRange(-1, 1), (-2, 3), {"select", "pairs", "table", "packed", "multiply"}),
        (IntRange(0, 31), (-1, 0, 1), {"select", "pairs", "table", "packed", "multiply"}),
        (IntRange(0, 31), (-16, 15), {"pairs", "packed", "multiply"}),
        (IntRange(0, 1 << 20), (-128, 127), {"pairs", "multiply"}),
    ],
)
@pytest.mark.parametrize("folded", [(2, 2), (6, 2), (2, 6)])
def test_arithmetic_follows_the_operands(
    x: IntRange, weights: tuple[int, ...], styles: set[str], folded: tuple[int, int]
) -> None:
    """The automatic choice is the cheapest of the styles that fit, as estimated."""
    layer = MVAU(np.resize(np.array(weights), (12, 6)), StreamType((12,), x), IntRange(-60, 60), *folded)
    assert set(layer.legal_styles) == styles
    costs = {style: replace(layer, style=style).resources().weight for style in styles}
    assert costs[layer.arithmetic] == min(costs.values()) == layer.resources().weight


def test_depthwise_arithmetic_follows_the_operands() -> None:
    """The same styles; padding is 0, which -1 and +1 are not."""
    window = (3, 3), (1, 1), (1, 1)
    same, none = ((1, 1), (1, 1)), ((0, 0), (0, 0))
    for x, weights, kernels, pads, styles in (
        (BIPOLAR, (-1, 1), 1, none, {"xnor"}),
        (BIPOLAR, (-1, 1), 1, same, {"select"}),
        (IntRange(0, 3), (-1, 1), 1, same, {"select"}),
        (IntRange(0, 3), (-1, 1), 2, same, {"and", "select"}),
        (IntRange(0, 15), tuple(range(-8, 8)), 1, same, {"pairs", "table", "multiply"}),
        (IntRange(0, 15), tuple(range(-8, 8)), 2, same, {"pairs", "table", "packed", "multiply"}),
    ):
        matrix = np.resize(np.array(weights), (4, kernels, 9))
        layer = VVAU(matrix, StreamType((5, 5, 4), x), IntRange(-1200, 1200), *window, pads, 2, 3)
        assert set(layer.legal_styles) == styles
        costs = {style: replace(layer, style=style).resources().weight for style in styles}
        assert costs[layer.arithmetic] == min(costs.values())


def test_styles_that_do_not_fit_are_refused() -> None:
    """The message names those that do."""
    x, window = IntRange(0, 15), ((3, 3), (1, 1), (1, 1), ((0, 0), (0, 0)))
    dense = MVAU(np.arange(-8, 8).reshape(4, 4), StreamType((4,), x), IntRange(-999, 999))
    depthwise = VVAU(np.arange(-9, 9).reshape(2, 1, 9), StreamType((5, 5, 2), x), IntRange(-999, 999), *window)
    for layer in (dense, depthwise):
        with pytest.raises(ValueError, match=r"style 'xnor' does not fit the operands; possible: pairs,"):
            replace(layer, style="xnor")


def test_thresholding_takes_the_cheapest_style() -> None:
    one = np.ones(1, np.int64)
    rng, wide = np.random.default_rng(0), StreamType((12,), IntRange(-30000, 30000))
    few = Thresholding(np.sort(rng.integers(-30000, 30000, (12, 2)), axis=1), 0 * one, one, wide, IntRange(0, 2), 12)
    many = Thresholding(np.sort(rng.integers(-30000, 30000, (12, 255)), axis=1), 0 * one, one, wide, IntRange(0, 255))
    straight = np.arange(-12000, 13500, 100)[np.newaxis] + np.arange(12)[:, np.newaxis]
    line = Thresholding(straight, 0 * one, one, wide, IntRange(0, 255))
    narrow = Thresholding(np.array([[1]]), 0 * one, one, STREAM, IntRange(0, 1))
    assert [layer.method for layer in (few, many, line, narrow)] == ["parallel", "search", "line", "table"]
    for layer in (few, many, line, narrow):
        costs = {style: replace(layer, style=style).resources() for style in layer.legal_styles}
        assert layer.resources() == costs[layer.method]
        assert layer.resources().weight == min(cost.weight for cost in costs.values())
        assert layer.latency == replace(layer, style=layer.method).latency
    with pytest.raises(ValueError, match="the thresholds are not on a line"):
        replace(many, style="line")
    with pytest.raises(ValueError, match="the input is too wide"):
        replace(many, style="table")


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.booleans())
def test_a_line_counts_the_thresholds_exactly(seed: int, steps: int, straight: bool) -> None:
    """Over the whole range, rows with thresholds never and always reached included; a straight quantizer has a line."""
    rng = np.random.default_rng(seed)
    lo = int(rng.integers(-60, 20))
    x = IntRange(lo, lo + int(rng.integers(1, 120)))
    if straight:
        scale, start = rng.uniform(1, 40, (3, 1)), rng.uniform(lo - 10, x.hi, (3, 1))
        thresholds = np.ceil(start + scale * np.arange(steps)).astype(np.int64)
    else:
        thresholds = np.sort(rng.integers(lo - 2, x.hi + 3, (3, steps)), axis=1)
    cuts = comparisons(thresholds, np.zeros(1, np.int64), np.ones(1, np.int64), x, keep=True).cuts
    line = fit_line(cuts, x)
    if line is None:
        assert not straight
        return
    values = np.arange(x.lo, x.hi + 1)
    counted = line.count(np.broadcast_to(values, (cuts.shape[0], values.size)), cuts.shape[1])
    np.testing.assert_array_equal(counted, (values > cuts[:, :, None]).sum(axis=1))


@pytest.mark.parametrize("last", [60, 90])
def test_a_line_is_found_whatever_rows_are_looked_at_together(monkeypatch: pytest.MonkeyPatch, last: int) -> None:
    """The last row is on a line, or is not."""
    cuts = np.arange(1, 12)[:, None] * np.array([[5, 10, 15]]) // 2
    cuts = np.concatenate([cuts, [[0, 30, last]]])
    found = []
    for constants in (1, 9, 2**15):
        threshold_line._fit.cache_clear()
        monkeypatch.setattr(threshold_line, "BLOCK_CONSTANTS", constants)
        found.append(fit_line(cuts, IntRange(0, 100)))
    for line in found:
        assert (line is None) == (last == 90)
        if line is not None and found[0] is not None:
            assert line.shift == found[0].shift
            np.testing.assert_array_equal(line.factor, found[0].factor)
            np.testing.assert_array_equal(line.term, found[0].term)


def test_channels_that_are_alike_share_their_thresholds() -> None:
    same = np.tile(np.array([[-3, 0, 4]]), (12, 1))
    layer = Thresholding(same, np.zeros(12, np.int64), np.ones(12, np.int64), STREAM, IntRange(0, 3), 4)
    assert layer.groups == 1
    assert layer.lanes == 1


@pytest.mark.parametrize("style", ["parallel", "search"])
def test_thresholds_without_effect_cost_nothing(style: str) -> None:
    """The module is the same, to the letter, with thresholds that no input reaches or all do, and with equal rows."""
    rng, one = np.random.default_rng(3), np.ones(1, np.int64)
    x = STREAM.range
    cuts = np.sort(rng.integers(x.lo + 1, x.hi, (12, 3)), axis=1)

    def text(thresholds: Array, base: int = 0) -> tuple[str, dict[str, str]]:
        layer = Thresholding(np.asarray(thresholds, np.int64), base * one, one, STREAM, IntRange(0, 7), 4, style)
        return render_module(layer.rtl(), "m", "m")

    never, always = np.full((12, 2), x.hi + 5), np.full((12, 2), x.lo - 9)
    assert text(np.hstack([cuts, never])) == text(cuts)
    assert text(np.hstack([always, cuts]), 1) == text(cuts, 3)
    assert text(np.tile(cuts[:1], (12, 1))) == text(cuts[:1])


def test_thresholds_in_arithmetic_progression_need_no_comparators() -> None:
    """As a line they cost less than by comparisons, the less the more there are; by powers of two they are a shift."""
    one = np.ones(1, np.int64)
    stream = StreamType((12,), IntRange(-(1 << 15), (1 << 15) - 1))
    for steps, gap in ((15, 64), (255, 64), (255, 100)):
        cuts = (np.arange(steps) - steps // 2)[np.newaxis] * gap
        layer = Thresholding(cuts, 0 * one, one, stream, IntRange(0, steps), 4)
        assert layer.line is not None
        assert layer.method == "line"
        assert (layer.as_rounding() is not None) == (gap == 64)


@pytest.mark.parametrize("case", MEMORIES)
def test_constants_are_where_they_are_asked_to_be(case: str) -> None:
    """In the text for synthesis and in the estimate, whatever the style of the layer."""
    layer, style = MEMORIES[case], case.rsplit("_", 1)[1]
    text, _ = render_module(layer.rtl(), "m", "layer")
    takes = layer.resources()
    assert f'"{style}"' in text or case == "search_distributed"  # few of those are no memory
    assert (takes.bram18 > 0, takes.uram > 0) == (style == "block", style == "ultra")
