"""Where the data files of Headrace are: the one place that knows the checkout from the installed package."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from headrace.errors import ToolError


@cache
def hls_templates() -> Path:
    """The folder ``hls_templates``: beside ``frontend`` in a checkout, inside the package in a wheel.

    Raises:
        ToolError: when neither is there, which means that the installation is broken.
    """
    return _data("hls_templates", "rtl")


@cache
def examples() -> Path:
    """The folder ``examples``, beside ``hls_templates``.

    Raises:
        ToolError: when it is not there.
    """
    return _data("examples", "mnist_mlp")


def _data(name: str, content: str) -> Path:
    package = Path(__file__).resolve().parent
    for folder in (package / name, package.parents[1] / name):
        if (folder / content).is_dir():
            return folder
    raise ToolError(f"the folder {name} of Headrace is missing beside {package}; reinstall the package headrace")
