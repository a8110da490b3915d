"""An exploration for people: a table as CSV, and one page with the front drawn."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.build.page import page_environment, shown_name
from headrace.errors import printable
from headrace.explore.exploration import Exploration, build_command
from headrace.explore.numbers import number
from headrace.explore.point import Result
from headrace.explore.sweep import COLUMNS

_PAGES = Path(__file__).with_name("pages")

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 76, 20, 20, 52
LOGARITHMIC = 30
"""Ratio of the largest to the smallest value from which an axis is logarithmic."""

DECADES = 6
"""Marks on a logarithmic axis from which on not every power of ten has one."""


@dataclass(frozen=True)
class Dot:
    """A point in the plot, in pixels."""

    x: float
    y: float
    title: str
    best: bool


@dataclass(frozen=True)
class Tick:
    """A mark on an axis, in pixels along it."""

    at: float
    text: str


@dataclass(frozen=True)
class Axis:
    """One measure along *length* pixels from *start*; increasing to *start + length* (which may be less)."""

    name: str
    low: float
    high: float
    start: float
    length: float
    logarithmic: bool

    @classmethod
    def of(cls, name: str, values: Sequence[float], start: float, length: float) -> Axis:
        """An axis that holds all *values* with some room."""
        low, high = min(values), max(values)
        logarithmic = low > 0 and high / low > LOGARITHMIC
        if logarithmic:
            return cls(name, low / 1.2, high * 1.2, start, length, True)
        room = 0.06 * (high - low) or abs(high) * 0.1 or 1.0
        return cls(name, low - room, high + room, start, length, False)

    def place(self, value: float) -> float:
        """Where *value* is, in pixels."""
        a, b, v = self.low, self.high, value
        if self.logarithmic:
            a, b, v = math.log(a), math.log(b), math.log(v)
        return round(self.start + self.length * (v - a) / (b - a), 1)

    @property
    def ticks(self) -> list[Tick]:
        """Round numbers, about five of them."""
        if self.logarithmic:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            values = [10.0**k for k in range(first, last + 1, max(1, (last - first) // DECADES))]
            if len(values) < 3:
                values = [m * 10.0**k for k in range(first - 1, last + 1) for m in (1, 2, 5)]
        else:
            step = 10 ** math.floor(math.log10((self.high - self.low) / 4))
            step *= next(m for m in (1, 2, 5, 10) if (self.high - self.low) / (m * step) <= 6)
            values = [k * step for k in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
        return [Tick(self.place(v), number(v)) for v in values if self.low <= v <= self.high]


@dataclass(frozen=True)
class Plot:
    """Points over the first two objectives, and the line of the best."""

    x: Axis
    y: Axis
    dots: Sequence[Dot]
    line: str
    width: int = WIDTH
    height: int = HEIGHT

    @classmethod
    def of(cls, found: Exploration) -> Plot | None:
        """The plot, or None where no point has both measures."""
        across, up = list(found.objectives)[:2] if len(found.objectives) > 1 else [*found.objectives, "lut"]
        shown = [(i, r) for i, r in enumerate(found.results) if {across, up} <= set(r.measures)]
        if not shown:
            return None
        x = Axis.of(across, [r.measures[across] for _, r in shown], LEFT, WIDTH - LEFT - RIGHT)
        y = Axis.of(up, [r.measures[up] for _, r in shown], HEIGHT - BOTTOM, TOP + BOTTOM - HEIGHT)
        front = set(found.front)
        dots = [
            Dot(x.place(r.measures[across]), y.place(r.measures[up]), _title(r, (across, up)), i in front)
            for i, r in shown
        ]
        best = sorted((d.x, d.y) for d in dots if d.best)
        return cls(x, y, dots, " ".join(f"{a},{b}" for a, b in best) if len(found.objectives) == 2 else "")


def _title(result: Result, measures: Sequence[str]) -> str:
    settings = [f"{name} {value}" for name, value in result.labels.items()]
    values = [f"{name} {number(result.measures[name])}" for name in measures]
    return printable(", ".join([*(shown_name(text) for text in (result.model, *settings)), *values]))


def columns(found: Exploration) -> list[str]:
    """The measures that some result has, objectives first."""
    known = list(dict.fromkeys(name for result in found.results for name in result.measures))
    return [*(n for n in found.objectives if n in known), *(n for n in known if n not in found.objectives)]


def varied(found: Exploration) -> list[str]:
    """The settings that vary."""
    return list(dict.fromkeys(name for result in found.results for name in result.labels))


def result_files(found: Exploration, folder: Path) -> dict[str, str]:
    """``explore.csv`` and ``index.html``, for a *folder*."""
    return {"explore.csv": _csv(found), "index.html": _page(found, folder)}


def _csv(found: Exploration) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    measures, settings, front = columns(found), varied(found), set(found.front)
    writer.writerow([_cell(name) for name in (COLUMNS[0], *settings, *measures, *COLUMNS[1:])])
    for index, result in enumerate(found.results):
        cells = [result.model, *(result.labels.get(name, "") for name in settings)]
        numbers = [result.measures.get(name, "") for name in measures]
        exact = "" if result.exact is None else str(result.exact).lower()
        end = [exact, str(index in front).lower(), result.bottleneck, result.error, result.key]
        writer.writerow([_cell(cell) for cell in (*cells, *numbers, *end)])
    return text.getvalue()


def _cell(value: object) -> object:
    """Text that a spreadsheet does not take for a formula, numbers as they are."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    text = printable(str(value))
    return f"'{text}" if text[:1] in tuple("=+-@") else text


def _page(found: Exploration, folder: Path) -> str:
    context = {
        "found": found,
        "plot": Plot.of(found),
        "measures": columns(found),
        "settings": varied(found),
        "front": set(found.front),
        "commands": {index: build_command(found.results[index], folder) for index in found.front},
    }
    return page_environment(_PAGES, number).get_template("explore.html.j2").render(context)
