"""Links without FIFOs: pipelines that move a word a cycle need nothing between them.

While the last of them waits, all stand still, as one longer pipeline would. What is left to cut is the combinational
path of ready, which passes through all of them.
"""

from __future__ import annotations

from headrace.ir import Graph
from headrace.schedule.streams import Link, layers, links
from headrace.schedule.tokens import relays

READY_REACH = 5
"""Most pipelines that ready passes through in a cycle: with a spare register at the end, one LUT of six inputs."""

Depths = dict[Link, int]


def passing_links(graph: Graph) -> Depths:
    """The links that words pass at once, behind layers that are nothing but pipelines, and their depths.

    Between two such layers the link is a wire, or where ready came through :data:`READY_REACH` of them, and at the end
    of the design, a spare register.
    """
    pipelines = {node for node, layer in layers(graph).items() if relays(layer)}
    found: Depths = {}
    reach = dict.fromkeys(pipelines, 1)
    for link in links(graph):
        source, target = link.source.node, link.target.node
        if source not in pipelines or target not in pipelines | set(graph.outputs):
            continue
        found[link] = 0 if target in pipelines and reach[source] < READY_REACH else 1
        if not found[link]:
            reach[target] = reach[source] + 1
    return found
