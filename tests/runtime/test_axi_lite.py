"""The AXI4-Lite slave, channel by channel in Icarus: order, strobes, back-pressure, addresses, resets.

Writes and reads go on at once, each with pauses of its own on every channel; a reset comes in the middle of an access.
The bench checks what must hold in every cycle: answers that wait do not change, none comes without a question.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from models import quantized_mlp

from headrace.build.config import BuildConfig
from headrace.build.design import Design
from headrace.ingest import from_proto
from headrace_sim import load

from .networks import ALL

pytestmark = [pytest.mark.sim, pytest.mark.skipif(not shutil.which("iverilog"), reason="Icarus Verilog was not found")]

BENCH = """
module bench;
  reg clk = 0, rst_n = 0;
  integer seed = {seed}, k;
  always #5 clk = ~clk;
  reg [71:0] writes[0:{writes}], reads[0:{reads}];
  integer aw_n = 0, w_n = 0, b_n = 0, ar_n = 0, r_n = 0;
  reg awvalid = 0, wvalid = 0, bready = 0, arvalid = 0, rready = 0, was_reset = 0;
  wire awready, wready, bvalid, arready, rvalid;
  wire [1:0] bresp, rresp;
  wire [31:0] rdata;
  wire [{high}:0] awaddr = awvalid ? writes[aw_n][{high}+40:40] : {{{bits}{{1'bx}}}};
  wire [{high}:0] araddr = arvalid ? reads[ar_n][{high}+40:40] : {{{bits}{{1'bx}}}};
  wire [31:0] wdata = wvalid ? writes[w_n][39:8] : 32'bx;
  wire [3:0] wstrb = wvalid ? writes[w_n][3:0] : 4'bx;
  net dut (
      .ap_clk(clk), .ap_rst_n(rst_n){tied},
      .s_axi_control_awaddr(awaddr), .s_axi_control_awvalid(awvalid), .s_axi_control_awready(awready),
      .s_axi_control_wdata(wdata), .s_axi_control_wstrb(wstrb), .s_axi_control_wvalid(wvalid),
      .s_axi_control_wready(wready), .s_axi_control_bresp(bresp), .s_axi_control_bvalid(bvalid),
      .s_axi_control_bready(bready), .s_axi_control_araddr(araddr), .s_axi_control_arvalid(arvalid),
      .s_axi_control_arready(arready), .s_axi_control_rdata(rdata), .s_axi_control_rresp(rresp),
      .s_axi_control_rvalid(rvalid), .s_axi_control_rready(rready)
  );
  function go(input integer chance);
    go = $urandom(seed) % 100 < chance;
  endfunction
  reg b_waits = 0, r_waits = 0;
  reg [1:0] b_held;
  reg [33:0] r_held;
  always @(posedge clk) begin
    was_reset <= !rst_n;
    if (was_reset && (bvalid !== 0 || rvalid !== 0)) $display("BAD valid after a reset");
    if (b_waits && (!bvalid || bresp !== b_held)) $display("BAD answer to a write changed");
    if (r_waits && (!rvalid || {{rresp, rdata}} !== r_held)) $display("BAD answer to a read changed");
    b_waits <= rst_n && !was_reset && bvalid && !bready;
    r_waits <= rst_n && !was_reset && rvalid && !rready;
    b_held <= bresp;
    r_held <= {{rresp, rdata}};
    bready <= go({back});
    rready <= go({back});
    if (!rst_n) begin
      aw_n <= 0; w_n <= 0; b_n <= 0; ar_n <= 0; r_n <= 0;
      awvalid <= 0; wvalid <= 0; arvalid <= 0;
    end else begin
      if (!awvalid || awready) begin
        aw_n <= aw_n + (awvalid && awready);
        awvalid <= aw_n + (awvalid && awready) < {writes} && go({aw});
      end
      if (!wvalid || wready) begin
        w_n <= w_n + (wvalid && wready);
        wvalid <= w_n + (wvalid && wready) < {writes} && go({w});
      end
      if (!arvalid || arready) begin
        ar_n <= ar_n + (arvalid && arready);
        arvalid <= ar_n + (arvalid && arready) < (b_n == {writes} ? {reads} : {early}) && go(50);
      end
      if (bvalid && bready) begin
        if (b_n >= aw_n || b_n >= w_n) $display("BAD answer without a write");
        $display("B %d %b", b_n, bresp);
        b_n <= b_n + 1;
      end
      if (rvalid && rready) begin
        if (r_n >= ar_n) $display("BAD answer without a read");
        $display("R %d %b %h", r_n, rresp, rdata);
        r_n <= r_n + 1;
      end
    end
  end
  initial begin
    $readmemh("writes.hex", writes);
    $readmemh("reads.hex", reads);
    repeat (4) @(posedge clk);
    for (k = 0; k < 5; k = k + 1) begin
      #1 rst_n = 1;
      repeat (20 + $urandom(seed) % 60) @(posedge clk);
      #1 rst_n = 0;
      @(posedge clk);
    end
    $display("LAST RESET");
    #1 rst_n = 1;
    for (k = 0; k < 40000 && (b_n < {writes} || r_n < {reads}); k = k + 1) @(posedge clk);
    repeat (20) @(posedge clk);
    $finish;
  end
endmodule
"""


@dataclass(frozen=True)
class Access:
    """An access and what it must be answered with; *data* None: not known before."""

    address: int
    word: int = 0
    strobe: int = 15
    error: bool = False
    data: int | None = None

    @property
    def line(self) -> str:
        return f"{self.address:08x}{self.word:08x}{self.strobe:02x}\n"


def accesses(design: Design, seed: int) -> tuple[list[Access], list[Access], list[Access]]:
    """Writes; reads that go on beside them; and reads that come after, of what was written."""
    rng = np.random.default_rng(seed)
    table = design.address_map
    end = max(layer["base"] + layer["size"] for layer in table["layers"])
    holes = [0x20, 0xFFC, *([end] if end < 1 << table["address_bits"] else [])]
    base, image = table["layers"][0]["base"], next(iter(design.runtime_weights().values())).words
    writes, scratch = [Access(0x1C, 0)], 0
    for _ in range(40):
        word, strobe, low = (int(rng.integers(0, n)) for n in (2**32, 16, 4))
        kind = int(rng.integers(0, 5))
        if kind < 2:
            writes.append(Access(0x1C + low, word, strobe))  # bits 1:0 of an address say nothing
            mask = sum(0xFF << 8 * k for k in range(4) if strobe >> k & 1)
            scratch = (scratch & ~mask) | (word & mask)
        elif kind == 2:
            writes.append(Access(int(rng.choice(holes)) + low, word, strobe, error=True))
        elif kind == 3:
            writes.append(Access(base, word, int(rng.integers(1, 15)), error=True))  # part of a word of a memory
        else:
            writes.append(Access(int(rng.choice([0x00, 0x04, 0x0C, 0x14])), word, error=True))  # read-only
    constants = {0x00: 0x43524448, 0x04: table["version"], 0x0C: table["map_id"], base: int(image[0])}
    beside = [Access(int(a), data=constants[int(a)]) for a in rng.choice(list(constants), 30)]
    beside += [Access(int(a) + int(rng.integers(0, 4)), error=True, data=0) for a in rng.choice(holes, 10)]
    beside = [beside[k] for k in rng.permutation(len(beside))]
    after = [Access(0x1C, data=scratch), Access(0x1F, data=scratch), Access(base, data=int(image[0]))]
    return writes, beside, after


@pytest.mark.parametrize(("aw", "w", "back"), [(100, 100, 100), (20, 90, 50), (90, 20, 50), (50, 50, 10)])
def test_the_slave(aw: int, w: int, back: int, tmp_path: Path) -> None:
    """Address before data and after, with little and much back-pressure."""
    config = BuildConfig.checked(name="net", folding=ALL, performance_counters=True)
    design = Design(from_proto(quantized_mlp((12, 8, 5), 3, seed=1)), config)
    design.plan.write(tmp_path / "net")
    manifest = load(tmp_path / "net")
    writes, beside, after = accesses(design, seed=aw)
    reads = [*beside, *after]
    (tmp_path / "writes.hex").write_text("".join(access.line for access in [*writes, Access(0)]))
    (tmp_path / "reads.hex").write_text("".join(access.line for access in [*reads, Access(0)]))
    tied = "".join(f", .{p.port}_tvalid(1'b0)" for p in manifest.inputs)
    bits = design.address_map["address_bits"]
    numbers = {"writes": len(writes), "reads": len(reads), "early": len(beside)}
    text = BENCH.format(seed=aw, high=bits - 1, bits=bits, tied=tied, aw=aw, w=w, back=back, **numbers)
    (tmp_path / "bench.sv").write_text(text)
    for path in manifest.memory_paths:
        shutil.copy(path, tmp_path / path.name)
    command = ["iverilog", "-g2012", "-s", "bench", "-o", "bench.vvp", "bench.sv", *map(str, manifest.source_paths)]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run(["vvp", "bench.vvp"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "BAD" not in done.stdout, done.stdout
    lines = [line.split() for line in done.stdout.split("LAST RESET\n")[1].splitlines()]
    answers = {kind: [line[2:] for line in lines if line[0] == kind] for kind in ("B", "R")}
    assert answers["B"] == [["10" if access.error else "00"] for access in writes]
    assert answers["R"] == [["10" if access.error else "00", f"{access.data:08x}"] for access in reads]
