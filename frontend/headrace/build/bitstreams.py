"""What open tools made of a build for a board, as it is kept and shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from headrace.bounded_text import kept_text

FOLDER = "bitstream"
RESULT = "bitstream.json"

_FREE = ("GND", "VCC", "GSR")


@dataclass(frozen=True)
class Bitstream:
    """What the tools made.

    Attributes:
        board: its name.
        file: of the bitstream, beside the result.
        clock_mhz: of the board.
        fmax_mhz: that the design reaches, after place and route.
        used, available: by kind of cell.
        baud: of the serial port.
        digest: of the design.
        tools: programs and versions.
    """

    board: str
    file: str
    clock_mhz: float
    fmax_mhz: float
    used: Mapping[str, int]
    available: Mapping[str, int]
    baud: int
    digest: str
    tools: tuple[str, ...]

    @property
    def meets_timing(self) -> bool:
        """Whether the board's clock is not faster than the design."""
        return self.fmax_mhz >= self.clock_mhz

    @property
    def cells(self) -> dict[str, tuple[int, int]]:
        """Used and available by kind, of those that are used; constants and the global reset count for nothing."""
        return {kind: (n, self.available[kind]) for kind, n in self.used.items() if n and kind not in _FREE}

    def json(self) -> str:
        """Text of the file."""
        return json.dumps({**asdict(self), "meets_timing": self.meets_timing}, indent=2) + "\n"


def read_bitstreams(folder: Path, digest: str) -> list[Bitstream]:
    """The bitstreams in the *folder* of a build, of the design with *digest*, by board."""
    found = []
    for path in sorted((folder / FOLDER).glob(f"*/{RESULT}")):
        try:
            found.append(TypeAdapter(Bitstream).validate_json(kept_text(path)))
        except (OSError, ValueError):
            continue
    return [bitstream for bitstream in found if bitstream.digest == digest]
