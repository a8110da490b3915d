"""Padding in front of a convolution or sum becomes padding of its window, which costs no layer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headrace.ir import Graph, Op, Value
from headrace.ir.integer import IntConv, IntPad, IntSumPool
from headrace.passes.rewriting import rewrite, single_reader


def merge_padding(graph: Graph) -> Graph:
    """*graph* with every zero :class:`IntPad` of an image that only one window reads merged into that window."""

    def merged(node: str) -> tuple[Op, tuple[Value, ...]] | None:
        window = graph.op(node)
        if not isinstance(window, IntConv | IntSumPool):
            return None
        (source,) = graph.sources(node)
        pad = graph.op(source.node)
        if not isinstance(pad, IntPad) or np.any(pad.fill) or pad.pads[0] != (0, 0) or not single_reader(graph, source):
            return None
        pairs = zip(window.pads, pad.pads[1:], strict=True)
        pads = tuple((begin + b, end + e) for (begin, end), (b, e) in pairs)
        return replace(window, pads=pads), graph.sources(source.node)

    return rewrite(graph, merged)
