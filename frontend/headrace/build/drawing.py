"""A dataflow graph as an SVG that inherits its colours from the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from headrace.build.placement import HEIGHT, WIDTH, Point, Wire, place

_MARGIN = 10
_LETTER, _LINE = 6.2, 14  # of a label: mean width of a letter, height of its line
_SMALLEST = 0.7  # of its own size, to which the drawing shrinks; a narrower page scrolls it


@dataclass(frozen=True)
class Box:
    """One node: two lines of text, how much of it is filled, and whether it stands out."""

    title: str
    detail: str
    fill: float = 0.0
    marked: bool = False


@dataclass(frozen=True)
class Arrow:
    """An edge between two boxes, with what travels on it."""

    source: str
    target: str
    label: str


@dataclass(frozen=True)
class _Area:
    """A rectangle that text or a box covers."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: _Area) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def draw(boxes: Mapping[str, Box], arrows: Sequence[Arrow]) -> str:
    """SVG of a directed acyclic graph, flowing downwards; parallel branches lie side by side.

    An arrow that passes rows without ending there has a lane of its own between their boxes.

    Args:
        boxes: nodes by name, in topological order.
        arrows: edges between them.
    """
    corners, wires = place(list(boxes), [(a.source, a.target) for a in arrows])
    solid = [_Area(x, y, x + WIDTH, y + HEIGHT) for x, y in corners.values()]
    labels: list[_Area] = []
    parts = [f'<path class="wire" d="{_path(wire)}" marker-end="url(#tip)"/>' for wire in wires]
    for arrow, wire in zip(arrows, wires, strict=True):
        area = _label_area(arrow.label, wire, [*solid, *labels], wires)
        labels.append(area)
        text = f'x="{area.left:g}" y="{area.bottom - 4:g}"'
        parts.append(f'<text class="wire" {text}>{escape(arrow.label)}</text>')
    parts += [_box(*corners[name], box) for name, box in boxes.items()]
    covered = [*solid, *labels, *(_Area(x, y, x, y) for wire in wires for x, y in wire)]
    return _head(covered) + "".join(parts) + "</svg>"


def _head(covered: Sequence[_Area]) -> str:
    """The opening of a drawing that shows all that is *covered*."""
    left = min((a.left for a in covered), default=0.0) - _MARGIN
    top = min((a.top for a in covered), default=0.0) - _MARGIN
    width = max((a.right for a in covered), default=0.0) + _MARGIN - left
    height = max((a.bottom for a in covered), default=0.0) + _MARGIN - top
    return (
        f'<svg class="graph" viewBox="{left:g} {top:g} {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'style="min-width:{_SMALLEST * width:.0f}px" role="img" '
        'aria-label="Graph of the hardware layers"><defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" '
        'markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>'
    )


def _path(wire: Wire) -> str:
    """Straight where it passes a row of boxes, curved where it changes its column between two rows."""
    (x, y), rest = wire[0], wire[1:]
    text = f"M{x:g} {y:g}"
    for to_x, to_y in rest:
        bend = (to_y - y) / 2
        text += (
            f"L{to_x:g} {to_y:g}" if to_x == x else f"C{x:g} {y + bend:g} {to_x:g} {to_y - bend:g} {to_x:g} {to_y:g}"
        )
        x, y = to_x, to_y
    return text


def _label_area(label: str, wire: Wire, taken: Sequence[_Area], wires: Sequence[Wire]) -> _Area:
    """The place beside *wire*, nearest to its end, where a label meets no box, no other label and the fewest wires."""
    best: tuple[int, _Area] | None = None
    for area in _places(_LETTER * len(label), wire):
        if any(area.overlaps(other) for other in taken):
            continue
        crossed = sum(_crosses(other, area) for other in wires)
        if crossed == 0:
            return area
        if best is None or crossed < best[0]:
            best = (crossed, area)
    if best is not None:
        return best[1]
    x, y = wire[-1]  # nowhere is free: beside the arrow's tip
    return _Area(x + 7, y - 8 - _LINE, x + 7 + _LETTER * len(label), y - 8)


def _places(width: float, wire: Wire) -> Iterator[_Area]:
    """Where a label may stand: right and left of *wire*, from its end to its start."""
    for start, end in reversed(list(pairwise(wire))):
        for part in (0.5, 0.7, 0.3, 0.8, 0.2):
            y = _along(start, end, part)[1]
            beside = [a for a, b in (_along(start, end, k / 24) for k in range(25)) if abs(b - y) <= _LINE]
            for left in (max(beside) + 6, min(beside) - 6 - width):
                yield _Area(left, y - _LINE / 2, left + width, y + _LINE / 2)


def _along(start: Point, end: Point, part: float) -> Point:
    """A point of the curve that :func:`_path` draws between two points."""
    weight = 3 * part**2 - 2 * part**3
    height = 1.5 * part * (1 - part) + part**3
    return start[0] + (end[0] - start[0]) * weight, start[1] + (end[1] - start[1]) * height


def _crosses(wire: Wire, area: _Area) -> bool:
    near = [(a, b) for a, b in pairwise(wire) if a[1] < area.bottom and b[1] > area.top]
    points = (_along(a, b, k / 24) for a, b in near for k in range(25))
    return any(area.left < x < area.right and area.top < y < area.bottom for x, y in points)


def _box(x: float, y: float, box: Box) -> str:
    mark = " marked" if box.marked else ""
    size = f'width="{WIDTH}" height="{HEIGHT}" rx="6"'
    filled = max(0.0, min(box.fill, 1.0)) * WIDTH
    return (
        f'<g><rect class="box{mark}" x="{x:g}" y="{y:g}" {size}/>'
        f'<rect class="fill{mark}" x="{x:g}" y="{y + HEIGHT - 4:g}" width="{filled:.1f}" height="4"/>'
        f'<text class="title" x="{x + 10:g}" y="{y + 18:g}">{escape(_short(box.title, 30))}</text>'
        f'<text class="detail" x="{x + 10:g}" y="{y + 35:g}">{escape(_short(box.detail, 36))}</text>'
        f"<title>{escape(box.title)}: {escape(box.detail)}</title></g>"
    )


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
