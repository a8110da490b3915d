"""Commands that show what is there: ``info``, ``view``, ``doctor``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.session import Model, told_as_json
from headrace.errors import printable


def info(model: Model) -> None:
    """Show the tensors of a model with their integer types, ranges and scales, and what blocks hardware."""
    from headrace.build.api import load
    from headrace.build.summary import print_info

    found = load(model).info()
    if not told_as_json("info", lambda: asdict(found)):
        print_info(found)


def view(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX file, or the folder of a build.")],
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Of the page on this machine.")] = 8081,
    browse: Annotated[bool, typer.Option(help="Open a browser.")] = True,
) -> None:
    """Show a model in netron, or the report of a build, in a browser."""
    from headrace.build.viewing import open_report, serve_model

    if model.is_dir():
        page = open_report(model, browse)
        if not told_as_json("view", lambda: {"page": str(page)}):
            typer.echo(printable(str(page)))
    else:
        serve_model(model, port, browse)


def doctor() -> None:
    """Show which tools are found, in which version, and what each is needed for."""
    from headrace.build.doctor import examine, print_tools

    tools = examine()
    whole = all(tool.found for tool in tools if tool.required)
    if not told_as_json("doctor", lambda: {"ok": whole, "tools": [asdict(tool) for tool in tools]}):
        print_tools(tools)
    if not whole:
        raise typer.Exit(2)
