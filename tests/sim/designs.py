"""Small hand-written designs with the ports and the manifest of a generated one."""

from __future__ import annotations

from pathlib import Path

from headrace_sim import Layer, Manifest, Port, Stream


def in_port(index: int, tensor: str, **fmt: object) -> Port:
    return _port(f"s_axis_{index}", tensor, **fmt)


def out_port(index: int, tensor: str, **fmt: object) -> Port:
    return _port(f"m_axis_{index}", tensor, **fmt)


def _port(name: str, tensor: str, *, bits: int, epw: int, frame: int, encoding: str = "signed") -> Port:
    return Port(
        port=name,
        tensor=tensor,
        bits=bits,
        encoding=encoding,
        elements_per_word=epw,
        frame_elements=frame,
        tdata_bits=-(-bits * epw // 8) * 8,
    )


def header(top: str, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> str:
    """The module line of a design with the manifest's ports."""
    lines = ["input logic ap_clk", "input logic ap_rst_n"]
    for port in inputs:
        lines += [
            f"input logic [{port.tdata_bits - 1}:0] {port.port}_tdata",
            f"input logic {port.port}_tvalid",
            f"output logic {port.port}_tready",
            f"input logic {port.port}_tlast",
        ]
    for port in outputs:
        lines += [
            f"output logic [{port.tdata_bits - 1}:0] {port.port}_tdata",
            f"output logic {port.port}_tvalid",
            f"input logic {port.port}_tready",
            f"output logic {port.port}_tlast",
        ]
    return f"module {top} (\n  " + ",\n  ".join(lines) + "\n);\n"


def design(
    folder: Path,
    top: str,
    inputs: tuple[Port, ...],
    outputs: tuple[Port, ...],
    body: str,
    *,
    streams: tuple[Stream, ...] = (),
    layers: tuple[Layer, ...] = (),
    memories: dict[str, str] | None = None,
) -> Manifest:
    """Write the sources and design.json of a design into `folder`."""
    (folder / "rtl").mkdir(parents=True, exist_ok=True)
    (folder / "rtl" / f"{top}.sv").write_text(header(top, inputs, outputs) + body + "endmodule\n")
    for name, text in (memories or {}).items():
        (folder / "rtl" / name).write_text(text)
    manifest = Manifest(
        root=folder,
        name=top,
        top=top,
        sources=(f"rtl/{top}.sv",),
        memories=tuple(f"rtl/{name}" for name in memories or {}),
        inputs=inputs,
        outputs=outputs,
        streams=streams,
        layers=layers,
        interval_cycles=inputs[0].words_per_frame,
        latency_cycles=4,
    )
    manifest.write()
    return manifest


def register_slice(folder: Path, *, bits: int, epw: int, frame: int, encoding: str = "signed") -> Manifest:
    """Two registers in a row; the stream between them is `mid`."""
    fmt = {"bits": bits, "epw": epw, "frame": frame, "encoding": encoding}
    ports = ((in_port(0, "x", **fmt),), (out_port(0, "y", **fmt),))
    pad = ports[0][0].tdata_bits - bits * epw
    zeros = f"{{{pad}'b0, s_mid_tdata}}" if pad else "s_mid_tdata"
    unused = (
        f"  logic unused; assign unused = &{{1'b0, s_axis_0_tdata[{bits * epw + pad - 1}:{bits * epw}]}};\n"
        if pad
        else ""
    )
    body = f"""
  logic [{bits * epw - 1}:0] s_mid_tdata;
  logic s_mid_tvalid, s_mid_tready, mid_last_q;
{unused}
  assign s_axis_0_tready = !s_mid_tvalid || s_mid_tready;
  assign s_mid_tready = !m_axis_0_tvalid || m_axis_0_tready;
  always_ff @(posedge ap_clk) begin
    if (s_axis_0_tready) begin
      s_mid_tvalid <= s_axis_0_tvalid;
      s_mid_tdata <= s_axis_0_tdata[{bits * epw - 1}:0];
      mid_last_q <= s_axis_0_tlast;
    end
    if (s_mid_tready) begin
      m_axis_0_tvalid <= s_mid_tvalid;
      m_axis_0_tdata <= {zeros};
      m_axis_0_tlast <= mid_last_q;
    end
    if (!ap_rst_n) begin
      s_mid_tvalid <= 1'b0;
      m_axis_0_tvalid <= 1'b0;
    end
  end
"""
    mid = Stream(
        name="mid",
        layer="first",
        signal="s_mid",
        bits=bits,
        encoding=encoding,
        elements_per_word=epw,
        frame_elements=frame,
    )
    layers = (
        Layer(name="first", kind="Slice", cycles=frame // epw, outputs=("mid",)),
        Layer(name="second", kind="Slice", cycles=frame // epw, outputs=("y",)),
    )
    return design(folder, "register_slice", *ports, body, streams=(mid,), layers=layers)


def dot_product(folder: Path, weights: list[int]) -> Manifest:
    """One output word per frame: sum of weights[t] * x[t], weights (8 bits, signed) from a memory file."""
    length = len(weights)
    ports = (
        (in_port(0, "x", bits=8, epw=1, frame=length),),
        (out_port(0, "dot", bits=24, epw=1, frame=1),),
    )
    body = f"""
  logic [7:0] weights [0:{length - 1}];
  initial $readmemh("weights.hex", weights);
  logic [31:0] index_q;
  logic signed [23:0] sum_q, sum, product;
  assign product = 24'($signed(s_axis_0_tdata)) * 24'($signed(weights[index_q]));
  assign sum = (index_q == 0 ? 24'sd0 : sum_q) + product;
  assign s_axis_0_tready = !m_axis_0_tvalid || m_axis_0_tready;
  assign m_axis_0_tlast = 1'b1;
  always_ff @(posedge ap_clk) begin
    if (s_axis_0_tready) begin
      m_axis_0_tvalid <= s_axis_0_tvalid && index_q == {length - 1};
      if (s_axis_0_tvalid) begin
        sum_q <= sum;
        m_axis_0_tdata <= sum;
        index_q <= index_q == {length - 1} ? 32'd0 : index_q + 32'd1;
      end
    end
    if (!ap_rst_n) begin
      index_q <= 32'd0;
      m_axis_0_tvalid <= 1'b0;
    end
  end
"""
    hex_text = "".join(f"{weight % 256:02x}\n" for weight in weights)
    return design(folder, "dot_product", *ports, body, memories={"weights.hex": hex_text})


def adder(folder: Path, *, frame: int) -> Manifest:
    """Adds two streams; combinational from both inputs to the output."""
    ports = (
        (in_port(0, "a", bits=4, epw=1, frame=frame), in_port(1, "b", bits=4, epw=1, frame=frame)),
        (out_port(0, "sum", bits=5, epw=1, frame=frame),),
    )
    body = """
  assign m_axis_0_tvalid = s_axis_0_tvalid && s_axis_1_tvalid;
  assign s_axis_0_tready = m_axis_0_tready && s_axis_1_tvalid;
  assign s_axis_1_tready = m_axis_0_tready && s_axis_0_tvalid;
  assign m_axis_0_tdata[4:0] = 5'($signed(s_axis_0_tdata[3:0])) + 5'($signed(s_axis_1_tdata[3:0]));
  assign m_axis_0_tdata[7:5] = 3'b0;
  assign m_axis_0_tlast = s_axis_0_tlast;
"""
    return design(folder, "adder", *ports, body)


def fork(folder: Path, *, frame: int) -> Manifest:
    """Sends every element to two outputs, which may accept it in different cycles; y1 is its complement."""
    ports = (
        (in_port(0, "x", bits=8, epw=1, frame=frame, encoding="unsigned"),),
        (
            out_port(0, "y0", bits=8, epw=1, frame=frame, encoding="unsigned"),
            out_port(1, "y1", bits=8, epw=1, frame=frame, encoding="unsigned"),
        ),
    )
    body = """
  logic taken0_q, taken1_q, done0, done1;
  assign m_axis_0_tvalid = s_axis_0_tvalid && !taken0_q;
  assign m_axis_1_tvalid = s_axis_0_tvalid && !taken1_q;
  assign done0 = taken0_q || m_axis_0_tready;
  assign done1 = taken1_q || m_axis_1_tready;
  assign s_axis_0_tready = done0 && done1;
  assign m_axis_0_tdata = s_axis_0_tdata;
  assign m_axis_1_tdata = ~s_axis_0_tdata;
  assign m_axis_0_tlast = s_axis_0_tlast;
  assign m_axis_1_tlast = s_axis_0_tlast;
  always_ff @(posedge ap_clk) begin
    if (!ap_rst_n || s_axis_0_tready) begin
      taken0_q <= 1'b0;
      taken1_q <= 1'b0;
    end else if (s_axis_0_tvalid) begin
      taken0_q <= done0;
      taken1_q <= done1;
    end
  end
"""
    return design(folder, "fork_streams", *ports, body)


def every_third_cycle(folder: Path, *, frame: int) -> Manifest:
    """A pass-through that is ready in one cycle of three only."""
    ports = ((in_port(0, "x", bits=8, epw=1, frame=frame),), (out_port(0, "y", bits=8, epw=1, frame=frame),))
    body = """
  logic [1:0] count_q;
  logic open;
  assign open = count_q == 2'd0;
  always_ff @(posedge ap_clk)
    if (!ap_rst_n) count_q <= 2'd0;
    else if (!(m_axis_0_tvalid && !m_axis_0_tready)) count_q <= count_q == 2'd2 ? 2'd0 : count_q + 2'd1;
  assign m_axis_0_tvalid = s_axis_0_tvalid && open;
  assign s_axis_0_tready = m_axis_0_tready && open;
  assign m_axis_0_tdata = s_axis_0_tdata;
  assign m_axis_0_tlast = s_axis_0_tlast;
"""
    return design(folder, "every_third_cycle", *ports, body)


FRAME, FRAMES = 6, 40  # words per frame and frames that the broken designs are meant for

# Each breaks exactly one rule of a pass-through with one 8-bit element a word. `count_q` counts the words that
# have left, `cycle_q` the cycles since reset.
_BROKEN = {
    "valid_withdrawn": {"valid": "s_axis_0_tvalid && cycle_q[1:0] != 2'd3"},
    "data_changed": {"data": "s_axis_0_tdata ^ {7'b0, m_axis_0_tvalid && !m_axis_0_tready && cycle_q[0]}"},
    "last_changed": {"last": "s_axis_0_tlast ^ (m_axis_0_tvalid && !m_axis_0_tready && cycle_q[0])"},
    "last_early": {"last": "s_axis_0_tlast || count_q == 16'd2"},
    "last_missing": {"last": "s_axis_0_tlast && count_q != 16'd11"},
    "deadlock": {"valid": "s_axis_0_tvalid && count_q != 16'd9", "ready": "m_axis_0_tready && count_q != 16'd9"},
    "extra_word": {"valid": f"s_axis_0_tvalid || count_q == 16'd{FRAME * FRAMES}"},
}


def broken(folder: Path, kind: str) -> Manifest:
    """A pass-through that breaks the rule `kind`."""
    parts = {
        "valid": "s_axis_0_tvalid",
        "ready": "m_axis_0_tready",
        "data": "s_axis_0_tdata",
        "last": "s_axis_0_tlast",
    } | _BROKEN[kind]
    # What moves the input is what moves the output, whatever is wrong with it.
    if kind == "valid_withdrawn":
        parts["ready"] = "m_axis_0_tready && cycle_q[1:0] != 2'd3"
    ports = (
        (in_port(0, "x", bits=8, epw=1, frame=FRAME),),
        (out_port(0, "y", bits=8, epw=1, frame=FRAME),),
    )
    body = f"""
  logic [15:0] count_q, cycle_q;
  assign m_axis_0_tvalid = {parts["valid"]};
  assign s_axis_0_tready = {parts["ready"]};
  assign m_axis_0_tdata = {parts["data"]};
  assign m_axis_0_tlast = {parts["last"]};
  always_ff @(posedge ap_clk)
    if (!ap_rst_n) begin
      count_q <= 16'd0;
      cycle_q <= 16'd0;
    end else begin
      cycle_q <= cycle_q + 16'd1;
      if (m_axis_0_tvalid && m_axis_0_tready) count_q <= count_q + 16'd1;
    end
"""
    return design(folder, f"broken_{kind}", *ports, body)


BROKEN = tuple(kind for kind in _BROKEN if kind != "deadlock")


def pass_through(folder: Path, top: str, **overrides: str) -> Manifest:
    """A pass-through of 3-bit elements, with expressions or whole statements replaced by `overrides`."""
    parts = {"data": "{5'b0, s_axis_0_tdata[2:0]}", "extra": ""} | overrides
    ports = ((in_port(0, "x", bits=3, epw=1, frame=4),), (out_port(0, "y", bits=3, epw=1, frame=4),))
    body = f"""
  assign m_axis_0_tvalid = s_axis_0_tvalid;
  assign s_axis_0_tready = m_axis_0_tready;
  assign m_axis_0_tdata = {parts["data"]};
  assign m_axis_0_tlast = s_axis_0_tlast;
  {parts["extra"]}
"""
    return design(folder, top, *ports, body)
