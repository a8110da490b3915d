"""The report: branches drawn apart, ends named as in the model, and no claim of a simulation that was not run."""

from __future__ import annotations

import json
import re
import shutil
from itertools import combinations
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from tests.models import QONNX, quantized_mlp

import headrace
from headrace.build import build
from headrace.build.design import Design
from headrace.build.drawing import Arrow, Box, draw
from headrace.build.placement import HEIGHT, WIDTH, place
from headrace.build.report import end_boxes, kinds_text, layer_rows, not_simulated, renewed_report
from headrace.build.summary import layer_table
from headrace.errors import counted
from headrace.ingest import from_proto
from headrace.schedule.streams import layers
from headrace.synth.results import Synthesis, UnitResult, Utilisation

RESIDUAL = [("stem", "fork"), ("fork", "a"), ("a", "b"), ("b", "join"), ("fork", "join"), ("join", "end")]
U_SHAPE = [
    *(("in", "d0"), ("d0", "d1"), ("d1", "d2"), ("d2", "bottom"), ("bottom", "u2"), ("u2", "u1"), ("u1", "u0")),
    *(("d2", "u2"), ("d1", "u1"), ("d0", "u0"), ("u0", "out"), ("u1", "part")),
]
PARALLEL = [("in", "a"), ("in", "b"), ("in", "c"), ("a", "join"), ("b", "join"), ("c", "join"), ("a", "join")]


def browser() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


def nodes(edges: list[tuple[str, str]]) -> list[str]:
    graph = dict.fromkeys(name for edge in edges for name in edge)
    order: list[str] = []
    while len(order) < len(graph):
        order += [n for n in graph if n not in order and all(s in order for s, t in edges if t == n)]
    return order


@pytest.mark.parametrize("edges", [RESIDUAL, U_SHAPE, PARALLEL, [("a", "b")]])
def test_boxes_and_wires_keep_apart(edges: list[tuple[str, str]]) -> None:
    corners, wires = place(nodes(edges), edges)
    for (ax, ay), (bx, by) in combinations(corners.values(), 2):
        assert ay != by or abs(ax - bx) >= WIDTH
    for (source, target), wire in zip(edges, wires, strict=True):
        assert wire[0][1] == corners[source][1] + HEIGHT
        assert wire[-1][1] == corners[target][1]
        for (x0, y0), (x1, y1) in zip(wire[1:-1:2], wire[2:-1:2], strict=True):
            assert x0 == x1
            assert y1 - y0 == HEIGHT
            assert all(y != y0 or not x < x0 < x + WIDTH for x, y in corners.values()), "a wire runs behind a box"
    arrivals = [(target, wire[-1]) for (_, target), wire in zip(edges, wires, strict=True)]
    assert len(set(arrivals)) == len(arrivals)


@pytest.mark.parametrize("edges", [RESIDUAL, U_SHAPE, PARALLEL])
def test_labels_meet_neither_boxes_nor_each_other(edges: list[tuple[str, str]]) -> None:
    boxes = {name: Box(name, "detail") for name in nodes(edges)}
    label = "8×8×4 UINT2 ×4 (FIFO)"
    svg = draw(boxes, [Arrow(*edge, label) for edge in edges])
    texts = [(float(x), float(y)) for x, y in re.findall(r'<text class="wire" x="(.*?)" y="(.*?)"', svg)]
    assert len(texts) == len(edges)
    for (ax, ay), (bx, by) in combinations(texts, 2):
        assert abs(ay - by) >= 11 or abs(ax - bx) >= 6 * len(label)
    for x, y in place(nodes(edges), edges)[0].values():
        assert all(b <= y or b - 11 >= y + HEIGHT or a >= x + WIDTH or a + 6 * len(label) <= x for a, b in texts)
    left, top, width, height = map(float, re.findall(r'viewBox="([^"]+)" width', svg)[0].split())
    assert all(left <= x <= left + width - 6 * len(label) and top <= y <= top + height for x, y in texts)


def test_ends_have_the_names_of_the_model() -> None:
    design = Design(from_proto(quantized_mlp((6, 5, 4), 2, 0)))
    titles = [box.title for box in end_boxes(design.hardware, design.parts).values()]
    assert titles == ["x", "label"]


def test_ends_of_a_model_with_several() -> None:
    """Two inputs and two outputs keep apart, although the integer tensors at the ends have other names."""
    numbers = {"scale": 0.5, "zero": 0.0, "bits": 3.0, "left_w": np.eye(4), "right_w": np.eye(4)}
    constants = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in numbers.items()]
    made = []
    for side in ("left", "right"):
        made += [
            helper.make_node("Quant", [side, "scale", "zero", "bits"], [f"{side}_q"], domain=QONNX, signed=1),
            helper.make_node("Quant", [f"{side}_w", "scale", "zero", "bits"], [f"{side}_wq"], domain=QONNX, signed=1),
            helper.make_node("MatMul", [f"{side}_q", f"{side}_wq"], [f"{side}_out"]),
        ]
    ends = [
        [helper.make_tensor_value_info(f"{s}{e}", TensorProto.FLOAT, ["N", 4]) for s in ("left", "right")]
        for e in ("", "_out")
    ]
    graph = helper.make_graph(made, "pair", ends[0], ends[1], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(QONNX, 1)]
    design = Design(from_proto(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)))
    titles = [box.title for box in end_boxes(design.hardware, design.parts).values()]
    assert titles == ["left", "right", "left_out", "right_out"]


def test_no_claim_of_a_simulation() -> None:
    assert not_simulated("rtl") == (
        "The generated SystemVerilog was not simulated in this build: `headrace profile OUT` does it."
    )
    assert "C++ was not simulated" in not_simulated("hls")
    assert "--mode hls" in not_simulated("hls")
    assert "headrace profile OUT" in not_simulated("both")
    assert "--mode hls" in not_simulated("both")
    assert "C++ was not simulated" in not_simulated("both", {"SystemVerilog"})
    assert not_simulated("rtl", {"SystemVerilog"}) == "What is generated was simulated in this build, too."
    assert "SystemVerilog was not simulated" in not_simulated("rtl", {"C++"})
    assert not_simulated("rtl", (), {"SystemVerilog"}) == "What is generated was simulated, too, since it was built."
    assert "C++ was not simulated" in not_simulated("both", (), {"SystemVerilog"})
    assert "since it was built" in not_simulated("both", {"C++"}, {"SystemVerilog"})


def test_layers_between_are_one_row_that_unfolds(tiny_model: Path, tmp_path: Path) -> None:
    """With the keyboard alone; the row has their number and their sum."""
    if browser() is None:
        pytest.skip("no Chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    design = build(tiny_model, tmp_path / "out", folding={"MVAU_0": {"PE": 8, "SIMD": 12}, "MVAU_1": {"PE": 1}})
    rows = [row for row in layer_rows(design.hardware, design.performance) if row.moves]
    assert {row.layer.kind for row in rows} == {"FIFO", "DWC"}
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser(), args=["--no-sandbox"])
        page = chromium.new_page()
        page.goto((tmp_path / "out" / "report" / "index.html").as_uri())
        group = page.get_by_role("row", name=kinds_text(rows))
        assert group.get_by_role("cell").first.inner_text() == f"{sum(row.layer.resources.lut for row in rows):,.0f}"
        members = page.locator("tbody.members tr")
        assert members.count() == len(rows)
        assert not members.first.is_visible()
        page.get_by_role("checkbox", name=kinds_text(rows)).focus()
        page.keyboard.press("Space")
        assert members.first.is_visible()
        chromium.close()


def test_numbers_with_their_nouns() -> None:
    assert [counted(number, "FIFO") for number in (0, 1, 2, 1234)] == ["0 FIFOs", "1 FIFO", "2 FIFOs", "1,234 FIFOs"]


def test_layers_made_in_cpp_are_marked(tiny_model: Path, tmp_path: Path) -> None:
    design = build(tiny_model, tmp_path / "out", folding={"MVAU_1": {"PE": 1, "backend": "hls"}})
    assert [row.layer.name for row in layer_rows(design.hardware, design.performance) if row.ip] == ["fc1"]
    page = (tmp_path / "out" / "report" / "index.html").read_text()
    assert page.count(">HLS IP</span>") == 2  # among the layers, and among the resources
    assert "MVAU (HLS IP) PE=1" in page  # in the drawing
    marked = layer_table(design).columns[1]
    assert [str(cell) for cell in marked.cells].count("MVAU (HLS IP)") == 1


def test_what_the_page_says_of_a_design(tiny_model: Path, tmp_path: Path) -> None:
    """Styles, work, what there is to fit into, UltraRAM that was synthesised, and a way to every section."""
    design = build(tiny_model, tmp_path / "out", fit_part="xc7z020", resource_limits={"lut": 20_000})
    folder = tmp_path / "out"
    data = json.loads((folder / "report" / "report.json").read_text())
    assert data["available"] == {"lut": 20_000, "ff": 106_400, "dsp": 220, "bram18": 280, "uram": 0}
    styles = {row["layer"]["name"]: row["style"] for row in data["rows"]}
    found = layers(design.hardware.graph)
    assert styles == {name: layer.style_in_use for name, layer in found.items()}
    assert styles["fc0"] == found["fc0"].arithmetic
    page = (folder / "report" / "index.html").read_text()
    assert f'<small class="soft">{styles["fc0"]}</small>' in page
    assert "Of the part xc7z020, with the limits given<" in page
    assert f"<dt>Products a frame</dt><dd>{12 * 8 + 8 * 5} " in page
    assert set(re.findall(r'<a href="#([a-z-]+)">', page)) == set(re.findall(r'<h2 id="([a-z-]+)">', page))
    assert ">URAM</th>" not in page
    used = UnitResult("fc0", "MVAU", Utilisation(lut=7, uram=4321))
    (folder / "synthesis.json").write_text(Synthesis("xcup", "yosys", design.plan.digest, False, (used,)).json())
    page = renewed_report(design, folder)["report/index.html"]
    assert page.count(">URAM</th>") == 2
    assert '<td class="num">4,321</td>' in page
    rows = re.findall(r"<tr.*?</tr>", page[page.index('<table class="units">') :], re.DOTALL)
    table = rows[: next(k for k, row in enumerate(rows) if "of the part" in row.lower()) + 1][2:]
    cells = [sum(int(n or 1) for n in re.findall(r'<t[dh](?:[^>]*?colspan="(\d+)")?', row)) for row in table]
    assert set(cells) == {14}


def test_a_narrow_terminal_has_no_room_for_streams(tiny_model: Path) -> None:
    design = headrace.load(tiny_model)
    wide = [str(c.header) for c in layer_table(design, Console(width=120)).columns]
    assert wide == ["layer", "kind", "folding", "input", "output", "cycles"]
    assert [str(c.header) for c in layer_table(design, Console(width=60)).columns] == [*wide[:3], "cycles"]


def test_layers_as_slow_as_the_bottleneck(tiny_model: Path, tmp_path: Path) -> None:
    """Those that compute: of what lies between them nothing is said."""
    design = build(tiny_model, tmp_path / "out", unroll=True)
    rows = [row for row in layer_rows(design.hardware, design.performance) if not row.moves and row.share == 1]
    assert len(rows) > 1
    page = (tmp_path / "out" / "report" / "index.html").read_text()
    assert f"and {counted(len(rows) - 1, 'layer')} as slow" in page
