"""The public names, against the list under version control: nothing appears or goes by accident.

After an intended change, renew the list with ``python tests/house/test_public_api.py``.
"""

from __future__ import annotations

import builtins
import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

import headrace
import headrace_sim

GOLDEN = Path(__file__).with_name("public_api.txt")


def public_packages() -> list[str]:
    """Every package whose name and parents start with no underscore; modules are reached through their package."""
    names = ["headrace", "headrace_sim"]
    for root in (headrace, headrace_sim):
        walk = pkgutil.walk_packages(root.__path__, f"{root.__name__}.")
        names += [m.name for m in walk if m.ispkg and "._" not in m.name]
    return sorted(names)


def public_names() -> list[str]:
    """``package.name`` of everything in an ``__all__``."""
    found = []
    for name in public_packages():
        package = importlib.import_module(name)
        found += [f"{name}.{public}" for public in sorted(getattr(package, "__all__", ()))]
    return found


def test_packages_with_names_declare_them() -> None:
    undeclared = []
    for name in public_packages():
        content = vars(importlib.import_module(name))
        offered = [n for n, v in content.items() if n[0] != "_" and callable(v) and not isinstance(v, ModuleType)]
        if offered and "__all__" not in content:
            undeclared.append(name)
    assert undeclared == []


def test_declared_names_exist() -> None:
    split = [name.rpartition(".") for name in public_names()]
    missing = [(package, name) for package, _, name in split if not hasattr(importlib.import_module(package), name)]
    assert missing == []


def test_import_of_everything_hides_nothing() -> None:
    """``from package import *`` takes the place of no built-in and of no module that a user has imported."""
    usual = {*vars(builtins), "np", "numpy", "onnx", "os", "plt", "sys", "torch"}
    assert [name for name in public_names() if name.rpartition(".")[2] in usual] == []


def test_names_match_the_list() -> None:
    assert public_names() == GOLDEN.read_text(encoding="utf-8").split()


if __name__ == "__main__":
    GOLDEN.write_text("\n".join(public_names()) + "\n", encoding="utf-8")
