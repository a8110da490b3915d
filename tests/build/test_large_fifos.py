"""What large FIFOs are made of: FINN's ``large_fifo_mem_style``, in estimates, files and hardware."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from ingest.onnx_files import model, node

import headrace
from headrace.build.config import BuildConfig
from headrace.build.design import Design
from headrace.build.verify import random_frames
from headrace.errors import FoldingError, InputError
from headrace.ingest import from_proto
from headrace.layers.fifo import FIFO
from headrace.schedule.fifos import LARGE, fifos
from headrace_sim import find_tools

needs_verilator = pytest.mark.skipif(
    not {tool.name: tool.found for tool in find_tools()}["verilator"], reason="Verilator was not found"
)


def bypassed() -> onnx.ModelProto:
    """Two convolutions that wait for rows of a wide image, beside nothing at all."""
    rng = np.random.default_rng(0)
    weights = {f"w{k}": rng.integers(-2, 2, (1, 1, 7, 7)).astype(np.float32) for k in range(2)}
    nodes = [node("Quant", ["x", "s", "z", "b"], ["q0"], signed=1, narrow=0)]
    for k in range(2):
        nodes += [
            node("Quant", [f"w{k}", "s", "z", "b"], [f"wq{k}"], signed=1, narrow=0),
            node("Conv", [f"q{k}", f"wq{k}"], [f"c{k}"], pads=[3, 3, 3, 3]),
            node("Quant", [f"c{k}", "s", "z", "b"], [f"q{k + 1}"], signed=1, narrow=0),
        ]
    nodes.append(node("Add", ["q0", "q2"], ["y"]))
    return model(nodes, {"x": ["N", 1, 8, 48]}, {"s": 1.0, "z": 0.0, "b": 3.0, **weights})


MODEL = bypassed()


def designed(**settings: Any) -> Design:
    return Design(from_proto(MODEL), BuildConfig.checked(name="net", target_fps=2e8 / (8 * 48), **settings))


def split(design: Design) -> tuple[dict[str, FIFO], dict[str, FIFO]]:
    """Large FIFOs and the others."""
    found = fifos(design.hardware.graph)
    large = {node: fifo for node, fifo in found.items() if fifo.depth > LARGE}
    return large, {node: fifo for node, fifo in found.items() if node not in large}


@pytest.mark.parametrize("style", ["block", "distributed", "ultra"])
def test_large_ones_only(style: str) -> None:
    large, others = split(designed(large_fifo_mem_style=style))
    assert [fifo.style for fifo in large.values()] == [style]
    assert {fifo.ram_style for fifo in others.values()} == {"auto"}
    assert max(fifo.depth for fifo in others.values()) <= 256


def test_by_default_the_size_decides() -> None:
    for settings in ({}, {"large_fifo_mem_style": "auto"}, {"large_fifo_mem_style": None}):
        large, _ = split(designed(**settings))
        assert [(fifo.ram_style, fifo.style) for fifo in large.values()] == [("auto", "distributed")]


def test_what_the_folding_says_comes_first() -> None:
    (name,), _ = split(designed())
    number = [*fifos(designed().hardware.graph)].index(name)
    for folding in ({f"FIFO_{number}": {"ram_style": "block"}}, {"Defaults": {"ram_style": ["block", ["FIFO"]]}}):
        large, _ = split(designed(large_fifo_mem_style="ultra", folding=folding))
        assert [fifo.style for fifo in large.values()] == ["block"]


def test_they_count_in_a_budget() -> None:
    part = {"fit_part": "xc7z020", "folding": None}
    assert designed(**part, large_fifo_mem_style="block").performance.resources.bram18 > 0
    with pytest.raises(FoldingError, match="the part xc7z020 has 0 uram and the design takes an estimated 1 "):
        _ = designed(**part, large_fifo_mem_style="ultra").hardware
    assert designed(fit_part="ZCU104", large_fifo_mem_style="ultra").performance.resources.uram == 1


def test_an_unknown_style_is_refused() -> None:
    with pytest.raises(InputError, match=r"setting 'large_fifo_mem_style': input should be 'auto', 'block', .*'bram'"):
        designed(large_fifo_mem_style="bram")


def test_in_the_files_of_a_build(tmp_path: Path) -> None:
    """In the configuration, the report, FINN's files, SystemVerilog and C++; a build that is opened again has it."""
    out = tmp_path / "out"
    settings: Any = {"target_fps": 2e8 / (8 * 48), "backend": "both", "large_fifo_mem_style": "ultra", "name": "net"}
    built = headrace.build(MODEL, out, **settings)
    (name,), _ = split(built)
    final = json.loads((out / "final_hw_config.json").read_text())
    assert [entry["ram_style"] for entry in final.values() if entry.get("depth", 0) > LARGE] == ["ultra"]
    assert json.loads((out / "report" / "estimate_layer_resources.json").read_text())["total"]["URAM"] == 1
    assert '.STYLE("ultra")' in (out / "rtl" / f"net_{name}.sv").read_text()
    assert (out / "hls" / "net.cpp").read_text().count("type=fifo impl=uram)") == 1
    assert '<th class="num">URAM</th>' in (out / "report" / "index.html").read_text()
    assert " BRAM18, 1 URAM</small>" in (out / "report" / "index.html").read_text()
    assert headrace.load(out).plan.files == built.plan.files
    assert headrace.build(None, out, **settings, start_step="generate").plan.files == built.plan.files


@needs_verilator
@pytest.mark.parametrize("style", ["block", "ultra"])
def test_frames_at_the_rate_of_the_slowest_layer(style: str) -> None:
    """The words of a large FIFO take a cycle more through a block memory, which the depths reckon with."""
    design = designed(large_fifo_mem_style=style)
    feeds = random_frames(design.source, 5, 0)
    found = design.simulate(feeds, trace=True, stall_out=0.0)
    assert np.array_equal(found.outputs["y"], design.run(feeds, mode="float")["y"])
    assert set(found.result.interval.values()) == {design.performance.interval} == {8 * 48}
