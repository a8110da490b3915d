"""Names from a model made into identifiers: legal in SystemVerilog and C++, short, and unique in a design."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headrace.codegen.keywords import RESERVED

MAX_LENGTH = 40
"""Longest identifier made from a model's name, before a suffix for uniqueness."""

_LEGAL = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def is_identifier(text: str) -> bool:
    """Whether *text* may stand as an identifier in generated code as it is."""
    return _LEGAL.fullmatch(text) is not None and text not in RESERVED and "__" not in text


def identifier(name: str) -> str:
    """*name* as a legal identifier of at most :data:`MAX_LENGTH` characters; two names may give the same one.

    Every run of characters other than ASCII letters and digits becomes one underscore: Verilator encodes double
    underscores, and simulators differ in escaped identifiers. Long names keep their end, which tells layers apart.
    """
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    if len(plain) > MAX_LENGTH:
        plain = plain[-MAX_LENGTH:].strip("_")
    if not plain:
        return "unnamed"
    if not plain[0].isalpha():
        plain = f"n{plain}"[:MAX_LENGTH]
    return f"{plain}_0" if plain in RESERVED else plain


class Namespace:
    """Hands out identifiers that are unique whatever their case (they name files too).

    Args:
        taken: identifiers that are in use already.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {name.lower() for name in taken}

    def new(self, name: str) -> str:
        """A legal identifier for *name* that this namespace has not given before."""
        base = identifier(name)
        candidate, number = base, 0
        while candidate.lower() in self._taken:
            number += 1
            candidate = f"{base}_{number}"
        self._taken.add(candidate.lower())
        return candidate
