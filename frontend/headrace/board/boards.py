"""Boards that open tools make bitstreams for: part, clock, pins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.errors import InputError, did_you_mean

BAUD_ERROR = 0.02
"""Most by which the bits of a serial port may be too long or too short."""


@dataclass(frozen=True)
class Board:
    """One board.

    Attributes:
        name: as on the command line.
        title: as people write it.
        family: of the device, as ``headrace synth`` names it.
        synth: yosys command.
        pnr: nextpnr program, and the options that name the part.
        packer: program that makes the bitstream.
        clock_khz: of the oscillator at the pin ``clk``.
        pins: site by port of the top module; ``rxd`` is what the board receives.
        active_low: whether the lights shine at 0.
    """

    name: str
    title: str
    family: str
    synth: str
    pnr: tuple[str, ...]
    packer: str
    clock_khz: int
    pins: Mapping[str, str]
    active_low: bool = False

    @property
    def clock_mhz(self) -> float:
        """Of the oscillator."""
        return self.clock_khz / 1000

    def cycles_a_bit(self, baud: int) -> int:
        """Clock cycles for which the serial port holds a bit.

        Raises:
            InputError: when no whole number of cycles comes near enough.
        """
        cycles = round(self.clock_khz * 1000 / baud)
        if cycles < 8 or abs(self.clock_khz * 1000 / (cycles * baud) - 1) > BAUD_ERROR:
            raise InputError(f"{baud} baud cannot be made of {self.clock_mhz:g} MHz; 115200 and 1000000 can")
        return cycles


BOARDS: dict[str, Board] = {
    board.name: board
    for board in (
        Board(
            "ulx3s-85f",
            "ULX3S with LFE5U-85F",
            "ecp5",
            "synth_ecp5",
            ("nextpnr-ecp5", "--85k", "--package", "CABGA381", "--speed", "6"),
            "ecppack",
            25_000,
            {"clk": "G2", "rxd": "M1", "txd": "L4", "light_ready": "B2", "light_error": "C2"},
        ),
        Board(
            "icebreaker",
            "iCEBreaker with iCE40UP5K",
            "ice40",
            "synth_ice40 -dsp -device u",
            ("nextpnr-ice40", "--up5k", "--package", "sg48"),
            "icepack",
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
            "icepack",
            12_000,
            {"clk": "J3", "rxd": "B10", "txd": "B12", "light_ready": "B5", "light_error": "B4"},
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
