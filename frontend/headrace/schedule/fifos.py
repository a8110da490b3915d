"""FIFOs: as deep as the schedule of the whole graph needs them, so that the slowest layer never waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.errors import FoldingError
from headrace.ir import Graph
from headrace.layers.base import Layer, StreamType
from headrace.layers.fifo import FIFO
from headrace.schedule.inserting import insert_layers
from headrace.schedule.passing import Depths, passing_links
from headrace.schedule.steady import LINK_LATENCY, Pace, steady_flows
from headrace.schedule.streams import Link, boundary_stream, layers, links, rebuild, target_stream, within_memory

SHALLOWEST = 2
"""Words of a FIFO that only cuts the combinational paths between two layers."""

ROUNDS = 6
"""Most times that a schedule is made; the last time, every FIFO is taken to be slow."""

LARGE = 256
"""Words from which on a FIFO that holds more is a large one, as in FINN: its memory has a setting of its own."""

HOPEFUL = 1.02
"""A schedule that does not hold and needs so many times the bits of the best is not made again."""

HOPELESS, SOME_BITS = 1.5, 4096
"""A schedule is given up when up to some layer it needs so many times the bits of the best, and so many more."""


@dataclass(frozen=True)
class Styles:
    """What FIFOs are to be made of (``ram_style``): some of them by link, of the others the large ones."""

    by_link: Mapping[Link, str] = field(default_factory=dict)
    large: str = "auto"

    def of(self, link: Link, depth: int) -> str:
        """The style of a FIFO of *depth* words."""
        return self.by_link.get(link) or (self.large if depth > LARGE else "auto")


@dataclass
class _Attempt:
    """A schedule in one pace: the links that it takes to be slow, and the depths that it needs.

    It holds when no FIFO is slower than was assumed.
    """

    even: bool
    relays: bool
    latency: dict[Link, int] = field(default_factory=dict)
    depths: Depths = field(default_factory=dict)

    def holds(self, streams: Mapping[Link, StreamType], styles: Styles) -> bool:
        """Whether the schedule holds; if not, the FIFOs that were taken to be faster than they are will be slow."""
        depths = self.depths.items()
        actual = {link: FIFO(streams[link], depth, styles.of(link, depth)).latency for link, depth in depths}
        slow = {link: cycles for link, cycles in actual.items() if cycles > self.latency.get(link, 1)}
        self.latency |= slow
        return not slow


def fifo_depths(graph: Graph, styles: Styles | None = None) -> Depths:
    """Words that each link of *graph* must hold, with FIFOs made in *styles*.

    Of the kinds of :class:`~headrace.schedule.steady.Pace`, all of which give schedules that are proven to be reached,
    the one that needs fewest bits is taken. A word passes a shallow FIFO faster than a deep one, and how long
    it takes decides how deep the FIFOs beside it must be: schedules are made again with the FIFOs that became deep.
    """
    styles = styles or Styles()
    streams = {link: boundary_stream(graph, link) for link in links(graph)}
    passing = passing_links(graph)
    at_once = dict.fromkeys(passing, 0)
    best: Depths = {}
    fewest: int | None = None
    attempts = [_Attempt(even, relays, dict(at_once)) for relays in (True, False) for even in (True, False)]
    for left in reversed(range(ROUNDS)):
        if left == 0:
            attempts = [replace(a, latency=dict.fromkeys(streams, LINK_LATENCY) | at_once) for a in attempts]
        _attempt(graph, attempts, streams)
        for attempt in attempts:
            attempt.depths |= passing
        open_ = []
        needed = [sum(d * streams[link].word_bits for link, d in a.depths.items()) for a in attempts]
        for attempt, bits in zip(attempts, needed, strict=True):
            if not attempt.holds(streams, styles):
                if bits <= HOPEFUL * min(needed) and (fewest is None or bits < fewest):
                    open_.append(attempt)
            elif fewest is None or bits < fewest:
                best, fewest = attempt.depths, bits
        attempts = open_
        if not attempts:
            break
    return best


def _attempt(graph: Graph, attempts: list[_Attempt], streams: Mapping[Link, StreamType]) -> None:
    """Make the schedules of *attempts*, side by side, note the depths that they need, and drop what is hopeless."""
    for attempt in attempts:
        attempt.depths = dict.fromkeys(streams, SHALLOWEST)
    bits = dict.fromkeys(range(len(attempts)), 0)
    given_up: set[int] = set()
    found = layers(graph)
    for number, link, flow in steady_flows(graph, [Pace(a.even, a.relays, a.latency) for a in attempts], given_up):
        with within_memory(link.target.node, found[link.target.node]):
            attempts[number].depths[link] = max(flow.occupancy(), SHALLOWEST)
        left = [k for k in bits if k not in given_up]
        if number == left[-1]:  # all have come to this link
            for k in left:
                bits[k] += attempts[k].depths[link] * streams[link].word_bits
            fewest = min(bits[k] for k in left)
            given_up |= {k for k in left if bits[k] > HOPELESS * fewest + SOME_BITS}
    attempts[:] = [attempt for number, attempt in enumerate(attempts) if number not in given_up]


def insert_fifos(graph: Graph, settings: Mapping[str, Mapping[str, str]] | None = None, large: str = "auto") -> Graph:
    """*graph* with a FIFO on every link that is not a mere wire, and the depths that :func:`fifo_depths` computes.

    Args:
        graph: folded layers and width converters.
        settings: ``ram_style`` of FIFOs by ``FIFO_number`` in topological order, with the node that was meant as
            ``layer`` where it is known, and for all others under ``FIFO``.
        large: ``ram_style`` of FIFOs of more than :data:`LARGE` words, where *settings* say nothing of them.

    Raises:
        FoldingError: when there is no FIFO of this number, or it is another one.
    """
    placed: dict[int, Link] = {}
    passing = passing_links(graph)

    def wanted(link: Link) -> tuple[Layer, ...]:
        if passing.get(link) == 0:
            return ()
        fifo = FIFO(target_stream(graph, link) or boundary_stream(graph, link))
        placed[id(fifo)] = link
        return (fifo,)

    whole = insert_layers(graph, wanted)
    found = fifos(whole)
    asked = _asked_styles([*found], settings or {})
    styles = Styles({placed[id(fifo)]: asked[node] for node, fifo in found.items()}, large)
    depths = fifo_depths(graph, styles)
    final = {}
    for node, fifo in found.items():
        link = placed[id(fifo)]
        final[node] = replace(fifo, depth=depths[link], ram_style=styles.of(link, depths[link]))
    return rebuild(whole, final)


def _asked_styles(nodes: Sequence[str], settings: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """``ram_style`` that *settings* ask for, of each of the FIFOs *nodes*; empty where they say nothing."""
    general = settings.get("FIFO", {}).get("ram_style", "")
    numbers = {f"FIFO_{number}": node for number, node in enumerate(nodes)}
    for key, values in settings.items():
        if key != "FIFO" and key not in numbers:
            raise FoldingError(f'key "{key}" of the folding: there are {len(nodes)} FIFOs, from FIFO_0 on')
        meant = values.get("layer")
        if meant is not None and meant != numbers.get(key):
            raise FoldingError(
                f"key \"{key}\" of the folding was written for FIFO '{meant}' but is now '{numbers[key]}'"
            )
    return {node: settings.get(key, {}).get("ram_style", general) for key, node in numbers.items()}


def fifos(graph: Graph) -> dict[str, FIFO]:
    """The FIFOs of *graph* by node, in topological order."""
    return {node: layer for node, layer in layers(graph).items() if isinstance(layer, FIFO)}
