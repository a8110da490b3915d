"""That an adder graph computes what it should for every input: by following sums of inputs through it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.adder_graph.graph import CONSTANT, AdderGraph, Int, Operand


@dataclass(frozen=True)
class _Meaning:
    """A value that is ``sums @ u + offset`` of the input codes u: exactly, from ``lo`` to ``hi``, or modulo ``2**bits``
    (``exact`` is false)."""

    sums: Int
    offset: int
    lo: int
    hi: int
    bits: int
    exact: bool


def prove(graph: AdderGraph, weights: Int, bias: Int) -> None:
    """Show that the sums of *graph* are ``x @ weights + bias`` for every x in range.

    Every node is a sum of inputs and a constant; its exact range says whether its width holds it, or it is right modulo
    a power of two, which has to reach as far as what reads it.

    Raises:
        ValueError: names the first node or column for which this does not hold.
    """
    origin = graph.flip
    codes = (0, 1) if graph.x.bipolar else (graph.x.lo + origin, graph.x.hi + origin)
    nodes = [_Meaning(row, 0, *codes, graph.x.bits, True) for row in np.eye(graph.inputs, dtype=np.int64)]
    for k, adder in enumerate(graph.adders):
        parts = [_operand(o, nodes, adder.width, f"adder {k}") for o in adder.operands]
        nodes.append(_node(sum(p[0] for p in parts), sum(p[1] for p in parts), adder.width, codes))
    scale = 2 if graph.x.bipolar else 1
    for column, output in enumerate(graph.outputs):
        sums, offset = _operand(output, nodes, graph.bits, f"column {column}")
        wanted = bias[column] - (1 if graph.x.bipolar else origin) * weights[:, column].sum()
        modulus = 1 << graph.bits
        excess = sums - scale * weights[:, column]
        if codes[0] == codes[1]:  # the inputs are constants: only the whole counts
            excess, offset = np.zeros_like(excess), offset + codes[0] * int(excess.sum())
        if np.any(excess % modulus) or (offset - int(wanted)) % modulus:
            raise ValueError(f"column {column} is not the product with column {column} of the matrix")
        y = _range(scale * weights[:, column], codes)
        lowest = -(modulus // 2) if graph.total.signed else 0
        if y[0] + wanted < lowest or y[1] + wanted >= lowest + modulus:
            raise ValueError(f"column {column} does not fit {graph.bits} bits")


def _range(sums: Int, codes: tuple[int, int]) -> tuple[int, int]:
    ends = sums * codes[0], sums * codes[1]
    return int(np.minimum(*ends).sum()), int(np.maximum(*ends).sum())


def _node(sums: Int | int, offset: int, width: int, codes: tuple[int, int]) -> _Meaning:
    form = np.asarray(sums, np.int64)
    lo, hi = (end + offset for end in _range(form, codes)) if form.ndim else (offset, offset)
    exact = lo >> width == hi >> width
    turn = lo >> width << width if exact else 0
    return _Meaning(form, offset - turn, lo - turn, hi - turn, width, exact)


def _operand(operand: Operand, nodes: list[_Meaning], width: int, where: str) -> tuple[Int, int]:
    """What an operand stands for, modulo ``2**width``."""
    if operand.node == CONSTANT:
        return np.zeros_like(nodes[0].sums), operand.constant
    node = nodes[operand.node]
    weight, offset = 1, 0
    if operand.inverted:
        weight, offset = -1, (1 << node.bits) - 1
    elif operand.table is not None:
        weight, offset = _line(operand.table, node, width - operand.shift, where)
    if not node.exact and (operand.table is not None or node.bits + operand.shift < width):
        raise ValueError(f"{where} reads node {operand.node}, which is right modulo 2**{node.bits} only")
    sums: Int = weight * node.sums << operand.shift
    return sums, (weight * node.offset + offset << operand.shift) + operand.constant


def _line(table: tuple[int, ...], node: _Meaning, bits: int, where: str) -> tuple[int, int]:
    """Weight and offset of a table, which is a straight line modulo ``2**bits`` over the codes that come."""
    lo, hi = max(node.lo, 0), node.hi
    weight = table[min(lo + 1, hi)] - table[lo]
    offset = table[lo] - weight * lo
    if any((table[v] - weight * v - offset) % (1 << max(bits, 0)) for v in range(lo, hi + 1)):
        raise ValueError(f"{where}: a table is not linear")
    return weight, offset
