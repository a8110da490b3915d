"""Exact minimum of a sum of costs of one and of two variables: variable elimination (dynamic programming on graphs).

A chain is solved as by Viterbi's algorithm, a residual network with tables of two or three variables. Source: Bertele
and Brioschi, "Nonserial Dynamic Programming", 1972; the order is that of the smallest table next.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Costs = NDArray[np.float64]
V = TypeVar("V", bound=Hashable)

LARGEST_TABLE = 2_000_000
"""Entries of a table past which a variable is fixed instead; only graphs with many crossing branches get there."""

ROUNDS = 4
"""Most times that fixed variables are reconsidered."""


@dataclass(frozen=True)
class _Factor:
    """A cost that depends on some variables, an axis each."""

    variables: tuple[Hashable, ...]
    table: Costs


def minimise(single: Mapping[V, Costs], pairs: Mapping[tuple[V, V], Costs]) -> dict[V, int]:
    """The choice for each variable with the least total cost; the first of several that cost the same.

    The result is the exact minimum unless the graph of the pairs is so dense that a table of more than
    :data:`LARGEST_TABLE` entries would be needed; then the variables with most partners are fixed, the rest is
    minimised exactly, and the fixed ones are reconsidered as long as that helps.

    Args:
        single: by variable, the cost of each of its choices.
        pairs: by pair of variables, the cost of each combination of their choices.
    """
    fixed = _to_fix(single, pairs)
    known = {v: int(np.argmin(single[v])) for v in fixed}
    best = _eliminate(single, pairs, known)
    for _ in range(ROUNDS if fixed else 0):
        before = _total(single, pairs, best)
        for v in fixed:
            others = {u: k for u, k in best.items() if u != v}
            known[v] = _eliminate(single, pairs, others)[v]
            best[v] = known[v]
        candidate = _eliminate(single, pairs, known)
        if _total(single, pairs, candidate) >= before:
            break
        best = candidate
    return best


def _total(single: Mapping[V, Costs], pairs: Mapping[tuple[V, V], Costs], picked: Mapping[V, int]) -> float:
    alone = sum(float(costs[picked[v]]) for v, costs in single.items())
    return alone + sum(float(costs[picked[a], picked[b]]) for (a, b), costs in pairs.items())


def _neighbours(single: Mapping[V, Costs], pairs: Mapping[tuple[V, V], Costs]) -> dict[V, set[V]]:
    found: dict[V, set[V]] = {v: set() for v in single}
    for a, b in pairs:
        found[a].add(b)
        found[b].add(a)
    return found


def _next(near: Mapping[V, set[V]], sizes: Mapping[V, int], order: Mapping[V, int]) -> tuple[int, V]:
    """The variable whose elimination needs the smallest table, and the entries of that table."""

    def entries(v: V) -> int:
        return sizes[v] * prod(sizes[u] for u in near[v])

    chosen = min(near, key=lambda v: (entries(v), order[v]))
    return entries(chosen), chosen


def _join(near: dict[V, set[V]], v: V) -> set[V]:
    """Take *v* out of the graph, its partners becoming partners of each other."""
    around = near.pop(v)
    for u in around:
        near[u] |= around
        near[u] -= {u, v}
    return around


def _to_fix(single: Mapping[V, Costs], pairs: Mapping[tuple[V, V], Costs]) -> list[V]:
    """Variables without which no table grows past the limit, found by a trial without costs."""
    near, sizes = _neighbours(single, pairs), {v: len(costs) for v, costs in single.items()}
    order = {v: k for k, v in enumerate(single)}
    fixed: list[V] = []
    while near:
        entries, v = _next(near, sizes, order)
        if entries <= LARGEST_TABLE:
            _join(near, v)
            continue
        crowded = max(near, key=lambda u: (len(near[u]), -order[u]))
        for u in near.pop(crowded):
            near[u].discard(crowded)
        fixed.append(crowded)
    return fixed


def _eliminate(single: Mapping[V, Costs], pairs: Mapping[tuple[V, V], Costs], known: Mapping[V, int]) -> dict[V, int]:
    """The exact minimum with the choices of *known* variables given."""
    factors: list[_Factor] = []
    for variables, table in [*(((v,), c) for v, c in single.items()), *pairs.items()]:
        index = tuple(known.get(v, slice(None)) for v in variables)
        factors.append(_Factor(tuple(v for v in variables if v not in known), table[index]))
    open_pairs = {pair: costs for pair, costs in pairs.items() if not set(pair) & set(known)}
    near = _neighbours({v: c for v, c in single.items() if v not in known}, open_pairs)
    sizes, order = {v: len(costs) for v, costs in single.items()}, {v: k for k, v in enumerate(single)}
    taken: list[tuple[V, tuple[V, ...], NDArray[np.intp]]] = []
    while near:
        _, v = _next(near, sizes, order)
        around = tuple(sorted(_join(near, v), key=lambda u: order[u]))
        mine = [f for f in factors if v in f.variables]
        total = sum(_spread(f, (*around, v)) for f in mine)
        table = np.broadcast_to(total, (*(sizes[u] for u in around), sizes[v]))
        taken.append((v, around, table.argmin(axis=-1)))
        factors = [f for f in factors if v not in f.variables]
        factors.append(_Factor(around, table.min(axis=-1)))
    picked = dict(known)
    for v, around, choice in reversed(taken):
        picked[v] = int(choice[tuple(picked[u] for u in around)])
    return {v: picked[v] for v in single}


def _spread(factor: _Factor, variables: Sequence[Hashable]) -> Costs:
    """The table of *factor* with an axis for each of *variables*, of length 1 where it does not depend on it."""
    places = [variables.index(v) for v in factor.variables]
    order = sorted(range(len(places)), key=lambda k: places[k])
    table = factor.table.transpose(order)
    shape = [1] * len(variables)
    for axis, k in enumerate(order):
        shape[places[k]] = table.shape[axis]
    return table.reshape(shape)
