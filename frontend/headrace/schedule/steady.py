"""A model of the whole graph, word by word: when every word is written and read once a steady rate is reached.

Every layer runs through its programme (:mod:`headrace.schedule.tokens`), all of them at the pace of the slowest. Times
then repeat with one period, the interval of the slowest layer, and one frame tells everything.

The times form an admissible schedule: no word is read before it is written. So if every FIFO holds the words that this
schedule keeps in it, the hardware, in which every layer runs as early as it can, is never later than the schedule
(firing earlier never delays a firing of a dataflow graph): the slowest layer keeps its rate, and nothing deadlocks
however the branches of the graph differ in latency. One thing is not elastic, the pipeline inside a layer: while its
first word finds no place, it does not close up, so what follows can be late by as much as the pipeline is long. Places
in a FIFO therefore become free so much earlier than the words for them come.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.ir import Graph
from headrace.layers.fifo import FIFO
from headrace.schedule.passing import passing_links
from headrace.schedule.streams import Link, layers, links, within_memory
from headrace.schedule.tokens import Times, TokenTimes, token_times

LINK_LATENCY = 2
"""Most cycles that a FIFO between two layers adds to a word; a shallow one adds one."""


@dataclass(frozen=True, eq=False)
class Flow:
    """The words of one link in steady state: word k of frame f moves at the given time plus ``f * interval``.

    Attributes:
        interval: cycles between frames.
        pushed: when each word is written into the link.
        popped: when the place of each word is free again: when it is read, or given up by a buffer of the reader.
        room: words of that buffer.
        delay: length of the pipeline of the writer.
    """

    interval: int
    pushed: Times
    popped: Times
    room: int
    delay: int

    def occupancy(self) -> int:
        """Most words that must find a place in the link at one time.

        With so many places, the word that is as many further enters after each one has left; a word that leaves in the
        same cycle still takes its place. The word after that one may be as far behind in the pipeline of the writer as
        this is long.
        """
        words = _smallest(lambda words: self._after(words, 0))
        if self.delay > 1:
            words = max(words, _smallest(lambda words: self._after(words + 1, self.delay - 1)))
        return max(words - self.room, 0)

    def _after(self, words: int, cycles: int) -> bool:
        """Whether the word that is *words* further enters more than *cycles* after each one has left."""
        frames, rest = divmod(words, len(self.pushed))
        entered = self.pushed + (frames * self.interval - cycles)
        if (entered[rest:] <= self.popped[: len(entered) - rest]).any():
            return False
        return rest == 0 or not (entered[:rest] + self.interval <= self.popped[len(entered) - rest :]).any()


def _smallest(enough: Callable[[int], bool]) -> int:
    """The smallest number from 1 on that is *enough*, as all larger ones then are; most are small."""
    high = 1
    while not enough(high):
        high *= 2
    low = high // 2  # not enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class Pace:
    """What a schedule is like; all are admissible, and which of them needs least memory depends on the graph.

    Attributes:
        even: whether layers that are faster than the slowest spread their work over the interval, or do it as soon as
            they can and rest.
        relays: whether what a pipeline can lose is made up for at its end, past all the layers that hand on a word in
            every cycle, or behind each of them.
        latency: most cycles that a link adds to a word, where it is not one; a link without a FIFO adds none.
    """

    even: bool
    relays: bool = True
    latency: Mapping[Link, int] = field(default_factory=dict)


@dataclass(eq=False)
class Walk:
    """One schedule in the making: layers come in topological order, and leave the flows that they complete.

    Attributes:
        interval: cycles between frames.
        pace: how they work.
    """

    interval: int
    pace: Pace
    _pushed: dict[Link, tuple[Times, int]] = field(default_factory=dict)

    def visit(
        self, times: TokenTimes, incoming: Sequence[Link], outgoing: Sequence[Link]
    ) -> Iterator[tuple[Link, Flow]]:
        """Run a layer; what it reads from a graph input, where words are there when they are wanted, is no flow."""
        if times.relays and incoming[0] in self._pushed and self._hands_on(incoming[0]):
            yield self._relay(times, incoming[0], outgoing)
            return
        even = self.pace.even
        pace = _spread(times.cycles, self.interval) if even else _as_it_is
        reads = [pace(times.reads[link.target.port]) for link in incoming]
        arrivals = {
            link: (at, self._pushed[link][0] + self.pace.latency.get(link, 1))
            for link, at in zip(incoming, reads, strict=True)
            if link in self._pushed
        }
        offset = _offsets(_demands(arrivals.values()), 0 if even else self.interval - times.cycles)
        for link in outgoing:
            local = pace(times.writes[link.source.port])
            self._pushed[link] = local + offset(local) + times.delay, times.delay
        for link, (at, _) in arrivals.items():
            room = times.room[link.target.port]
            pushed, delay = self._pushed.pop(link)
            free = pace(times.frees[link.target.port]) if room else at
            popped = free + offset(free)
            yield link, Flow(self.interval, pushed, self._one_by_one(popped) if room else popped, room, delay)

    def _hands_on(self, incoming: Link) -> bool:
        """Whether the pipeline behind *incoming* moves together with the one before; without a FIFO it has to."""
        return self.pace.relays or not self.pace.latency.get(incoming, 1)

    def _relay(self, times: TokenTimes, incoming: Link, outgoing: Sequence[Link]) -> tuple[Link, Flow]:
        """Hand every word on as it comes, as the end of the pipeline before: the link on the way waits for nothing, and
        what the pipeline can lose is made up for behind it, where words are narrower as a rule."""
        pushed, delay = self._pushed.pop(incoming)
        passed = self.pace.latency.get(incoming, 1)
        through = passed + int(times.writes[0][0] - times.reads[0][0]) + times.delay
        for link in outgoing:
            self._pushed[link] = pushed + through, delay + through
        return incoming, Flow(self.interval, pushed, pushed + passed, 0, 1)

    def _one_by_one(self, popped: Times) -> Times:
        """Places of a buffer may become free together; words move up one a cycle."""
        index = np.arange(len(popped))
        running = np.maximum.accumulate(popped - index)
        moved: Times = np.maximum(running, running[-1] - (self.interval - len(popped))) + index
        return moved


def steady_flows(
    graph: Graph, paces: Sequence[Pace], given_up: Collection[int] = ()
) -> Iterator[tuple[int, Link, Flow]]:
    """The flows of all links between layers of *graph*, for schedules that are made side by side.

    Args:
        graph: layers in their final folding, without FIFOs.
        paces: one per schedule.
        given_up: numbers of schedules that are not continued; there may be more each time.

    Yields:
        The number of the schedule, the link, and its flow in that schedule. No flow is kept here.
    """
    found = layers(graph)
    interval = max((layer.cycles for layer in found.values()), default=1)
    walks = [Walk(interval, pace) for pace in paces]
    incoming, outgoing = _by_node(links(graph))
    for node, layer in found.items():
        with within_memory(node, layer):
            times = token_times(layer)
            for number, walk in enumerate(walks):
                if number in given_up:
                    continue
                for link, flow in walk.visit(times, incoming[node], outgoing.get(node, ())):
                    yield number, link, flow


@dataclass(frozen=True)
class FirstFrame:
    """The first frame through the empty design, in cycles from its first word in.

    Attributes:
        done: by layer, when the last word leaves it.
        latency: when the last word leaves the design.
    """

    done: Mapping[str, int]
    latency: int


def first_frame(graph: Graph) -> FirstFrame:
    """When the first frame leaves every layer of *graph*, and the design.

    A link that has no FIFO and will get one counts for the cycle that a shallow one takes.
    """
    wires = passing_links(graph)
    pushed: dict[Link, Times] = {}
    incoming, outgoing = _by_node(links(graph))
    found = layers(graph)
    done: dict[str, int] = {}
    end = 0
    for node, layer in found.items():
        with within_memory(node, layer):
            supply = {link: (pushed.pop(link, None), _passage(graph, link, wires)) for link in incoming[node]}
            written = _first_words(token_times(layer), supply, outgoing.get(node, ()))
        pushed |= written
        for link, times in written.items():
            done[node] = max(done.get(node, 0), int(times[-1]))
            if link.target.node not in found:
                end = max(end, done[node] + _passage(graph, link, wires))
    return FirstFrame(done, end)


def _first_words(
    times: TokenTimes, supply: Mapping[Link, tuple[Times | None, int]], outgoing: Sequence[Link]
) -> dict[Link, Times]:
    """When a layer that has not run before writes its words, by link.

    Args:
        times: of the layer.
        supply: by link, when each word is written into it, which is one a cycle for None, and the way from there.
        outgoing: the links that it writes.
    """
    arrivals = []
    for link, (there, passage) in supply.items():
        at = times.reads[link.target.port]
        arrivals.append((at, (np.arange(len(at)) if there is None else there) + passage))
    offset = _offsets(_demands(arrivals), None)
    writes = {link: times.writes[link.source.port] for link in outgoing}
    return {link: local + offset(local) + times.delay for link, local in writes.items()}


def _passage(graph: Graph, link: Link, passing: Collection[Link]) -> int:
    """Cycles that a word takes from one end of *link* to the other."""
    ends = (graph.op(link.source.node), graph.op(link.target.node))
    return 0 if link in passing or any(isinstance(op, FIFO) for op in ends) else 1


def _by_node(edges: Sequence[Link]) -> tuple[dict[str, list[Link]], dict[str, list[Link]]]:
    incoming: dict[str, list[Link]] = {}
    outgoing: dict[str, list[Link]] = {}
    for link in edges:
        incoming.setdefault(link.target.node, []).append(link)
        outgoing.setdefault(link.source.node, []).append(link)
    return incoming, outgoing


def _as_it_is(local: Times) -> Times:
    return local


def _spread(cycles: int, interval: int) -> Callable[[Times], Times]:
    """Local cycles of a programme of *cycles*, spread over *interval*."""
    return lambda local: local * interval // cycles


def _demands(arrivals: Collection[tuple[Times, Times]]) -> tuple[Times, Times]:
    """Every read of a layer in local order: its local cycle, and how far the clock must lag for the word to be there.

    A read at local cycle 0 that needs nothing comes first.

    Args:
        arrivals: per input, the local cycle of every read, and when the word is there.
    """
    zero = np.zeros(1, np.int64)
    where = np.concatenate([zero, *(at for at, _ in arrivals)])
    lag = np.concatenate([zero, *(there - at for at, there in arrivals)])
    if len(arrivals) <= 1:
        return where, lag
    order = np.argsort(where, kind="stable")
    return where[order], lag[order]


def _offsets(demands: tuple[Times, Times], slack: int | None) -> Callable[[Times], Times]:
    """How far a layer's clock lags behind its local cycles, as a function of them.

    The lag is the largest one demanded so far; *slack*, the cycles that the layer rests each frame, is caught up before
    the next. Without slack given, there was no frame before.
    """
    where, lag = demands
    running = np.maximum.accumulate(lag)
    if slack is not None:
        running = np.maximum(running, running[-1] - slack)

    def offset(local: Times) -> Times:
        if running[0] == running[-1]:
            return running[:1]
        return running[np.searchsorted(where, local, side="right") - 1]

    return offset
