"""The greedy rule of FINN, and that the solver never takes more look-up tables than it for the same rate."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.errors import FoldingError
from headrace.ir import Graph
from headrace.passes.pixels import pixels_for
from headrace.passes.to_hardware import to_hardware
from headrace.schedule import (
    fastest_target,
    insert_fifos,
    insert_width_converters,
    performance,
    solve_folding,
    solve_within,
)
from headrace.schedule.budget import Budget
from headrace.schedule.choices import extreme
from headrace.schedule.greedy import greedy_folding
from headrace.schedule.streams import layers

from .cores import Core, mlp
from .random_networks import random_network


def luts(graph: Graph) -> float:
    return performance(insert_fifos(insert_width_converters(graph))).resources.lut


def interval(graph: Graph) -> int:
    return max((layer.cycles for layer in layers(graph).values()), default=1)


def targets(graph: Graph, rng: np.random.Generator, count: int) -> list[int]:
    """Cycles a frame from the fastest to the slowest, on a logarithmic scale."""
    fastest = fastest_target(graph)
    slowest = max((extreme(layer, min).cycles for layer in layers(graph).values()), default=1)
    return [round(fastest * (slowest / fastest) ** float(share)) for share in (*rng.random(count), 1)]


def check_no_larger(graph: Graph, wanted: list[int]) -> None:
    """The solver is at least as fast as the rule and takes no more look-up tables, in a device that fits both too."""
    for target in wanted:
        rule = greedy_folding(graph, target)
        reached, most = interval(rule), luts(rule)
        folded = solve_folding(graph, reached)
        assert interval(folded) <= reached
        assert luts(folded) <= most
        bounded = solve_within(graph, Budget.of("U250"), reached)
        assert interval(bounded) <= reached
        assert luts(bounded) <= most


@pytest.mark.parametrize("seed", range(30))
def test_never_more_than_the_rule(seed: int) -> None:
    core = random_network(seed)
    rng = np.random.default_rng(seed)
    graph = to_hardware(core).graph
    check_no_larger(graph, targets(graph, rng, 3))
    pixels = pixels_for(core, max(fastest_target(graph) // 2, 1))
    if pixels:
        blocked = to_hardware(core, pixels).graph
        check_no_larger(blocked, targets(blocked, rng, 1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_never_more_than_the_rule_in_many(seed: int) -> None:
    test_never_more_than_the_rule(seed)


@pytest.mark.parametrize("sizes", [(784, 64, 64, 10), (512, 256, 16), (48, 96, 36, 12)])
def test_never_more_than_the_rule_in_vectors(sizes: tuple[int, ...]) -> None:
    graph = to_hardware(mlp(sizes)).graph
    check_no_larger(graph, targets(graph, np.random.default_rng(0), 6))


def test_a_budget_that_the_rule_breaks_is_kept() -> None:
    """Block RAM that the rule takes is not there: more look-up tables than the rule's are right then."""
    graph = to_hardware(mlp((512, 256, 16))).graph
    rule = greedy_folding(graph, 4096)
    used = performance(insert_fifos(insert_width_converters(rule))).resources
    assert used.bram18 > 0
    folded = solve_within(graph, Budget.of(limits={"bram18": used.bram18 - 1}), interval(rule))
    assert performance(insert_fifos(insert_width_converters(folded))).resources.bram18 < used.bram18
    assert interval(folded) <= interval(rule)


# -- the rule itself ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "folding"),
    [
        (10**6, {"PE": 1, "SIMD": 1}),
        (64 * 32, {"PE": 1, "SIMD": 1}),
        (64 * 32 - 1, {"PE": 1, "SIMD": 2}),
        (300, {"PE": 1, "SIMD": 8}),
        (127, {"PE": 2, "SIMD": 16}),  # 32 weights of 2 bits are too wide for a PE: PE goes on
        (1, {"PE": 32, "SIMD": 16}),
    ],
)
def test_input_parallelism_comes_first_in_a_matrix(target: int, folding: dict[str, int]) -> None:
    core = Core()
    core.output(core.matmul(core.input((64,)), 32, "fc"))
    graph = to_hardware(core.graph).graph
    assert layers(greedy_folding(graph, target))["fc"].folding == folding


def test_the_rest_is_relaxed_to_the_slowest() -> None:
    """FINN's second pass: what one layer cannot reach, no other need."""
    core = Core()
    x = core.matmul(core.input((64,)), 1, "narrow")  # one row: no PE to raise past the widest word
    core.output(core.matmul(x, 64, "wide"))
    graph = to_hardware(core.graph).graph
    found = layers(greedy_folding(graph, 1))
    assert found["narrow"].cycles > 1
    assert found["wide"].cycles <= found["narrow"].cycles < 2 * found["wide"].cycles


def test_other_layers_raise_what_they_have() -> None:
    core = Core()
    x = core.conv(core.input((8, 6, 6)), 8, (3, 3), "deep", pad=1, groups=8)
    core.output(x)
    graph = to_hardware(core.graph).graph
    for target in (36, 72, 144):
        folded = layers(greedy_folding(graph, target))
        assert max(layer.cycles for layer in folded.values()) <= target or target < fastest_target(graph)
    with pytest.raises(FoldingError):
        solve_folding(graph, 0)
