"""Tables as they look on a terminal, and in a file."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table


def console() -> Console:
    """Standard output; wide enough for any table when it is not a terminal. Text is printed as it is."""
    found = Console(markup=False, highlight=False)
    return found if found.is_terminal else Console(markup=False, highlight=False, width=200)


def table(*left: str, right: tuple[str, ...] = ()) -> Table:
    """A table without lines: columns *left*, then columns of numbers *right*."""
    made = Table(box=None, pad_edge=False)
    for name in left:
        made.add_column(name, overflow="fold")
    for name in right:
        made.add_column(name, justify="right", no_wrap=True)
    return made
