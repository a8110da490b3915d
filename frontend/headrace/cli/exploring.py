"""``headrace explore``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.session import Session, new_journal, told_as_json
from headrace.errors import InputError, ToolError


def explore(
    models: Annotated[
        list[Path] | None, typer.Argument(metavar="[MODEL.onnx ...]", help="Models, besides those of the sweep.")
    ] = None,
    sweep: Annotated[Path | None, typer.Option("--sweep", metavar="S.yaml", help="What varies, what counts.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="Folder of the results.")] = Path(
        "exploration"
    ),
    jobs: Annotated[int, typer.Option("--jobs", metavar="N", min=0, help="Processes; 0 is one a processor.")] = 0,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="S", min=1, help="Seconds for one point, on this machine.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", metavar="tcp://HOST:PORT", help="Of a running Dask cluster.")
    ] = None,
) -> None:
    """Evaluate many builds of some models, and find those that no other beats; goes on where it was interrupted."""
    from headrace.explore import DaskRunner, LocalRunner, Sweep, read_sweep
    from headrace.explore import explore as run_sweep
    from headrace.explore.table import failure_lines, print_exploration

    given = Sweep() if sweep is None else read_sweep(sweep)
    given = given.with_models(models or [])
    if scheduler is not None and timeout is not None:
        raise InputError("--timeout ends processes on this machine; workers of a --scheduler have none")
    runner = LocalRunner(jobs, timeout) if scheduler is None else DaskRunner(scheduler)
    journal = new_journal()
    found = run_sweep(given, output, runner, journal)
    none = bool(found.results) and len(found.failed) == len(found.results)
    told = told_as_json("explore", lambda: {"ok": not none, "output": str(output), **json.loads(found.json())}, journal)
    if none:
        raise ToolError("\n  ".join(["no point has a result:", *failure_lines(found)]))
    if not told and Session.verbosity >= 0:
        print_exploration(found, output)
