"""Networks by hand, and the comparison of all their streams in C simulation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from hardware.cores import BIPOLAR, INT4, Core
from hardware.simulated import Settings

from headrace.codegen.design import generate
from headrace.codegen.plan import write_plan
from headrace.ir import Array, Graph
from headrace.ir.integer import IntAdd, IntMatMul, IntMaxPool, Reshape
from headrace.passes.hardware_design import HardwareDesign
from headrace.passes.to_hardware import to_hardware
from headrace.schedule import schedule
from headrace_sim import CsimOptions, csim

TFC = (784, 64, 64, 64, 10)


def bipolar_mlp(sizes: tuple[int, ...] = TFC) -> Graph:
    """Weights and activations of one bit that stands for -1 or +1."""
    core = Core(5)
    x = core.input((sizes[0],), BIPOLAR)
    for k, size in enumerate(sizes[1:]):
        inputs = core.graph.type(x).shape[-1]
        weights = core.rng.choice(np.array([-1, 1]), (inputs, size))
        ranges = np.array([np.full(size, -inputs), np.full(size, inputs)])
        x = core.graph.add(IntMatMul(weights, ranges), (x,), f"fc{k}")
        if k < len(sizes) - 2:
            x = core.activation(x, name=f"act{k}", output=BIPOLAR)
    core.output(x)
    return core.graph


def residual_network() -> Graph:
    """Convolutions with padding and a residual sum, max pooling, a table and a dense layer."""
    core = Core(6)
    x = core.input((3, 8, 8), INT4)
    a = core.activation(core.conv(x, 4, (3, 3), "conv0", pad=1), name="act0")
    b = core.activation(core.conv(a, 4, (3, 3), "conv1", pad=1), name="act1")
    total = core.graph.add(IntAdd((1, 1)), (a, b), "add")
    pooled = core.graph.add(IntMaxPool((2, 2), (2, 2), (1, 1), ((0, 0), (0, 0))), (total,), "pool")
    depthwise = core.lookup(core.conv(pooled, 4, (3, 3), "depthwise", pad=1, groups=4))
    flat = core.graph.add(Reshape((64,)), (depthwise,), "flat")
    core.output(core.matmul(flat, 5))
    return core.graph


def check_hls(core: Graph, feeds: Mapping[str, Array], folder: Path, options: CsimOptions) -> HardwareDesign:
    """Generate *core* as C++, run it, and compare all its streams and outputs with the graphs."""
    design = schedule(to_hardware(core), Settings())
    plan = generate(design, "design", "hls")
    write_plan(plan, folder)
    packed = design.pack_frames(feeds)
    result = csim(folder, packed, options=options)
    values: dict[str, tuple[Array, ...]] = {}
    streams = {p.node: packed[p.name].reshape(-1, *p.layout.frame) for p in design.inputs}
    design.graph.run(streams, observe=lambda node, arrays: values.update({node: arrays}))
    assert set(result.streams) == (set(plan.streams.values()) if options.trace else set())
    for (node, port), stream in plan.streams.items():
        if options.trace:
            expected = values[node][port]
            assert np.array_equal(result.streams[stream], expected.reshape(len(expected), -1)), f"{node} differs"
    outputs, reference = design.unpack_frames(result.outputs), core.run(feeds)
    for name in core.outputs:
        assert np.array_equal(outputs[name], reference[name])
    return design
