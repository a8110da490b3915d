"""Loads the examples that ship with Headrace; they are scripts beside the package, not part of it."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from headrace.resources import examples


def load_example(name: str, module: str) -> ModuleType:
    """Import ``examples/<name>/<module>.py``; its neighbours import one another by plain name.

    Raises:
        ToolError: when the examples are not installed.
    """
    folder = examples() / name
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location(f"{name}_{module}", folder / f"{module}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded
