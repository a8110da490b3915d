"""Designs behind a serial port: simulated bit by bit on the line, and made to bitstreams by open tools."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
from models import quantized_mlp
from module_files import module_of

from headrace import build, load
from headrace.board import BOARDS, board_files, find_board, make_bitstream
from headrace.build.bitstreams import Bitstream, read_bitstreams
from headrace.build.output import write_files
from headrace.build.report import renewed_report
from headrace.build.summary import print_bitstream
from headrace.build.verify import random_frames
from headrace.errors import InputError, ToolError
from headrace.synth.tools import packer, place_and_route, yosys

needs_icarus = pytest.mark.skipif(not shutil.which("iverilog"), reason="Icarus Verilog was not found")

BENCH = """
module bench;
  logic clk = 0, rxd = 1, txd, light_ready, light_error;
  logic [7:0] sent[{count}];
  logic [7:0] got;
  logic broken = {breaks} < 0;
  always #5 clk = ~clk;
  headrace_board board (.clk(clk), .rxd(rxd), .txd(txd), .light_ready(light_ready), .light_error(light_error));
  initial begin
    $readmemh("sent.hex", sent);
    wait (light_ready === 1'b{ready});
    for (int n = 0; n < {count}; n++) begin
      if (n == {breaks}) begin
        rxd = 0;
        repeat (25 * {cycles}) @(posedge clk);
        rxd = 1;
        repeat (300 + 2 * {cycles}) @(posedge clk);
        broken = 1;
      end
      rxd = 0;
      repeat ({cycles}) @(posedge clk);
      for (int b = 0; b < 8; b++) begin
        rxd = sent[n][b];
        repeat ({cycles}) @(posedge clk);
      end
      rxd = 1;
      repeat ({cycles}) @(posedge clk);
    end
  end
  initial begin
    wait (broken);
    for (int n = 0; n < {wanted}; n++) begin
      @(negedge txd);
      repeat ({cycles} / 2) @(posedge clk);
      for (int b = 0; b < 8; b++) begin
        repeat ({cycles}) @(posedge clk);
        got[b] = txd;
      end
      repeat ({cycles}) @(posedge clk);
      $display("BYTE %02x", got);
    end
    $display("ERROR %b", light_error);
    $finish;
  end
  initial #{limit} $finish;
endmodule
"""


class Line:
    """A serial port whose other end is the simulated board: what is written is sent when an answer is read."""

    def __init__(self, folder: Path, cycles: int, ready: int) -> None:
        self.folder, self.cycles, self.ready, self.sent, self.error = folder, cycles, ready, b"", ""
        self.broken = -1  # the byte before which there was a break

    def send_break(self, seconds: float) -> None:
        self.broken = len(self.sent)

    def reset_input_buffer(self) -> None: ...

    def write(self, data: bytes) -> None:
        self.sent += data

    def read(self, wanted: int) -> bytes:
        (data, self.sent), (breaks, self.broken) = (self.sent, b""), (self.broken, -1)
        (self.folder / "sent.hex").write_text("\n".join(f"{byte:02x}" for byte in data))
        limit = 10 * (len(data) + wanted + 200) * 12 * self.cycles + 1_000_000
        bench = BENCH.format(
            count=len(data), wanted=wanted, cycles=self.cycles, limit=limit, ready=self.ready, breaks=breaks
        )
        (self.folder / "bench.sv").write_text(bench)
        sources = sorted(path.name for path in self.folder.glob("*.sv"))
        command = ["iverilog", "-g2012", "-s", "bench", "-o", "bench.vvp", *sources]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)
        done = subprocess.run(["vvp", "bench.vvp"], cwd=self.folder, check=True, capture_output=True, text=True)
        self.error = next((x.split()[1] for x in done.stdout.splitlines() if x.startswith("ERROR")), "none")
        return bytes(int(x.split()[1], 16) for x in done.stdout.splitlines() if x.startswith("BYTE"))


def host_program(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "driver", raising=False)
    return module_of(folder / "host.py")


@needs_icarus
@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize(("widths", "bits"), [((12, 8, 5), 3), ((6, 4), 2)])
def test_frames_through_the_serial_line(
    name: str, widths: tuple[int, ...], bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program of the host, the line bit by bit, the accelerator, and back: the integers of the integer graph."""
    board, design = find_board(name), load(quantized_mlp(widths, bits, 0, argmax=bits == 3))
    baud = board.clock_khz * 1000 // 10
    write_files(tmp_path, board_files(design, board, baud))
    feeds = design.core_feeds(random_frames(design.source, 3, 0))
    expected = design.parts.core.run(feeds)
    host = host_program(tmp_path, monkeypatch)
    line = Line(tmp_path, cycles=10, ready=0 if board.active_low else 1)
    accelerator = host.SerialAccelerator(line, json.loads((tmp_path / "io.json").read_text()))
    results = accelerator.execute(feeds[accelerator.source.name])
    assert np.array_equal(results, expected[accelerator.target.name])
    assert line.error == ("1" if board.active_low else "0")  # nothing was lost


@needs_icarus
@pytest.mark.parametrize("left", [b"", b"\x01", b"\xff" * 7])
def test_a_break_is_a_reset(left: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that ended inside a frame has left bytes behind; the next one is not shifted by them."""
    board, design = find_board("ice40hx8k"), load(quantized_mlp((12, 8, 5), 3, 0))
    write_files(tmp_path, board_files(design, board, board.clock_khz * 100))
    feeds = design.core_feeds(random_frames(design.source, 1, 0))
    host = host_program(tmp_path, monkeypatch)
    line = Line(tmp_path, cycles=10, ready=1)
    accelerator = host.SerialAccelerator(line, json.loads((tmp_path / "io.json").read_text()))
    line.write(left)
    accelerator.reset()
    results = accelerator.execute(feeds[accelerator.source.name])
    assert np.array_equal(results, design.parts.core.run(feeds)[accelerator.target.name])


@needs_icarus
def test_an_answer_that_does_not_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    design, board = load(quantized_mlp((6, 4), 2, 0)), find_board("ice40hx8k")
    write_files(tmp_path, board_files(design, board, 1_200_000))
    host = host_program(tmp_path, monkeypatch)

    class Dead:
        def write(self, data: bytes) -> None: ...

        def read(self, wanted: int) -> bytes:
            return b""

    accelerator = host.SerialAccelerator(Dead(), json.loads((tmp_path / "io.json").read_text()))
    with pytest.raises(TimeoutError, match="frame 0: 0 of 1 bytes came back"):
        accelerator.execute(np.zeros((1, 6), int))


def test_what_a_serial_port_cannot_be_used_for(tmp_path: Path) -> None:
    design = load(quantized_mlp((6, 4), 2, 0))
    with pytest.raises(InputError, match=r"9000000 baud cannot be made of 12 MHz; 115200 and 1000000 can"):
        board_files(design, find_board("icebreaker"), 9_000_000)
    with pytest.raises(InputError, match=r"no board 'ulx3s-85' \(did you mean 'ulx3s-85f'\?\); open tools reach: ulx"):
        find_board("ulx3s-85")
    with pytest.raises(InputError, match="nothing to make a bitstream of: expected the folder of a build"):
        make_bitstream(design, find_board("icebreaker"))


def has(board: str) -> bool:
    try:
        yosys(), place_and_route(BOARDS[board].pnr[0]), packer(BOARDS[board].route.packer, "")
    except ToolError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ice40hx8k", "ulx3s-85f", "tangnano9k"])
def test_a_bitstream(name: str, tmp_path: Path) -> None:
    """About a minute each with the tools of the package index."""
    if not has(name):
        pytest.skip("yosys, nextpnr or the packer was not found")
    onnx.save(quantized_mlp((16, 8, 4), 2, 0), tmp_path / "net.onnx")
    design = build(tmp_path / "net.onnx", tmp_path / "out")
    found = make_bitstream(design, find_board(name))
    assert found.meets_timing
    assert all(0 <= used <= found.available[kind] for kind, used in found.used.items())
    bits = tmp_path / "out" / "bitstream" / name / found.file
    assert bits.stat().st_size > 10_000
    assert read_bitstreams(tmp_path / "out", design.plan.digest) == [found]
    page = (tmp_path / "out" / "report" / "index.html").read_text()
    assert f"{name}: {found.fmax_mhz} MHz reached, {found.clock_mhz:g} MHz needed" in page


def test_the_report_shows_bitstreams(tiny_model: Path, tmp_path: Path) -> None:
    design = build(tiny_model, tmp_path / "out")
    cells = {"LUT4": 1500, "DFF": 0, "GND": 1}
    found = Bitstream("b", "b.bin", 27.0, 80.5, cells, {"LUT4": 6000, "DFF": 9, "GND": 1}, 9600, "", ("Yosys 1",))
    folder = tmp_path / "out" / "bitstream" / "b"
    folder.mkdir(parents=True)
    (folder / "bitstream.json").write_text(replace(found, digest=design.plan.digest).json())
    page = renewed_report(design, tmp_path / "out")["report/index.html"]
    assert "b: 80.5 MHz reached, 27 MHz needed; Yosys 1" in page
    assert '<td>LUT4</td><td class="num">1,500</td><td class="num">6,000</td>' in page
    assert "25.0%" in page
    assert "<td>DFF</td>" not in page
    assert "<td>GND</td>" not in page


def test_results_of_other_designs_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "bitstream" / "b").mkdir(parents=True)
    whole = Bitstream("b", "b.bin", 12.0, 80.5, {"LUT4": 5}, {"LUT4": 10}, 9600, "x", ()).json()
    (tmp_path / "bitstream" / "b" / "bitstream.json").write_text(whole)
    assert [found.json() for found in read_bitstreams(tmp_path, "x")] == [whole]
    for text in ("", "{}", '{"meets_timing": true}', "[1]", whole.replace('"LUT4": 5', '"LUT4": "many"')):
        (tmp_path / "bitstream" / "b" / "bitstream.json").write_text(text)
        assert read_bitstreams(tmp_path, "x") == []


def test_the_summary_has_a_line_for_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = Bitstream("ice40hx8k", "b.bin", 12.0, 80.5, {"ICESTORM_LC": 5}, {"ICESTORM_LC": 10}, 9600, "", ())
    print_bitstream(found, tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == [
        "80.5 MHz, the board has 12; 9,600 baud",
        str(tmp_path / "bitstream" / "ice40hx8k" / "b.bin"),
    ]
