"""Generated files: the same every time, safe whatever the names, and as the manifest says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import headrace_sim
from headrace.codegen.design import generate
from headrace.codegen.plan import Plan, write_plan
from headrace.codegen.top import assemble
from headrace.errors import InputError
from headrace.ir import Graph
from headrace.passes.hardware_design import HardwareDesign
from headrace.passes.to_hardware import to_hardware
from headrace.schedule import schedule

from .cores import INT4, Core, mlp
from .simulated import Settings

HOSTILE = [
    "a/b; rm -rf",
    "module",
    "../../x",
    "/etc/passwd",
    "a.b",
    "a_b",
    "A_B",
    "n" * 300,
    "größe→ß",
    "",
    "\n`define X\n*/ // {{ x }}",
    "ap_clk",
    "s_axis_0",
    "input0",
    "headrace_sum2",
    "con",
    "$display(1)",
    "9lives",
]


def scheduled(core: Graph) -> HardwareDesign:
    return schedule(to_hardware(core), Settings())


def hostile() -> Graph:
    """A chain whose layers, input and output have names of every awkward kind."""
    core = Core()
    x = core.input((4,), name=HOSTILE[0])
    for name in HOSTILE[1:]:
        x = core.activation(core.matmul(x, 4, name), name=f"{name}.act") if len(name) < 3 else core.lookup(x, name=name)
    core.graph.output("endmodule", x)
    core.graph.name = "../endmodule"
    return core.graph


def test_the_same_design_gives_the_same_text() -> None:
    first, second = (generate(scheduled(mlp())) for _ in range(2))
    assert dict(first.files) == dict(second.files)
    assert list(first.files) == list(second.files)
    assert first.digest == second.digest
    assert generate(scheduled(mlp(seed=1))).digest != first.digest


def test_hostile_names_stay_inside_and_legal() -> None:
    plan = generate(scheduled(hostile()))
    modules = []
    for path, text in plan.files.items():
        assert re.fullmatch(r"design\.json|rtl/[a-z][A-Za-z0-9_]*\.(sv|hex)", path)
        if path.endswith(".sv"):
            modules += re.findall(r"^module (\w+)", text, re.M)
            assert path == f"rtl/{modules[-1]}.sv"
            assert "`" not in text
            assert "$display" not in re.sub("//.*", "", text)
    assert len(modules) == len({name.lower() for name in modules})
    assert max(map(len, modules)) <= 64
    manifest = json.loads(plan.files["design.json"])
    assert manifest["inputs"][0]["tensor"] == HOSTILE[0]
    assert manifest["outputs"][0]["tensor"] == "endmodule"
    signals = [stream["signal"] for stream in manifest["streams"]]
    assert len(signals) == len(set(signals))


@pytest.mark.sim
def test_hostile_names_compile(tmp_path: Path) -> None:
    write_plan(generate(scheduled(hostile())), tmp_path / "design")
    assert headrace_sim.lint(tmp_path / "design") == []


def test_the_manifest_is_what_the_simulator_reads(tmp_path: Path) -> None:
    core = Core()
    x = core.input((6,), INT4)
    y = core.activation(core.matmul(x, 4, "fc"))
    core.output(y, "first")
    core.output(core.matmul(y, 3, "fc2"), "fc_out")
    design = scheduled(core.graph)
    plan = generate(design, "two outputs")
    write_plan(plan, tmp_path / "d")
    manifest = headrace_sim.load(tmp_path / "d")
    assert manifest.top == "two_outputs"
    assert [p.tensor for p in manifest.outputs] == ["first", "fc_out"]
    assert [p.port for p in manifest.outputs] == ["m_axis_0", "m_axis_1"]
    assert manifest.inputs[0].bits == 4
    assert manifest.inputs[0].encoding == "signed"
    assert manifest.inputs[0].frame_elements == 6
    assert manifest.interval_cycles == max(layer.cycles for layer in manifest.layers)
    assert {s.name for s in manifest.streams} == set(plan.streams.values())
    assert len({s.name for s in manifest.streams} & {"first", "fc_out"}) == 0  # not even where a layer is called fc
    assert {layer.kind for layer in manifest.layers} >= {"MVAU", "Thresholding", "DuplicateStreams", "FIFO"}
    assert manifest.latency_cycles == plan.latency > 0


def test_an_unscheduled_design_is_refused() -> None:
    core = Core()
    core.output(core.input((3,)))
    with pytest.raises(ValueError, match="straight to output"):
        assemble(to_hardware(core.graph), "x")
    core = Core()
    core.output(core.matmul(core.matmul(core.input((4,)), 4, "a"), 4, "b"))
    design = to_hardware(core.graph)
    wide = design.graph.op("a").with_folding(PE=2)
    graph = Graph()
    for node in design.graph:
        graph.add(wide if node == "a" else design.graph.op(node), design.graph.sources(node), node)
    with pytest.raises(ValueError, match="'a' writes"):
        assemble(design.with_graph(graph), "x")


@pytest.mark.parametrize("path", ["../x", "/x", "a//b", "a/../b", ".x", "a/.b", "a b", "", "a\\b", "ä"])
def test_a_plan_keeps_to_its_folder(path: str) -> None:
    with pytest.raises(ValueError, match="not a path"):
        Plan({path: ""}, 0, {})


def test_a_plan_is_safe_where_case_is_ignored() -> None:
    with pytest.raises(ValueError, match="two generated files"):
        Plan({"rtl/A.sv": "", "rtl/a.sv": ""}, 0, {})


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = generate(scheduled(mlp()))
    target = tmp_path / "deep" / "out"
    write_plan(plan, target)
    assert {str(p.relative_to(target)) for p in target.rglob("*") if p.is_file()} == set(plan.files)
    with pytest.raises(InputError, match="not an empty folder"):
        write_plan(plan, target)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="not an empty folder"):
        write_plan(plan, tmp_path / "file")

    def fail(self: Plan, folder: Path) -> None:
        folder.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(Plan, "write", fail)
    with pytest.raises(KeyboardInterrupt):
        write_plan(plan, tmp_path / "other")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["deep", "file"]
