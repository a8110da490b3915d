"""Profiles of simulated designs, and the report in a browser."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import quantized_mlp

from headrace import build, load
from headrace.build.journal import Journal
from headrace.build.profile import (
    FILE,
    LayerActivity,
    Occupancy,
    Profile,
    _busy,
    _occupancy,
    profile_build,
    profile_of,
    read_profile,
)
from headrace.build.verify import random_frames
from headrace.errors import InputError
from headrace.ir import IntRange
from headrace.layers.base import StreamType
from headrace.layers.fifo import FIFO
from headrace.schedule.streams import layers
from headrace_sim.toolchain import find_tools

pytestmark = pytest.mark.sim
needs_verilator = pytest.mark.skipif(
    not {tool.name: tool.found for tool in find_tools()}["verilator"], reason="Verilator was not found"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("profile")
    onnx.save(quantized_mlp((16, 12, 4), 3, 0), folder / "net.onnx")
    build(folder / "net.onnx", folder / "out", target_fps=2e6)
    return folder / "out"


@needs_verilator
def test_a_profile_says_what_the_simulation_did(built: Path) -> None:
    design = load(built)
    found = profile_build(design, None, 6, "", Journal())
    assert found.interval == found.expected_interval == design.performance.interval
    assert found.frames == 6
    whole = found.cycles - (found.frames - 1) * found.expected_interval
    assert whole - 2 <= found.latency <= min(whole, found.expected_latency)  # to the last word of the first frame
    computing = [node for node, layer in layers(design.hardware.graph).items() if layer.folding_choices]
    assert [row.name for row in found.activity] == computing
    assert [row.done for row in found.activity] == [row.expected_done for row in found.activity]
    slowest = next(row for row in found.activity if row.name == design.performance.bottleneck)
    expected = found.frames * found.expected_interval / found.cycles
    assert slowest.mean == pytest.approx(expected, rel=0.02)  # of every cycle that it had work
    for fifo in found.fifos:
        assert 0 < fifo.largest == max(fifo.curve) <= fifo.depth + 1  # a word may enter and leave in one cycle
        assert fifo.curve[-1] <= 1
    assert read_profile(built, design.plan.digest) == found
    assert read_profile(built, "another") is None
    page = (built / "report" / "index.html").read_text()
    assert f"A frame every {found.interval:.0f} cycles (expected {found.expected_interval})" in page
    assert page.count('<svg class="chart"') == len(found.activity) + len(found.fifos)
    assert Profile.from_json((built / FILE).read_text()) == found


@needs_verilator
def test_a_profile_needs_traced_streams(built: Path) -> None:
    design = load(built)
    with pytest.raises(InputError, match="trace=True"):
        profile_of(design, design.simulate(random_frames(design.source, 2, 0)))


def test_what_was_not_built_has_no_profile() -> None:
    with pytest.raises(InputError, match="nothing to profile"):
        profile_build(load(quantized_mlp((4, 4), 2, 0)), None, 1, "", Journal())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"activity": [], "fifos": []}', '{"activity": [{"a": 1}]}'])
def test_files_that_are_no_profile(tmp_path: Path, text: str) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / FILE).write_text(text)
    assert read_profile(tmp_path, "x") is None


def test_kept_numbers_are_numbers() -> None:
    """Also where the file has them as text, which would break the page."""
    layer, fifo = LayerActivity("fc0", "MVAU", [0.5], 8, 9), Occupancy("FIFO_0", 4, 2, 3, [1, 3])
    found = Profile("x", 2, 20, 10.0, 9, 10, 9, [layer], [fifo])
    assert Profile.from_json(re.sub(r": (\d[\d.]*)", r': "\1"', found.json())) == found


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=30))
def test_occupancy_counts_words(words: list[tuple[int, int]]) -> None:
    """Against counting cycle by cycle: a word is inside from the cycle it enters to the one in which it leaves."""
    entered = np.sort(np.array([start for start, _ in words]))
    left = np.sort(entered + np.array([stay for _, stay in words]))
    cycles = int(left.max()) + 1
    after = [int((entered <= t).sum() - (left <= t).sum()) for t in range(cycles)]
    found = _occupancy(
        "f", FIFO(StreamType((1,), IntRange(0, 1)), 64), entered, left, np.linspace(0, cycles, cycles + 1)
    )
    assert found.largest == max(after)
    assert list(found.curve) == [max(now, before) for before, now in zip([0, *after], after, strict=False)]


@given(st.integers(1, 12), st.integers(1, 30), st.integers(1, 60))
def test_a_layer_that_never_waits_is_busy(pace: int, words: int, spans: int) -> None:
    written = np.arange(1, words + 1) * pace - 1
    edges = np.linspace(0, words * pace, spans + 1)
    busy = _busy(written, float(pace), edges)
    assert len(busy) == spans
    assert all(0 <= share <= 1 for share in busy)
    if pace > edges[1]:  # exact where a word takes longer than a span
        assert busy == [1.0] * spans


def browser() -> str | None:
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


@needs_verilator
@pytest.mark.skipif(browser() is None, reason="no Chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_the_report_in_a_browser(built: Path, scheme: str, width: int) -> None:
    """No error, nothing from outside, no sideways scrolling, readable contrast, reachable by keyboard."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    profile_build(load(built), None, 3, "", Journal())
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser(), args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        seen = SimpleNamespace(errors=[], requests=[])
        page.on("pageerror", lambda error: seen.errors.append(str(error)))
        page.on("console", lambda message: seen.errors.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: seen.requests.append(request.url))
        page.goto((built / "report" / "index.html").as_uri())
        assert seen.errors == []
        assert len(seen.requests) == 1
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ratios = page.evaluate(CONTRAST)
        assert min(ratios) >= 4.5, ratios
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement !== document.body")
        chromium.close()


CONTRAST = """() => {
  const channel = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const ground = node => {
    for (; node; node = node.parentElement) {
      const c = parse(getComputedStyle(node).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll("p, td, th, h1, h2, dt, dd, summary, span")]
    .filter(n => n.textContent.trim() && n.offsetParent !== null)
    .map(n => {
      const [a, b] = [light(parse(getComputedStyle(n).color)), light(ground(n))];
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    });
}"""


@needs_verilator
def test_the_commands(built: Path) -> None:
    from typer.testing import CliRunner

    from headrace.cli import app

    shown = CliRunner().invoke(app, ["profile", str(built), "--frames", "2"])
    assert re.search(r"fc0 +MVAU +\d+%", shown.output)
    viewed = CliRunner().invoke(app, ["view", str(built), "--no-browse"])
    assert viewed.exit_code == 0
    assert viewed.output.strip().endswith("index.html")
    with pytest.raises(InputError, match=r"holds no report/index\.html"):
        CliRunner().invoke(app, ["view", str(built.parent), "--no-browse"], catch_exceptions=False)
    done = CliRunner().invoke(app, ["profile", str(built), "--frames", "2", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["frames"] == 2
