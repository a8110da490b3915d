"""Links without FIFOs: pipelines that move a word a cycle need nothing between them.

While the last of them waits, all stand still, as one longer pipeline would. What is left to cut is the combinational
path of ready, which passes through all of them.
"""

from __future__ import annotations

from headrace.ir import Graph
from headrace.schedule.streams import Link, layers, links, within_memory
from headrace.schedule.tokens import relays

READY_REACH = 5
"""Most pipelines that ready passes through in a cycle: with ready of the reader behind them, one LUT of six inputs."""

Depths = dict[Link, int]


def passing_links(graph: Graph) -> Depths:
    """The links that words pass at once, between layers that are nothing but pipelines, and their depths.

    There, and where such a layer begins or ends the design, the link is a wire: registers at the ends, with the
    multiplexers that they need, would take a quarter of the LUTs of a small matrix. Where ready came through
    :data:`READY_REACH` pipelines, it is a spare register.
    """
    pipelines = set()
    for node, layer in layers(graph).items():
        with within_memory(node, layer):
            if relays(layer):
                pipelines.add(node)
    starts, ends = pipelines | set(graph.inputs), pipelines | set(graph.outputs)
    found: Depths = {}
    reach = dict.fromkeys(pipelines, 1) | dict.fromkeys(graph.inputs, 0)
    for link in links(graph):
        source, target = link.source.node, link.target.node
        if source not in starts or target not in ends or not {source, target} & pipelines:
            continue
        found[link] = 0 if target not in pipelines or reach[source] < READY_REACH else 1
        if not found[link] and target in pipelines:
            reach[target] = reach[source] + 1
    return found
