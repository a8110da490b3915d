"""From an unfolded hardware design to one that can be generated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from headrace.errors import FoldingError
from headrace.ir import Graph
from headrace.passes.hardware_design import HardwareDesign
from headrace.schedule.budget import Budget
from headrace.schedule.choices import Limits, extreme
from headrace.schedule.fifos import insert_fifos
from headrace.schedule.folding import Extras, solve_folding, solve_within
from headrace.schedule.folding_file import apply_folding
from headrace.schedule.folding_keys import Reading
from headrace.schedule.merging import merge_layers
from headrace.schedule.solver import fastest_target, target_cycles
from headrace.schedule.streams import layers, rebuild
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
    folded = fold_for_rate(design, Goal(settings.target_fps, settings.clock_mhz))
    if settings.folding is not None:
        folded = fold_by_file(folded, settings.folding, file=folding_file)
    return connect(folded)


@dataclass(frozen=True)
class Goal:
    """What a folding is for.

    Attributes:
        target_fps: frames a second; None for a moderate rate, or with a budget for the fastest that fits.
        clock_mhz: clock that they refer to.
        widest: most bits of weights that one PE reads a cycle; None for any number.
        best_effort: fold for the fastest rate that there is, with a note, instead of refusing one that is out of reach.
        budget: the most resources that the design may take, estimated; None for any.
        unroll: fold every layer as far as it goes, whatever it takes.
    """

    target_fps: float | None = None
    clock_mhz: float = 200.0
    widest: int | None = None
    best_effort: bool = False
    budget: Budget | None = None
    unroll: bool = False


def fold_for_rate(design: HardwareDesign, goal: Goal) -> HardwareDesign:
    """*design* with every layer folded for *goal*.

    Raises:
        FoldingError: when the rate cannot be reached, or what reaches it does not fit; names the layer.
    """
    if goal.unroll:
        found = layers(design.graph).items()
        return design.with_graph(rebuild(design.graph, {node: extreme(layer, max) for node, layer in found}))
    if goal.target_fps is None:
        return design.with_graph(_solved(design, None, goal))
    cycles = target_cycles(goal.target_fps, goal.clock_mhz)
    rate = f"{goal.target_fps:g} frames a second at {goal.clock_mhz:g} MHz are {cycles} cycles a frame"
    try:
        return design.with_graph(_solved(design, cycles, goal))
    except FoldingError as error:
        if not goal.best_effort:
            raise FoldingError(f"{rate}: {error}") from error
        fastest = fastest_target(design.graph, goal.widest)
        graph = _solved(design, fastest, goal)
        note = f"{rate}, which cannot be reached; folded for the fastest, {fastest}"
        return replace(design, graph=graph, notes=(*design.notes, note))


def _solved(design: HardwareDesign, cycles: int | None, goal: Goal) -> Graph:
    extras = Extras(design.counters, design.large_fifos)
    if goal.budget is not None:
        return solve_within(design.graph, goal.budget, cycles, Limits(goal.widest), extras)
    return solve_folding(design.graph, cycles, goal.widest, extras)


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
    strict = reading is Reading.STRICT
    applied = apply_folding(design.graph, folding, reading, file, design.pixels if strict else None)
    notes = (*design.notes, *applied.notes)
    backends, fifos = {**design.backends, **applied.backends}, {**design.fifos, **applied.fifos}
    return replace(design, graph=applied.graph, notes=notes, backends=backends, fifos=fifos)


def connect(design: HardwareDesign) -> HardwareDesign:
    """The folded *design* with layers merged where that pays, width converters, and FIFOs as deep as its schedule
    needs them.

    Raises:
        FoldingError: when settings are for FIFOs that there are not.
    """
    merged = merge_layers(design)
    return merged.with_graph(insert_fifos(insert_width_converters(merged.graph), design.fifos, design.large_fifos))
