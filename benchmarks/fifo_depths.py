"""Bits of FIFOs: computed by the schedule, against the largest occupancy measured in simulated RTL.

    python benchmarks/fifo_depths.py [cnv mobilenet resnet ...] [--frames N]

The measurement is the one that users of FINN know: every FIFO is made deep, frames enter at the rate of the slowest
layer, and the most words that each FIFO held is what it should hold. The computed depths are simulated too, without a
limit on the input: the interval must be that of the slowest layer.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import networks
import numpy as np
import onnx

import headrace_sim
from headrace.codegen.design import generate
from headrace.codegen.plan import write_plan
from headrace.ingest import from_proto
from headrace.ir import Array, Graph
from headrace.layers.fifo import FIFO
from headrace.passes import to_integer
from headrace.passes.hardware_design import HardwareDesign
from headrace.passes.to_hardware import to_hardware
from headrace.schedule import default_target, insert_width_converters, solve_folding
from headrace.schedule.fifos import SHALLOWEST, insert_fifos
from headrace.schedule.streams import layers, rebuild

NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "cnv": partial(networks.cnv, 2, 2, True, 8),
    "mobilenet": partial(networks.mobilenet, 32, 4, 5, 10),
    "resnet": partial(networks.resnet50, 64, 16),
    "unet": partial(networks.unet, 16, 4, 2),
    "keyword-spotting": partial(networks.keyword_spotting, (25, 10), 16, 2),
}


def with_depths(graph: Graph, depth: Callable[[str, FIFO], int]) -> Graph:
    """*graph* with other depths of its FIFOs."""
    fifos = {node: layer for node, layer in layers(graph).items() if isinstance(layer, FIFO)}
    return rebuild(graph, {node: replace(fifo, depth=depth(node, fifo)) for node, fifo in fifos.items()})


def simulated(
    design: HardwareDesign, frames: Mapping[str, Array], pace: int = 0, trace: bool = False
) -> tuple[headrace_sim.SimResult, Mapping[tuple[str, int], str]]:
    """The simulation of *design*, and the names of its streams."""
    plan = generate(design)
    with tempfile.TemporaryDirectory() as folder:
        write_plan(plan, Path(folder))
        packed = design.pack_frames(frames)
        return headrace_sim.simulate(Path(folder), packed, trace=trace, pace=pace), plan.streams


def largest_occupancy(pushed: Array, popped: Array) -> int:
    """Most words that a FIFO held; a word that leaves in a cycle still takes its place in it."""
    gone = np.searchsorted(popped.ravel(), pushed.ravel(), side="left")
    return int((np.arange(1, pushed.size + 1) - gone).max())


def measured_depths(design: HardwareDesign, frames: Mapping[str, Array], interval: int) -> dict[str, int]:
    """Largest occupancy of every FIFO of *design* when all are deep and frames come every *interval* cycles."""
    deep = design.with_graph(with_depths(design.graph, lambda _, fifo: 2 * fifo.stream.words + 2048))
    result, streams = simulated(deep, frames, interval, trace=True)
    stamps = {key: result.time_stamps[name] for key, name in streams.items()}
    found = {}
    for node, layer in layers(design.graph).items():
        if isinstance(layer, FIFO):
            (source,) = design.graph.sources(node)
            while not layers(design.graph).get(source.node) and design.graph.sources(source.node):
                (source,) = design.graph.sources(source.node)
            before, after = stamps.get((source.node, source.port)), stamps.get((node, 0))
            if before is not None and after is not None:
                found[node] = largest_occupancy(before, after)
    return found


def random_frames(design: HardwareDesign, core: Graph, count: int) -> dict[str, Array]:
    """Integers in the ranges of the inputs."""
    rng = np.random.default_rng(0)
    shapes = {name: core.types(core.input_node(name))[0].shape for name in core.inputs}
    return {
        port.name: rng.integers(port.range.lo, port.range.hi, (count, *shapes[port.name]), endpoint=True)
        for port in design.inputs
    }


def bits(design: HardwareDesign, depths: Mapping[str, int]) -> int:
    """Bits of FIFOs of *depths*, none of which can be shallower than a register slice."""
    found = layers(design.graph)
    return sum(max(depth, SHALLOWEST) * found[node].inputs[0].word_bits for node, depth in depths.items())


def measure(name: str, count: int, verbose: bool) -> None:
    """Print both figures for one network."""
    core = to_integer(from_proto(NETWORKS[name]())).partition().core
    unfolded = to_hardware(core)
    folded = insert_width_converters(solve_folding(unfolded.graph, default_target(unfolded.graph)))
    begin = time.process_time()
    design = unfolded.with_graph(insert_fifos(folded))
    seconds = time.process_time() - begin
    found = layers(design.graph)
    interval = max(layer.cycles for layer in found.values())
    frames = random_frames(design, core, count)
    measured = measured_depths(design, frames, interval)
    computed = {node: fifo.depth for node, fifo in found.items() if isinstance(fifo, FIFO) and node in measured}
    ours, theirs = bits(design, computed), bits(design, measured)
    result, _ = simulated(design, frames)
    got = next(iter(result.interval.values()))
    print(
        f"{name}: {len(measured)} FIFOs, {ours:,} bits computed in {seconds:.2f} CPU s, {theirs:,} bits by largest "
        f"occupancy ({ours / theirs:.2f}x); interval {got:,.0f} of {interval:,} cycles",
        flush=True,
    )
    for node in measured if verbose else ():
        print(f"  {node}: {computed[node]}, held {measured[node]} words of {found[node].inputs[0].word_bits} bits")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("networks", nargs="*", help=f"any of {', '.join(NETWORKS)}; all when none is given")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every FIFO")
    parser.add_argument("--frames", type=int, default=8, help="that are simulated")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.networks if name not in NETWORKS]
    if unknown:
        parser.error(f"no network '{unknown[0]}'; there are: {', '.join(NETWORKS)}")
    for name in arguments.networks or NETWORKS:
        measure(name, arguments.frames, arguments.verbose)


if __name__ == "__main__":
    main()
