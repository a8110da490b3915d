"""Every hardware layer, and whole designs, after a reset in the middle of frames."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from fuzz.networks import random_network
from reset_bench import run_resets
from runtime.networks import ALL, network, two_ends

from headrace.build.config import BuildConfig
from headrace.build.design import Design
from headrace.build.verify import random_frames as frames_of_model
from headrace.errors import HeadraceError
from headrace.ingest import from_proto
from headrace_sim.manifest import load

from .conformance import build_bench, input_names, output_names, random_frames
from .test_conformance import GROUPS

pytestmark = [pytest.mark.sim, pytest.mark.skipif(not shutil.which("iverilog"), reason="Icarus Verilog was not found")]
FRAMES = 3
TIED = "".join(f", .s_axi_control_{name}(1'b0)" for name in ("awvalid", "wvalid", "arvalid", "bready", "rready"))


@pytest.mark.parametrize("group", GROUPS)
def test_layers(group: str, tmp_path: Path) -> None:
    layers = GROUPS[group]
    bench = build_bench(layers, tmp_path / "bench")
    rng = np.random.default_rng(5)
    inputs = {}
    for case, layer in layers.items():
        for name, stream in zip(input_names(case, layer), layer.inputs, strict=True):
            inputs[name] = random_frames(stream, FRAMES, rng)
    got = run_resets(bench.manifest, inputs, tmp_path, span=150)
    for case, layer in layers.items():
        expected = layer.execute(*(inputs[name] for name in input_names(case, layer)))
        for name, values in zip(output_names(case, layer), expected, strict=True):
            np.testing.assert_array_equal(got[name], values.reshape(FRAMES, -1), err_msg=case)


def designs() -> dict[str, Design]:
    found = {"two ends": Design(from_proto(two_ends(0)), BuildConfig.checked(name="net"))}
    settings = {"folding": ALL, "performance_counters": True}
    found["control"] = Design(from_proto(network(0)), BuildConfig.checked(name="net", **settings))
    for seed in range(20):
        if len(found) == 7:
            break
        try:
            design = Design(from_proto(random_network(seed).model), BuildConfig.checked(name="net"))
            design.plan  # noqa: B018 - compiles it
        except HeadraceError:
            continue
        found[f"random {seed}"] = design
    return found


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", designs())
def test_designs(name: str, seed: int, tmp_path: Path) -> None:
    design = designs()[name]
    design.plan.write(tmp_path / "net")
    manifest = load(tmp_path / "net")
    feeds = design.core_feeds(frames_of_model(design.source, FRAMES, seed))
    packed = design.hardware.pack_frames(feeds)
    extra = TIED if "control" in name else ""
    span, held = 2 * manifest.interval_cycles + 20, seed % len(manifest.outputs)
    got = run_resets(manifest, packed, tmp_path, span, seed, extra, held)
    unpacked = design.hardware.unpack_frames(got)
    for output, values in design.hardware.run(feeds).items():
        np.testing.assert_array_equal(unpacked[output], values)
