"""Networks of real size: CNV in simulated RTL, MobileNetV1 and ResNet-50 to RTL that lints."""

from __future__ import annotations

from pathlib import Path

import networks
import numpy as np
import pytest

import headrace
from headrace.codegen.design import generate
from headrace.codegen.plan import write_plan
from headrace_sim import simulate
from headrace_sim.linting import lint

pytestmark = [pytest.mark.sim, pytest.mark.slow]


@pytest.mark.parametrize("name", ["cnv-w1a1", "cnv-w1a2", "cnv-w2a2"])
def test_cnv_in_rtl(tmp_path: Path, name: str) -> None:
    design = headrace.load(networks.NETWORKS[name]())
    (port,) = design.hardware.inputs
    rng = np.random.default_rng(1)
    feeds = {port.name: rng.integers(port.range.lo, port.range.hi, (3, 3, 32, 32), endpoint=True)}
    expected = design.parts.core.run(feeds)
    write_plan(generate(design.hardware), tmp_path)
    result = simulate(tmp_path, design.hardware.pack_frames(feeds))
    got = design.hardware.unpack_frames(result.outputs)
    for output in design.hardware.outputs:
        assert np.array_equal(got[output.name], expected[output.name])
    (interval,) = result.interval.values()
    print(
        f"{name}: {interval} of {design.performance.interval} cycles, compiled in {result.build_seconds:.0f} s, "
        f"{result.cycles} cycles in {result.seconds:.1f} s"
    )
    assert interval == design.performance.interval


@pytest.mark.parametrize("name", ["mobilenet-w4a4", "resnet50-w4a4"])
def test_rtl_lints(tmp_path: Path, name: str) -> None:
    design = headrace.load(networks.NETWORKS[name]())
    assert not design.integer.blockers
    write_plan(generate(design.hardware), tmp_path)
    assert lint(tmp_path) == []
