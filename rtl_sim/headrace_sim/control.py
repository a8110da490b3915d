"""Accesses of the control interface during a simulation, and what came back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from headrace_sim.errors import ArrayError

SIGNALS = {
    "awaddr": ("IN", 0), "awvalid": ("IN", 1), "awready": ("OUT", 1), "wdata": ("IN", 32), "wstrb": ("IN", 4),
    "wvalid": ("IN", 1), "wready": ("OUT", 1), "bresp": ("OUT", 2), "bvalid": ("OUT", 1), "bready": ("IN", 1),
    "araddr": ("IN", 0), "arvalid": ("IN", 1), "arready": ("OUT", 1), "rdata": ("OUT", 32), "rresp": ("OUT", 2),
    "rvalid": ("OUT", 1), "rready": ("IN", 1),
}  # fmt: skip
"""Direction and width of every signal of an AXI4-Lite slave; 0 is the width of an address."""

CHANNELS = ("aw", "w", "b", "ar", "r")


@dataclass(frozen=True)
class Write:
    """Write *data* to *address*; bit k of *strobe* says whether byte k is written."""

    address: int
    data: int
    strobe: int = 15


@dataclass(frozen=True)
class Read:
    """Read from *address*."""

    address: int


Access = Write | Read


@dataclass(frozen=True)
class ControlScript:
    """Accesses in order: before the first frame is offered, while frames move, after the last word came out."""

    before: tuple[Access, ...] = ()
    during: tuple[Access, ...] = ()
    after: tuple[Access, ...] = ()

    @property
    def phases(self) -> Iterator[tuple[int, Access]]:
        """All accesses, each with 0, 1 or 2 for its phase."""
        for phase, accesses in enumerate((self.before, self.during, self.after)):
            for access in accesses:
                yield phase, access

    def lines(self) -> list[str]:
        """One line an access, as the benches read them: phase, whether it writes, address, data, strobe."""
        return [
            f"{phase} 1 {a.address} {a.data} {a.strobe}" if isinstance(a, Write) else f"{phase} 0 {a.address} 0 0"
            for phase, a in self.phases
        ]

    def check(self, address_bits: int) -> None:
        """Refuse accesses that the interface cannot carry.

        Raises:
            ArrayError: names the first.
        """
        for _, access in self.phases:
            if not 0 <= access.address < 1 << address_bits:
                raise ArrayError(f"{access}: addresses are 0 to {(1 << address_bits) - 1:#x}")
            if isinstance(access, Write) and not (0 <= access.data < 2**32 and 0 <= access.strobe < 16):
                raise ArrayError(f"{access}: data are 32 bits, the strobe 4")


@dataclass(frozen=True)
class Answer:
    """What an access gave: data of a read, whether it was refused (SLVERR or DECERR), and the cycle of the answer."""

    data: int
    error: bool
    cycle: int


@dataclass(frozen=True)
class ControlAnswers:
    """The answers of a :class:`ControlScript`, access by access."""

    before: tuple[Answer, ...] = ()
    during: tuple[Answer, ...] = ()
    after: tuple[Answer, ...] = ()

    @staticmethod
    def of(script: ControlScript, status: Mapping[str, object]) -> ControlAnswers:
        """From what a bench has left."""
        entries = cast("list[list[int]]", cast("Mapping[str, object]", status["control"])["answers"])
        answers = [Answer(data, response != 0, cycle) for data, response, cycle in entries]
        first, second = len(script.before), len(script.before) + len(script.during)
        return ControlAnswers(tuple(answers[:first]), tuple(answers[first:second]), tuple(answers[second:]))
