"""A cycle-by-cycle simulation of layers and bounded FIFOs, written independently of the schedule that it checks."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar

from headrace.ir import Array, Graph, IntRange
from headrace.layers.base import Layer, Resources, RtlModule, StreamType
from headrace.layers.fifo import FIFO
from headrace.layers.programme import Programme
from headrace.schedule.steady import first_frame
from headrace.schedule.streams import Link, boundary_stream, layers, links
from headrace.schedule.tokens import TokenTimes, token_times


@dataclass(frozen=True, eq=False)
class Worker(Layer):
    """A layer of any rhythm; its values do not matter."""

    kind: ClassVar[str] = "Worker"

    reads: tuple[StreamType, ...]
    writes: tuple[StreamType, ...]
    work: int
    wait: int = 2

    @property
    def inputs(self) -> tuple[StreamType, ...]:
        return self.reads

    @property
    def outputs(self) -> tuple[StreamType, ...]:
        return self.writes

    @property
    def cycles(self) -> int:
        return max(self.work, *(s.words for s in (*self.reads, *self.writes)))

    @property
    def latency(self) -> int:
        return self.wait

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        raise NotImplementedError

    def resources(self) -> Resources:
        return Resources()

    def rtl(self) -> RtlModule:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class PipelinedWorker(Worker):
    """A worker whose whole latency is a pipeline."""

    def programme(self) -> Programme:
        plain = token_times(Worker(self.reads, self.writes, self.work, 1))
        return Programme(plain.reads, plain.writes)


@dataclass(eq=False)
class _Fifo:
    """Words between two layers. Of a link that words pass at once, the output register of the writer is part."""

    capacity: int
    latency: int
    passing: bool
    words: deque[int] = field(default_factory=deque)  # the cycle in which each word came

    def full(self) -> bool:
        return len(self.words) >= self.capacity

    def ready(self, cycle: int) -> bool:
        return bool(self.words) and self.words[0] + self.latency <= cycle


@dataclass
class _Frame:
    """A frame in a layer: its local clock, and the next word of every stream."""

    clock: int
    position: list[int]


class _Actor:
    """A layer at work. A frame waits for its own words only, and no frame overtakes the one before."""

    def __init__(self, times: TokenTimes, inputs: list[_Fifo | None], outputs: list[_Fifo | None]) -> None:
        self.times = times
        self.programme = [(t.tolist(), fifo, None) for t, fifo in zip(times.reads, inputs, strict=True)]
        self.programme += [(t.tolist(), fifo, k) for k, (t, fifo) in enumerate(zip(times.writes, outputs, strict=True))]
        self.end = max(t[-1] for t, _, _ in self.programme)
        self.frames = deque([_Frame(0, [0] * len(self.programme))])
        self.pipe: deque[tuple[int, _Fifo | None]] = deque()  # results on their way out: cycles to go
        self.at_once = [f for f in outputs if f is not None and f.passing and times.delay == 1]
        self.done: list[int] = []

    def step(self, cycle: int) -> None:
        moving = self._shift(cycle)
        ahead = None
        for frame in list(self.frames):
            if ahead is None or frame.clock + self.times.cycles < ahead:
                self._advance(frame, cycle, moving)
            ahead = frame.clock
        if self.frames[-1].clock >= self.times.cycles:
            self.frames.append(_Frame(0, [0] * len(self.programme)))
        while self.frames[0].clock > self.end:
            self.frames.popleft()

    def _shift(self, cycle: int) -> bool:
        """Move the pipeline, unless its first word finds no place."""
        while self.pipe and self.pipe[0][0] <= 0:
            fifo = self.pipe[0][1]
            if fifo is not None and fifo.full():
                return False
            (self.done if fifo is None else fifo.words).append(cycle)
            self.pipe.popleft()
        self.pipe = deque((left - 1, fifo) for left, fifo in self.pipe)
        return not any(fifo.full() for fifo in self.at_once)

    def _advance(self, frame: _Frame, cycle: int, moving: bool) -> None:
        due = [
            k
            for k, (times, _, _) in enumerate(self.programme)
            if frame.position[k] < len(times) and times[frame.position[k]] == frame.clock
        ]
        if not moving and any(self.programme[k][2] is not None for k in due):
            return
        waiting = [self.programme[k][1] for k in due if self.programme[k][2] is None]
        if any(fifo is not None and not fifo.ready(cycle) for fifo in waiting):
            return
        for k in due:
            _, fifo, port = self.programme[k]
            frame.position[k] += 1
            if fifo in self.at_once:
                fifo.words.append(cycle)
            elif port is not None:
                self.pipe.append((self.times.delay - 1 - (fifo is not None and fifo.passing), fifo))
            elif fifo is not None:
                fifo.words.popleft()
        frame.clock += 1


def measured_interval(graph: Graph, depths: dict[Link, int]) -> float | None:
    """Cycles a frame that *graph* reaches with FIFOs of *depths*; None when it deadlocks."""
    edges = links(graph)
    found = layers(graph)
    fifos: dict[Link, _Fifo] = {}
    for link in edges:
        if link.source.node in found and link.target.node in found:
            passing = depths[link] <= 1
            latency = FIFO(boundary_stream(graph, link), depths[link]).latency
            fifos[link] = _Fifo(depths[link] + passing, 1 if passing else latency, passing)
    actors = {}
    for node, layer in found.items():
        into: list[_Fifo | None] = [None] * len(layer.inputs)
        out: list[_Fifo | None] = [None] * len(layer.outputs)
        for link in edges:
            if link.target.node == node:
                into[link.target.port] = fifos.get(link)
            if link.source.node == node:
                out[link.source.port] = fifos.get(link)
        actors[node] = _Actor(token_times(layer), into, out)
    (end,) = (link for link in edges if link.target.node in graph.outputs)
    words = found[end.source.node].outputs[end.source.port].words
    slowest = max(layer.cycles for layer in found.values())
    filling = 3 + 2 * first_frame(graph).latency // slowest  # frames until the rate is steady
    frames = filling + 5
    limit = slowest * (frames + 5) * 2
    last = actors[end.source.node]
    for cycle in range(limit):
        for actor in reversed(actors.values()):
            actor.step(cycle)
        if len(last.done) >= frames * words:
            ends = last.done[words - 1 :: words]
            return (ends[-1] - ends[filling]) / (len(ends) - 1 - filling)
    return None


def worker(reads: list[int], writes: list[int], work: int, wait: int = 2, pipelined: bool = False) -> Worker:
    """A worker on streams of so many one-bit words a frame."""

    def streams(words: list[int]) -> tuple[StreamType, ...]:
        return tuple(StreamType((n,), IntRange(0, 1)) for n in words)

    kind = PipelinedWorker if pipelined else Worker
    return kind(streams(reads), streams(writes), work, wait)
