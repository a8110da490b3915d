"""Synthesis of a build: its layers by open tools, the result beside the design and in its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headrace.build.design import Design
from headrace.build.journal import Journal
from headrace.build.report import add_to_report
from headrace.build.simulate import as_headrace_errors
from headrace.errors import InputError, ToolError, did_you_mean
from headrace.synth import Settings, Synthesis, Unit, synthesise, units_of
from headrace.synth.families import family as find_family
from headrace.synth.results import FILE, read_synthesis
from headrace.synth.tools import yosys


def synthesis_cache() -> Path:
    """The folder in which results of synthesis are kept, in that of everything that is compiled.

    Raises:
        ToolError: when the user has none.
    """
    from headrace_sim.cache import default_folder

    with as_headrace_errors():
        return default_folder() / "synthesis"


def synthesise_build(
    design: Design,
    family: str = "xc7",
    layer: str | None = None,
    settings: Settings | None = None,
    journal: Journal | None = None,
) -> Synthesis:
    """Synthesise a design that was built, write ``synthesis.json``, and show the result in the report.

    With *layer*, results that are there for the same design, family and tool stay.

    Args:
        design: as :func:`headrace.load` opens it from the folder of a build.
        family: name of the device family.
        layer: name of the only layer to synthesise; all of them when None.
        settings: tools, limits and cache.
        journal: told of the step.

    Returns:
        the result; ``result.failed`` lists what has none, and ``result.complete`` says whether it is all.

    Raises:
        InputError: when nothing was built, the build holds no SystemVerilog, or there is no such layer or family.
        ToolError: when a program is missing.
    """
    chosen, folder = find_family(family), _folder(design)
    tool = f"Yosys {yosys().version}"
    units = units_of(design.hardware, design.name, design.plan)
    wanted = units if layer is None else [_find(units, layer)]
    journal = journal or Journal()
    with journal.step("synthesise") as note:
        found = synthesise(
            wanted, chosen, settings, digest=design.plan.digest, whole=layer is None, progress=journal.progress
        )
        note(f"{len(found.units) - len(found.failed)} of {len(units)} units for {chosen.title}")
    if layer is not None:
        found = _merged(units, found, read_synthesis(folder), tool)
    add_to_report(design, folder, {FILE: found.json()})
    return found


def _folder(design: Design) -> Path:
    folder = design.built_folder("synthesise")
    if design.config.backend == "hls":
        raise InputError(f"{folder}: holds C++ only; build it with the backend 'rtl' or 'both' to synthesise it")
    ips = [f"'{node}'" for node, backend in design.hardware.backends.items() if backend == "hls"]
    if ips:
        raise InputError(f"{folder}: the layers {', '.join(ips)} are C++, which Yosys does not read")
    return folder


def _find(units: Sequence[Unit], name: str) -> Unit:
    for unit in units:
        if unit.name == name:
            return unit
    names = [unit.name for unit in units]
    raise InputError(f"no layer '{name}'{did_you_mean(name, names)}; the design has: {', '.join(names)}")


def _merged(units: Sequence[Unit], new: Synthesis, old: Synthesis | None, tool: str) -> Synthesis:
    """*new* results before *old* ones of the same design, family and tool, in the order of *units*."""
    if old is None or (old.family, old.tool, old.digest) != (new.family, tool, new.digest):
        return new
    results = {**old.by_name, **new.by_name}
    kept = tuple(results[unit.name] for unit in units if unit.name in results)
    return replace(new, units=kept, whole=len(kept) == len(units))


def failures(found: Synthesis) -> ToolError:
    """What failed, as an error that says that the rest was kept."""
    kept = len(found.units) - len(found.failed)
    reasons = "; ".join(unit.error for unit in found.failed)
    return ToolError(f"{reasons} ({kept} other results were kept in {FILE}, marked as partial)")
