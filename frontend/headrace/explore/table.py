"""An exploration in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from headrace.build import terminal
from headrace.errors import counted, printable
from headrace.explore.exploration import Exploration
from headrace.explore.numbers import number
from headrace.explore.page import columns, varied
from headrace.explore.point import Result

SHOWN = (
    "interval", "latency", "fps", "lut", "ff", "dsp", "bram18", "uram", "measured_interval", "synthesised_lut",
    "accuracy",
)  # fmt: skip
"""Measures with a column, besides the objectives; the page has all."""

NAMED = 4
"""Points that are named where several end with the same error."""


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
    for line in failure_lines(found):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"* no other point beats it in {', '.join(found.objectives)}; {printable(str(folder / 'index.html'))}",
        markup=False,
        highlight=False,
    )


def failure_lines(found: Exploration) -> list[str]:
    """A line for each error, with the points that ended with it."""
    return [f"{_which(results)}: {printable(error)}" for error, results in found.failures.items()]


def _which(results: Sequence[Result]) -> str:
    """Points that ended alike, the first few by name."""
    names = [printable(result.title) for result in results[:NAMED]]
    more = len(results) - len(names)
    if more:
        names.append(f"{more:,} more")
    return f"{counted(len(results), 'point')} ({'; '.join(names)})" if len(results) > 1 else names[0]


def _tells(found: Exploration, measure: str) -> bool:
    return any(result.measures.get(measure) for result in found.results)
