"""The points that no other beats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

Direction = Literal["min", "max"]


def pareto_front(points: Sequence[Mapping[str, float | None]], objectives: Mapping[str, Direction]) -> list[int]:
    """Indices of the points that no other is at least as good as in every objective and better than in one.

    Points that lack one of the objectives are not on the front. Of equal points all are.

    Args:
        points: values by objective.
        objectives: which way each is better.
    """
    known = [
        (index, [_cost(value, way) for value, way in zip(values, objectives.values(), strict=True)])
        for index, point in enumerate(points)
        if None not in (values := [point.get(name) for name in objectives])
    ]
    return [
        index
        for index, mine in known
        if not any(all(o <= m for o, m in zip(other, mine, strict=True)) and other != mine for _, other in known)
    ]


def _cost(value: float | None, way: Direction) -> float:
    if value is None:
        raise ValueError("points without a value have no place on the front")
    return value if way == "min" else -value
