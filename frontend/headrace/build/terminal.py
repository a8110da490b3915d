"""Tables as they look on a terminal, and in a file."""

from __future__ import annotations

from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table

from headrace.errors import printable

LONGEST = 60
"""Most characters of a name in the first column; the middle of a longer one is left out."""


class _Console(Console):
    """Prints strings as they are, but for the control characters in names; line breaks before a text are layout."""

    def print(self, *objects: object, **options: Any) -> None:
        super().print(*(_shown(thing) if isinstance(thing, str) else thing for thing in objects), **options)


def _shown(text: str) -> str:
    body = text.lstrip("\n")
    return "\n" * (len(text) - len(body)) + printable(body)


class _Table(Table):
    """A table of strings that cannot steer the terminal."""

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        limits = [LONGEST] + [None] * len(cells)
        shown = (printable(c, n) if isinstance(c, str) else c for c, n in zip(cells, limits, strict=False))
        super().add_row(*shown, **options)


def console() -> Console:
    """Standard output; wide enough for any table when it is not a terminal. Text is printed as it is."""
    found = _Console(markup=False, highlight=False)
    return found if found.is_terminal else _Console(markup=False, highlight=False, width=200)


def table(*left: str, right: tuple[str, ...] = ()) -> Table:
    """A table without lines: columns *left*, then columns of numbers *right*."""
    made = _Table(box=None, pad_edge=False)
    for name in left:
        made.add_column(name, overflow="fold")
    for name in right:
        made.add_column(name, justify="right", no_wrap=True)
    return made
