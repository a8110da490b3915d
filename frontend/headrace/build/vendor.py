"""Project files beside the stitched RTL: for FuseSoC and for Vivado."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from headrace.build.config import BuildConfig
from headrace.build.design import Design
from headrace.build.dma import ALVEO, ZYNQ, ZYNQ_ULTRASCALE, End, ends_of, largest_beat, pins
from headrace.build.finn_basic import alveo_default_platform
from headrace.build.output import MANIFEST
from headrace.codegen.control import AXI_WIDTHS, MAP_HEADER, address_map
from headrace.codegen.names import Namespace
from headrace.codegen.render import render_text
from headrace.errors import FoldingError, InputError, did_you_mean
from headrace.schedule.parts import BOARDS, find_part

DEFAULT_PART = BOARDS["Pynq-Z1"]

DMA_LIBRARY = ("headrace_dma_input", "headrace_dma_output")

LARGEST_BUS = 16
"""Ports on a side of a SmartConnect, at most (PG247)."""

BOARD_FILES: dict[str, str] = {
    "Pynq-Z1": "www.digilentinc.com:pynq-z1:part0:*",
    "Pynq-Z2": "tul.com.tw:pynq-z2:part0:*",
    "AUP-ZU3_8GB": "realdigital.org:aup-zu3-8gb:part0:*",
    "Ultra96": "avnet.com:ultra96v1:part0:*",
    "Ultra96-V2": "avnet.com:ultra96v2:part0:*",
    "ZCU102": "xilinx.com:zcu102:part0:*",
    "ZCU104": "xilinx.com:zcu104:part0:*",
    "ZCU111": "xilinx.com:zcu111:part0:*",
    "RFSoC2x2": "xilinx.com:rfsoc2x2:part0:*",
    "RFSoC4x2": "realdigital.org:rfsoc4x2:part0:*",
    "KV260_SOM": "xilinx.com:kv260_som:part0:*",
    "KV260": "xilinx.com:kv260_som:part0:*",
}
"""Board parts of Vivado, of any version, by board; FINN's shell names the same."""

CRYSTALS_MHZ = {"Pynq-Z1": 50, "Pynq-Z2": 50}
"""What clocks the processor of a Zynq-7000 board, where it is not the 33.33 MHz that Vivado assumes."""


def part_of(config: BuildConfig) -> str:
    """The ordering code of the part that projects are for: that of the configuration, or of its board.

    Resources of the part need not be known: a whole code is written into the project as it is.

    Raises:
        InputError: for a board that is not known, or a part that is neither known nor a whole ordering code.
    """
    if config.fpga_part is not None:
        if not is_ordering_code(config.fpga_part):
            try:
                find_part(config.fpga_part)
            except FoldingError as error:
                whole = "or a whole ordering code, such as xcvu9p-flga2104-2L-e"
                raise InputError(f"setting 'fpga_part': {error}; {whole}") from error
        return config.fpga_part
    if config.board is None:
        return DEFAULT_PART
    check_board(config.board)
    return {name.lower(): part for name, part in BOARDS.items()}[config.board.lower()]


def is_ordering_code(part: str) -> bool:
    """Whether *part* says device, package and speed grade, as Vivado takes them."""
    return re.fullmatch(r"x[acq]7?[a-z]+\d+[a-z]*-?[a-z]{3,4}\d+-\d[a-z]*(-[a-z]+)*", part, re.IGNORECASE) is not None


def check_board(name: str | None) -> None:
    """Refuse a board that is not known.

    Raises:
        InputError: names what is close to it.
    """
    if name is not None and name.lower() not in map(str.lower, BOARDS):
        near = did_you_mean(name, BOARDS)
        raise InputError(f"setting 'board': unknown board '{name}'{near}; known: {', '.join(BOARDS)}")


def project_files(design: Design, files: Sequence[str], config: BuildConfig) -> dict[str, str]:
    """Texts by file name: a FuseSoC core, the packaging of the IP, and for a Zynq the project around it.

    Args:
        design: with SystemVerilog.
        files: paths of the stitched RTL, relative to the folder that these files go to.
        config: names the part or the board.
    """
    manifest = json.loads(design.plan.files[MANIFEST])
    part, top = part_of(config), manifest["top"]
    sources = [path for path in files if PurePosixPath(path).suffix == ".sv"]
    modules = Namespace(PurePosixPath(path).stem for path in sources)
    plain, behind = modules.new(f"{top}_ip"), modules.new(f"{top}_dma")
    control = _control(design)
    ends = ends_of(manifest, part)
    context = {
        "name": "".join(c if c.isalnum() or c in " _-." else "_" for c in design.name if " " <= c <= "~"),
        "top": top,
        "part": part,
        "sources": sources,
        "memories": [path for path in files if PurePosixPath(path).suffix == ".hex"],
        "buses": [*(end.port for end in ends), *([control["port"]] if control is not None else [])],
        "control": control,
        "headers": [path for path in files if PurePosixPath(path).name == MAP_HEADER],
        "ends": ends,
        "inputs": [end for end in ends if not end.output],
        "outputs": [end for end in ends if end.output],
        "control_pins": [f"{control['port']}_{signal}" for signal in AXI_WIDTHS] if control is not None else [],
        "largest": largest_beat(part),
        "alveo": part.lower().startswith(ALVEO),
        "dma_ip": behind,
        "clock_mhz": max(int(config.clock_mhz + 1e-6), 1),  # not faster than was asked for
    }

    def text(template: str, **more: object) -> str:
        return render_text(f"{template}.j2", {**context, **more}, "project")

    ip_text = f"Quantized neural network {context['name']}"
    ips = [{"name": top, "module": plain, "text": ip_text, "sources": [f"{plain}.v"]}]
    result = {
        f"{top}.core": text("fusesoc.core"),
        f"{plain}.v": text("ip.v", module=plain, pins=pins(ends, control, beats=False)),
    }
    if part.lower().startswith((*ZYNQ, *ALVEO)) and len(ends) < LARGEST_BUS:
        library = [f"{module}.sv" for module in DMA_LIBRARY]
        result |= {module: text(module) for module in library}
        result[f"{behind}.v"] = text("dma.v", module=behind, pins=pins(ends, control, beats=True))
        own = [f"{behind}.v", *library]
        ips.append({"name": behind, "module": behind, "text": f"{ip_text} for DMAs", "sources": own})
        if context["alveo"]:
            result |= {name: text(name, **_alveo(part)) for name in ("movers.cpp", "link.cfg", "build_alveo.mk")}
        else:
            result["build_zynq.tcl"] = text("build_zynq.tcl", **_zynq(config, part, ends, control))
    return {**result, "package_ip.tcl": text("package_ip.tcl", ips=ips)}


def _control(design: Design) -> dict[str, Any] | None:
    """Port, bytes and registers of the control interface, where there is one."""
    data = address_map(design.plan.files)
    if data is None:
        return None
    bits = data["address_bits"]
    return {"port": data["interface"], "bytes": 1 << bits, "address_bits": bits, "registers": data["registers"]}


def _alveo(part: str) -> dict[str, object]:
    """Platform and memory of an Alveo card: DDR where it has that, else HBM."""
    cards = [name for name, code in BOARDS.items() if code.lower().startswith(find_part(part).name)]
    platform = next((alveo_default_platform[card] for card in cards if card in alveo_default_platform), "")
    return {"platform": platform, "bank": "DDR[0]" if cards[0] in ("U200", "U250") else "HBM[0]"}


def _zynq(config: BuildConfig, part: str, ends: Sequence[End], control: Mapping[str, Any] | None) -> dict[str, object]:
    """What the project of a Zynq needs to know besides the design."""
    board = next((name for name in BOARD_FILES if name.lower() == (config.board or "").lower()), None)
    if config.fpga_part is not None and board is not None and BOARDS[board].lower() != part.lower():
        board = None
    dmas: dict[str, dict[str, End]] = {}
    for end in ends:
        dmas.setdefault(end.dma, {})["target" if end.output else "source"] = end
    places = [(name, "S_AXI_LITE") for name in dmas]
    if control is not None:
        places.append(("accelerator", control["port"]))
    masters = [(end.dma, "M_AXI_S2MM" if end.output else "M_AXI_MM2S") for end in ends]
    return {
        "title": board or part,
        "board_part": BOARD_FILES[board] if board is not None else "",
        "crystal_mhz": CRYSTALS_MHZ.get(board or "", 0),
        "ultrascale": part.lower().startswith(ZYNQ_ULTRASCALE),
        "dmas": [{"name": name, "source": d.get("source"), "target": d.get("target")} for name, d in dmas.items()],
        "slaves": [{"cell": cell, "pin": pin, "port": f"M{k:02d}_AXI"} for k, (cell, pin) in enumerate(places)],
        "masters": [{"cell": cell, "pin": pin, "port": f"S{k:02d}_AXI"} for k, (cell, pin) in enumerate(masters)],
    }
