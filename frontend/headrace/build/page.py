"""What pages of reports have in common: templates that escape, and their style."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from headrace.errors import counted, printable

_SHARED = Path(__file__).with_name("pages")


LONGEST_NAME = 300
"""Characters of a name that a page shows."""


def shown_name(text: str) -> str:
    """*text* from a model or a sweep, as a page shows it."""
    return printable(text, LONGEST_NAME)


@cache
def page_environment(folder: Path, number: Callable[[float], str]) -> Environment:
    """For the templates in *folder* and those that all pages share.

    What comes out of expressions is escaped, and a name that is not known is an error.

    Args:
        folder: of the templates.
        number: how the page writes numbers.
    """
    environment = Environment(
        loader=FileSystemLoader([folder, _SHARED]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, printable=printable, counted=counted)
    environment.filters.update(name=shown_name, breakable=_breakable, commands=_commands)
    return environment


def _commands(text: str) -> Markup:
    """A text with what stands between backquotes as code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def _breakable(name: str) -> Markup:
    """A name that may go to the next line behind a dot or an underscore."""
    return Markup(re.sub(r"([._/])", r"\1<wbr>", str(escape(name))))
