"""Where a simulated design spends its time: how busy every layer is, and how full every FIFO, over a few frames."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from headrace.bounded_text import kept_text
from headrace.build.arrays import check_feeds
from headrace.build.journal import Journal
from headrace.build.verify import compare_simulation, random_frames
from headrace.errors import InputError
from headrace.ir import Array, Value
from headrace.layers.fifo import FIFO
from headrace.schedule.streams import Link, layers, links

if TYPE_CHECKING:
    from headrace.build.design import Design
    from headrace.build.simulate import Simulation

FILE = "report/rtlsim_profile.json"
"""Where a build keeps it."""

BINS = 120
"""Spans of time that a profile tells apart."""

Cycles = NDArray[np.int64]


@dataclass(frozen=True)
class LayerActivity:
    """One layer.

    Attributes:
        name, kind: of the layer.
        busy: in each span, the share of its cycles in which it worked at its own pace (the rest it waited).
        done, expected_done: cycles from the first word that entered the design to the last word of the first frame out
            of this layer, measured and of the performance model.
    """

    name: str
    kind: str
    busy: Sequence[float]
    done: int
    expected_done: int

    @property
    def mean(self) -> float:
        """Over the whole time."""
        return sum(self.busy) / max(len(self.busy), 1)


@dataclass(frozen=True)
class Occupancy:
    """One FIFO: its depth and width, the most words in it, and the most in each span."""

    name: str
    depth: int
    word_bits: int
    largest: int
    curve: Sequence[int]


@dataclass(frozen=True)
class Profile:
    """Of one simulation.

    Attributes:
        digest: of the design's files.
        frames: that were simulated, one after the other as fast as they are taken.
        cycles: of the whole run; a span is ``cycles / BINS``.
        interval, latency: measured, in cycles; the interval is None for a single frame.
        expected_interval, expected_latency: of the performance model.
        activity: of the layers that compute, in topological order.
        fifos: in topological order.
    """

    digest: str
    frames: int
    cycles: int
    interval: float | None
    latency: int
    expected_interval: int
    expected_latency: int
    activity: Sequence[LayerActivity]
    fifos: Sequence[Occupancy]

    def json(self) -> str:
        """Text of the file."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Profile:
        """The inverse of :meth:`json`.

        Raises:
            ValueError: when *text* is something else.
        """
        return TypeAdapter(cls).validate_json(text)


def read_profile(folder: Path, digest: str) -> Profile | None:
    """The profile that a build kept of the design with *digest*, or None."""
    try:
        found = Profile.from_json(kept_text(folder / FILE))
    except (OSError, ValueError):
        return None
    return found if found.digest == digest else None


def profile_build(
    design: Design, feeds: Mapping[str, Array] | None, frames: int, origin: str, journal: Journal
) -> Profile:
    """Simulate a design that was built, write its profile, and show it in the report.

    Args:
        design: as :func:`headrace.load` opens it from the folder of a build.
        feeds: arrays for the model's inputs; *frames* random ones when None.
        frames: number of these.
        origin: what messages call the feeds.
        journal: told of the steps.

    Raises:
        InputError: when nothing was built, or the feeds do not fit.
        ToolError, VerificationError: as :meth:`Design.simulate`, and when a stream differs from the layers' arithmetic.
    """
    from headrace.build.report import add_to_report

    folder = design.built_folder("profile")
    given = random_frames(design.source, frames, 0) if feeds is None else check_feeds(design.source, feeds, origin)
    simulation = design.simulate(given, journal=journal, trace=True)
    with journal.step("compare") as note:
        compared = compare_simulation(design, given, simulation)
        note(f"{sum(c.values for c in compared):,} values of {len(compared)} streams equal")
    found = profile_of(design, simulation)
    add_to_report(design, folder, {FILE: found.json()})
    return found


def profile_of(design: Design, simulation: Simulation) -> Profile:
    """The profile of a simulation with every stream traced.

    Raises:
        InputError: when the streams were not traced.
    """
    result, expected = simulation.result, design.performance
    stamps = {name: np.sort(times.reshape(-1)).astype(np.int64) for name, times in result.time_stamps.items()}
    if not set(design.plan.streams.values()) <= {*stamps, *result.outputs}:
        raise InputError("a profile needs a simulation with trace=True")
    times = _times(design, stamps)
    frames = max(len(times_) for times_ in result.time_stamps.values())
    edges = np.linspace(0, result.cycles, BINS + 1)
    intervals = [value for value in result.interval.values() if value is not None]
    start = min(int(stamps[port.name][0]) for port in design.hardware.inputs)
    expected_done = {row.name: row.done for row in expected.layers}
    activity, fifos = [], []
    for node, layer in layers(design.hardware.graph).items():
        if isinstance(layer, FIFO):
            fifos.append(_occupancy(node, layer, times.read[node], times.written[node], edges))
        elif layer.folding_choices:
            written, words = times.written[node], layer.outputs[0].words
            busy = _busy(written, layer.cycles / words, edges)
            done = int(written[words - 1]) - start
            activity.append(LayerActivity(node, layer.kind, busy, done, expected_done[node]))
    return Profile(
        digest=design.plan.digest,
        frames=frames,
        cycles=result.cycles,
        interval=max(intervals) if intervals else None,
        latency=result.first_frame_latency,
        expected_interval=expected.interval,
        expected_latency=expected.latency,
        activity=activity,
        fifos=fifos,
    )


@dataclass(frozen=True)
class _Times:
    """Cycles in which each layer takes words of its first input, and gives words of its first output."""

    read: Mapping[str, Cycles]
    written: Mapping[str, Cycles]


def _times(design: Design, stamps: Mapping[str, Cycles]) -> _Times:
    hardware = design.hardware
    ports = {port.node: port.name for port in (*hardware.inputs, *hardware.outputs)}
    found = links(hardware.graph)

    def of(link: Link) -> Cycles:
        """When words move on a stream: traced, or at the boundary."""
        name = design.plan.streams.get((link.source.node, link.source.port))
        if name is None or name not in stamps:
            name = ports[link.target.node] if link.target.node in ports else ports[link.source.node]
        return stamps[name]

    read = {link.target.node: of(link) for link in found if link.target.port == 0}
    written = {link.source.node: of(link) for link in found if link.source == Value(link.source.node, 0)}
    return _Times(read, written)


def _busy(written: Cycles, pace: float, edges: NDArray[np.float64]) -> list[float]:
    """By span, the share of cycles that the words written there stand for, at *pace* cycles a word."""
    counts, _ = np.histogram(written, bins=edges)
    starts = np.maximum(written[:, None] - pace + 1, 0) if pace > edges[1] else None
    if starts is None:
        shares = counts * pace / np.diff(edges)
    else:  # a word takes longer than a span: its cycles lie before it
        ends = written[:, None] + 1.0
        overlap = np.minimum(ends, edges[None, 1:]) - np.maximum(starts, edges[None, :-1])
        shares = np.maximum(overlap, 0).sum(axis=0) / np.diff(edges)
    return [round(float(min(share, 1.0)), 3) for share in shares]


def _occupancy(node: str, fifo: FIFO, entered: Cycles, left: Cycles, edges: NDArray[np.float64]) -> Occupancy:
    """Words in a FIFO over time: those that entered and have not left."""
    moments = np.concatenate([entered, left])
    steps = np.concatenate([np.ones(len(entered), np.int64), -np.ones(len(left), np.int64)])
    order = np.lexsort((-steps, moments))  # within a cycle, what enters counts before what leaves
    level, moments = np.cumsum(steps[order]), moments[order]
    settled = np.append(moments[1:] != moments[:-1], True)  # the last event of each cycle
    at, values = moments[settled], level[settled]
    curve = []
    before = 0
    for start, end in itertools.pairwise(edges):
        inside = values[np.searchsorted(at, start) : np.searchsorted(at, end)]
        curve.append(int(max(before, inside.max(initial=0))))
        before = int(inside[-1]) if len(inside) else before
    return Occupancy(node, fifo.depth, fifo.stream.word_bits, int(values.max(initial=0)), curve)
