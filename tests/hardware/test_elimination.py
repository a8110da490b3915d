"""Variable elimination against trying everything."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.schedule import elimination
from headrace.schedule.elimination import Costs, minimise

Problem = tuple[dict[int, Costs], dict[tuple[int, int], Costs]]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    single = {v: rng.integers(0, 30, n).astype(float) for v, n in enumerate(sizes)}
    every = list(itertools.combinations(range(len(sizes)), 2))
    chosen = draw(st.lists(st.sampled_from(every), unique=True, max_size=8)) if every else []
    return single, {(a, b): rng.integers(0, 30, (sizes[a], sizes[b])).astype(float) for a, b in chosen}


def total(problem: Problem, picked: dict[int, int]) -> float:
    single, pairs = problem
    return sum(c[picked[v]] for v, c in single.items()) + sum(c[picked[a], picked[b]] for (a, b), c in pairs.items())


def cheapest(problem: Problem) -> float:
    ranges = [range(len(costs)) for costs in problem[0].values()]
    return min(total(problem, dict(enumerate(combination))) for combination in itertools.product(*ranges))


@given(problems())
def test_the_minimum_is_exact(problem: Problem) -> None:
    assert total(problem, minimise(*problem)) == cheapest(problem)


@given(problems())
def test_with_tables_too_large_the_result_is_complete_and_no_worse_than_each_alone(problem: Problem) -> None:
    single, pairs = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elimination, "LARGEST_TABLE", 8)
        picked = minimise(single, pairs)
    assert set(picked) == set(single)
    alone = {v: int(np.argmin(costs)) for v, costs in single.items()}
    assert cheapest(problem) <= total(problem, picked) <= total(problem, alone)


def test_a_long_chain() -> None:
    rng = np.random.default_rng(0)
    single = {v: rng.random(20) for v in range(300)}
    pairs = {(v, v + 1): rng.random((20, 20)) for v in range(299)}
    best = single[0]
    for v in range(299):
        best = (best[:, None] + pairs[v, v + 1]).min(axis=0) + single[v + 1]
    assert total((single, pairs), minimise(single, pairs)) == pytest.approx(best.min())


def test_the_first_of_equal_choices_is_taken() -> None:
    single = {v: np.zeros(3) for v in range(4)}
    pairs = {(0, 1): np.zeros((3, 3)), (1, 3): np.zeros((3, 3))}
    assert minimise(single, pairs) == dict.fromkeys(range(4), 0)
