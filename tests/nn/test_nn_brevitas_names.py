"""Every public name of Brevitas is in Headrace, or listed with a reason; the page on Brevitas tells the truth."""

import importlib
import importlib.util
import inspect
import pathlib
import pkgutil
import re
import warnings
from fnmatch import fnmatch
from functools import lru_cache

import pytest
from torch import nn

brevitas = pytest.importorskip("brevitas")

_spec = importlib.util.spec_from_file_location(
    "brevitas_surface", pathlib.Path(__file__).with_name("brevitas_surface.py")
)
surface = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(surface)

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "brevitas.md"
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


def _imported(name):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError:
        return None


def _defined(module):
    """The classes and functions that *module* defines, by their public names."""
    kinds = (inspect.isclass, inspect.isfunction)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and any(is_kind(value) for is_kind in kinds)
        and getattr(value, "__module__", None) == module.__name__
    ]


@lru_cache
def _names():
    """``module.name`` of every public class and function, without the name of the package."""
    importlib.import_module("brevitas.graph")  # first, or some modules import each other in a circle
    found = []
    for part in surface.PARTS:
        package = importlib.import_module(f"brevitas.{part}")
        for info in [None, *pkgutil.walk_packages(package.__path__, package.__name__ + ".")]:
            module = _imported(info.name) if info else package
            if module is not None:
                path = module.__name__.removeprefix("brevitas.")
                found += [f"{path}.{name}" for name in _defined(module)]
    return found


def _has(path):
    """Whether the module of *path*, or a package above it, has the name at its end."""
    *packages, name = path.split(".")
    for depth in range(len(packages), 0, -1):
        module = _imported("headrace." + ".".join(packages[:depth]))
        if hasattr(module, name):
            return True
    return False


def test_every_name_is_there_or_accounted_for():
    names = _names()
    assert len(names) > 300
    missing = [n for n in names if not _has(n) and surface.place(n) is None and surface.reason(n) is None]
    assert not missing


@pytest.mark.parametrize("pattern", [*surface.MOVED, *surface.LEFT_OUT])
def test_the_list_of_exceptions_is_up_to_date(pattern):
    matching = [n for n in _names() if fnmatch(n, pattern)]
    assert not all(_has(n) for n in matching), "remove it from the list"


@pytest.mark.parametrize("target", sorted(set(surface.MOVED.values())))
def test_what_has_moved_is_there(target):
    assert _has(target)


def _rows(module):
    """``{name: status}`` of the table of *module*."""
    table = PAGE.read_text().split(f"| `brevitas.{module}` | | |", 1)[1].split("\n\n", 1)[0]
    return dict(re.findall(r"^\| `(\w+)` \| (same|different|missing) \|", table, re.MULTILINE))


def _public(module, base):
    names = vars(module).items()
    return {n for n, o in names if inspect.isclass(o) and issubclass(o, base) and not n.startswith("_")}


@pytest.mark.parametrize("part", QUANTIZERS)
def test_every_quantizer_is_listed_as_it_is(part):
    theirs = importlib.import_module(f"brevitas.quant.{part}")
    injector = importlib.import_module("brevitas.inject").BaseInjector
    names = {n for n in _public(theirs, injector) if getattr(theirs, n).__module__ == theirs.__name__}
    ours = importlib.import_module(f"headrace.quant.{part}")
    rows = _rows(f"quant.{part}")
    assert set(rows) == names
    assert {n for n, status in rows.items() if status == "missing"} == {n for n in names if not hasattr(ours, n)}


def test_every_layer_is_listed_as_it_is():
    names = _public(importlib.import_module("brevitas.nn"), nn.Module)
    ours = importlib.import_module("headrace.nn")
    rows = _rows("nn")
    assert set(rows) == names
    assert {n for n, status in rows.items() if status == "missing"} == {n for n in names if not hasattr(ours, n)}
