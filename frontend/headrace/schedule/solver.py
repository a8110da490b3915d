"""Folding for a rate: every layer as small as the target allows, neighbours with words of one width where it pays.

A layer is offered every combination of its folding values that just meets the target. Between two layers whose words
differ a width converter is needed, which costs; so along each chain of layers the cheapest sequence of choices, layers
and converters together, is found by dynamic programming.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.errors import FoldingError
from headrace.ir import Graph
from headrace.layers.base import Layer, StreamType
from headrace.schedule.cost import cost
from headrace.schedule.streams import Link, layers, links, rebuild
from headrace.schedule.widths import converter_cost

SWEEPS = 8
"""Most rounds over all chains; two or three settle it in practice."""

SPARE = 2
"""Choices past the cheapest legal one that are offered per combination, in case a wider word saves a converter."""

OFFERED = 24
"""Most choices of one layer that are weighed against its neighbours'."""

PARALLELISM = 1024
"""Most operations a cycle that the default target asks for."""


@dataclass(frozen=True, eq=False)
class Choice:
    """A layer folded in one way, and what it costs in LUT equivalents."""

    layer: Layer
    cost: float


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
        raise FoldingError(f"{fps:g} frames a second need more than one frame per cycle at {clock_mhz:g} MHz")
    return cycles


def default_target(graph: Graph, widest: int | None = None) -> int:
    """Cycles a frame when the user asks for no rate: moderately parallel.

    ``4 * sqrt(work)``, where work is the sum of the cycles of all layers folded completely, so that the parallelism
    grows with the network (an MLP of 60 thousand products gets about 60 multipliers, CNV about 1,000), bounded by
    :data:`PARALLELISM` and by the fastest that every layer can do.
    """
    found = layers(graph).values()
    work = sum(_folded(layer, min).cycles for layer in found)
    wanted = max(4 * math.isqrt(work), work // PARALLELISM)
    return max(wanted, fastest_target(graph, widest))


def fastest_target(graph: Graph, widest: int | None = None) -> int:
    """Fewest cycles a frame that every layer can do; *widest* as in :func:`solve_folding`."""
    return max((_fastest(layer, widest).cycles for layer in layers(graph).values()), default=1)


def solve_folding(graph: Graph, target: int | None = None, widest: int | None = None) -> Graph:
    """*graph* with every layer folded so that it takes at most *target* cycles a frame, as cheaply as known.

    Args:
        graph: layers in any folding; without width converters and FIFOs.
        target: cycles a frame; :func:`default_target` when None.
        widest: most bits of weights that one PE reads a cycle, where a layer has a choice; None for any number.

    Raises:
        FoldingError: when a layer cannot meet the target even fully unfolded; names the slowest.
    """
    cycles = default_target(graph, widest) if target is None else target
    found = layers(graph)
    _check_reachable(found, cycles, widest)
    choices = {node: _choices(layer, cycles, widest) for node, layer in found.items()}
    picked = {node: options[0] for node, options in choices.items()}
    edges = [e for e in links(graph) if e.source.node in found and e.target.node in found]
    chains = _chains(list(found), edges)
    for _ in range(SWEEPS):
        before = dict(picked)
        for chain in chains:
            _settle(chain, choices, picked, edges)
        if all(before[node] is picked[node] for node in picked):
            break
    return rebuild(graph, {node: choice.layer for node, choice in picked.items()})


def _folded(layer: Layer, extreme: Callable[[Sequence[int]], int]) -> Layer:
    """*layer* with the smallest or largest of each of its folding values."""
    values = {name: extreme(options) for name, options in layer.folding_choices.items()}
    return layer.with_folding(**values) if values else layer


def _fastest(layer: Layer, widest: int | None) -> Layer:
    """*layer* folded for the fewest cycles, within *widest*."""
    names = {name: _allowed(layer, name, widest)[-1] for name in layer.folding_choices}
    return layer.with_folding(**names) if names else layer


def _allowed(layer: Layer, name: str, widest: int | None) -> tuple[int, ...]:
    """The values of one folding name with which a PE reads at most *widest* bits of weights, or the least it can."""
    options = layer.folding_choices[name]
    if widest is None:
        return options
    least = layer.with_folding(**{name: options[0]}).weight_bits_a_pe
    found = [(option, layer.with_folding(**{name: option}).weight_bits_a_pe) for option in options]
    return tuple(option for option, bits in found if bits <= max(widest, least))


def _check_reachable(found: dict[str, Layer], target: int, widest: int | None) -> None:
    fastest = {node: _fastest(layer, widest).cycles for node, layer in found.items()}
    if not fastest:
        return
    slowest = max(fastest, key=lambda node: fastest[node])
    if fastest[slowest] > target:
        raise FoldingError(
            f"layer '{slowest}' ({found[slowest].kind}): {target} cycles a frame cannot be reached; it takes "
            f"{fastest[slowest]} even {_bound(widest)}, so the target must allow that many"
        )


def _bound(widest: int | None) -> str:
    return "fully unfolded" if widest is None else f"with all that mvau_wwidth_max={widest} allows"


def _choices(layer: Layer, target: int, widest: int | None) -> list[Choice]:
    """Foldings of *layer* that meet *target*, cheapest first: for every combination of the other values, the smallest
    value of the last name that does, and :data:`SPARE` more."""
    names = list(layer.folding_choices)
    if not names:
        return [Choice(layer, 0.0)]
    *others, last = names
    options = _allowed(layer, last, widest)
    best: dict[tuple[int, ...], Choice] = {}  # by the widths of its words, which are all that a neighbour sees
    for values in itertools.product(*(_allowed(layer, name, widest) for name in others)):
        base = layer.with_folding(**dict(zip(others, values, strict=True)))
        first = _first_within(base, last, options, target)
        for value in options[first : first + 1 + SPARE]:
            folded = base.with_folding(**{last: value})
            choice = Choice(folded, cost(folded.resources()))
            widths = tuple(s.elements for s in (*folded.inputs, *folded.outputs))
            if widths not in best or _rank(choice) < _rank(best[widths]):
                best[widths] = choice
    return sorted(best.values(), key=_rank)[:OFFERED]


def _rank(choice: Choice) -> tuple[float, int, tuple[int, ...]]:
    return choice.cost, choice.layer.cycles, tuple(choice.layer.folding.values())


def _first_within(layer: Layer, name: str, options: Sequence[int], target: int) -> int:
    """Index of the smallest of *options* with which *layer* meets *target* (cycles fall as folding values grow)."""
    low, high = 0, len(options)
    while low < high:
        middle = (low + high) // 2
        if layer.with_folding(**{name: options[middle]}).cycles <= target:
            high = middle
        else:
            low = middle + 1
    return low


def _chains(nodes: Sequence[str], edges: Sequence[Link]) -> list[list[str]]:
    """Maximal runs of layers in which each streams only into the next, which reads nothing else."""
    outgoing = {n: [e.target.node for e in edges if e.source.node == n] for n in nodes}
    incoming = {n: [e.source.node for e in edges if e.target.node == n] for n in nodes}
    chains: list[list[str]] = []
    placed: set[str] = set()
    for node in nodes:
        if node in placed:
            continue
        chain = [node]
        while len(outgoing[chain[-1]]) == 1 and len(incoming[outgoing[chain[-1]][0]]) == 1:
            chain.append(outgoing[chain[-1]][0])
        placed.update(chain)
        chains.append(chain)
    return chains


def _settle(
    chain: Sequence[str],
    choices: dict[str, list[Choice]],
    picked: dict[str, Choice],
    edges: Sequence[Link],
) -> None:
    """Give the layers of *chain* the choices that cost least together, the layers around it staying as they are."""
    members = set(chain)
    inner = {e.target.node: e for e in edges if {e.source.node, e.target.node} <= members}
    border = {n: [e for e in edges if n in (e.source.node, e.target.node) and e not in inner.values()] for n in chain}
    best: list[tuple[float, int]] = []
    steps: list[list[int]] = []
    for position, node in enumerate(chain):
        own = [option.cost + _border_cost(node, option, picked, border[node]) for option in choices[node]]
        if position == 0:
            best = [(value, k) for k, value in enumerate(own)]
            continue
        previous, edge = choices[chain[position - 1]], inner[node]
        back: list[int] = []
        total: list[tuple[float, int]] = []
        for option, value in zip(choices[node], own, strict=True):
            ways = [best[k][0] + _link_cost(edge, p, option) for k, p in enumerate(previous)]
            cheapest = min(range(len(ways)), key=lambda k: ways[k])
            back.append(cheapest)
            total.append((ways[cheapest] + value, len(total)))
        steps.append(back)
        best = total
    index = min(best)[1]
    for position in range(len(chain) - 1, -1, -1):
        picked[chain[position]] = choices[chain[position]][index]
        if position:
            index = steps[position - 1][index]


def _border_cost(node: str, option: Choice, picked: dict[str, Choice], edges: Sequence[Link]) -> float:
    total = 0.0
    for edge in edges:
        source = option if edge.source.node == node else picked[edge.source.node]
        target = option if edge.target.node == node else picked[edge.target.node]
        total += _link_cost(edge, source, target)
    return total


def _link_cost(edge: Link, source: Choice, target: Choice) -> float:
    written: StreamType = source.layer.outputs[edge.source.port]
    read = target.layer.inputs[edge.target.port]
    return converter_cost(written.range, written.frame_elements, written.elements, read.elements)
