"""Headrace: low-bit PyTorch networks to simulated, bit-exact FPGA dataflow accelerators.

    design = headrace.build("model.onnx", "out", target_fps=100_000)
    y = design.run({"x": x}, mode="rtl")

Importing this package costs nothing: what it offers is imported when first used, so that training code never
loads the compiler and the compiler never loads torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.build.api import build as build
    from headrace.build.api import load as load
    from headrace.build.design import Design as Design
    from headrace.nn.finalize import finalize as finalize

__version__ = "0.1.0"

__all__ = ["Design", "build", "finalize", "load"]

_HOMES = {"Design": "headrace.build.design", "load": "headrace.build.api", "finalize": "headrace.nn.finalize"}


def __getattr__(name: str) -> object:
    if name == "build":  # the package is the function: see headrace.build
        return importlib.import_module("headrace.build")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'headrace' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
