"""FIFO depths from the schedule: with them nothing stalls the slowest layer, whatever the rhythms and the branches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import ModelError
from headrace.ir import Graph, IntRange, TensorType, Value
from headrace.schedule import tokens
from headrace.schedule.fifos import fifo_depths
from headrace.schedule.folding import solve_folding
from headrace.schedule.performance import performance
from headrace.schedule.steady import Flow, Pace, first_frame, steady_flows
from headrace.schedule.streams import Link, layers
from headrace.schedule.tokens import token_times

from .dataflow import Worker, measured_interval, worker


def start(words: int) -> tuple[Graph, Value]:
    graph = Graph()
    return graph, graph.input("x", TensorType((words,), IntRange(0, 1)))


def chain(words: list[int], work: list[int], waits: list[int], pipelined: bool = False) -> Graph:
    graph, x = start(words[0])
    for k, (cycles, wait) in enumerate(zip(work, waits, strict=True)):
        x = graph.add(worker([words[k]], [words[k + 1]], cycles, wait, pipelined), (x,), f"w{k}")
    graph.output("y", x)
    return graph


def diamond(words: int, work: tuple[int, int, int], waits: tuple[int, int, int], pipelined: bool = False) -> Graph:
    """A fork, two layers in one branch, none in the other, and a join."""
    graph, x = start(words)
    fork = graph.add(worker([words], [words, words], 0), (x,), "fork")
    y = Value(fork.node, 0)
    for k in range(2):
        y = graph.add(worker([words], [words], work[k], waits[k], pipelined), (y,), f"w{k}")
    join = graph.add(worker([words, words], [words], work[2], waits[2], pipelined), (y, Value(fork.node, 1)), "join")
    graph.output("y", join)
    return graph


def interval(graph: Graph) -> int:
    return max(layer.cycles for layer in layers(graph).values())


small = st.integers(1, 16)


@st.composite
def chains(draw: st.DrawFn) -> Graph:
    """One to four layers."""
    count = draw(st.integers(1, 4))
    words = draw(st.lists(small, min_size=count + 1, max_size=count + 1))
    work = draw(st.lists(st.integers(1, 60), min_size=count, max_size=count))
    return chain(words, work, draw(st.lists(small, min_size=count, max_size=count)), draw(st.booleans()))


@settings(max_examples=30, deadline=None)
@given(chains())
def test_chains_keep_the_rate_of_the_slowest(graph: Graph) -> None:
    assert measured_interval(graph, fifo_depths(graph)) == interval(graph)


@settings(max_examples=30, deadline=None)
@given(small, st.tuples(small, small, small), st.tuples(*(st.integers(1, 80) for _ in range(3))), st.booleans())
def test_branches_keep_the_rate_of_the_slowest(
    words: int, work: tuple[int, int, int], waits: tuple[int, int, int], pipelined: bool
) -> None:
    graph = diamond(words, work, waits, pipelined)
    assert measured_interval(graph, fifo_depths(graph)) == interval(graph)


def test_a_shallow_fifo_beside_a_long_branch_stalls() -> None:
    graph = diamond(16, (16, 16, 16), (40, 40, 2))
    depths = fifo_depths(graph)
    (short,) = (link for link in depths if link.source == Value("fork", 1))
    assert depths[short] > 80
    assert measured_interval(graph, depths) == 16
    slower = measured_interval(graph, {**depths, short: depths[short] // 2})
    assert slower is None or slower > 16


def flows(graph: Graph, even: bool) -> dict[Link, Flow]:
    return {link: flow for _, link, flow in steady_flows(graph, [Pace(even)])}


@pytest.mark.parametrize("even", [True, False])
def test_no_word_is_read_before_it_is_written(even: bool) -> None:
    found = flows(diamond(6, (20, 6, 11), (9, 30, 3)), even)
    assert len(found) == 4
    for flow in found.values():
        assert (flow.popped > flow.pushed).all()
        for times in (flow.popped, flow.pushed):
            assert (np.diff([*times, times[0] + flow.interval]) >= 1).all()


def test_occupancy_counts_words_of_several_frames() -> None:
    found = flows(diamond(4, (4, 4, 4), (50, 50, 2)), False)
    (flow,) = (flow for link, flow in found.items() if link.source == Value("fork", 1))
    assert flow.interval == 4
    assert flow.occupancy() > 100


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.integers(0, 30))
def test_occupancy_is_the_most_words_at_one_time(gaps: list[int], wait: int) -> None:
    times = np.cumsum(gaps)
    interval = int(times[-1])
    flow = Flow(interval, times, times + 1 + wait, 0, 1)
    frames = np.arange(40)[:, None] * interval
    pushed, popped = (flow.pushed + frames).ravel(), (flow.popped + frames).ravel()
    middle = pushed[len(pushed) // 2 :]
    held = [int((pushed <= t).sum() - (popped < t).sum()) for t in middle]
    assert flow.occupancy() == max(held)
    assert Flow(interval, times, times + 1 + wait, 2, 1).occupancy() == max(flow.occupancy() - 2, 0)


def test_default_programme_reads_at_once_and_writes_evenly() -> None:
    times = token_times(worker([3], [2], 12, 6))
    assert times.reads[0].tolist() == [0, 1, 2]
    assert times.writes[0].tolist() == [5, 11]
    assert times.delay == 1


def test_a_place_is_found_early_by_the_length_of_the_pipeline() -> None:
    times = np.arange(8) * 3
    assert [Flow(24, times, times + 2, 0, delay).occupancy() for delay in (1, 4, 5, 8)] == [1, 1, 2, 3]


def test_first_frame_latency_adds_what_each_layer_waits_for() -> None:
    one, two = chain([4, 4], [4], [10]), chain([4, 4, 4], [4, 4], [10, 10])
    assert first_frame(one).latency >= 10 + 3
    assert first_frame(two).latency >= first_frame(one).latency + 10


def too_much(*_: object) -> object:
    return np.empty(2**50)


def test_layers_whose_schedule_needs_too_much_memory_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain([8, 8], [8], [2])
    message = r"node 'w0' \(Worker\): there is not enough memory for the times of the 8 words of a frame"
    monkeypatch.setattr(Flow, "occupancy", too_much)
    with pytest.raises(ModelError, match=message.replace("w0", "w1")):  # the link to the second
        fifo_depths(chain([8, 8, 8], [8, 8], [2, 2]))
    monkeypatch.setattr(Worker, "resources", too_much)
    with pytest.raises(ModelError, match=message):
        solve_folding(graph)
    with pytest.raises(ModelError, match=message):
        performance(graph)
    monkeypatch.setattr(tokens, "_default_times", too_much)
    for scheduled in (fifo_depths, first_frame):
        with pytest.raises(ModelError, match=message):
            scheduled(graph)
