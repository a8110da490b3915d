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
    package = Path(__file__).resolve().parent
    for folder in (package / "hls_templates", package.parents[1] / "hls_templates"):
        if (folder / "rtl").is_dir():
            return folder
    raise ToolError(f"the templates of Headrace are missing beside {package}; reinstall the package headrace")
