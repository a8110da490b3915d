"""From an unfolded hardware design to one that can be generated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from headrace.errors import FoldingError
from headrace.ir import Graph
from headrace.passes.hardware_design import HardwareDesign
from headrace.schedule.fifos import insert_fifos
from headrace.schedule.folding_file import apply_folding
from headrace.schedule.solver import default_target, solve_folding, target_cycles
from headrace.schedule.widths import insert_width_converters


class FoldingSettings(Protocol):
    """What a build says about folding: a rate, the clock that it refers to, and values by layer."""

    @property
    def target_fps(self) -> float | None: ...

    @property
    def clock_mhz(self) -> float: ...

    @property
    def folding(self) -> Mapping[str, Mapping[str, Any]] | None: ...


def schedule(design: HardwareDesign, settings: FoldingSettings, folding_file: str = "folding.json") -> HardwareDesign:
    """*design* folded, with width converters and FIFOs.

    Layers are folded for the target rate, or for :func:`~headrace.schedule.solver.default_target` without one; what
    the folding dictionary says comes on top; settings in it that change nothing are noted in the result.

    Args:
        design: the layers before folding.
        settings: the rate, and the folding dictionary.
        folding_file: what messages call the source of the dictionary.

    Raises:
        FoldingError: when the rate cannot be reached, or the dictionary does not fit.
    """
    folded, notes = _solved(design.graph, settings), design.notes
    if settings.folding is not None:
        applied = apply_folding(folded, settings.folding, file=folding_file)
        folded, notes = applied.graph, (*notes, *applied.notes)
    return replace(design, graph=insert_fifos(insert_width_converters(folded)), notes=notes)


def _solved(graph: Graph, settings: FoldingSettings) -> Graph:
    if settings.target_fps is None:
        return solve_folding(graph, default_target(graph))
    cycles = target_cycles(settings.target_fps, settings.clock_mhz)
    try:
        return solve_folding(graph, cycles)
    except FoldingError as error:
        rate = f"{settings.target_fps:g} frames a second at {settings.clock_mhz:g} MHz are {cycles} cycles a frame"
        raise FoldingError(f"{rate}: {error}") from error
