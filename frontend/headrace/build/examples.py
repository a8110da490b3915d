"""Loads the examples that ship with Headrace; they are scripts beside the package, not part of it."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from headrace.errors import ToolError
from headrace.resources import examples


def load_example(name: str, module: str) -> ModuleType:
    """Import module ``<name>.<module>`` from the folder ``examples``.

    Raises:
        ToolError: when the examples are not installed, or what they need is not.
    """
    folder = str(examples())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(f"{name}.{module}")
    except ModuleNotFoundError as error:
        raise ToolError(f"the example needs the package {error.name}: pip install 'headrace[demo]'") from error
