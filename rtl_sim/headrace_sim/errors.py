"""Errors that a caller of headrace_sim can meet. Each message is one sentence that says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace_sim.result import SimResult, Violation


class SimError(Exception):
    """Base class of every error that headrace_sim raises on purpose."""


class ManifestError(SimError):
    """The design manifest is missing, malformed, or does not describe the generated sources."""


class ArrayError(SimError):
    """An input array has the wrong name, shape, type or range."""


class SimulatorNotFound(SimError):
    """A program that the simulation needs is not installed."""


class BuildError(SimError):
    """The simulator or the C++ compiler refused the sources; the message ends with its output."""


class SimulationError(SimError):
    """The simulation ended before every output was complete.

    `seen` is what had been transferred until then, where the design ran at all.
    """

    seen: SimResult | None = None


class DeadlockError(SimulationError):
    """No boundary stream moved a word for `timeout_cycles` cycles; the message names who waits for whom."""


class ProtocolError(SimulationError):
    """The design broke the AXI4-Stream protocol. `violations` lists what was seen, in time order."""

    def __init__(self, message: str, violations: Sequence[Violation]) -> None:
        super().__init__(message)
        self.violations = tuple(violations)
