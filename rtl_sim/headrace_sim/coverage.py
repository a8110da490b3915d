"""Line and toggle coverage of a simulation, from the data file that a verilated model writes.

Verilator's own reader is not part of every installation; the format is a line for each point,
`C '<key><value>...' count`, with control characters 1 and 2 before each key and value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_POINT = re.compile(r"^C '(.*)' (\d+)$")


@dataclass(frozen=True)
class Point:
    """One coverage point: a line (`kind` "line") or a bit of a signal going up or down ("toggle")."""

    file: str
    line: int
    kind: str
    what: str
    module: str


@dataclass(frozen=True)
class Coverage:
    """How often each point was hit; the instances of a module count together."""

    hits: Mapping[Point, int] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, sources: Iterable[Path] = ()) -> Coverage:
        """The points of a `coverage.dat`; files get the paths that they have in `sources` (a cached simulator names
        those that it was compiled from)."""
        places = {source.name: str(source) for source in sources}
        hits: dict[Point, int] = {}
        for text in path.read_text(errors="replace").splitlines():
            match = _POINT.match(text)
            if match is None:
                continue
            fields = dict(part.split("\x02", 1) for part in match[1].split("\x01") if "\x02" in part)
            kind = "toggle" if fields.get("page", "").startswith("v_toggle") else "line"
            module = fields.get("page", "").partition("/")[2]
            file = fields.get("f", "")
            file = places.get(Path(file).name, file)
            point = Point(file, int(fields.get("l", "0")), kind, fields.get("o", ""), module)
            hits[point] = hits.get(point, 0) + int(match[2])
        return cls(hits)

    @classmethod
    def merged(cls, parts: Iterable[Coverage]) -> Coverage:
        """All of `parts` together."""
        hits: dict[Point, int] = {}
        for part in parts:
            for point, count in part.hits.items():
                hits[point] = hits.get(point, 0) + count
        return cls(hits)

    def share(self, kind: str) -> tuple[int, int]:
        """Points of a kind that were hit, and all of them."""
        counts = [count for point, count in self.hits.items() if point.kind == kind]
        return sum(count > 0 for count in counts), len(counts)

    def missed(self) -> list[Point]:
        """Points that were never hit, by file and line."""
        return sorted((p for p, n in self.hits.items() if n == 0), key=lambda p: (p.file, p.line, p.kind, p.what))

    def lcov(self) -> str:
        """As an lcov tracefile, which coverage viewers and CI services read: the least hit point of each line."""
        files: dict[str, dict[int, list[tuple[Point, int]]]] = {}
        for point, count in self.hits.items():
            files.setdefault(point.file, {}).setdefault(point.line, []).append((point, count))
        text = ["TN:headrace"]
        for file, lines in sorted(files.items()):
            text.append(f"SF:{file}")
            for line, points in sorted(lines.items()):
                for number, (_, count) in enumerate(sorted(points, key=lambda entry: (entry[0].kind, entry[0].what))):
                    text.append(f"BRDA:{line},0,{number},{count}")
                text.append(f"DA:{line},{min(count for _, count in points)}")
            text.append("end_of_record")
        return "\n".join(text) + "\n"

    def __str__(self) -> str:
        parts = []
        for kind in ("line", "toggle"):
            hit, total = self.share(kind)
            if total:
                parts.append(f"{kind} {hit}/{total} ({100 * hit / total:.1f} %)")
        return ", ".join(parts) or "no coverage points"
