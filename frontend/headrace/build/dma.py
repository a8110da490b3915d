"""The accelerator behind DMAs: beats whose width a DMA has, a top in Verilog, and what a project must know of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.codegen.control import AXI_OUTPUTS, AXI_WIDTHS

ZYNQ_7000 = ("xc7z",)
ZYNQ_ULTRASCALE = ("xczu", "xck")
ZYNQ = (*ZYNQ_7000, *ZYNQ_ULTRASCALE)
ALVEO = ("xcu",)

HEADER_BYTES = 4
"""Before the frames of a transfer: their number."""

LONGEST_TRANSFER = 2**26 - 1
"""Bytes that a DMA moves at once: the length register of Xilinx's AXI DMA has 26 bits at most (PG021)."""


def largest_beat(part: str) -> int:
    """Most bytes of a beat: what the memory port of a *part* moves in a cycle (64 bits of Zynq-7000, 128 of MPSoC)."""
    if part.lower().startswith(ALVEO):
        return 64
    return 16 if part.lower().startswith(ZYNQ_ULTRASCALE) else 8


def beat_bytes(word_bytes: int, part: str) -> int:
    """Bytes of a beat that carries words of *word_bytes*: a power of two, as the streams of a DMA have it."""
    return min(1 << (word_bytes - 1).bit_length(), largest_beat(part))


@dataclass(frozen=True)
class End:
    """A stream at the end of a design, and the DMA that serves it.

    Attributes:
        port: of the top, also of that in Verilog.
        tensor: what travels.
        output: whether out of the design.
        word_bytes: of the accelerator's stream.
        words: of a frame.
        beat_bytes: of the DMA's stream.
        dma: its name in a project: DMA k reads input k and writes output k.
    """

    port: str
    tensor: str
    output: bool
    word_bytes: int
    words: int
    beat_bytes: int
    dma: str

    @property
    def kernel(self) -> str:
        """On an Alveo card, the kernel in the place of the DMA's direction; the driver finds it by this name."""
        return f"{'s2mm' if self.output else 'mm2s'}_{self.dma.rpartition('_')[2]}"

    @property
    def mover(self) -> str:
        """The C++ function of that kernel."""
        return f"move_{self.kernel}"

    @property
    def memory_bits(self) -> int:
        """Width of the DMA's way to memory: 32 at least."""
        return max(8 * self.beat_bytes, 32)


def ends_of(manifest: Mapping[str, Any], part: str) -> list[End]:
    """The streams of a design with *manifest*, inputs first, for a project of *part*."""
    found = []
    for side in ("inputs", "outputs"):
        for k, port in enumerate(manifest[side]):
            size = -(-port["tdata_bits"] // 8)
            words = port["frame_elements"] // port["elements_per_word"]
            beat = beat_bytes(size, part)
            found.append(End(port["port"], port["tensor"], side == "outputs", size, words, beat, f"axi_dma_{k}"))
    return found


@dataclass(frozen=True)
class Pin:
    """A pin of a top in Verilog: *info* and *parameter* are what Vivado's packager reads of its interface."""

    name: str
    bits: int
    output: bool
    info: str
    parameter: str = ""
    vector: bool = False


def pins(ends: list[End], control: Mapping[str, Any] | None, beats: bool) -> list[Pin]:
    """The pins of a top in Verilog.

    Args:
        ends: its streams.
        control: port and ``address_bits`` of its AXI4-Lite slave.
        beats: whether the streams are those of DMAs, with tkeep, or the accelerator's own.
    """
    buses = ":".join([*(end.port for end in ends), *([control["port"]] if control is not None else ())])
    associated = f"ASSOCIATED_BUSIF {buses}, ASSOCIATED_RESET ap_rst_n"
    return [
        Pin("ap_clk", 1, False, "xilinx.com:signal:clock:1.0 ap_clk CLK", associated),
        Pin("ap_rst_n", 1, False, "xilinx.com:signal:reset:1.0 ap_rst_n RST", "POLARITY ACTIVE_LOW"),
        *(_control_pins(control) if control is not None else ()),
        *(pin for end in ends for pin in _stream_pins(end, beats)),
    ]


def _stream_pins(end: End, beats: bool) -> Iterator[Pin]:
    size = end.beat_bytes if beats else end.word_bytes
    widths = {"tdata": 8 * size, **({"tkeep": size} if beats else {}), "tvalid": 1, "tready": 1, "tlast": 1}
    for signal, bits in widths.items():
        info = f"xilinx.com:interface:axis:1.0 {end.port} {signal.upper()}"
        vector = signal in ("tdata", "tkeep")
        yield Pin(f"{end.port}_{signal}", bits, end.output != (signal == "tready"), info, vector=vector)


def _control_pins(control: Mapping[str, Any]) -> Iterator[Pin]:
    parameter = f"PROTOCOL AXI4LITE, DATA_WIDTH 32, ADDR_WIDTH {control['address_bits']}"
    for signal, fixed in AXI_WIDTHS.items():
        info = f"xilinx.com:interface:aximm:1.0 {control['port']} {signal.upper()}"
        bits = fixed or control["address_bits"]
        name = f"{control['port']}_{signal}"
        yield Pin(name, bits, signal in AXI_OUTPUTS, info, parameter, vector=bits > 1)
        parameter = ""
