"""Project files beside the stitched RTL: for FuseSoC and for Vivado."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import PurePosixPath
from typing import Any

from headrace.build.config import BuildConfig
from headrace.build.design import Design
from headrace.build.output import MANIFEST
from headrace.codegen.control import MAP_HEADER, address_map
from headrace.codegen.render import render_text
from headrace.errors import FoldingError, InputError, did_you_mean
from headrace.schedule.parts import BOARDS, find_part

DEFAULT_PART = BOARDS["Pynq-Z1"]
ZYNQ = ("xc7z", "xczu", "xck")
ULTRASCALE = ("xczu", "xck")


def part_of(config: BuildConfig) -> str:
    """The ordering code of the part that projects are for: that of the configuration, or of its board.

    Raises:
        InputError: for a board or part that is not known.
    """
    if config.fpga_part is not None:
        try:
            find_part(config.fpga_part)
        except FoldingError as error:
            raise InputError(f"setting 'fpga_part': {error}") from error
        return config.fpga_part
    if config.board is None:
        return DEFAULT_PART
    check_board(config.board)
    return {name.lower(): part for name, part in BOARDS.items()}[config.board.lower()]


def check_board(name: str | None) -> None:
    """Refuse a board that is not known.

    Raises:
        InputError: names what is close to it.
    """
    if name is not None and name.lower() not in map(str.lower, BOARDS):
        near = did_you_mean(name, BOARDS)
        raise InputError(f"setting 'board': unknown board '{name}'{near}; known: {', '.join(BOARDS)}")


def project_files(design: Design, files: Sequence[str], part: str) -> dict[str, str]:
    """Texts by file name: a FuseSoC core, the packaging of the IP, and for a Zynq the project around it.

    Args:
        design: with SystemVerilog.
        files: paths of the stitched RTL, relative to the folder that these files go to.
        part: ordering code.
    """
    manifest = json.loads(design.plan.files[MANIFEST])
    sources = [path for path in files if PurePosixPath(path).suffix == ".sv"]
    memories = [path for path in files if PurePosixPath(path).suffix == ".hex"]
    context = {
        "name": "".join(c if c.isalnum() or c in " _-." else "_" for c in design.name if " " <= c <= "~"),
        "top": manifest["top"],
        "part": part,
        "sources": sources,
        "memories": memories,
        "buses": [port["port"] for port in (*manifest["inputs"], *manifest["outputs"])],
        "control": _control(design),
        "headers": [path for path in files if PurePosixPath(path).name == MAP_HEADER],
        "clock_khz": round(design.config.clock_mhz * 1000),
        "ultrascale": part.lower().startswith(ULTRASCALE),
        "dmas": _dmas(manifest),
    }
    result = {
        f"{manifest['top']}.core": render_text("fusesoc.core.j2", context, "project"),
        "package_ip.tcl": render_text("package_ip.tcl.j2", context, "project"),
    }
    if part.lower().startswith(ZYNQ):
        result["build_zynq.tcl"] = render_text("build_zynq.tcl.j2", context, "project")
    return result


def _control(design: Design) -> dict[str, object] | None:
    """Port and bytes of the control interface, where there is one."""
    data = address_map(design.plan.files)
    return None if data is None else {"port": data["interface"], "bytes": 1 << data["address_bits"]}


def _dmas(manifest: Mapping[str, Any]) -> list[dict[str, object]]:
    """DMA k reads input k and writes output k, as the driver expects."""

    def end(port: Mapping[str, Any] | None) -> dict[str, object] | None:
        if port is None:
            return None
        return {"port": port["port"], "tensor": port["tensor"], "bytes": port["tdata_bits"] // 8}

    pairs = zip_longest(manifest["inputs"], manifest["outputs"])
    return [{"name": f"axi_dma_{k}", "source": end(a), "target": end(b)} for k, (a, b) in enumerate(pairs)]
