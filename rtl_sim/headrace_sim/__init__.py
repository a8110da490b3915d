"""RTL simulation of Headrace designs: needs only numpy, cocotb and Verilator.

Names are imported on first use, so that importing the package (which the pytest plugin does in every
pytest run) costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace_sim.c_simulation import CsimOptions, CsimResult, csim
    from headrace_sim.cache import BuildCache
    from headrace_sim.compare import Mismatch, first_mismatch
    from headrace_sim.control import Answer, ControlAnswers, ControlScript, Read, Write
    from headrace_sim.coverage import Coverage
    from headrace_sim.errors import (
        ArrayError,
        BuildError,
        DeadlockError,
        ManifestError,
        ProtocolError,
        SimError,
        SimulationError,
        SimulatorNotFound,
    )
    from headrace_sim.linting import LintMessage, lint
    from headrace_sim.manifest import Layer, Manifest, Port, Stream, load
    from headrace_sim.packing import pack, unpack
    from headrace_sim.result import SimResult, Violation
    from headrace_sim.simulation import simulate
    from headrace_sim.toolchain import ToolInfo, find_tools
    from headrace_sim.vectors import Vectors, read_vectors, write_vectors

_HOMES = {
    "cache": ("BuildCache",),
    "compare": ("Mismatch", "first_mismatch"),
    "control": ("Answer", "ControlAnswers", "ControlScript", "Read", "Write"),
    "coverage": ("Coverage",),
    "c_simulation": ("CsimOptions", "CsimResult", "csim"),
    "errors": (
        "ArrayError",
        "BuildError",
        "DeadlockError",
        "ManifestError",
        "ProtocolError",
        "SimError",
        "SimulationError",
        "SimulatorNotFound",
    ),
    "linting": ("LintMessage", "lint"),
    "manifest": ("Layer", "Manifest", "Port", "Stream", "load"),
    "packing": ("pack", "unpack"),
    "result": ("SimResult", "Violation"),
    "simulation": ("simulate",),
    "toolchain": ("ToolInfo", "find_tools"),
    "vectors": ("Vectors", "read_vectors", "write_vectors"),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Answer",
    "ArrayError",
    "BuildCache",
    "BuildError",
    "ControlAnswers",
    "ControlScript",
    "Coverage",
    "CsimOptions",
    "CsimResult",
    "DeadlockError",
    "Layer",
    "LintMessage",
    "Manifest",
    "ManifestError",
    "Mismatch",
    "Port",
    "ProtocolError",
    "Read",
    "SimError",
    "SimResult",
    "SimulationError",
    "SimulatorNotFound",
    "Stream",
    "ToolInfo",
    "Vectors",
    "Violation",
    "Write",
    "csim",
    "find_tools",
    "first_mismatch",
    "lint",
    "load",
    "pack",
    "read_vectors",
    "simulate",
    "unpack",
    "write_vectors",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'headrace_sim' has no attribute {name!r}")
    return getattr(import_module(f"headrace_sim.{_MODULE_OF[name]}"), name)
