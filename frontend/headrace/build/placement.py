"""Places of boxes and wires: layers by longest path, lanes for wires that pass a layer, neighbours close together.

The method is that of Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system structures",
1981.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

WIDTH, HEIGHT = 236, 46
_LANE = 150  # kept free for a wire that passes a row, and the label beside it
_GAP_X, _GAP_Y = 28, 58
_SWEEPS = 8

Point = tuple[float, float]
Wire = Sequence[Point]
"""Points from the edge of one box to that of another: every second stretch lies between two rows."""

Edge = tuple[str, str]


@dataclass
class _Item:
    """A box, or the lane of a wire through a row."""

    row: int
    width: float
    above: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)
    x: float = 0.0


def place(names: Sequence[str], edges: Sequence[Edge]) -> tuple[dict[str, Point], list[Wire]]:
    """The upper left corner of each box, and the points of each wire, y pointing down.

    Args:
        names: of the boxes, in topological order.
        edges: between them; there may be several between the same two.
    """
    items, chains = _items(names, edges)
    rows: list[list[int]] = [[] for _ in range(1 + max((item.row for item in items), default=0))]
    for index, item in enumerate(items):
        rows[item.row].append(index)
    _order(rows, items)
    _columns(rows, items)
    corners = {name: (items[k].x - WIDTH / 2, float(_top(items[k].row))) for k, name in enumerate(names)}
    return corners, _wires(items, chains)


def _top(row: int) -> int:
    return row * (HEIGHT + _GAP_Y)


def _items(names: Sequence[str], edges: Sequence[Edge]) -> tuple[list[_Item], list[list[int]]]:
    """Boxes, in the order of *names*, then lanes; and the items along each edge."""
    depth: dict[str, int] = {}
    for name in names:
        depth[name] = max((depth[source] + 1 for source, target in edges if target == name), default=0)
    index = {name: k for k, name in enumerate(names)}
    items = [_Item(depth[name], WIDTH) for name in names]
    chains = []
    for source, target in edges:
        chain = [index[source]]
        for row in range(depth[source] + 1, depth[target]):
            chain.append(len(items))
            items.append(_Item(row, _LANE))
        chain.append(index[target])
        for upper, lower in pairwise(chain):
            items[upper].below.append(lower)
            items[lower].above.append(upper)
        chains.append(chain)
    return items, chains


def _order(rows: list[list[int]], items: Sequence[_Item]) -> None:
    """Sort every row by the mean position of its neighbours, downwards and upwards in turn, for few crossings."""
    position = {k: float(p) for row in rows for p, k in enumerate(row)}
    best, crossings = [list(row) for row in rows], _crossings(rows, items, position)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            centre = {k: _mean(items[k].above if down else items[k].below, position, position[k]) for k in row}
            row.sort(key=centre.__getitem__)
            position.update({k: float(p) for p, k in enumerate(row)})
        found = _crossings(rows, items, position)
        if found < crossings:
            best, crossings = [list(row) for row in rows], found
    rows[:] = best


def _crossings(rows: Sequence[Sequence[int]], items: Sequence[_Item], position: Mapping[int, float]) -> int:
    count = 0
    for row in rows:
        ends = [(position[k], position[low]) for k in row for low in items[k].below]
        count += sum(a < c and b > d for a, b in ends for c, d in ends)
    return count


def _mean(neighbours: Sequence[int], position: Mapping[int, float], default: float) -> float:
    return sum(position[k] for k in neighbours) / len(neighbours) if neighbours else default


def _columns(rows: Sequence[Sequence[int]], items: Sequence[_Item]) -> None:
    """Columns, in the order of every row, that are near those of the neighbours."""
    for row in rows:
        _spread(row, items, [0.0] * len(row))
    for sweep in range(2 * _SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            wanted = []
            for k in row:
                near = items[k].above if down else items[k].below
                wanted.append(_mean(near, {n: items[n].x for n in near}, items[k].x))
            _spread(row, items, wanted)


def _spread(row: Sequence[int], items: Sequence[_Item], wanted: Sequence[float]) -> None:
    """The columns nearest to those *wanted*, in least squares, at which nothing in *row* overlaps.

    Items that would overlap are merged to blocks, which lie at the mean of what their items want (isotonic regression
    by pooling adjacent violators).
    """
    offsets: list[float] = []
    for position, k in enumerate(row):
        before = row[position - 1] if position else k
        gap = (items[before].width + items[k].width) / 2 + _GAP_X if position else 0.0
        offsets.append(offsets[-1] + gap if position else 0.0)
    blocks: list[list[float]] = []  # sum of what is wanted less the offset, and count
    for want, offset in zip(wanted, offsets, strict=True):
        blocks.append([want - offset, 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += count
    starts = [total / count for total, count in blocks for _ in range(int(count))]
    for k, start, offset in zip(row, starts, offsets, strict=True):
        items[k].x = round(start + offset, 1)


def _wires(items: Sequence[_Item], chains: Sequence[Sequence[int]]) -> list[Wire]:
    leaves = _ports([(chain[0], chain[1]) for chain in chains], items)
    arrives = _ports([(chain[-1], chain[-2]) for chain in chains], items)
    wires: list[Wire] = []
    for chain, start, end in zip(chains, leaves, arrives, strict=True):
        points = [(start, float(_top(items[chain[0]].row) + HEIGHT))]
        for k in chain[1:-1]:
            top = float(_top(items[k].row))
            points += [(items[k].x, top), (items[k].x, top + HEIGHT)]
        wires.append([*points, (end, float(_top(items[chain[-1]].row)))])
    return wires


def _ports(ends: Sequence[tuple[int, int]], items: Sequence[_Item]) -> list[float]:
    """Where each wire meets its box: spread over the box, in the order of the columns they lead to."""
    found = [0.0] * len(ends)
    for box in {box for box, _ in ends}:
        mine = sorted((k for k, end in enumerate(ends) if end[0] == box), key=lambda k: items[ends[k][1]].x)
        for position, k in enumerate(mine):
            found[k] = round(items[box].x + WIDTH * ((position + 1) / (len(mine) + 1) - 0.5), 1)
    return found
