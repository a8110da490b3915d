"""An exploration in the terminal."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from headrace.build import terminal
from headrace.errors import printable
from headrace.explore.exploration import Exploration
from headrace.explore.numbers import number
from headrace.explore.page import columns, varied

SHOWN = ("interval", "latency", "fps", "lut", "ff", "dsp", "bram18", "measured_interval", "synthesised_lut", "accuracy")
"""Measures with a column, besides the objectives; the page has all."""


def print_exploration(found: Exploration, folder: Path, console: Console | None = None) -> None:
    """Print the points as a table, those that no other beats marked, and where the page is."""
    console = console or terminal.console()
    front = set(found.front)
    measures = [name for name in columns(found) if name in found.objectives or (name in SHOWN and _tells(found, name))]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", "model", *varied(found)):
        table.add_column(name, overflow="fold")
    for name in measures:
        table.add_column(name, justify="right", no_wrap=True)
    for index, result in enumerate(found.results):
        mark = "*" if index in front else ""
        cells = [result.labels.get(name, "") for name in varied(found)]
        numbers = [number(result.measures[name]) if name in result.measures else "" for name in measures]
        table.add_row(mark, printable(result.model), *cells, *numbers, style="bold" if mark else "")
    console.print(table)
    for result in found.failed:
        settings = " ".join(f"{name}={value}" for name, value in result.labels.items())
        console.print(f"{printable(result.model)} {settings}: {printable(result.error)}", markup=False, highlight=False)
    console.print(
        f"* no other point beats it in {', '.join(found.objectives)}; {printable(str(folder / 'index.html'))}",
        markup=False,
        highlight=False,
    )


def _tells(found: Exploration, measure: str) -> bool:
    return any(result.measures.get(measure) for result in found.results)
