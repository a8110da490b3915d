"""CPU seconds of the compiler from an ONNX file to a folded hardware graph with FIFO depths, on full-size networks.

    python benchmarks/compile_speed.py [tfc-w2a2|cnv-w2a2|mobilenet-w4a4|resnet50-w4a4 ...] [--profile] [--rtl]
        [--qonnx]

Each network is a QONNX file with random weights (``networks.py``). ``--rtl`` adds the rendering of the SystemVerilog;
``--qonnx`` runs qonnx's ``cleanup_model``, with which FINN's flow begins, on the same file beside it.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import time
from collections.abc import Callable
from itertools import pairwise

import onnx
from networks import NETWORKS

from headrace.codegen.design import generate
from headrace.ingest import from_proto
from headrace.layers.base import load_layers
from headrace.passes import to_integer
from headrace.passes.hardware_design import HardwareDesign
from headrace.passes.to_hardware import to_hardware
from headrace.schedule import default_target, insert_fifos, insert_width_converters, solve_folding
from headrace.schedule.streams import layers

FINN_SECONDS = {"tfc-w2a2": 0.95, "cnv-w2a2": 4.6, "mobilenet-w4a4": 47.0}
"""CPU seconds of FINN's Python flow (file to folded hardware graph with estimates, no FIFO depths), measured once on a
machine with two cores; printed for orientation, as FINN does not install from pip."""

DEFAULT = tuple(NETWORKS)[:4]


def measure(name: str, profile: bool, rtl: bool, qonnx: bool) -> None:
    """Print the CPU seconds of every stage for one network."""
    data = NETWORKS[name]().SerializeToString()
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    seconds = [("", time.process_time())]

    def lap(stage: str) -> None:
        seconds.append((stage, time.process_time()))

    model = onnx.load_model_from_string(data)
    source = from_proto(model)
    lap("import")
    parts = to_integer(source).partition()
    lap("integers")
    design = to_hardware(parts.core)
    lap("layers")
    folded = insert_width_converters(solve_folding(design.graph, default_target(design.graph)))
    lap("folding")
    hardware = design.with_graph(insert_fifos(folded))
    lap("FIFOs")
    profiler.disable()
    total = seconds[-1][1] - seconds[0][1]
    costs = ", ".join(f"{stage} {end - start:.2f}" for (_, start), (stage, end) in pairwise(seconds))
    beside = f"; FINN {FINN_SECONDS[name]:g} s, {FINN_SECONDS[name] / total:.0f}x" if name in FINN_SECONDS else ""
    print(f"{name}: {len(layers(hardware.graph))} layers in {total:.2f} CPU s ({costs}){beside}", flush=True)
    if rtl:
        _print_rtl(hardware)
    if qonnx:
        spent = _seconds(lambda: _qonnx_cleanup(data))
        print(f"  qonnx clean-up alone: {spent:.2f} CPU s, {spent / total:.1f}x of the whole flow here")
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def _print_rtl(hardware: HardwareDesign) -> None:
    start = time.process_time()
    plan = generate(hardware)
    spent = time.process_time() - start
    size = sum(len(text) for text in plan.files.values()) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"  SystemVerilog: {len(plan.files)} files, {size:.1f} MiB in {spent:.2f} CPU s; {peak:.1f} GiB at most so far"
    )


def _qonnx_cleanup(data: bytes) -> None:
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.util.cleanup import cleanup_model

    model = onnx.load_model_from_string(data)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    cleanup_model(ModelWrapper(model))


def _seconds(work: Callable[[], None]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("networks", nargs="*", help=f"any of {', '.join(NETWORKS)}; the first four when none is given")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    parser.add_argument("--rtl", action="store_true", help="render the SystemVerilog too")
    parser.add_argument("--qonnx", action="store_true", help="run qonnx's clean-up on the same file")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.networks if name not in NETWORKS]
    if unknown:
        parser.error(f"no network '{unknown[0]}'; there are: {', '.join(NETWORKS)}")
    load_layers()  # an import, like those above
    for name in arguments.networks or DEFAULT:
        measure(name, arguments.profile, arguments.rtl, arguments.qonnx)


if __name__ == "__main__":
    main()
