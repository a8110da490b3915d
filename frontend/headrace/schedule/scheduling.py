"""From an unfolded hardware design to one that can be generated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from headrace.errors import FoldingError
from headrace.ir import Graph
from headrace.passes.hardware_design import HardwareDesign
from headrace.schedule.fifos import insert_fifos
from headrace.schedule.folding_file import Reading, apply_folding
from headrace.schedule.solver import default_target, fastest_target, solve_folding, target_cycles
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
    folded = fold_for_rate(design, settings.target_fps, settings.clock_mhz)
    if settings.folding is not None:
        folded = fold_by_file(folded, settings.folding, file=folding_file)
    return connect(folded)


def fold_for_rate(
    design: HardwareDesign,
    target_fps: float | None,
    clock_mhz: float,
    widest: int | None = None,
    best_effort: bool = False,
) -> HardwareDesign:
    """*design* with every layer folded for *target_fps* frames a second, or moderately when that is None.

    Args:
        design: the layers before folding.
        target_fps: frames a second.
        clock_mhz: clock that they refer to.
        widest: most bits of weights that one PE reads a cycle; None for any number.
        best_effort: fold for the fastest rate that there is, with a note, instead of refusing one that is out of reach.

    Raises:
        FoldingError: when the rate cannot be reached; names the slowest layer.
    """
    if target_fps is None:
        return design.with_graph(solve_folding(design.graph, default_target(design.graph, widest), widest))
    cycles = target_cycles(target_fps, clock_mhz)
    rate = f"{target_fps:g} frames a second at {clock_mhz:g} MHz are {cycles} cycles a frame"
    try:
        return design.with_graph(solve_folding(design.graph, cycles, widest))
    except FoldingError as error:
        if not best_effort:
            raise FoldingError(f"{rate}: {error}") from error
        fastest = fastest_target(design.graph, widest)
        graph = solve_folding(design.graph, fastest, widest)
        note = f"{rate}, which cannot be reached; folded for the fastest, {fastest}"
        return replace(design, graph=graph, notes=(*design.notes, note))


def fold_by_file(
    design: HardwareDesign,
    folding: Mapping[str, Mapping[str, Any]],
    reading: Reading = Reading.STRICT,
    file: str = "folding.json",
) -> HardwareDesign:
    """*design* folded further as a folding dictionary says; what in it has no effect is noted.

    Raises:
        FoldingError: when the dictionary does not fit.
    """
    applied = apply_folding(design.graph, folding, reading, file)
    notes = (*design.notes, *applied.notes)
    return replace(design, graph=applied.graph, notes=notes, backends={**design.backends, **applied.backends})


def connect(design: HardwareDesign) -> HardwareDesign:
    """The folded *design* with width converters, and FIFOs as deep as its schedule needs them."""
    graph: Graph = insert_fifos(insert_width_converters(design.graph))
    return design.with_graph(graph)
