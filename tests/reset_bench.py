"""A reset in the middle of frames, in Icarus: what was inside is gone, and frames that come after are whole.

The bench starts frames with random pauses, resets for a single cycle, several times; then it checks that

* tvalid of every output is low in the cycle after the edge that saw the reset, and never unknown;
* an output shows a word while its tready is low: tvalid does not wait for it;
* nothing changes while it waits, and the frames that were begun after the last reset come out, each once.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace_sim.manifest import Manifest, Port
from headrace_sim.packing import pack, unpack

Int = NDArray[np.int64]
RESETS = 4

BENCH = """
module reset_bench;
  reg clk = 0, rst_n = 0, was_reset = 0, hold = 0, last_round = 0;
  integer seed = {seed}, k;
  always #5 clk = ~clk;
  wire [{outputs}-1:0] valids;
  localparam [{outputs}-1:0] held = {outputs}'b{held};
  reg [{outputs}-1:0] done = 0;
  {top} dut (.ap_clk(clk), .ap_rst_n(rst_n){pins});
{sides}
  always @(posedge clk) was_reset <= !rst_n;
  initial begin
    repeat (3) @(posedge clk);
    for (k = 0; k < {resets}; k = k + 1) begin
      #1 rst_n = 1;
      repeat (1 + $urandom(seed) % {span}) @(posedge clk);
      #1 rst_n = 0; last_round = k == {resets} - 1; hold = last_round;
      @(posedge clk);
    end
    #1 rst_n = 1;
    for (k = 0; k < {limit} && !(&(valids | ~held)); k = k + 1) @(posedge clk);
    if (!(&(valids | ~held))) $display("WAITS FOR READY %b", valids);
    #1 hold = 0;
    for (k = 0; k < {limit} && !(&done); k = k + 1) @(posedge clk);
    repeat (40) @(posedge clk);
    $finish;
  end
endmodule
"""

SOURCE = """
  reg [{high}:0] in{i}_words[0:{words}-1];
  integer in{i}_p = 0;
  reg in{i}_v = 0;
  wire in{i}_ready;
  initial $readmemh("in{i}.words", in{i}_words);
  always @(posedge clk) begin
    if (!rst_n) begin
      in{i}_p <= 0;
      in{i}_v <= 0;
    end else if (!in{i}_v || in{i}_ready) begin
      in{i}_p <= in{i}_p + in{i}_v;
      in{i}_v <= in{i}_p + in{i}_v < {words} && $urandom(seed) % 100 >= 30;
    end
  end
"""

SINK = """
  wire [{high}:0] out{i}_data;
  wire out{i}_valid, out{i}_last;
  reg out{i}_ready = 0, out{i}_waits = 0;
  reg [{high}+1:0] out{i}_held;
  integer out{i}_n = 0;
  assign valids[{i}] = out{i}_valid;
  always @(posedge clk) begin
    out{i}_ready <= !(hold && held[{i}]) && $urandom(seed) % 100 >= 30;
    if (was_reset && out{i}_valid !== 0) $display("VALID AFTER RESET {i} %b", out{i}_valid);
    if (!was_reset && rst_n && (^out{i}_valid) === 1'bx) $display("UNKNOWN {i}");
    if (out{i}_waits && (!out{i}_valid || out{i}_held !== {{out{i}_last, out{i}_data}})) $display("UNSTABLE {i}");
    out{i}_waits <= rst_n && !was_reset && out{i}_valid && !out{i}_ready;
    out{i}_held <= {{out{i}_last, out{i}_data}};
    if (last_round && rst_n && out{i}_valid && out{i}_ready) begin
      $display("OUT {i} %h %b", out{i}_data, out{i}_last);
      out{i}_n = out{i}_n + 1;
      done[{i}] = out{i}_n >= {words};
    end
  end
"""


def run_resets(
    manifest: Manifest,
    inputs: Mapping[str, Int],
    folder: Path,
    span: int,
    seed: int = 1,
    extra: str = "",
    held: int | None = None,
) -> dict[str, Int]:
    """The frames that come out after the last reset, by tensor.

    Args:
        manifest: of the design.
        inputs: (frames, elements) by tensor name.
        folder: to work in.
        span: most cycles between two resets.
        seed: of pauses and resets.
        extra: connections of pins that are no streams.
        held: the one output whose tready is low until it is valid; None for all at once.
    """
    frames = len(next(iter(inputs.values())))
    pins, sides = extra, ""
    for i, port in enumerate(manifest.inputs):
        words = pack(inputs[port.tensor].reshape(frames, -1), port)
        (folder / f"in{i}.words").write_text("".join(word[::-1].tobytes().hex() + "\n" for word in words))
        sides += SOURCE.format(i=i, high=port.tdata_bits - 1, words=len(words))
        data = f"in{i}_v ? in{i}_words[in{i}_p] : {{{port.tdata_bits}{{1'bx}}}}"
        last = f"in{i}_v ? (in{i}_p + 1) % {port.words_per_frame} == 0 : 1'bx"
        pins += f", .{port.port}_tdata({data}), .{port.port}_tlast({last})"
        pins += f", .{port.port}_tvalid(in{i}_v), .{port.port}_tready(in{i}_ready)"
    for i, port in enumerate(manifest.outputs):
        sides += SINK.format(i=i, high=port.tdata_bits - 1, words=frames * port.words_per_frame)
        names = {"tdata": "data", "tvalid": "valid", "tready": "ready", "tlast": "last"}
        pins += "".join(f", .{port.port}_{pin}(out{i}_{name})" for pin, name in names.items())
    number = len(manifest.outputs)
    text = BENCH.format(
        held=f"{(1 << number) - 1 if held is None else 1 << held:b}",
        seed=seed,
        top=manifest.top,
        pins=pins,
        sides=sides,
        outputs=number,
        resets=RESETS,
        span=span,
        limit=40 * (frames + 2) * manifest.interval_cycles + 20 * manifest.latency_cycles + 10_000,
    )
    (folder / "reset_bench.sv").write_text(text)
    for path in manifest.memory_paths:
        (folder / path.name).write_bytes(path.read_bytes())
    sources = [str(path) for path in manifest.source_paths]
    command = ["iverilog", "-g2012", "-s", "reset_bench", "-o", "bench.vvp", "reset_bench.sv", *sources]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    done = subprocess.run(["vvp", "bench.vvp"], cwd=folder, check=True, capture_output=True, text=True)
    return _frames(done.stdout, manifest.outputs, frames)


def _frames(text: str, outputs: tuple[Port, ...], frames: int) -> dict[str, Int]:
    words: list[list[bytes]] = [[] for _ in outputs]
    for line in text.splitlines():
        if line.startswith("OUT "):
            _, index, data, last = line.split()
            port, own = outputs[int(index)], words[int(index)]
            own.append(bytes.fromhex(data)[::-1])
            assert last == str(int(len(own) % port.words_per_frame == 0)), f"{port.tensor}: tlast"
        else:
            assert "$finish" in line, line
    result = {}
    for port, own in zip(outputs, words, strict=True):
        assert len(own) == frames * port.words_per_frame, f"{port.tensor}: {len(own)} words"
        result[port.tensor] = unpack(np.frombuffer(b"".join(own), np.uint8).reshape(len(own), -1), port)
    return result
