"""Pixels a cycle for a device: how many at once make the fastest design whose estimated resources fit."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.errors import FoldingError
from headrace.ir import Graph
from headrace.passes.pixels import pixels_for
from headrace.passes.to_hardware import to_hardware
from headrace.schedule.budget import Budget, solve_within
from headrace.schedule.choices import Limits
from headrace.schedule.solver import fastest_target


def pixels_within(core: Graph, budget: Budget, widest: int | None = None) -> dict[str, int]:
    """Pixels at once, by node of *core*, for the fastest design known to fit *budget*.

    Rates are doubled from the fastest at a pixel a cycle until a design for one does not fit; where that one already
    does not, there are none.

    Args:
        core: the integer graph.
        budget: the most that may be taken.
        widest: most bits of weights that one PE reads a cycle; None for any number.
    """
    found: dict[str, int] = {}
    best: dict[str, int] = {}
    cycles = fastest_target(to_hardware(core).graph, widest)
    while _fits(core, found, budget, cycles, widest):
        best, cycles = found, cycles // 2
        found = pixels_for(core, cycles) if cycles else {}
        if not found:
            break
    return best


def _fits(core: Graph, pixels: Mapping[str, int], budget: Budget, cycles: int, widest: int | None) -> bool:
    """Whether a design with so many *pixels* at once takes at most *cycles* a frame and fits."""
    try:
        solve_within(to_hardware(core, pixels).graph, budget, cycles, Limits(widest))
    except FoldingError:
        return False
    return True
