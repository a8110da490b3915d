"""The formulas of the performance page are the cycles of the layers, for every case of the conformance suite."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from layers.test_conformance import GROUPS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"


def _words_in(layer: Any) -> int:
    return int(layer.inputs[0].words)


def _words_out(layer: Any) -> int:
    return int(layer.outputs[0].words)


def _more(layer: Any) -> int:
    return max(_words_in(layer), _words_out(layer))


def _window(layer: Any) -> int:
    pixels, channels = math.prod(layer.outputs[0].shape[:-1]), layer.inputs[0].shape[-1]
    return max(_words_in(layer), pixels * (channels // layer.pe) * (layer.window.kernel_taps // layer.simd))


FORMULAS: dict[str, Callable[[Any], int]] = {
    "vectors * (MW / SIMD) * (MH / PE)": lambda x: x.vectors * (x.mw // x.simd) * (x.mh // x.pe),
    "max(words in, pixels out * (C / PE) * (kernel / SIMD))": _window,
    "max(words in, words out)": _more,
    "as `VVAU`": lambda x: _words_in(x) if x.whole else _window(x),
    "words": _words_out,
    "words out": _words_out,
    "words in": _words_in,
    "vectors * max(C / PE, k)": lambda x: math.prod(x.stream.shape[:-1]) * max(x.stream.shape[-1] // x.pe, x.k),
}
"""By what the page says, up to the first ``;``, ``:`` or ``,`` outside of brackets."""


def _formulas() -> dict[str, Callable[[Any], int]]:
    """By kind of layer."""
    table = PAGE.read_text(encoding="utf-8").split("## Cycles of a layer")[1].split("\n## ")[0]
    found = {}
    for kinds, says in re.findall(r"^\| (`.*?) \| (.*) \|$", table, re.MULTILINE):
        text = max((f for f in FORMULAS if re.match(re.escape(f) + r"($|[;:,])", says)), key=len)
        found |= dict.fromkeys(re.findall(r"`(\w+)`", kinds), FORMULAS[text])
    return found


@pytest.mark.parametrize("group", GROUPS)
def test_cycles(group: str) -> None:
    formulas = _formulas()
    cases = GROUPS[group]
    missing = {layer.kind for layer in cases.values()} - set(formulas)
    assert not missing, f"the table 'Cycles of a layer' of {PAGE.name} lacks {missing}"
    assert {name: layer.cycles for name, layer in cases.items()} == {
        name: formulas[layer.kind](layer) for name, layer in cases.items()
    }
