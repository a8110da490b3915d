"""Folding for a rate: every layer as small as the target allows, neighbours with words of one width where it pays.

A layer is offered every combination of its folding values that just meets the target. Between two layers whose words
differ a width converter is needed, which costs; the choices that cost least together, layers, converters and FIFOs,
are found exactly by variable elimination (:mod:`headrace.schedule.elimination`), branches included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headrace.errors import FoldingError
from headrace.ir import Graph
from headrace.layers.base import Resources
from headrace.schedule.choices import Choice, Limits, Offer, extreme
from headrace.schedule.cost import USUAL, Weights
from headrace.schedule.elimination import Costs, minimise
from headrace.schedule.greedy import WEIGHT_BITS, greedy_layer
from headrace.schedule.streams import Link, boundary_stream, layers, links, rebuild, within_memory
from headrace.schedule.widths import link_resources

PARALLELISM = 1024
"""Most operations a cycle that the default target asks for."""


def target_cycles(fps: float, clock_mhz: float) -> int:
    """Clock cycles a frame for *fps* frames a second at *clock_mhz*.

    Raises:
        FoldingError: when either is not positive or there would be less than a cycle per frame.
    """
    for name, value in (("target fps", fps), ("clock", clock_mhz)):
        if not (math.isfinite(value) and value > 0):
            raise FoldingError(f"the {name} must be a positive number, not {value}")
    cycles = int(clock_mhz * 1e6 / fps)
    if cycles < 1:
        raise FoldingError(f"{fps:,.10g} frames a second need more than one frame per cycle at {clock_mhz:g} MHz")
    return cycles


def default_target(graph: Graph, widest: int | None = None) -> int:
    """Cycles a frame when the user asks for no rate: moderately parallel.

    ``4 * sqrt(work)``, where work is the sum of the cycles of all layers folded completely, so that the parallelism
    grows with the network (an MLP of 60 thousand products gets about 60 multipliers, CNV about 1,000), bounded by
    :data:`PARALLELISM` and by the fastest that every layer can do.
    """
    found = layers(graph).values()
    work = sum(extreme(layer, min).cycles for layer in found)
    wanted = max(4 * math.isqrt(work), work // PARALLELISM)
    return max(wanted, fastest_target(graph, widest))


def fastest_target(graph: Graph, widest: int | None = None) -> int:
    """Fewest cycles a frame that every layer can do, where a PE reads at most *widest* bits of weights a cycle."""
    return max((Offer(layer, Limits(widest)).fastest for layer in layers(graph).values()), default=1)


@dataclass(frozen=True)
class Folded:
    """A folded graph, and what its layers, its width converters and a register slice a stream take."""

    graph: Graph
    resources: Resources

    @property
    def cycles(self) -> int:
        """A frame takes in the slowest layer."""
        return max((layer.cycles for layer in layers(self.graph).values()), default=1)

    def same(self, other: Folded) -> bool:
        """Whether every layer is folded as in *other*, of the same problem."""
        mine, theirs = layers(self.graph), layers(other.graph)
        return all(layer.folding == theirs[node].folding for node, layer in mine.items())


class FoldingProblem:
    """The folding of one graph for several targets and weights: what does not depend on them is computed once.

    Args:
        graph: layers in any folding; without width converters and FIFOs.
        limits: widths that no layer may exceed.
    """

    def __init__(self, graph: Graph, limits: Limits | None = None) -> None:
        self.graph = graph
        self.offers = {node: Offer(layer, limits or Limits()) for node, layer in layers(graph).items()}
        edges = links(graph)
        self.inner = [e for e in edges if e.source.node in self.offers and e.target.node in self.offers]
        self.outer = [e for e in edges if e not in set(self.inner)]
        self._greedy: dict[int, dict[str, Choice] | None] = {}

    @property
    def range(self) -> tuple[int, int]:
        """Cycles a frame of the graph unfolded and folded as far as the layers allow."""
        fastest = max((offer.fastest for offer in self.offers.values()), default=1)
        return fastest, max((extreme(offer.layer, min).cycles for offer in self.offers.values()), default=1)

    def solve(self, target: int, weights: Weights = USUAL) -> Folded:
        """The cheapest folding in which no layer takes more than *target* cycles a frame.

        Raises:
            FoldingError: when a layer cannot meet it even fully unfolded; names the slowest.
        """
        self._check_reachable(target)
        rule = self._greedy_choices(target)
        choices = {}
        for node, offer in self.offers.items():
            with within_memory(node, offer.layer):
                choices[node] = offer.best(target, weights.cost, [rule[node]] if rule else [])
        single = {node: np.array([weights.cost(c.resources) for c in found]) for node, found in choices.items()}
        pairs: dict[tuple[str, str], Costs] = {}
        for link in self.inner:
            ends = (link.source.node, link.target.node)
            pairs[ends] = pairs.get(ends, 0.0) + _link_costs(link, choices[ends[0]], choices[ends[1]], weights)
        return self._folded({node: choices[node][index] for node, index in minimise(single, pairs).items()})

    def greedy(self, target: int) -> Folded | None:
        """The folding that FINN's greedy rule gives for *target*; None where that does not meet the target."""
        choices = self._greedy_choices(target)
        return self._folded(choices) if choices is not None else None

    def _greedy_choices(self, target: int) -> dict[str, Choice] | None:
        if target not in self._greedy:
            met = {}
            for node, offer in self.offers.items():
                with within_memory(node, offer.layer):
                    choice = _greedy_choice(offer, target)
                if choice is not None:
                    met[node] = choice
            self._greedy[target] = met if len(met) == len(self.offers) else None
        return self._greedy[target]

    def _folded(self, picked: Mapping[str, Choice]) -> Folded:
        """The graph with these choices, priced."""
        total = sum((choice.resources for choice in picked.values()), Resources())
        total = sum((_link_resources(link, picked) for link in self.inner), total)
        folded = rebuild(self.graph, {node: choice.layer for node, choice in picked.items()})
        slices = (boundary_stream(folded, link) for link in self.outer)
        total = sum((link_resources(s.range, s.frame_elements, s.elements, s.elements) for s in slices), total)
        return Folded(folded, total)

    def _check_reachable(self, target: int) -> None:
        if not self.offers:
            return
        slowest = max(self.offers, key=lambda node: self.offers[node].fastest)
        fastest, kind = self.offers[slowest].fastest, self.offers[slowest].layer.kind
        if fastest > target:
            raise FoldingError(
                f"layer '{slowest}' ({kind}): {target} cycles a frame cannot be reached; it takes "
                f"{fastest} even {self.offers[slowest].limits}, so the target must allow that many"
            )


def _greedy_choice(offer: Offer, target: int) -> Choice | None:
    """What the greedy rule makes of a layer, if that meets *target* and the limits."""
    layer = greedy_layer(offer.layer, target, offer.limits.weight_bits_a_pe or WEIGHT_BITS)
    return offer.folded(tuple(layer.folding.values())) if layer.cycles <= target else None


def _link_costs(link: Link, sources: list[Choice], targets: list[Choice], weights: Weights) -> Costs:
    written = [c.layer.outputs[link.source.port] for c in sources]
    read = [c.layer.inputs[link.target.port].elements for c in targets]
    known = {
        (w, r): weights.cost(link_resources(stream.range, stream.frame_elements, w, r))
        for w, stream in {s.elements: s for s in written}.items()
        for r in set(read)
    }
    return np.array([[known[stream.elements, r] for r in read] for stream in written])


def _link_resources(link: Link, picked: Mapping[str, Choice]) -> Resources:
    written = picked[link.source.node].layer.outputs[link.source.port]
    read = picked[link.target.node].layer.inputs[link.target.port]
    return link_resources(written.range, written.frame_elements, written.elements, read.elements)
