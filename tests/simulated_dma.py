"""A board on a PC: AXI DMAs as pynq drives them, in front of the simulated Verilog top of a project."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

BENCH = """
module bench;
  reg clk = 0, rst_n = 0;
  integer seed = {seed}, transfers = {transfers};
  always #5 clk = ~clk;
  integer cycle = 0;
  always @(posedge clk) cycle = cycle + 1;
  {top} dut (.ap_clk(clk), .ap_rst_n(rst_n){pins});
  initial begin
    repeat (8) @(posedge clk);
    #1 rst_n = 1;
  end
  wire ready_to_send = {begin};
{sides}
  initial begin
    #{limit} $display("TIMEOUT");
    $finish;
  end
  reg [{last}:0] done = 0;
  always @(posedge clk) if (&done) begin
    repeat (50) @(posedge clk);
    $finish;
  end
endmodule
"""

SOURCE = """
  reg [{beat_bits}-1:0] {port}_beats[0:{count}];
  reg [{beat_bits}-1:0] {port}_tdata = {{{beat_bits}{{1'bx}}}};
  reg {port}_tvalid = 0, {port}_tlast = 0;
  wire {port}_tready;
  integer {port}_k;
  initial begin
    $readmemh("{port}.hex", {port}_beats);
    wait (ready_to_send);
    for ({port}_k = 0; {port}_k < {count}; {port}_k = {port}_k + 1) begin
      while ($urandom(seed) % 100 < {stall}) @(posedge clk);
      #1 {port}_tdata = {port}_beats[{port}_k]; {port}_tvalid = 1; {port}_tlast = {port}_k == {count} - 1;
      @(posedge clk);
      while (!{port}_tready) @(posedge clk);
      #1 {port}_tdata = {{{beat_bits}{{1'bx}}}}; {port}_tvalid = 0; {port}_tlast = 1'bx;
    end
  end
"""

SINK = """
  wire [{beat_bits}-1:0] {port}_tdata;
  wire [{beats}-1:0] {port}_tkeep;
  wire {port}_tvalid, {port}_tlast;
  reg {port}_tready = 0;
  integer {port}_ended = 0;
  always @(posedge clk) #1 {port}_tready = $urandom(seed) % 100 >= {stall};
  reg {port}_waits = 0;
  reg [{beat_bits}:0] {port}_held;
  always @(posedge clk) begin
    if ({port}_waits && (!{port}_tvalid || {port}_held !== {{{port}_tlast, {port}_tdata}})) $display("UNSTABLE {port}");
    {port}_waits <= {port}_tvalid && !{port}_tready;
    {port}_held <= {{{port}_tlast, {port}_tdata}};
    if (!rst_n && cycle > 2 && {port}_tvalid !== 0) $display("VALID IN RESET {port}");
    if (rst_n && {port}_tvalid && {port}_tready) begin
      $display("{port} %h %b %b", {port}_tdata, {port}_tkeep, {port}_tlast);
      if ({port}_tlast) {port}_ended = {port}_ended + 1;
      done[{index}] = {port}_ended >= transfers;
    end
  end
"""

CONTROL_PINS = (
    *("awaddr", "awvalid", "awready", "wdata", "wstrb", "wvalid", "wready", "bresp", "bvalid", "bready"),
    *("araddr", "arvalid", "arready", "rdata", "rresp", "rvalid", "rready"),
)

CONTROL = """
  reg [63:0] writes[0:{count}];
  reg [31:0] c_awaddr = 0, c_wdata = 0, c_araddr = 0;
  reg c_awvalid = 0, c_wvalid = 0, written = 0;
  reg [3:0] c_wstrb = 4'hf;
  wire c_awready, c_wready, c_bvalid, c_arready, c_rvalid;
  wire [1:0] c_bresp, c_rresp;
  wire [31:0] c_rdata;
  wire c_bready = 1, c_rready = 1, c_arvalid = 0;
  integer w;
  initial begin
    $readmemh("writes.hex", writes);
    @(posedge rst_n);
    for (w = 0; w < {count}; w = w + 1) begin
      #1 c_awaddr = writes[w][63:32]; c_wdata = writes[w][31:0]; c_awvalid = 1; c_wvalid = 1;
      while (c_awvalid || c_wvalid) begin
        @(posedge clk);
        if (c_awready) c_awvalid <= #1 0;
        if (c_wready) c_wvalid <= #1 0;
        #2;
      end
      while (!c_bvalid) @(posedge clk);
      if (c_bresp != 0) $display("REFUSED %h", writes[w]);
      @(posedge clk);
    end
    written = 1;
  end
"""


def streams_of(table: dict[str, Any]) -> list[tuple[dict[str, Any], bool]]:
    """The streams of ``io.json``, inputs first, and whether it is an output."""
    return [(s, False) for s in table["inputs"]] + [(s, True) for s in table["outputs"]]


def run_top(
    folder: Path,
    top: str,
    table: dict[str, Any],
    sent: dict[str, Bytes],
    stall: int = 0,
    seed: int = 1,
    writes: Sequence[tuple[int, int]] | None = None,
    transfers: int = 1,
) -> dict[str, list[Bytes]]:
    """The transfers that come out at each output, for the bytes *sent* to each input, by port.

    Args:
        folder: with the sources.
        top: the Verilog top behind DMAs.
        table: the content of ``io.json``.
        sent: bytes by port.
        stall: percent of the cycles in which a side waits.
        seed: of the pauses.
        writes: address and word of what is written to the control interface before; None where there is none.
        transfers: how many there are to be.
    """
    pins, sides, outputs = "", "", 0
    if writes is not None:
        (folder / "writes.hex").write_text("".join(f"{address:08x}{word:08x}\n" for address, word in writes))
        pins += "".join(f", .s_axi_control_{name}(c_{name})" for name in CONTROL_PINS)
        sides += CONTROL.format(count=len(writes))
    for stream, output in streams_of(table):
        port, beat = stream["port"], stream["beat_bytes"]
        names = ["tdata", "tvalid", "tready", "tlast", *(["tkeep"] if output else [])]
        pins += "".join(f", .{port}_{name}({port}_{name})" for name in names)
        if not output:
            pins += f", .{port}_tkeep({{{beat}{{1'b1}}}})"
            beats = sent[port].reshape(-1, beat)
            (folder / f"{port}.hex").write_text("".join(row[::-1].tobytes().hex() + "\n" for row in beats))
            sides += SOURCE.format(port=port, beat_bits=8 * beat, count=len(beats), stall=stall)
        else:
            sides += SINK.format(port=port, beat_bits=8 * beat, beats=beat, stall=stall, index=outputs)
            outputs += 1
    limit = 10 * (200_000 + 400 * sum(map(len, sent.values())))
    begin = "written" if writes is not None else "rst_n"
    bench = BENCH.format(
        seed=seed, top=top, pins=pins, sides=sides, limit=limit, last=outputs - 1, begin=begin, transfers=transfers
    )
    (folder / "bench.sv").write_text(bench)
    sources = sorted(path.name for path in folder.iterdir() if path.suffix in (".sv", ".v"))
    command = ["iverilog", "-g2012", "-s", "bench", "-o", "bench.vvp", *sources]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    done = subprocess.run(["vvp", "bench.vvp"], cwd=folder, check=True, capture_output=True, text=True)
    received: dict[str, list[list[int]]] = {s["port"]: [[]] for s, output in streams_of(table) if output}
    for line in done.stdout.splitlines():
        if line.startswith("$finish") or "bench.sv" in line:
            continue
        port, data, keep, last = line.split() if line.count(" ") == 3 else (line, "", "", "")
        assert port in received, line
        assert set(keep) == {"1"}
        received[port][-1] += bytes.fromhex(data)[::-1]
        if last == "1":
            received[port].append([])
    assert all(not parts[-1] for parts in received.values()), "a transfer without tlast"
    return {port: [np.array(part, np.uint8) for part in parts[:-1]] for port, parts in received.items()}


class Buffer(np.ndarray):
    """Memory as ``pynq.allocate`` gives it: at an address, with a cache that must be written back and thrown away."""

    physical_address: int
    freed = False
    synced = False

    def freebuffer(self) -> None:
        self.freed = True

    def sync_to_device(self) -> None:
        self.synced = True

    def sync_from_device(self) -> None:
        self.synced = True


class Memory:
    """``pynq.allocate``: pages, and not many."""

    PAGE = 4096

    def __init__(self) -> None:
        self.next, self.buffers = 0x1000_0000, []

    def __call__(self, shape: tuple[int, ...], dtype: Any) -> Buffer:
        buffer = np.full(shape, 0xA5, dtype).view(Buffer)
        buffer.physical_address = self.next
        self.next += -(-buffer.nbytes // self.PAGE) * self.PAGE
        self.buffers.append(buffer)
        return buffer

    @property
    def held(self) -> int:
        """Buffers that were not freed."""
        return sum(not buffer.freed for buffer in self.buffers)


class Channel:
    """One direction of a DMA in simple mode, with the refusals of ``pynq.lib.dma`` (3.0)."""

    LONGEST = 2**26 - 1

    def __init__(self, board: Board, stream: dict[str, Any]) -> None:
        self.board, self.stream = board, stream
        self.align = max(stream["beat_bytes"], 4)
        self.active: tuple[Buffer, int, int] | None = None
        self.transferred = 0

    def transfer(self, array: Buffer, start: int = 0, nbytes: int = 0) -> None:
        nbytes = nbytes or array.nbytes - start
        if self.active is not None:
            raise RuntimeError("DMA channel not idle")
        if not 0 < nbytes <= self.LONGEST:
            raise ValueError(f"Transfer size is {nbytes} bytes")
        if (array.physical_address + start) % self.align:
            raise RuntimeError("DMA does not support unaligned transfers")
        assert not array.freed
        assert start + nbytes <= array.nbytes
        self.active = (array, start, nbytes)
        self.board.started(self)

    def wait(self) -> None:
        assert self.active is not None, "nothing was started"
        self.board.run()
        self.active = None


class Dma:
    """A DMA of the overlay; a direction that it was not made with is missing, as in pynq."""


class Board:
    """An overlay with the DMAs of ``io.json`` around the simulated top of a project.

    Args:
        stitched: the folder ``stitched_ip``, which is copied to *scratch*.
        table: the content of ``io.json``.
        top: the Verilog top behind DMAs.
        stall: percent of the cycles in which a side waits.
    """

    def __init__(self, stitched: Path, table: dict[str, Any], top: str, scratch: Path, stall: int = 0) -> None:
        self.table, self.top, self.stall, self.runs = table, top, stall, 0
        self.writes: list[tuple[int, int]] | None = None
        self.folder = scratch / "sim"
        shutil.copytree(stitched, self.folder, dirs_exist_ok=True)
        self.channels: dict[str, Channel] = {}
        self.order: list[Channel] = []
        for side, name in (("inputs", "sendchannel"), ("outputs", "recvchannel")):
            for k, stream in enumerate(table[side]):
                dma = self.__dict__.setdefault(f"axi_dma_{k}", Dma())
                self.channels[stream["port"]] = Channel(self, stream)
                setattr(dma, name, self.channels[stream["port"]])

    def started(self, channel: Channel) -> None:
        self.order.append(channel)

    def run(self) -> None:
        """All transfers that were started, at once."""
        if not self.order:
            return
        assert len(self.order) == len(self.channels), "a wait for transfers that need others which were not started"
        self.order, sent = [], {}
        for stream in self.table["inputs"]:
            array, start, nbytes = self.channels[stream["port"]].active or (None, 0, 0)
            assert array is not None
            sent[stream["port"]] = np.array(array[start : start + nbytes])
        self.runs += 1
        received = run_top(self.folder, self.top, self.table, sent, self.stall, self.runs, self.writes)
        for port, (data,) in received.items():
            channel = self.channels[port]
            assert channel.active is not None
            array, start, nbytes = channel.active
            assert len(data) <= nbytes, "more comes than there is room for: the DMA stops with an error"
            array[start : start + len(data)] = data
            channel.transferred = len(data)


def read_table(driver: Path) -> dict[str, Any]:
    """``io.json`` of a driver's folder."""
    table: dict[str, Any] = json.loads((driver / "io.json").read_text())
    return table
