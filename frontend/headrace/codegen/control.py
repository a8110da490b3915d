"""The control interface of a design: one AXI4-Lite slave, its registers, and where the memories of layers are.

Addresses count bytes, accesses are words of 32 bits. Registers lie at the bottom; every layer with constants that can
be replaced has a window above them, whose size is a power of two and divides its base.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headrace.codegen.names import Namespace
from headrace.codegen.render import render_text
from headrace.codegen.safe import Verilog
from headrace.layers.base import Layer
from headrace.layers.parameter import Parameter, address_bits

PORT = "s_axi_control"
"""Prefix of the slave's signals at the top module."""

FORMAT, VERSION = "headrace-control", 1
MAGIC = 0x43524448
"""The bytes ``HDRC``, lowest first."""

MAP_JSON, MAP_HEADER = "control.json", "control.h"

AXI_WIDTHS = {
    "awaddr": 0, "awvalid": 1, "awready": 1, "wdata": 32, "wstrb": 4, "wvalid": 1, "wready": 1,
    "bresp": 2, "bvalid": 1, "bready": 1, "araddr": 0, "arvalid": 1, "arready": 1,
    "rdata": 32, "rresp": 2, "rvalid": 1, "rready": 1,
}  # fmt: skip
"""Width of every signal of the slave; 0 is that of an address."""

AXI_OUTPUTS = frozenset(("awready", "wready", "bresp", "bvalid", "arready", "rdata", "rresp", "rvalid"))


def address_map(files: Mapping[str, str]) -> dict[str, Any] | None:
    """The content of ``control.json`` among generated *files*; None where the design has no control interface."""
    found: dict[str, Any] | None = json.loads(files[MAP_JSON]) if MAP_JSON in files else None
    return found


@dataclass(frozen=True)
class AxiSignal:
    """A signal of the slave, without its prefix."""

    name: str
    bits: int
    output: bool


SMALLEST_WINDOW = 4096
"""Bytes of the registers at least: what a processor's memory map gives away at once."""

COUNTERS = 0x100
"""Address of the first counter."""

STREAM_COUNTERS = ("words", "stalled", "starved", "frames")
"""Counters of a stream, one word after the other; frames only of those at the ends of the design."""


@dataclass(frozen=True)
class Register:
    """A word at a fixed address; *expression* is what is read there."""

    name: str
    address: int
    expression: Verilog
    text: str
    writable: bool = False

    @property
    def word(self) -> int:
        """Address in words."""
        return self.address // 4


@dataclass(frozen=True)
class CountedStream:
    """A stream that the control module watches; *end* is its port where it is one of the design's."""

    name: str
    layer: str
    signal: str
    words: int
    end: str = ""


@dataclass(frozen=True)
class End:
    """A stream at a port: its number among the streams, and the words of a frame."""

    index: int
    words: int
    output: bool


@dataclass(frozen=True, eq=False)
class Region:
    """The window of a layer.

    Attributes:
        word_bits: of an address in it, of words.
        base: address of its first byte.
        port_bits: of the address at the layer's module, no more than word_bits.
    """

    node: str
    kind: str
    parameters: tuple[Parameter, ...]
    word_bits: int
    base: int
    address_bits: int

    @property
    def size(self) -> int:
        """Bytes."""
        return 4 << self.word_bits

    @property
    def port_bits(self) -> int:
        """Width of the address at the layer's module."""
        return address_bits(self.parameters)

    @property
    def tag_bits(self) -> int:
        """Bits of an address that say that it is in this window."""
        return self.address_bits - 2 - self.word_bits

    @property
    def tag(self) -> int:
        """What they are then."""
        return self.base // self.size


@dataclass(frozen=True, eq=False)
class Control:
    """The control module of a design.

    Attributes:
        module: its name.
        layers: number of layers in the design.
        counters: whether it counts.
        regions: the windows of layers.
        streams: what it watches: the streams of the inputs, then all that layers write.
        ends: those at ports, inputs first.
    """

    module: str
    layers: int
    counters: bool
    regions: tuple[Region, ...]
    streams: tuple[CountedStream, ...]
    ends: tuple[End, ...]
    address_bits: int

    @property
    def word_address_bits(self) -> int:
        """Width of an address in words."""
        return self.address_bits - 2

    @property
    def axi_signals(self) -> list[AxiSignal]:
        """The signals of the slave."""
        return [AxiSignal(name, bits or self.address_bits, name in AXI_OUTPUTS) for name, bits in AXI_WIDTHS.items()]

    @property
    def input_range(self) -> Verilog:
        """The inputs among the streams, as a range."""
        return Verilog(f"[{sum(not end.output for end in self.ends) - 1}:0]")

    def word_of(self, register: str) -> int:
        """Address of a register, in words."""
        return next(r.word for r in self.registers if r.name == register)

    @cached_property
    def registers(self) -> tuple[Register, ...]:
        """All registers, ascending."""
        number = self.counter_words
        fixed = [
            Register("MAGIC", 0x00, Verilog(f"32'h{MAGIC:x}"), "the letters HDRC, lowest byte first"),
            Register("VERSION", 0x04, Verilog(f"32'd{VERSION}"), "version of this table"),
            Register("LAYERS", 0x08, Verilog(f"32'd{self.layers}"), "layers of the design, FIFOs among them"),
            Register("MAP_ID", 0x0C, Verilog(f"32'h{self.map_id:x}"), "checksum of the address map"),
            Register(
                "CONTROL",
                0x10,
                Verilog("{31'd0, enable_q}" if self.counters else "32'd0"),
                "bit 0: counters count; bit 1, written as 1: they start again from 0",
                writable=True,
            ),
            Register("STATUS", 0x14, Verilog("{31'd0, idle}"), "bit 0: no frame is in the design"),
            Register("COUNTERS", 0x18, Verilog(f"32'd{number}"), "words of counters"),
            Register("SCRATCH", 0x1C, Verilog("scratch_q"), "free to use", writable=True),
        ]
        return (*fixed, *(self._counter_registers() if self.counters else ()))

    @property
    def counter_words(self) -> int:
        """Registers that are counters."""
        return 4 + 3 * len(self.streams) + len(self.ends) if self.counters else 0

    def _counter_registers(self) -> list[Register]:
        whole = [
            ("CYCLES_LOW", "cycles_low", "cycles, lower half; reading it keeps the upper one"),
            ("CYCLES_HIGH", "upper_q", "upper half"),
            ("SPAN_LOW", "span_low", "cycles from the first word in to the last word out, lower half"),
            ("SPAN_HIGH", "upper_q", "upper half"),
        ]
        found = [Register(n, COUNTERS + 4 * k, Verilog(e), text) for k, (n, e, text) in enumerate(whole)]
        end_of = {end.index: k for k, end in enumerate(self.ends)}
        for k, stream in enumerate(self.streams):
            for name, address in self._stream_counters(k).items():
                signal = f"ended{end_of[k]}" if name == "frames" else f"{name}{k}"
                found.append(Register(f"{name.upper()}_{k}", address, Verilog(signal), f"{name} of {stream.name}"))
        return found

    def _stream_counters(self, number: int) -> dict[str, int]:
        """Address of each counter of a stream."""
        names = STREAM_COUNTERS if self.streams[number].end else STREAM_COUNTERS[:-1]
        return {name: _counters_of(number) + 4 * j for j, name in enumerate(names)}

    @cached_property
    def map_id(self) -> int:
        """Checksum of the map, so that a driver knows that it is that of the hardware."""
        return zlib.crc32(json.dumps(self._layout(), sort_keys=True).encode())

    def map_data(self, name: str) -> dict[str, Any]:
        """The address map as data.

        Args:
            name: of the design, any text.
        """
        registers = [
            {"name": r.name, "address": r.address, "access": "rw" if r.writable else "ro", "meaning": r.text}
            for r in self.registers
            if r.address < COUNTERS
        ]
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": name,
            "interface": PORT,
            "data_bits": 32,
            "address_bits": self.address_bits,
            "map_id": self.map_id,
            "registers": registers,
            **self._layout(),
        }

    def _layout(self) -> dict[str, Any]:
        counters: dict[str, Any] = {}
        if self.counters:
            streams = [
                {"stream": stream.name, "layer": stream.layer, "port": stream.end, **self._stream_counters(k)}
                for k, stream in enumerate(self.streams)
            ]
            counters = {"cycles": COUNTERS, "span": COUNTERS + 8, "streams": streams}
        return {"counters": counters, "layers": [_region(region) for region in self.regions]}

    def header(self, name: str, prefix: str) -> str:
        """The address map as a C header.

        Args:
            name: of the design, any text.
            prefix: an identifier that all names start with.
        """
        names = Namespace()
        lines = [(f"{prefix}_{r.name}", r.address, r.text) for r in self.registers]
        for region in self.regions:
            own = f"{prefix}_{names.new(region.node)}".upper()
            lines += [
                (f"{own}_BASE", region.base, f"window of layer {region.node} ({region.kind})"),
                (f"{own}_SIZE", region.size, "its bytes"),
            ]
            for p in region.parameters:
                array = f"{own}_{p.name.upper()}"
                lines.append((array, region.base + 4 * p.offset, f"its {p.name}"))
                for k, stride in enumerate(p.strides):
                    lines.append((f"{array}_STRIDE_{k}", 4 * stride, f"bytes between words, axis {k} of {len(p.grid)}"))
        rows = [(Verilog(key.upper()), Verilog(f"0x{value:05x}u"), text) for key, value, text in lines]
        return render_text(
            "control.h.j2", {"name": name, "guard": f"{prefix}_CONTROL_H".upper(), "rows": rows}, "project"
        )


def _region(region: Region) -> dict[str, Any]:
    arrays = [
        {
            "name": p.name,
            "shape": list(p.values.shape),
            "type": p.range.type_name,
            "bits": p.range.bits,
            "encoding": p.range.encoding,
            "stored_less": p.stored_less,
            "split": list(p.split),
            "axes": list(p.axes),
            "strides": list(p.strides),
            "offset": p.offset,
        }
        for p in region.parameters
    ]
    return {"layer": region.node, "kind": region.kind, "base": region.base, "size": region.size, "arrays": arrays}


def make_control(
    module: str,
    layers: Sequence[tuple[str, Layer]],
    inputs: Sequence[CountedStream],
    written: Sequence[CountedStream],
    counters: bool,
) -> Control | None:
    """The control module of a design; None where there is nothing to control.

    Args:
        module: what it is called.
        layers: all, by node, in topological order.
        inputs: the streams of the inputs.
        written: all that layers write.
        counters: whether to count.
    """
    writable = [(node, layer) for node, layer in layers if layer.parameters]
    if not writable and not counters:
        return None
    watched = (*inputs, *written)
    ends = tuple(End(k, stream.words, k >= len(inputs)) for k, stream in enumerate(watched) if stream.end)
    cursor = _window(_counters_of(len(watched)) if counters else COUNTERS)
    places = []
    for node, layer in writable:
        bits = address_bits(layer.parameters)
        cursor = -(-cursor // (4 << bits)) * (4 << bits)
        places.append((node, layer, bits, cursor))
        cursor += 4 << bits
    total = (cursor - 1).bit_length()
    regions = tuple(Region(node, layer.kind, layer.parameters, bits, base, total) for node, layer, bits, base in places)
    return Control(module, len(layers), counters, regions, watched, ends, total)


def _counters_of(number: int) -> int:
    """Address of the counters of a stream; those of the whole design come before the first."""
    return COUNTERS + 16 + 16 * number


def _window(size: int) -> int:
    """Bytes kept for the registers."""
    return max(SMALLEST_WINDOW, 1 << (size - 1).bit_length())
