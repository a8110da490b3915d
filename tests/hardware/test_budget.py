"""Folding within the resources of a device."""

from __future__ import annotations

import pytest

from headrace.errors import FoldingError
from headrace.ir import Graph
from headrace.layers.base import Resources
from headrace.passes.to_hardware import to_hardware
from headrace.schedule import insert_fifos, insert_width_converters, performance, pixels_within, solve_folding
from headrace.schedule.budget import Budget
from headrace.schedule.choices import Limits
from headrace.schedule.folding import Extras, solve_within
from headrace.schedule.parts import BOARDS, PARTS, find_part
from headrace.schedule.solver import FoldingProblem
from headrace.schedule.streams import layers

from .cores import Core, mlp


def unfolded() -> Graph:
    return to_hardware(mlp((64, 32, 32, 10))).graph


def used(graph: Graph) -> Resources:
    return performance(insert_fifos(insert_width_converters(graph))).resources


def interval(graph: Graph) -> int:
    return max(layer.cycles for layer in layers(graph).values())


@pytest.mark.parametrize("lut", [1500, 2500, 5000, 20_000])
def test_the_fastest_that_fits(lut: int) -> None:
    folded = solve_within(unfolded(), Budget.of(limits={"lut": lut}))
    assert used(folded).lut <= lut
    reached = interval(folded)
    if reached > 1:  # nothing much faster would be much smaller
        assert used(solve_folding(unfolded(), max(int(reached * 0.8), 1))).lut > lut * 0.8


def test_more_room_is_never_slower() -> None:
    rates = [interval(solve_within(unfolded(), Budget.of(limits={"lut": lut}))) for lut in (1500, 2500, 5000, 20_000)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < rates[0]


def two_convolutions() -> Graph:
    core = Core()
    x = core.activation(core.conv(core.input((1, 8, 8)), 3, (3, 3), "conv", pad=1), name="act")
    core.output(core.conv(x, 2, (2, 2), "second", stride=2))
    return core.graph


def test_room_for_several_pixels_a_cycle() -> None:
    """With more room, more pixels at once: never more than fits, and never slower."""
    core = two_convolutions()
    found = []
    for lut in (400, 800, 6000):
        budget = Budget.of(limits={"lut": lut})
        graph = solve_within(to_hardware(core, pixels_within(core, budget)).graph, budget)
        assert used(graph).lut <= lut
        found.append(interval(graph))
    assert found[0] >= 64 > found[1] > found[2]


def test_counters_take_the_room_of_pixels() -> None:
    """As many pixels at once as fit beside the counters, not as would fit without: more room is never slower."""
    core, extras = two_convolutions(), Extras(counters=True)
    found, fewer = [], []
    for lut in (1600, 2000, 2400):
        budget = Budget.of(limits={"lut": lut})
        pixels = pixels_within(core, budget, extras=extras)
        graph = solve_within(to_hardware(core, pixels).graph, budget, extras=extras)
        assert extras.performance(graph).resources.lut <= lut
        found.append(interval(graph))
        fewer.append(sum(pixels.values()) < sum(pixels_within(core, budget).values()))
    assert found == sorted(found, reverse=True)
    assert any(fewer)


def test_a_rate_and_a_part() -> None:
    folded = solve_within(unfolded(), Budget.of("Pynq-Z1"), target=64)
    assert interval(folded) <= 64
    assert not Budget.of("Pynq-Z1").exceeded(used(folded))


def test_what_is_short_becomes_dear() -> None:
    """Block RAM that the usual weighting takes is left when there is none."""
    core = mlp((512, 256, 16))
    graph = to_hardware(core).graph
    usual = solve_folding(graph, 4096)
    assert used(usual).bram18 > 0
    without = solve_within(graph, Budget.of(limits={"bram18": used(usual).bram18 - 1}), target=4096)
    assert used(without).bram18 < used(usual).bram18
    assert interval(without) <= 4096


@pytest.mark.parametrize(
    ("limits", "target", "message"),
    [
        (
            {"lut": 50},
            None,
            r"the budget has 50 lut and the design takes an estimated [\d,]+ folded completely; layer '",
        ),
        ({"ff": 10}, 100, r"has 10 ff .* for 100 cycles a frame; layer '.*' \(\w+\) alone takes"),
        ({"slices": 1}, None, r"unknown resource 'slices' in the budget; known: lut, ff, dsp, bram18"),
        ({"lut": -1}, None, "must be a number of at least 0, not -1"),
        ({"lut": float("nan")}, None, "must be a number of at least 0, not nan"),
    ],
)
def test_what_cannot_be_met_is_said(limits: dict[str, float], target: int | None, message: str) -> None:
    with pytest.raises(FoldingError, match=message):
        solve_within(unfolded(), Budget.of(limits=limits), target)


def test_parts_and_boards() -> None:
    assert find_part("xc7z020clg400-1") is find_part("Pynq-Z1") is find_part("pynq-z2") is PARTS["xc7z020"]
    assert all(find_part(board).name in code for board, code in BOARDS.items())
    with pytest.raises(FoldingError, match=r"unknown part or board 'ZCU10' \(did you mean 'ZCU10"):
        find_part("ZCU10")
    assert Budget.of("KV260", {"lut": 1e9}).available == PARTS["xck26"].resources
    with pytest.raises(FoldingError, match="the part xc7z020, with the limits given, has 0 lut"):
        solve_within(unfolded(), Budget.of("xc7z020", {"lut": 0}), None)


def test_width_limits_are_kept() -> None:
    folded = FoldingProblem(unfolded(), Limits(stream_bits=48)).solve(512).graph
    for layer in layers(folded).values():
        assert all(s.word_bits <= 48 for s in (*layer.inputs, *layer.outputs))
    with pytest.raises(FoldingError, match=r"it takes \d+ even with all that bits a word=8 allows, so"):
        FoldingProblem(unfolded(), Limits(stream_bits=8)).solve(10)
