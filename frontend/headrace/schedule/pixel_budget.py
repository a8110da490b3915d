"""Pixels a cycle for a device: how many at once make the fastest design whose estimated resources fit."""

from __future__ import annotations

from headrace.errors import FoldingError
from headrace.ir import Graph
from headrace.passes.pixels import pixels_for
from headrace.passes.to_hardware import to_hardware
from headrace.schedule.budget import Budget
from headrace.schedule.choices import Limits
from headrace.schedule.folding import Extras, solve_within
from headrace.schedule.solver import fastest_target


def pixels_within(
    core: Graph, budget: Budget, widest: int | None = None, extras: Extras | None = None
) -> dict[str, int]:
    """Pixels at once, by node of *core*, for the fastest design known to fit *budget*.

    Rates are doubled from the fastest at a pixel a cycle until a design for one does not fit; where that one already
    does not, there are none.

    Args:
        core: the integer graph.
        budget: the most that may be taken.
        widest: most bits of weights that one PE reads a cycle; None for any number.
        extras: what takes resources besides the layers.
    """
    found: dict[str, int] = {}
    best: dict[str, int] = {}
    cycles = fastest_target(to_hardware(core).graph, widest)

    def fits() -> bool:
        """Whether a design with so many pixels at once takes at most so many cycles a frame and fits."""
        try:
            solve_within(to_hardware(core, found).graph, budget, cycles, Limits(widest), extras)
        except FoldingError:
            return False
        return True

    while fits():
        best, cycles = found, cycles // 2
        found = pixels_for(core, cycles) if cycles else {}
        if not found:
            break
    return best
