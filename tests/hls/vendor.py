"""The Apache-licensed ap types that some packages carry: used by tests alone, and never their ``hls_stream.h``."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

HOMES = {"da4ml": "codegen/hls/source/ap_types/include", "hls4ml": "templates/vivado/ap_types"}


def apache_types() -> Path:
    """The folder of ``ap_int.h`` in an installed package; skips the test when there is none."""
    for package, folder in HOMES.items():
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            path = Path(spec.origin).parent / folder
            if (path / "ap_int.h").is_file():
                return path
    pytest.skip(f"none of the packages {', '.join(HOMES)} is installed")
