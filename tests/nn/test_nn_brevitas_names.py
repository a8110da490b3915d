"""The page on Brevitas names everything that Brevitas has, and tells the truth about what is missing."""

import importlib
import inspect
import re
from pathlib import Path

import pytest
from torch import nn

PAGE = Path(__file__).parents[2] / "docs" / "brevitas.md"
QUANTIZERS = (
    "binary",
    "ternary",
    "scaled_int",
    "shifted_scaled_int",
    "fixed_point",
    "none",
    "float",
    "float_base",
    "float_quant_ocp",
    "float_quant_fnuz",
    "mx_quant_ocp",
)


def _rows(module):
    """``{name: status}`` of the table of *module*."""
    table = PAGE.read_text().split(f"| `brevitas.{module}` | | |", 1)[1].split("\n\n", 1)[0]
    return dict(re.findall(r"^\| `(\w+)` \| (same|different|missing) \|", table, re.MULTILINE))


def _public(module, base):
    names = vars(module).items()
    return {n for n, o in names if inspect.isclass(o) and issubclass(o, base) and not n.startswith("_")}


@pytest.mark.parametrize("part", QUANTIZERS)
def test_every_quantizer_is_listed_as_it_is(part):
    theirs = pytest.importorskip(f"brevitas.quant.{part}")
    injector = importlib.import_module("brevitas.inject").BaseInjector
    names = {n for n in _public(theirs, injector) if getattr(theirs, n).__module__ == theirs.__name__}
    ours = importlib.import_module(f"headrace.quant.{part}") if part != "mx_quant_ocp" else None
    rows = _rows(f"quant.{part}")
    assert set(rows) == names
    assert {n for n, status in rows.items() if status == "missing"} == {n for n in names if not hasattr(ours, n)}


def test_every_layer_is_listed_as_it_is():
    theirs = pytest.importorskip("brevitas.nn")
    ours = importlib.import_module("headrace.nn")
    names = _public(theirs, nn.Module)
    rows = _rows("nn")
    assert set(rows) == names
    assert {n for n, status in rows.items() if status == "missing"} == {n for n in names if not hasattr(ours, n)}
