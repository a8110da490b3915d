"""``headrace build`` and ``headrace schema``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.session import ClockMhz, FoldingFile, Session, TargetFps, new_journal, say, told_as_json


class Generated(StrEnum):
    """What ``headrace build`` generates."""

    rtl = "rtl"
    hls = "hls"
    both = "both"


def build(
    model: Annotated[
        Path | None,
        typer.Argument(metavar="[MODEL.onnx]", help="An ONNX file; with --finn-config, model.onnx beside it."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT", help="Folder to write the design to.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="F.json", help="Settings; `headrace schema` says which.")
    ] = None,
    finn_config: Annotated[
        Path | None, typer.Option("--finn-config", metavar="F.json", help="A dataflow_build_config.json of FINN.")
    ] = None,
    target_fps: TargetFps = None,
    clock_mhz: ClockMhz = None,
    folding: FoldingFile = None,
    unroll: Annotated[
        bool, typer.Option("--unroll", help="Fold every layer as far as it goes: a vector a cycle, in shared adders.")
    ] = False,
    fit: Annotated[
        str | None, typer.Option("--fit", metavar="PART", help="Part or board whose resources the design must fit.")
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="lut=N", help="Most of a resource: lut, ff, dsp, bram18, uram."),
    ] = None,
    backend: Annotated[
        Generated | None,
        typer.Option("--backend", help="Generate SystemVerilog (the default), C++ for high-level synthesis, or both."),
    ] = None,
    counters: Annotated[
        bool, typer.Option("--counters", help="Count cycles, words and stalls of every stream, read by AXI4-Lite.")
    ] = False,
    start_step: Annotated[
        str | None, typer.Option("--start-step", metavar="STEP", help="Continue the build in OUT with this step.")
    ] = None,
    stop_step: Annotated[str | None, typer.Option("--stop-step", metavar="STEP", help="End after this step.")] = None,
) -> None:
    """Compile a model to a verified design: SystemVerilog or HLS C++, manifest, folding and report."""
    from headrace.build.api import build as build_design
    from headrace.build.command import Overrides, limits_of, settings_of
    from headrace.build.machine import build_data

    chosen = backend.value if backend else None
    limits = limits_of(limit or [])
    given = Overrides(
        *(output, target_fps, clock_mhz, folding, fit, limits, chosen, start_step, stop_step),
        unroll=unroll or None,
        performance_counters=counters or None,
    )
    model, settings = settings_of(model, config, finn_config, given)
    journal = new_journal()
    design = build_design(model, config=settings, journal=journal)
    if not told_as_json("build", lambda: build_data(design), journal) and Session.verbosity >= 0:
        from headrace.build.summary import print_design

        print_design(design)


def schema() -> None:
    """Print the JSON schema of configuration files, for editors and checkers."""
    from headrace.build.schema import config_schema

    say(config_schema())
