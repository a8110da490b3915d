"""A model of the whole graph, word by word: when every word is written and read once a steady rate is reached.

Every layer is seen as a local clock that runs through the same programme each frame: at local cycle ``reads[p][k]`` it
takes word k of input p (and stands still until the word is there), at ``writes[p][k]`` it does the last operation for
word k of output p, which is offered ``delay`` cycles later. All layers run at the pace of the slowest. Times then
repeat with one period, the interval of the slowest layer, and one frame tells everything.

The times form an admissible schedule: no word is read before it is written. So if every FIFO holds the words that this
schedule keeps in it, the hardware, in which every layer runs as early as it can, is never later than the schedule
(firing earlier never delays a firing of a dataflow graph): the slowest layer keeps its rate, and nothing deadlocks
however the branches of the graph differ in latency. One thing is not elastic, the pipeline inside a layer: while its
first word finds no place, it does not close up, so what follows can be late by as much as the pipeline is long. A FIFO
therefore holds in addition what its reader takes in that time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headrace.ir import Graph
from headrace.layers.base import Layer
from headrace.schedule.streams import Link, layers, links

Times = NDArray[np.int64]

LINK_LATENCY = 2
"""Most cycles that a FIFO between two layers adds to a word."""


@dataclass(frozen=True, eq=False)
class TokenTimes:
    """The programme of a layer for one frame, in local cycles from 0 to ``cycles - 1``, ascending.

    Attributes:
        cycles: local cycles a frame.
        reads: per input, when each word is needed.
        writes: per output, when the last operation for each word is done.
        ahead: per input, how many words the layer takes into a buffer of its own before it needs them.
        delay: cycles from that operation to the word being offered; a missing input does not hold it up.
    """

    cycles: int
    reads: tuple[Times, ...]
    writes: tuple[Times, ...]
    ahead: tuple[int, ...]
    delay: int


@runtime_checkable
class TokenTimed(Protocol):
    """A layer that knows its own programme.

    ``token_times()`` returns ``(reads, writes, ahead)`` as in :class:`TokenTimes`. No read may be earlier than the
    hardware takes the word when it is there and everything went as the programme says, no write earlier than it
    achieves then, and ``ahead`` no more than is always free; the delay follows from ``latency``.
    """

    def token_times(self) -> tuple[Sequence[Times], Sequence[Times], Sequence[int]]: ...


def token_times(layer: Layer) -> TokenTimes:
    """The programme of *layer*: its own, or one that follows from its cycles, words and latency."""
    if isinstance(layer, TokenTimed):
        reads, writes, ahead = layer.token_times()
    else:
        reads, writes, ahead = _default_times(layer)
    first = min((int(w[0]) for w in writes), default=0) - min((int(r[0]) for r in reads), default=0)
    return TokenTimes(layer.cycles, tuple(reads), tuple(writes), tuple(ahead), max(layer.latency - first, 1))


def _default_times(layer: Layer) -> tuple[list[Times], list[Times], list[int]]:
    """Vector by vector: words are written evenly; they are read evenly too, unless the layer takes more cycles than it
    has words on either side, when it is taken to read a vector at once and to work on it afterwards. The whole latency
    is taken to be time that the layer waits for words, as in a layer that looks at windows of an image."""
    streams = (*layer.inputs, *layer.outputs)
    vectors = math.gcd(layer.cycles, *(s.frame_elements // s.shape[-1] for s in streams))
    length = layer.cycles // vectors
    at_once = length > max(s.words for s in streams) // vectors
    offsets = np.arange(vectors, dtype=np.int64)[:, None] * length

    def reads(words: int) -> Times:
        k = np.arange(words, dtype=np.int64)
        return np.asarray(offsets + (k if at_once else k * length // words)).ravel()

    def writes(words: int) -> Times:
        k = np.arange(words, dtype=np.int64)
        pattern = np.asarray(offsets + ((k + 1) * length - 1) // words).ravel()
        return pattern + max(layer.latency - 1 - int(pattern[0]), 0)

    taken, given = [s.words // vectors for s in layer.inputs], [s.words // vectors for s in layer.outputs]
    return [reads(n) for n in taken], [writes(n) for n in given], [0] * len(taken)


@dataclass(frozen=True, eq=False)
class Schedule:
    """When words move, in steady state: word k of frame f at the given time plus ``f * interval``.

    Attributes:
        interval: cycles between frames.
        pushed: per link, when each word is written into it; absent for links from a graph input, where words are
            there when they are wanted.
        popped: per link, when each word is needed; absent for links to a graph output, where they go at once.
        ahead: per link, how many words the reader has taken before it needs them.
        delay: per link, length of the pipeline of the writer.
    """

    interval: int
    pushed: Mapping[Link, Times]
    popped: Mapping[Link, Times]
    ahead: Mapping[Link, int]
    delay: Mapping[Link, int]

    def occupancy(self, link: Link) -> int:
        """Most words that must find a place in *link* at one time; 0 at the boundary of the design."""
        if link not in self.pushed or link not in self.popped:
            return 0
        pushed, popped = self.pushed[link], self.popped[link]
        before = pushed - 1  # a word that leaves in the same cycle still takes its place
        frames = int(before[0] - popped[0]) // self.interval
        twice = np.concatenate([popped + frames * self.interval, popped + (frames + 1) * self.interval])
        gone = frames * len(popped) + np.searchsorted(twice, before, side="right")
        waiting = int((np.arange(1, len(pushed) + 1) - gone).max())
        return max(waiting + self._taken_within(popped, self.delay[link] - 1) - self.ahead[link], 0)

    def _taken_within(self, popped: Times, cycles: int) -> int:
        """Most words that are read in any *cycles* cycles."""
        frames, rest = divmod(cycles, self.interval)
        words = len(popped)
        twice = np.concatenate([popped, popped + self.interval])
        count = 0
        while count < min(rest, words) and (twice[count : count + words] - popped < rest).any():
            count += 1
        return frames * words + count


def programmes(graph: Graph) -> dict[str, TokenTimes]:
    """The programme of every layer of *graph*, in topological order."""
    return {node: token_times(layer) for node, layer in layers(graph).items()}


def steady_schedule(graph: Graph, even: bool, known: Mapping[str, TokenTimes] | None = None) -> Schedule:
    """The schedule of *graph* in steady state.

    Args:
        graph: layers in their final folding, without FIFOs.
        known: the :func:`programmes` of *graph*, when they are needed more than once.
        even: whether layers that are faster than the slowest spread their work over the interval, or do it as soon as
            they can and rest. Both are admissible; which of them needs less memory depends on the graph.
    """
    found = programmes(graph) if known is None else known
    interval = max((times.cycles for times in found.values()), default=1)
    pushed: dict[Link, Times] = {}
    popped: dict[Link, Times] = {}
    ahead: dict[Link, int] = {}
    delay: dict[Link, int] = {}
    incoming, outgoing = _by_node(links(graph))
    for node, times in found.items():
        pace = _spread(times.cycles, interval) if even else _as_it_is
        cycles = interval if even else times.cycles
        arrivals = _arrivals(incoming[node], pushed, times, pace)
        offset = _offsets(arrivals, interval - cycles)
        for link in incoming[node]:
            local = pace(times.reads[link.target.port])
            popped[link] = local + offset(local)
            ahead[link] = times.ahead[link.target.port]
        for link in outgoing.get(node, ()):
            local = pace(times.writes[link.source.port])
            pushed[link] = local + offset(local) + times.delay
            delay[link] = times.delay
    return Schedule(interval, pushed, popped, ahead, delay)


def first_frame_latency(graph: Graph) -> int:
    """Cycles from the first word that enters the empty design to the last word of the first frame that leaves it."""
    pushed: dict[Link, Times] = {}
    incoming, outgoing = _by_node(links(graph))
    end = 0
    for node, times in programmes(graph).items():
        supply = {
            link: pushed[link] if link in pushed else np.arange(len(times.reads[link.target.port]), dtype=np.int64)
            for link in incoming[node]
        }
        offset = _offsets(_arrivals(incoming[node], supply, times, _as_it_is), None)
        for link in outgoing.get(node, ()):
            local = times.writes[link.source.port]
            pushed[link] = local + offset(local) + times.delay
            end = max(end, int(pushed[link][-1]) + LINK_LATENCY)
    return end


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


def _arrivals(
    incoming: Sequence[Link], pushed: Mapping[Link, Times], times: TokenTimes, pace: Callable[[Times], Times]
) -> tuple[Times, Times]:
    """Every read of a layer in local order: its local cycle, and how far the clock must lag for the word to be there.

    A read at local cycle 0 that needs nothing comes first.
    """
    local, lag = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)]
    for link in incoming:
        if link in pushed:
            at = pace(times.reads[link.target.port])
            local.append(at)
            lag.append(pushed[link] + LINK_LATENCY - at)
    where, lags = np.concatenate(local), np.concatenate(lag)
    if len(local) <= 2:
        return where, lags
    order = np.argsort(where, kind="stable")
    return where[order], lags[order]


def _offsets(arrivals: tuple[Times, Times], slack: int | None) -> Callable[[Times], Times]:
    """How far a layer's clock lags behind its local cycles, as a function of them.

    The lag is the largest one demanded so far; *slack*, the cycles that the layer rests each frame, is caught up before
    the next. Without slack given, there was no frame before.
    """
    where, lag = arrivals
    running = np.maximum.accumulate(lag)
    if slack is not None:
        running = np.maximum(running, running[-1] - slack)

    def offset(local: Times) -> Times:
        if running[0] == running[-1]:
            return running[:1]
        return running[np.searchsorted(where, local, side="right") - 1]

    return offset
