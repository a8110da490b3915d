"""What a synthesis found, unit by unit, and how it is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from pydantic import TypeAdapter

from headrace.bounded_text import kept_text
from headrace.errors import InputError

FILE = "synthesis.json"
"""Where a build keeps its synthesis."""

_FORMAT = "headrace-synthesis"
_VERSION = 1


@dataclass(frozen=True)
class Utilisation:
    """Cells of a device.

    Attributes:
        lut: look-up tables that compute; ``lutram`` and ``srl`` are those that remember.
        ff: flip-flops.
        carry: carry cells (CARRY4, CCU2C, SB_CARRY, ALU).
        mux: wide multiplexers behind look-up tables (MUXF7, PFUMX).
        dsp: DSP blocks.
        bram18: block RAMs of 18 kbit; a 36 kbit block is two. ``bram4``: of 4 kbit (iCE40). ``uram``: UltraRAMs.
        other: cells of no known kind.
        depth: cells on the longest combinational path.
    """

    lut: int = 0
    ff: int = 0
    carry: int = 0
    mux: int = 0
    dsp: int = 0
    bram18: int = 0
    bram4: int = 0
    uram: int = 0
    lutram: int = 0
    srl: int = 0
    other: int = 0
    depth: int = 0

    def __add__(self, more: Utilisation) -> Utilisation:
        """Side by side: numbers add, the longer path counts."""
        summed = {f.name: getattr(self, f.name) + getattr(more, f.name) for f in fields(self)}
        return Utilisation(**{**summed, "depth": max(self.depth, more.depth)})

    @property
    def luts(self) -> int:
        """All look-up tables, those that are memory included."""
        return self.lut + self.lutram + self.srl

    @property
    def brams(self) -> int:
        """Block RAMs of any size; UltraRAMs are counted apart."""
        return self.bram18 + self.bram4


@dataclass(frozen=True)
class UnitResult:
    """One unit: its cells, or why there are none.

    Attributes:
        name: the layer's node, or ``(top)`` for what connects the layers.
        kind: of the layer.
        used: None when synthesis failed.
        fmax_mhz: after place and route, when that was asked for.
        error: one sentence when something failed, else empty.
        seconds: of the tools; 0 when the result was kept from before.
    """

    name: str
    kind: str
    used: Utilisation | None = None
    fmax_mhz: float | None = None
    error: str = ""
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class Synthesis:
    """A synthesis of a design for one family.

    Attributes:
        family: its name.
        tool: the synthesiser and its version.
        digest: of the design's files, which says whether the result is still of the same design.
        whole: whether every part of the design was asked for.
        units: in topological order.
    """

    family: str
    tool: str
    digest: str
    whole: bool
    units: tuple[UnitResult, ...]

    @property
    def complete(self) -> bool:
        """Whether every part of the design has a result."""
        return self.whole and not self.failed

    @property
    def failed(self) -> Sequence[UnitResult]:
        """Units in which something failed."""
        return [unit for unit in self.units if unit.error]

    @property
    def total(self) -> Utilisation:
        """Sum of the units that have a result."""
        return sum((unit.used for unit in self.units if unit.used is not None), Utilisation())

    @property
    def fmax_mhz(self) -> float | None:
        """The slowest of the units that were placed and routed."""
        return min((unit.fmax_mhz for unit in self.units if unit.fmax_mhz is not None), default=None)

    @property
    def by_name(self) -> Mapping[str, UnitResult]:
        """Units by name."""
        return {unit.name: unit for unit in self.units}

    def json(self) -> str:
        """Text of ``synthesis.json``; figures that are partial say so."""
        data = asdict(self)
        head = {"format": _FORMAT, "version": _VERSION, "complete": self.complete}
        return json.dumps({**head, "total": asdict(self.total), "fmax_mhz": self.fmax_mhz, **data}, indent=2) + "\n"


def read_synthesis(folder: Path) -> Synthesis | None:
    """The synthesis that a build kept, or None when there was none.

    Raises:
        InputError: when the file is there but cannot be read.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        return TypeAdapter(Synthesis).validate_json(kept_text(path))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: not a synthesis of this version of Headrace; remove it and synthesise again"
        ) from error
