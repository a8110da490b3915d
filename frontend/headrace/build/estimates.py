"""FINN's reports by layer, as data: cycles, resources, operations and parameters, and what the whole network does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from headrace.build.design import Design
from headrace.build.output import MANIFEST
from headrace.build.simulate import Simulation
from headrace.ir import Graph
from headrace.layers import Resources
from headrace.schedule.fifos import fifos
from headrace.schedule.folding_file import write_folding
from headrace.schedule.folding_keys import numbered
from headrace.schedule.streams import layers

Data = dict[str, object]


def layer_keys(design: Design) -> dict[str, str]:
    """The key that folding files have for a layer (``MVAU_0``), by the name of the layer."""
    return {node: key for key, node in numbered(design.hardware.graph).items()}


def estimates(design: Design) -> dict[str, Data]:
    """Reports by file name."""
    return {
        "estimate_layer_cycles.json": _cycles(design),
        "estimate_layer_resources.json": _resources(design),
        "estimate_network_performance.json": _network(design),
        "op_and_param_counts.json": _counts(design),
    }


def _cycles(design: Design) -> Data:
    keys = layer_keys(design)
    return {keys[row.name]: row.cycles for row in design.performance.layers}


def _resources(design: Design) -> Data:
    keys = layer_keys(design)
    rows: Data = {keys[row.name]: _estimate(row.resources) for row in design.performance.layers}
    if design.performance.control != Resources():
        rows["control"] = _estimate(design.performance.control)
    return {**rows, "total": _estimate(design.performance.resources)}


def _estimate(resources: Resources) -> dict[str, float]:
    """A row under FINN's names, rounded up to whole elements of the device."""
    return {
        "BRAM_18K": _whole(resources.bram18),
        "LUT": _whole(resources.lut),
        "FF": _whole(resources.ff),
        "URAM": _whole(resources.uram),
        "DSP": _whole(resources.dsp),
    }


def _whole(amount: float) -> int:
    return int(-(-amount // 1))


def _network(design: Design) -> Data:
    expected, config = design.performance, design.config
    return {
        "critical_path_cycles": expected.latency,
        "max_cycles": expected.interval,
        "max_cycles_node_name": layer_keys(design)[expected.bottleneck],
        "estimated_throughput_fps": expected.fps(config.clock_mhz),
        "estimated_latency_ns": expected.latency * config.synth_clk_period_ns,
    }


def _counts(design: Design) -> Data:
    """Operations a frame and parameters, by their types."""
    keys = layer_keys(design)
    found = {keys[node]: counts for node, layer in layers(design.hardware.graph).items() if (counts := layer.counts)}
    return {**found, "total": network_counts(design.hardware.graph)}


def network_counts(hardware: Graph) -> dict[str, int]:
    """Operations a frame and parameters of all layers, by their types."""
    total = Counter[str]()
    for layer in layers(hardware).values():
        total.update(layer.counts)
    return dict(total)


def hardware_config(design: Design) -> Data:
    """FINN's ``final_hw_config.json``: the folding, and the depth and ``ram_style`` of every FIFO."""
    keys = layer_keys(design)
    found = fifos(design.hardware.graph).items()
    depths = {node: {"depth": fifo.depth, "ram_style": fifo.ram_style} for node, fifo in found}
    return {
        **write_folding(design.folded.graph, design.hardware.backends, design.hardware.pixels, whole=True),
        **{keys[node]: depth for node, depth in depths.items()},
    }


def specializing_template(graph: Graph) -> Data:
    """FINN's ``template_specialize_layers_config.json``: every layer, to be said how it is made."""
    rows = {key: {"preferred_impl_style": "", "layer": node} for key, node in numbered(graph).items()}
    return {"Defaults": {}, **rows}


def rtlsim_performance(design: Design, simulation: Simulation, frames: int) -> Data:
    """FINN's ``rtlsim_performance.json`` for a simulation of so many *frames*."""
    result, config = simulation.result, design.config
    outputs = [result.time_stamps[name] for name in result.outputs]
    latency = 1 + max(int(stamps[0].max()) for stamps in outputs)
    seconds = result.cycles * config.synth_clk_period_ns * 1e-9
    manifest = json.loads(design.plan.files[MANIFEST])
    read, written = (frames * sum(map(_bytes_a_frame, manifest[ports])) for ports in ("inputs", "outputs"))
    interval = max((i for i in result.interval.values() if i is not None), default=float(result.cycles))
    return {
        "cycles": result.cycles,
        "runtime[ms]": seconds * 1000,
        "throughput[images/s]": frames / seconds,
        "DRAM_in_bandwidth[MB/s]": read * 1e-6 / seconds,
        "DRAM_out_bandwidth[MB/s]": written * 1e-6 / seconds,
        "latency_cycles": latency,
        "interval_cycles": interval,
        "stable_throughput[images/s]": config.clock_mhz * 1e6 / interval,
        "fclk[mhz]": config.clock_mhz,
        "N": frames,
    }


def _bytes_a_frame(port: Mapping[str, Any]) -> int:
    """What a port of the manifest takes or gives, with the padding of its words."""
    return int(port["tdata_bits"]) // 8 * -(-int(port["frame_elements"]) // int(port["elements_per_word"]))
