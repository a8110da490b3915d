"""Lint of a design with every tool at hand: Verilator with all warnings, and Icarus."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from headrace_sim.errors import SimulatorNotFound
from headrace_sim.manifest import Manifest, load
from headrace_sim.processes import run
from headrace_sim.toolchain import icarus, verilator
from headrace_sim.verilate import verilator_command

_VERILATOR_LINE = re.compile(r"%(Error|Warning)(?:-(\w+))?: (.*)")


@dataclass(frozen=True)
class LintMessage:
    """One complaint: `code` is Verilator's warning name, or empty."""

    tool: str
    severity: str
    code: str
    text: str

    def __str__(self) -> str:
        code = f" {self.code}" if self.code else ""
        return f"{self.tool} {self.severity}{code}: {self.text}"


def lint(design: Manifest | Path | str) -> list[LintMessage]:
    """Messages of `verilator --lint-only -Wall` and, where installed, `iverilog -g2012 -Wall`; [] is clean.

    Raises:
        ManifestError: the manifest is malformed.
        SimulatorNotFound: Verilator is missing.
    """
    manifest = design if isinstance(design, Manifest) else load(design)
    messages = _lint_verilator(manifest)
    if manifest.models:
        return messages  # Icarus has no DPI, through which models of IPs call their C++
    try:
        program, _ = icarus()
    except SimulatorNotFound:
        return messages
    return messages + _lint_icarus(manifest, program)


def _lint_verilator(manifest: Manifest) -> list[LintMessage]:
    tool = verilator()
    command = [*verilator_command(tool, manifest), "--lint-only", "-Wall", "--quiet-stats", *manifest.simulated]
    status, output = _run(command, manifest, tool.environment())
    messages = []
    for line in output.splitlines():
        match = _VERILATOR_LINE.match(line)
        if match is not None and not match[3].startswith("Exiting due to"):
            messages.append(LintMessage("verilator", match[1].lower(), match[2] or "", match[3]))
    if status != 0 and not messages:
        messages.append(LintMessage("verilator", "error", "", output.strip()))
    return messages


def _lint_icarus(manifest: Manifest, program: Path) -> list[LintMessage]:
    command = [str(program), "-g2012", "-tnull", "-s", manifest.top, *manifest.sources]
    status, output = _run(command, manifest, None)
    severity = "error" if status else "warning"
    return [LintMessage("iverilog", severity, "", line) for line in output.splitlines() if line.strip()]


def _run(command: list[str], manifest: Manifest, environment: dict[str, str] | None) -> tuple[int, str]:
    done = run(command, manifest.root, environment=environment)
    return done.returncode, done.stdout
