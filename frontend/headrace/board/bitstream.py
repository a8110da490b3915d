"""From a build to a bitstream by yosys and nextpnr, with utilisation and timing read back."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.board.boards import TOP, Board
from headrace.build.bitstreams import FOLDER, RESULT, Bitstream
from headrace.build.design import Design
from headrace.build.driver import stream_table
from headrace.build.journal import Journal
from headrace.build.output import MANIFEST, check_inside, replaced, write_files
from headrace.build.report import add_to_report
from headrace.codegen.render import render_text
from headrace.errors import InputError, ToolError
from headrace.resources import hls_templates
from headrace.synth.families import FAMILIES
from headrace.synth.tools import packer, place_and_route, run, yosys

LIBRARY = ("headrace_uart_rx", "headrace_uart_tx", "headrace_byte_fifo")
HOST = "host.py"
BREAK_BITS = 20
"""Bits for which the line is low in a break: two bytes, longer than any byte."""

_ERROR = re.compile(r"^(?:.*?:\d+: )?ERROR: (.*)$", re.MULTILINE)


def board_files(design: Design, board: Board, baud: int) -> dict[str, str]:
    """The sources of *design* on *board*, by file name: RTL, memories, serial port, constraints, the host's program.

    Raises:
        InputError: when the design has not one input and one output, or the baud rate does not fit the clock.
    """
    manifest = json.loads(design.plan.files[MANIFEST])
    if len(manifest["inputs"]) != 1 or len(manifest["outputs"]) != 1:
        ends = f"{len(manifest['inputs'])} inputs and {len(manifest['outputs'])} outputs"
        raise InputError(f"a serial port has room for one input and one output; '{design.name}' has {ends}")
    if "control" in manifest:
        raise InputError(
            f"a serial port has no way to the control interface of '{design.name}'; build it without "
            "performance_counters and runtime_writeable_weights"
        )
    pins = [
        {"port": port, "site": site, "pull": port == "rxd", "io_type": board.io_types.get(port, "LVCMOS33")}
        for port, site in board.pins.items()
    ]
    constraints = board.route.constraints
    located = {"title": board.title, "clock_mhz": f"{board.clock_mhz:g}", "pins": pins}
    table = {**stream_table(design), "baud": baud}
    return {
        **{path.split("/", 1)[1]: text for path, text in design.plan.files.items() if path.startswith("rtl/")},
        f"{TOP}.sv": render_text("board.sv.j2", _context(manifest, board, baud), "board"),
        constraints: render_text(f"{constraints}.j2", located, "board"),
        **{f"{name}.sv": render_text(f"{name}.sv.j2", {}, "board") for name in LIBRARY},
        HOST: (hls_templates() / "board" / HOST).read_text(encoding="utf-8"),
        "driver.py": (hls_templates() / "driver" / "driver.py").read_text(encoding="utf-8"),
        "io.json": json.dumps(table, indent=1) + "\n",
    }


def _context(manifest: Mapping[str, Any], board: Board, baud: int) -> dict[str, object]:
    (source,), (target,) = manifest["inputs"], manifest["outputs"]
    words = source["frame_elements"] // source["elements_per_word"]
    in_bytes, out_bytes = source["tdata_bits"] // 8, target["tdata_bits"] // 8
    return {
        "title": board.title,
        "design": manifest["top"],
        "baud": baud,
        "cycles": board.cycles_a_bit(baud),
        "break_bits": BREAK_BITS,
        "break_cycles": BREAK_BITS * board.cycles_a_bit(baud),
        "break_count_bits": (BREAK_BITS * board.cycles_a_bit(baud)).bit_length(),
        "in_port": source["port"],
        "out_port": target["port"],
        "in_bytes": in_bytes,
        "in_words": words,
        "in_word_bits": max((words - 1).bit_length(), 1),
        "in_byte_bits": max((in_bytes - 1).bit_length(), 1),
        "out_bytes": out_bytes,
        "out_count_bits": out_bytes.bit_length(),
        "active_low": board.active_low,
    }


def make_bitstream(
    design: Design, board: Board, baud: int = 115_200, timeout: float = 3600.0, journal: Journal | None = None
) -> Bitstream:
    """Make the bitstream of a design that was built, in ``bitstream/<board>/`` of its folder; the report shows it.

    Args:
        design: as :func:`headrace.load` opens it from the folder of a build.
        board: where it goes.
        baud: of the serial port.
        timeout: seconds that each program may take.
        journal: told of the steps.

    Raises:
        InputError: when nothing was built, or the design cannot go to a serial port.
        ToolError: when a program is missing, fails or takes too long; when the design does not fit, says so.
    """
    journal = journal or Journal()
    folder = design.built_folder("make a bitstream of")
    files = board_files(design, board, baud)
    place_and_route(board.pnr[0])  # what is missing is told of before the work
    packer(board.route.packer, board.route.package)
    with tempfile.TemporaryDirectory(prefix="headrace-bitstream-") as name:
        scratch = Path(name)
        write_files(scratch, files)
        with journal.step("synthesise"):
            _yosys(scratch, board, timeout)
        with journal.step("place and route") as note:
            report = _place_and_route(scratch, board, timeout)
            note(f"{_fmax(report):.1f} MHz, {board.clock_mhz:g} MHz are needed")
        with journal.step("pack") as note:
            file = _pack(scratch, board, timeout)
            note(f"{(scratch / file).stat().st_size:,} bytes")
        found = Bitstream(
            board=board.name,
            file=file,
            clock_mhz=board.clock_mhz,
            fmax_mhz=round(_fmax(report), 2),
            used={kind: cell["used"] for kind, cell in report["utilization"].items()},
            available={kind: cell["available"] for kind, cell in report["utilization"].items()},
            baud=baud,
            digest=design.plan.digest,
            tools=(f"Yosys {yosys().version}", f"{board.pnr[0]} {place_and_route(board.pnr[0]).version}"),
        )
        check_inside(folder, target := folder / FOLDER / board.name)
        with replaced(target) as whole:
            write_files(whole, {**files, RESULT: found.json()})
            shutil.copyfile(scratch / file, whole / file)
    add_to_report(design, folder, {})
    return found


def _yosys(folder: Path, board: Board, timeout: float) -> None:
    reads = FAMILIES[board.family].read(sorted(path.name for path in folder.glob("*.sv")), TOP)
    script = "; ".join([*reads, f"{board.synth} -top {TOP} -json {TOP}.json"])
    _run([yosys().path, "-q", "-p", script], folder, timeout, "synthesis")


def _place_and_route(folder: Path, board: Board, timeout: float) -> dict[str, Any]:
    program, *part = board.pnr
    options = [
        "--json",
        f"{TOP}.json",
        *board.route.placing,
        "--freq",
        f"{board.clock_mhz:g}",
        "--report",
        "report.json",
        "--timing-allow-fail",
        "--seed",
        "1",
        "-q",
    ]
    _run([place_and_route(program).path, *part, *options], folder, timeout, "place and route")
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return report


def _fmax(report: Mapping[str, Any]) -> float:
    return min(float(clock["achieved"]) for clock in report["fmax"].values())


def _pack(folder: Path, board: Board, timeout: float) -> str:
    route = board.route
    command = [packer(route.packer, route.package).path, *board.packing, *route.packing]
    _run(command, folder, timeout, "packing")
    return route.file


def _run(command: list[str], folder: Path, timeout: float, what: str) -> None:
    try:
        status, output = run(command, folder, timeout)
    except subprocess.TimeoutExpired as error:
        message = f"{what} took more than the limit of {timeout:g} s; raise it with --timeout"
        raise ToolError(message) from error
    if status:
        found = _ERROR.search(output)
        reason = found[1].strip() if found else (output.strip().splitlines() or [f"exit status {status}"])[-1]
        hint = (
            "; the design does not fit: fold it further" if re.search("[Uu]nable to (find|place)|fail", reason) else ""
        )
        raise ToolError(f"{what} failed: {reason}{hint}")
