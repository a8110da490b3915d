"""Folding for a device: the fastest design whose estimated resources fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

from headrace.errors import FoldingError, did_you_mean
from headrace.ir import Graph
from headrace.layers.base import Resources
from headrace.schedule.choices import Limits
from headrace.schedule.cost import USUAL, Weights
from headrace.schedule.fifos import insert_fifos
from headrace.schedule.parts import find_part
from headrace.schedule.performance import Performance, performance
from headrace.schedule.solver import Folded, FoldingProblem
from headrace.schedule.widths import insert_width_converters

KINDS = ("lut", "ff", "dsp", "bram18", "uram")

REWEIGHTED = 4
"""Most times that the scarcest resource is made more expensive before a rate counts as out of reach."""

CORRECTED = 4
"""Most times that room is made for FIFOs deeper than assumed."""


@dataclass(frozen=True)
class Budget:
    """Resources that a design may take; infinite where nothing is said.

    Attributes:
        available: the most of each kind.
        name: what messages call it.
    """

    available: Resources
    name: str = "the budget"

    @classmethod
    def of(cls, part: str | None = None, limits: Mapping[str, float] | None = None) -> Budget:
        """The resources of a part or board, with some of them bounded.

        Args:
            part: as :func:`~headrace.schedule.parts.find_part` takes it.
            limits: by kind (``lut``, ``ff``, ``dsp``, ``bram18``, ``uram``), at most what the part has.

        Raises:
            FoldingError: for an unknown part or kind, or a limit that is negative.
        """
        whole = dict.fromkeys(KINDS, float("inf"))
        if part is not None:
            whole = asdict(find_part(part).resources)
        for kind, most in (limits or {}).items():
            if kind.lower() not in KINDS:
                near = did_you_mean(kind, KINDS)
                raise FoldingError(f"unknown resource '{kind}' in the budget{near}; known: {', '.join(KINDS)}")
            if not most >= 0:
                raise FoldingError(f"the budget of {kind} must be a number of at least 0, not {most}")
            whole[kind.lower()] = min(whole[kind.lower()], most)
        bounded = ", with the limits given," if limits else ""
        return cls(Resources(**whole), f"the part {part}{bounded}" if part is not None else "the budget")

    def exceeded(self, used: Resources) -> dict[str, float]:
        """By kind, how many times too much *used* takes."""
        pairs = ((kind, getattr(used, kind), getattr(self.available, kind)) for kind in KINDS)
        return {kind: (need / have if have else float("inf")) for kind, need, have in pairs if need > have}

    def less(self, used: Resources) -> Budget:
        """What is left of it."""
        left = {kind: max(getattr(self.available, kind) - getattr(used, kind), 0.0) for kind in KINDS}
        return replace(self, available=Resources(**left))


@dataclass(frozen=True)
class Extras:
    """What a design takes besides its layers: counters of its streams, and FIFOs, the large ones of *large_fifos*."""

    counters: bool = False
    large_fifos: str = "auto"

    def performance(self, graph: Graph) -> Performance:
        """Of *graph* with all of that."""
        return performance(insert_fifos(insert_width_converters(graph), large=self.large_fifos), self.counters)


def solve_within(
    graph: Graph,
    budget: Budget,
    target: int | None = None,
    limits: Limits | None = None,
    extras: Extras | None = None,
) -> Graph:
    """*graph* folded so that it fits *budget*: for *target* as cheaply as known, without one as fast as fits.

    What counts is the estimate of the whole design: layers, width converters, FIFOs of the depths that they get.

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
        whole = extras.performance(found.graph)
        if not budget.exceeded(whole.resources):
            return found.graph
        deeper = {kind: max(getattr(whole.resources, kind) - getattr(found.resources, kind), 0.0) for kind in KINDS}
        left = budget.less(Resources(**deeper))
    if whole is None:
        smallest = problem.solve(problem.range[1] if target is None else target)
        whole = performance(insert_width_converters(smallest.graph), extras.counters)
    raise _too_small(whole, budget, target)


def _within(problem: FoldingProblem, target: int, budget: Budget) -> Folded | None:
    """The folding for *target*, resources that are short made more expensive until it fits, or None."""
    weights = USUAL
    for _ in range(1 + REWEIGHTED):
        folded = problem.solve(target, weights)
        short = budget.exceeded(folded.resources)
        if not short:
            return folded
        weights = _dearer(weights, short)
    return None


def _dearer(weights: Weights, short: Mapping[str, float]) -> Weights:
    """*weights* with what is short at twice its price or more, and the rest cheaper by as much."""
    values = asdict(weights)
    for kind, times in short.items():
        values[kind] *= 2 * min(times, 8.0)
    return Weights(**values)


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
