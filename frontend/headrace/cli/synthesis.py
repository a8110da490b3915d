"""Commands that run synthesis, placement and routing: ``synth``, ``bitstream``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from headrace.cli.session import Built, Session, new_journal, say, told_as_json
from headrace.errors import ToolError


def synth(
    output: Built,
    family: Annotated[
        str, typer.Option("--family", metavar="F", help="Devices: xc7, xcup, ecp5, ice40 or gowin.")
    ] = "xc7",
    layer: Annotated[str | None, typer.Option("--layer", metavar="NAME", help="Synthesise this layer only.")] = None,
    pnr: Annotated[bool, typer.Option("--pnr", help="Place and route each layer, for its clock frequency.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", metavar="S", min=1, help="Seconds for one layer.")] = 1800.0,
    jobs: Annotated[
        int, typer.Option("--jobs", metavar="N", min=0, help="Layers at a time; 0 is half the processors.")
    ] = 0,
) -> None:
    """Synthesise a build with yosys: LUTs, registers, DSPs, memories and logic depth of every layer."""
    from headrace.build.api import load
    from headrace.build.synthesis import failures, synthesis_cache, synthesise_build
    from headrace.synth import Settings
    from headrace.synth.families import family as find_family

    find_family(family)  # or an error, before the design is read
    design = load(output)
    settings = Settings(pnr, timeout, jobs, synthesis_cache())
    found = synthesise_build(design, family, layer, settings, new_journal())
    if Session.json:
        say(found.json())
    elif Session.verbosity >= 0:
        from headrace.build.summary import print_synthesis

        print_synthesis(found, design)
    if found.failed:
        raise failures(found)


def bitstream(
    output: Built,
    board: Annotated[str, typer.Option("--board", metavar="B", help="ulx3s-85f, icebreaker, ice40hx8k, tangnano9k.")],
    baud: Annotated[int, typer.Option("--baud", metavar="N", min=1, help="Of the serial port.")] = 115_200,
    timeout: Annotated[float, typer.Option("--timeout", metavar="S", min=1, help="Seconds for a program.")] = 3600.0,
) -> None:
    """Make a bitstream by open tools: the design behind a serial port; utilisation and timing in the report."""
    from headrace.board import find_board, make_bitstream
    from headrace.build.api import load

    journal = new_journal()
    chosen = find_board(board)
    chosen.cycles_a_bit(baud)
    found = make_bitstream(load(output), chosen, baud, timeout, journal)
    if not told_as_json("bitstream", lambda: asdict(found), journal) and Session.verbosity >= 0:
        from headrace.build.summary import print_bitstream

        print_bitstream(found, output)
    if not found.meets_timing:
        message = f"the design reaches {found.fmax_mhz:g} MHz, {chosen.title} has {found.clock_mhz:g}; fold it further"
        raise ToolError(f"the timing is not met: {message}")
