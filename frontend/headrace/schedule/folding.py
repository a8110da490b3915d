"""Folding for a rate, for a device, or for both: never more look-up tables than FINN's greedy rule takes.

The solver (:mod:`headrace.schedule.solver`) finds the cheapest folding by one number for all kinds of resources. Bounds
on single kinds, those of a device and those that the greedy rule sets, are met by changing the prices: what is short
becomes dearer until it fits (Lagrangian relaxation; Everett, "Generalized Lagrange multiplier method", 1963).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache, partial

from headrace.errors import FoldingError
from headrace.ir import Graph
from headrace.layers.base import Resources
from headrace.schedule.budget import KINDS, Budget
from headrace.schedule.choices import Limits
from headrace.schedule.cost import USUAL, Weights
from headrace.schedule.fifos import insert_fifos
from headrace.schedule.performance import Performance, performance
from headrace.schedule.solver import Folded, FoldingProblem, default_target
from headrace.schedule.streams import layers
from headrace.schedule.widths import insert_width_converters

REWEIGHTED = 4
"""Most times that what is short is made more expensive before a rate counts as out of reach."""

DEAREST, REFINED = 8, 3
"""The same for the bounds of the greedy rule, and how often a price between the last two is tried then."""

CORRECTED = 4
"""Most times that room is made for FIFOs deeper than assumed."""

BOUNDED = ("lut", "dsp", "bram18")
"""Of these a folding that must save look-up tables takes no more than the greedy rule's."""

CLOSE = 0.95
"""Past this share of the rule's look-up tables FIFOs, whose depths the solver does not know, may tip the balance."""

CHECKED = 64
"""Most layers for which FIFOs are then computed for both, which takes seconds for larger graphs."""

NOISE = 0.005
"""By what share a larger graph must be smaller than the rule's to be taken in its place."""


@dataclass(frozen=True)
class Extras:
    """What a design takes besides its layers: counters of its streams, and FIFOs, the large ones of *large_fifos*."""

    counters: bool = False
    large_fifos: str = "auto"

    def connected(self, graph: Graph) -> Graph:
        """*graph* with width converters, and with FIFOs as deep as they must be."""
        return insert_fifos(insert_width_converters(graph), large=self.large_fifos)

    def performance(self, graph: Graph) -> Performance:
        """Of *graph* with all of that."""
        return performance(self.connected(graph), self.counters)


def solve_folding(
    graph: Graph, target: int | None = None, widest: int | None = None, extras: Extras | None = None
) -> Graph:
    """*graph* with every layer folded so that it takes at most *target* cycles a frame, as cheaply as known.

    Where FINN's greedy rule meets the target, the result takes no more look-up tables than it, nor saves them by more
    DSPs or block RAMs than the rule takes.

    Args:
        graph: layers in any folding; without width converters and FIFOs.
        target: cycles a frame; :func:`~headrace.schedule.solver.default_target` when None.
        widest: most bits of weights that one PE reads a cycle, where a layer has a choice; None for any number.
        extras: what takes resources besides the layers.

    Raises:
        FoldingError: when a layer cannot meet the target even fully unfolded; names the slowest.
    """
    cycles = default_target(graph, widest) if target is None else target
    problem = FoldingProblem(graph, Limits(widest))
    return _no_larger(problem, problem.solve(cycles), cycles, Budget.of(), extras or Extras()).graph


def solve_within(
    graph: Graph,
    budget: Budget,
    target: int | None = None,
    limits: Limits | None = None,
    extras: Extras | None = None,
) -> Graph:
    """*graph* folded so that it fits *budget*: for *target* as cheaply as known, without one as fast as fits.

    What counts is the estimate of the whole design: layers, width converters, FIFOs of the depths that they get. Where
    FINN's greedy rule meets the same rate in the budget, the result takes no more look-up tables than it.

    Args:
        graph: layers in any folding; without width converters and FIFOs.
        budget: the most that may be taken.
        target: cycles a frame.
        limits: widths that no layer may exceed.
        extras: what takes resources besides.

    Raises:
        FoldingError: when even the smallest folding, or that for *target*, does not fit; names the resource and the
            layer that takes most of it.
    """
    extras = extras or Extras()
    problem = FoldingProblem(graph, limits)
    left, whole = budget, None
    for _ in range(CORRECTED):
        room = left

        def fits(cycles: int, room: Budget = room) -> Folded | None:
            return _within(problem, cycles, room)

        found = fits(target) if target is not None else _fastest(problem.range, fits)
        if found is None:
            break
        found = _no_larger(problem, found, found.cycles if target is None else target, room, extras)
        whole = extras.performance(found.graph)
        if not budget.exceeded(whole.resources):
            return found.graph
        deeper = {kind: max(getattr(whole.resources, kind) - getattr(found.resources, kind), 0.0) for kind in KINDS}
        left = budget.less(Resources(**deeper))
    if whole is None:
        smallest = problem.solve(problem.range[1] if target is None else target)
        whole = performance(insert_width_converters(smallest.graph), extras.counters)
    raise _too_small(whole, budget, target)


def _no_larger(problem: FoldingProblem, found: Folded, target: int, budget: Budget, extras: Extras) -> Folded:
    """*found*, or where the greedy rule takes fewer look-up tables for *target* cycles, one that takes no more of any
    kind than the rule.

    The rule's own folding is the last resort; where it does not meet the target or the budget, it says nothing.
    """
    rule = problem.greedy(target)
    if rule is None or budget.exceeded(rule.resources):
        return found
    bound = budget.no_more_than(rule.resources, BOUNDED)
    theirs = cache(partial(_luts, rule.graph, extras))
    better: Folded | None = found
    for _ in range(CORRECTED):
        if better is None or better.same(rule):
            return rule
        excess = _excess(better, rule, extras, theirs)
        if excess <= 0:
            return better
        if not bound.exceeded(better.resources):
            bound = bound.no_more_than(better.resources, ("lut",)).less(Resources(lut=max(excess, 1.0)))
        better = _within(problem, target, bound, DEAREST, REFINED)
    return rule


def _excess(found: Folded, rule: Folded, extras: Extras, with_fifos: Callable[[], float]) -> float:
    """How many look-up tables *found* takes more than *rule*, or less; close races are run with FIFOs.

    *with_fifos* tells the rule's with them, which are computed once at most.
    """
    ours, theirs = found.resources.lut, rule.resources.lut
    if len(layers(found.graph)) > CHECKED:
        return ours - (1 - NOISE) * theirs
    if ours <= CLOSE * theirs:
        return ours - theirs
    return _luts(found.graph, extras) - with_fifos()


def _luts(graph: Graph, extras: Extras) -> float:
    """Look-up tables with width converters and with FIFOs as deep as they must be."""
    return sum(layer.resources().lut for layer in layers(extras.connected(graph)).values())


def _within(
    problem: FoldingProblem, target: int, budget: Budget, dearest: int = REWEIGHTED, refined: int = 0
) -> Folded | None:
    """The folding for *target*, resources that are short made more expensive until it fits, or None.

    Args:
        problem: what is folded.
        target: cycles a frame.
        budget: what it must fit.
        dearest: most times that prices are raised.
        refined: times that prices between the last two, the dearer of which fits, are tried for a cheaper folding.
    """
    weights = before = USUAL
    for _ in range(1 + dearest):
        folded = problem.solve(target, weights)
        short = budget.exceeded(folded.resources)
        if not short:
            break
        before, weights = weights, _dearer(weights, short)
    else:
        return None
    for _ in range(refined if weights is not USUAL else 0):
        between = _between(before, weights)
        tried = problem.solve(target, between)
        if budget.exceeded(tried.resources):
            before = between
            continue
        weights = between
        if USUAL.cost(tried.resources) < USUAL.cost(folded.resources):
            folded = tried
    return folded


def _dearer(weights: Weights, short: Mapping[str, float]) -> Weights:
    """*weights* with what is short at twice its price or more."""
    values = asdict(weights)
    for kind, times in short.items():
        values[kind] *= 2 * min(times, 8.0)
    return Weights(**values)


def _between(low: Weights, high: Weights) -> Weights:
    """The geometric mean of two."""
    highs = asdict(high)
    return Weights(**{kind: (price * highs[kind]) ** 0.5 for kind, price in asdict(low).items()})


def _fastest(between: tuple[int, int], fits: Callable[[int], Folded | None]) -> Folded | None:
    """What *fits* gives for the fewest cycles for which it gives something, by bisection."""
    low, high = between
    best = fits(low)
    if best is not None:
        return best
    best = fits(high)
    while best is not None and high - low > max(low // 1000, 1):
        middle = (low * high) ** 0.5 if low * 2 < high else (low + high) / 2
        found = fits(int(middle))
        if found is None:
            low = int(middle)
        else:
            best, high = found, int(middle)
    return best


def _too_small(whole: Performance, budget: Budget, target: int | None) -> FoldingError:
    short = budget.exceeded(whole.resources) or dict.fromkeys(KINDS, 0.0)  # only several together do not fit
    kind = max(short, key=lambda k: short[k])
    most = max(whole.layers, key=lambda row: getattr(row.resources, kind))
    need, have = getattr(whole.resources, kind), getattr(budget.available, kind)
    when = "folded completely" if target is None else f"for {target} cycles a frame"
    return FoldingError(
        f"{budget.name} has {have:,.0f} {kind} and the design takes an estimated {need:,.0f} {when}; "
        f"layer '{most.name}' ({most.kind}) alone takes {getattr(most.resources, kind):,.0f}"
    )
