"""A frame around a module for place and route: every port on registers, and only three pins."""

from __future__ import annotations

from headrace.synth.units import MODULE, Unit

HARNESS = "harness"
"""Name of the frame's module."""


def harness(unit: Unit) -> str:
    """SystemVerilog of the frame: a shift register feeds all inputs, another takes all outputs away.

    Every path of the module then begins and ends at a register, and wide streams need no pins.
    """
    wide_in, wide_out = sum(unit.inputs.values()), sum(unit.outputs.values())
    connections = [".ap_clk(clk)", ".ap_rst_n(feed_q[0])"]
    for ports, signal, at in ((unit.inputs, "feed_q", 1), (unit.outputs, "taken", 0)):
        for name, width in ports.items():
            connections.append(f".{name}({signal}[{at} +: {width}])")
            at += width
    joined = ",\n      ".join(connections)
    return f"""module {HARNESS} (
    input  logic clk,
    input  logic d,
    output logic q
);
  logic [{wide_in}:0] feed_q;
  logic [{wide_out - 1}:0] taken;
  logic [{wide_out}:0] drain_q;

  always_ff @(posedge clk) begin
    feed_q  <= {{feed_q[{wide_in - 1}:0], d}};
    drain_q <= d ? {{taken, 1'b0}} : drain_q >> 1;
  end
  assign q = drain_q[0];

  {MODULE} u_unit (
      {joined}
  );
endmodule
"""
