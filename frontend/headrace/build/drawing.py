"""A dataflow graph as an SVG that inherits its colours from the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 236, 46
_GAP_X, _GAP_Y = 28, 44
_MARGIN = 8
_LABEL = 150  # how far the text beside the rightmost arrow reaches past its box


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


def draw(boxes: Mapping[str, Box], arrows: Sequence[Arrow]) -> str:
    """SVG of a directed acyclic graph, flowing downwards.

    A box lies one row below the lowest box it reads (longest-path layering), so that every arrow points down.

    Args:
        boxes: nodes by name, in topological order.
        arrows: edges between them.
    """
    rows = _rows(boxes, arrows)
    widest = max(len(names) for names in rows)
    width = widest * (_WIDTH + _GAP_X) - _GAP_X + 2 * (_MARGIN + _LABEL)
    height = len(rows) * (_HEIGHT + _GAP_Y) - _GAP_Y + 2 * _MARGIN
    corner: dict[str, tuple[float, float]] = {}
    for row, names in enumerate(rows):
        left = (width - (len(names) * (_WIDTH + _GAP_X) - _GAP_X)) / 2
        for column, name in enumerate(names):
            corner[name] = (left + column * (_WIDTH + _GAP_X), _MARGIN + row * (_HEIGHT + _GAP_Y))
    parts = [_arrow(corner[a.source], corner[a.target], a.label) for a in arrows]
    parts += [_box(*corner[name], box) for name, box in boxes.items()]
    head = (
        f'<svg class="graph" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img" '
        'aria-label="Graph of the hardware layers"><defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" '
        'markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>'
    )
    return head + "".join(parts) + "</svg>"


def _rows(boxes: Mapping[str, Box], arrows: Sequence[Arrow]) -> list[list[str]]:
    depth: dict[str, int] = {}
    for name in boxes:
        depth[name] = max((depth[a.source] + 1 for a in arrows if a.target == name), default=0)
    rows: list[list[str]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
    for name, row in depth.items():
        rows[row].append(name)
    return rows


def _arrow(source: tuple[float, float], target: tuple[float, float], label: str) -> str:
    x0, y0 = source[0] + _WIDTH / 2, source[1] + _HEIGHT
    x1, y1 = target[0] + _WIDTH / 2, target[1]
    bend = min((y1 - y0) / 2, _GAP_Y)
    path = f"M{x0:g} {y0:g}C{x0:g} {y0 + bend:g} {x1:g} {y1 - bend:g} {x1:g} {y1:g}"
    text = f'<text class="wire" x="{x1 + 7:g}" y="{y1 - _GAP_Y / 2 + 4:g}">{escape(label)}</text>'
    return f'<path class="wire" d="{path}" marker-end="url(#tip)"/>{text}'


def _box(x: float, y: float, box: Box) -> str:
    mark = " marked" if box.marked else ""
    size = f'width="{_WIDTH}" height="{_HEIGHT}" rx="6"'
    filled = max(0.0, min(box.fill, 1.0)) * _WIDTH
    return (
        f'<rect class="box{mark}" x="{x:g}" y="{y:g}" {size}/>'
        f'<rect class="fill{mark}" x="{x:g}" y="{y + _HEIGHT - 4:g}" width="{filled:.1f}" height="4"/>'
        f'<text class="title" x="{x + 10:g}" y="{y + 18:g}">{escape(_short(box.title, 30))}</text>'
        f'<text class="detail" x="{x + 10:g}" y="{y + 35:g}">{escape(_short(box.detail, 36))}</text>'
        f"<title>{escape(box.title)}: {escape(box.detail)}</title>"
    )


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
