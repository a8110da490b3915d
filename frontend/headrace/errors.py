"""The errors a user can cause, each with the sentence that tells how to fix it.

The command line prints ``str(error)`` and exits with ``error.exit_status``; nothing else in Headrace
catches these. Anything that is not a :class:`HeadraceError` is a bug in Headrace.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable


class HeadraceError(Exception):
    """Bad input of any kind; the base of every error raised on purpose. Its text is printable, whatever it names."""

    exit_status = 2
    _keep = ""

    def __str__(self) -> str:
        return as_message(super().__str__(), keep=self._keep)


class ModelError(HeadraceError):
    """A model file that cannot be read or is not well formed.

    Args:
        message: one sentence: what is wrong and what would be accepted.
        node: name of the offending node, with its operator, when there is one.
        file: the model file, when known.
    """

    def __init__(self, message: str, *, node: str | None = None, file: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.node = node
        self.file = file

    def __str__(self) -> str:
        where = [part for part in (self.file, f"node {self.node}" if self.node else None) if part]
        return as_message(": ".join([*where, self.message]))


class UnsupportedError(ModelError):
    """A well-formed model that has no exact dataflow implementation here; names the node and the way out."""


class FoldingError(HeadraceError):
    """A PE, SIMD or other folding value that the layer cannot honour."""


class InputError(HeadraceError):
    """Input arrays of the wrong name, shape or type, or holding values that are not numbers."""


class ToolError(HeadraceError):
    """An external program (Verilator, g++, make) that is missing, too old or failed."""

    _keep = "\n\t"  # what the program said


class VerificationError(HeadraceError):
    """Two stages that must be equal are not; says where first."""

    exit_status = 1


_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories that steer a terminal or the direction of text, or end a line, instead of being seen."""


_LONGEST_WORD = 300
"""Characters of a name that errors show."""

_LONGEST_TEXT = 10_000
"""Characters of an error."""


def _shortened(text: str) -> str:
    """*text* with the middle of overlong words left out: a name in a file may have a million characters."""
    if len(text) <= _LONGEST_WORD:
        return text
    text = re.sub(rf"\S{{{_LONGEST_WORD + 1},}}", lambda word: printable(word[0], _LONGEST_WORD), text)
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"


def as_message(text: str, keep: str = "") -> str:
    """*text* that names what files name, as errors, warnings and progress show it: short and :func:`printable`."""
    return printable(_shortened(text), keep=keep)


def printable(text: str, limit: int | None = None, keep: str = "") -> str:
    """*text* from a model file as it may be shown: what would steer a terminal is written as Python would, ``\\x1b``.

    Args:
        text: for example the name of a node, which may be any text.
        limit: characters to show at most, with an ellipsis in the middle; None shows all.
        keep: characters to leave as they are, for example line breaks in a text of several lines.
    """
    if not text.isascii() or not text.isprintable():
        text = "".join(
            c.encode("unicode_escape").decode() if unicodedata.category(c) in _UNSEEN and c not in keep else c
            for c in text
        )
    if limit is None or len(text) <= limit:
        return text
    end = (limit - 1) // 2
    return f"{text[: limit - 1 - end]}…{text[len(text) - end :]}"


def counted(number: int, noun: str) -> str:
    """``"1 frame"``, ``"2,000 frames"``: a number with its noun, in the plural where that is due."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``" (did you mean 'x'?)"`` for the nearest of *known*, or an empty string."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.75)
    return f" (did you mean '{near[0]}'?)" if near else ""
