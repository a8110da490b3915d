"""Device families: how yosys is asked for each, and what its cells are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.errors import InputError, did_you_mean


@dataclass(frozen=True)
class Cell:
    """Cells whose type matches ``pattern`` in full: each counts ``amount`` in the column ``column``."""

    pattern: str
    column: str
    amount: int = 1


@dataclass(frozen=True)
class PlaceAndRoute:
    """How nextpnr is asked for a family: the program, and the options that name the part."""

    program: str
    part: tuple[str, ...]


@dataclass(frozen=True)
class Family:
    """A device family.

    Attributes:
        name: as on the command line.
        title: as people write it.
        command: yosys command, without ``-top``; it flattens and adds no pads.
        cells: what cell types are; the first that matches counts.
        pnr: nextpnr's part, where there is a nextpnr for the family.
        lutram: whether look-up tables can be memory.
        srl: whether they can be shift registers.
    """

    name: str
    title: str
    command: str
    cells: tuple[Cell, ...]
    pnr: PlaceAndRoute | None = None
    lutram: bool = True
    srl: bool = True

    def read(self, sources: Sequence[str], top: str) -> list[str]:
        """Commands that read SystemVerilog files: the RTL is told what the family lacks, and a family without memory in
        look-up tables chooses memories itself."""
        lacking = ["HEADRACE_NO_LUTRAM"] * (not self.lutram) + ["HEADRACE_NO_SRL"] * (not self.srl)
        reads = [" ".join(["read_verilog", "-sv", *(f"-D{macro}" for macro in lacking), *sources])]
        if self.lutram:
            return reads
        in_tables = (f"setattr -unset {name} m:* a:{name}=distributed %i" for name in ("ram_style", "rom_style"))
        return [*reads, f"hierarchy -top {top}", *in_tables]

    def count(self, cells: Mapping[str, int]) -> dict[str, int]:
        """Sum the cells of a netlist by column; cells of no known kind are summed under ``other``."""
        columns: dict[str, int] = {}
        for kind, number in cells.items():
            if kind in _FREE:
                continue
            cell = next((c for c in self.cells if re.fullmatch(c.pattern, kind)), Cell(kind, "other"))
            columns[cell.column] = columns.get(cell.column, 0) + number * cell.amount
        return columns

    @property
    def sequential(self) -> tuple[str, ...]:
        """Patterns (of yosys's ``select``) of the cells at which a combinational path ends."""
        return _SEQUENTIAL[self.command.split()[0]]


_FREE = ("GND", "VCC", "GSR", "$scopeinfo")
"""Cells that stand for no logic."""

_XILINX = (
    Cell(r"LUT[1-6]|INV", "lut"),
    Cell(r"FD[RSCP]E(_1)?|LD[CP]E", "ff"),
    Cell(r"CARRY[48]", "carry"),
    Cell(r"MUXF[789]", "mux"),
    Cell(r"DSP48E[12]", "dsp"),
    Cell(r"RAMB18E[12]", "bram18"),
    Cell(r"RAMB36E[12]", "bram18", 2),
    Cell(r"URAM288", "uram"),
    Cell(r"SRL16E|SRLC32E", "srl"),
    Cell(r"RAM(32|64)X1S(_1)?", "lutram"),
    Cell(r"RAM(32|64)X1D(_1)?|RAM128X1S", "lutram", 2),
    Cell(r"RAM32M|RAM64M|RAM128X1D|RAM256X1S", "lutram", 4),
    Cell(r"RAM32M16|RAM64M8|RAM256X1D|RAM512X1S", "lutram", 8),
)
_ECP5 = (
    Cell(r"LUT4", "lut"),
    Cell(r"CCU2C", "carry"),
    Cell(r"PFUMX|L6MUX21", "mux"),
    Cell(r"TRELLIS_FF", "ff"),
    Cell(r"TRELLIS_DPR16X4", "lutram", 4),
    Cell(r"DP16KD|PDPW16KD", "bram18"),
    Cell(r"MULT18X18D|ALU54B", "dsp"),
)
_ICE40 = (
    Cell(r"SB_LUT4", "lut"),
    Cell(r"SB_CARRY", "carry"),
    Cell(r"SB_DFF\w*", "ff"),
    Cell(r"SB_RAM40_4K\w*", "bram4"),
    Cell(r"SB_MAC16", "dsp"),
)
_GOWIN = (
    Cell(r"LUT[1-4]|INV", "lut"),
    Cell(r"ALU", "carry"),
    Cell(r"MUX2_LUT\d|MUX2", "mux"),
    Cell(r"DFF\w*|DL\w*", "ff"),
    Cell(r"RAM16S\w*", "lutram", 4),
    Cell(r"(SDPX?9?B?|DPX?9?B?|SPX?9?|pROMX?9?|ROM\w*)", "bram18"),
    Cell(r"MULT\w+|MULTADDALU\w+|MULTALU\w+|ALU54D|PADD\w+", "dsp"),
)

_SEQUENTIAL = {
    "synth_xilinx": ("FD*", "LD*", "SRL*", "RAM*", "URAM*", "DSP*"),
    "synth_ecp5": ("TRELLIS_FF", "TRELLIS_DPR16X4", "DP16KD", "PDPW16KD", "MULT18X18D", "ALU54B"),
    "synth_ice40": ("SB_DFF*", "SB_RAM*", "SB_MAC16"),
    "synth_gowin": ("DFF*", "DL*", "RAM16S*", "SDP*", "DP*", "SP*", "pROM*", "ROM*"),
}


def _xilinx(name: str, title: str) -> Family:
    return Family(name, title, f"synth_xilinx -family {name} -flatten -noiopad -noclkbuf", _XILINX)


FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        _xilinx("xc7", "AMD 7 series"),
        _xilinx("xcup", "AMD UltraScale+"),
        Family(
            "ecp5",
            "Lattice ECP5",
            "synth_ecp5",
            _ECP5,
            PlaceAndRoute("nextpnr-ecp5", ("--85k", "--package", "CABGA756", "--speed", "6")),
            srl=False,
        ),
        Family(
            "ice40",
            "Lattice iCE40",
            "synth_ice40",
            _ICE40,
            PlaceAndRoute("nextpnr-ice40", ("--hx8k", "--package", "ct256")),
            lutram=False,
            srl=False,
        ),
        Family("gowin", "Gowin GW1N/GW2A", "synth_gowin -noiopads", _GOWIN, srl=False),
    )
}
"""The families that are known, by name."""


def family(name: str) -> Family:
    """The family called *name*.

    Raises:
        InputError: when there is none; names those that are known.
    """
    if name not in FAMILIES:
        raise InputError(
            f"no device family '{name}'{did_you_mean(name, FAMILIES)}; expected one of {', '.join(FAMILIES)}"
        )
    return FAMILIES[name]
