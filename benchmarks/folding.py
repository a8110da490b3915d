"""Folding for a rate: estimated LUTs and CPU seconds beside the greedy rule that FINN uses, on the same layers.

The rule (FINN's ``SetFolding``, :mod:`headrace.schedule.greedy`): layer by layer, the input parallelism of a matrix
product (SIMD) is raised through the divisors until the layer is fast enough or its weight words are 36 bits wide, then
PE; every other layer raises what it has. A second pass relaxes the target to the slowest layer that came out. Both
results get width converters and FIFOs and are priced by the same estimates. Past the fastest rate at a pixel a cycle,
layers make several (:mod:`headrace.passes.pixels`), for both alike. The last line says whether the rule was ever the
smaller one in look-up tables, DSPs or block RAMs:

    python benchmarks/folding.py [tfc-w2a2 cnv-w2a2 mobilenet-w4a4 resnet50-w4a4 ...]
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import networks

from headrace.ingest import from_proto
from headrace.ir import Graph
from headrace.layers.base import Resources
from headrace.passes import to_integer
from headrace.passes.pixels import pixels_for
from headrace.passes.to_hardware import to_hardware
from headrace.schedule import fastest_target, insert_fifos, insert_width_converters, performance, solve_folding
from headrace.schedule.choices import extreme
from headrace.schedule.cost import USUAL, Weights
from headrace.schedule.folding import BOUNDED
from headrace.schedule.greedy import greedy_folding
from headrace.schedule.solver import FoldingProblem
from headrace.schedule.streams import layers

LUTS_ALONE = Weights(ff=0.0, dsp=0.0, bram18=0.0)
"""For the comparison of LUTs alone; the usual weights also trade LUTs for block RAM."""

STEPS = 6
"""Rates tried for each network, from the slowest to the fastest that its layers allow at a pixel a cycle."""

PAST = (2, 4)
"""And so many times that rate."""


def priced(fold: Callable[[], Graph]) -> tuple[Graph, Resources, float]:
    """What *fold* gives, its resources with converters and FIFOs, and its CPU seconds."""
    start = time.process_time()
    folded = fold()
    seconds = time.process_time() - start
    return folded, performance(insert_fifos(insert_width_converters(folded))).resources, seconds


def measure(name: str) -> list[Resources]:
    """Print a line for each rate of one network; the shares of the rule's resources that are taken here."""
    core = to_integer(from_proto(networks.NETWORKS[name]())).partition().core
    graph = to_hardware(core).graph
    fastest = fastest_target(graph)
    slowest = max(extreme(layer, min).cycles for layer in layers(graph).values())
    print(f"{name}: {len(layers(graph))} layers, {fastest:,} to {slowest:,} cycles a frame")
    targets = (round(slowest * (fastest / slowest) ** (step / (STEPS - 1))) for step in range(STEPS))
    shares = [compare(graph, target) for target in targets]
    for times in PAST:
        start = time.process_time()
        pixels = pixels_for(core, fastest // times)
        if not pixels:
            break
        blocked = to_hardware(core, pixels).graph
        seconds = time.process_time() - start
        print(f"  up to {max(pixels.values())} pixels at once: {len(layers(blocked))} layers in {seconds:.2f} s")
        shares.append(compare(blocked, max(fastest // times, fastest_target(blocked))))
    return shares


def compare(graph: Graph, target: int) -> Resources:
    """Print a line for *graph* folded for *target* cycles a frame by either rule; the share of each resource."""
    greedy, theirs, _ = priced(lambda: greedy_folding(graph, target))
    reached = max(layer.cycles for layer in layers(greedy).values())
    _, ours, seconds = priced(lambda: solve_folding(graph, reached))
    problem = FoldingProblem(graph)
    _, lean, _ = priced(lambda: problem.solve(reached, LUTS_ALONE).graph)
    print(
        f"  {reached:>13,} cycles: {ours.lut:>9,.0f} LUT, rule {theirs.lut:>9,.0f}: "
        f"ratio {ours.lut / theirs.lut:.3f}, LUTs alone minimised {lean.lut / theirs.lut:.3f}; "
        f"weighed {USUAL.cost(ours) / USUAL.cost(theirs):.2f}; BRAM18 {ours.bram18:,.0f} to {theirs.bram18:,.0f}, "
        f"DSP {ours.dsp:,.0f} to {theirs.dsp:,.0f}; {seconds:.2f} s",
        flush=True,
    )
    return Resources(**{kind: share(getattr(ours, kind), getattr(theirs, kind)) for kind in BOUNDED})


def share(ours: float, theirs: float) -> float:
    """The ratio of the two; 1 where both are nothing."""
    return 1.0 if ours == theirs else ours / theirs if theirs else math.inf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("networks", nargs="*", help=f"any of {', '.join(networks.NETWORKS)}; all when none is given")
    shares: list[Resources] = []
    for name in parser.parse_args().networks or networks.NETWORKS:
        shares += measure(name)
    worst = {kind: max(getattr(taken, kind) for taken in shares) for kind in BOUNDED}
    print(
        f"largest ratios to the rule: LUT {worst['lut']:.4f}, DSP {worst['dsp']:.4f}, BRAM18 {worst['bram18']:.4f}; "
        f"never more look-up tables than the rule: {'yes' if worst['lut'] <= 1 else 'NO'}"
    )


if __name__ == "__main__":
    main()
