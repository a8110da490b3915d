"""Tables on the terminal for what a command found out."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

from headrace.build.info import ModelInfo, Numbers
from headrace.build.report import kinds_text, layer_rows, not_simulated
from headrace.build.terminal import console, table
from headrace.errors import counted, printable

if TYPE_CHECKING:
    from headrace.build.design import Design
from headrace.build.bitstreams import FOLDER, Bitstream
from headrace.build.profile import Profile
from headrace.build.validation import Validation
from headrace.synth import Synthesis, Utilisation


def print_design(design: Design) -> None:
    """The layers of a built design, its rate, and where its files are."""
    if not design.reached("hardware"):
        console().print(f"The build ended before there was hardware; what there is: {design.folder}", soft_wrap=True)
        return
    expected, clock = design.performance, design.config.clock_mhz
    out = console()
    out.print(layer_table(design))
    rate, interval = expected.fps(clock), expected.interval
    every = "cycle" if interval == 1 else counted(interval, "cycle")
    out.print(f"\n{rate:,.0f} frames/s at {clock:g} MHz: one every {every} (* sets it)")
    place = "OUT" if design.folder is None else shlex.quote(printable(str(design.folder)))
    told = not_simulated(design.config.backend, design.simulated, folder=place)
    out.print(told.replace("`", ""), soft_wrap=True, markup=False)
    if design.folder is not None:
        out.print(f"Report: {design.folder / 'report' / 'index.html'}", soft_wrap=True)


def layer_table(design: Design, out: Console | None = None) -> Table:
    """Folding, streams and cycles of the layers that compute; the slowest is starred, what only moves is counted.

    The streams are left out where lines of *out*, standard output by default, are too short for them.
    """
    out = out or console()
    whole = _layer_table(design, streams=True)
    wanted = out.measure(whole, options=out.options.update_width(10_000)).maximum
    return whole if wanted <= out.width else _layer_table(design, streams=False)


def _layer_table(design: Design, streams: bool) -> Table:
    shown = table("layer", "kind", "folding", *(("input", "output") if streams else ()), right=("cycles",))
    rows = layer_rows(design.hardware, design.performance)
    for row in rows:
        if row.moves:
            continue
        cycles = f"{row.layer.cycles:,}" + (" *" if row.share == 1 else "  ")
        ends = (row.inputs, row.outputs) if streams else ()
        shown.add_row(row.layer.name, row.kind, row.folding, *ends, cycles)
    if between := kinds_text(rows):
        shown.caption = f"between them: {between}"
        shown.caption_justify = "left"
    return shown


def print_info(info: ModelInfo) -> None:
    """The tensors of a model, and what blocks hardware."""
    shown = table("tensor", "operator", "shape", "integers", "scale", "offset")
    for tensor in info.tensors:
        shape = "x".join(map(str, tensor.shape))
        offset = _span(tensor.offset) if tensor.offset != 0 else ""
        shown.add_row(tensor.name, tensor.operator, shape, tensor.element, _span(tensor.scale), offset)
    out = console()
    out.print(shown)
    for node, count in info.disagreements.items():
        out.print(f"\n'{node}': float32 and exact arithmetic differ for {count} accumulator values", soft_wrap=True)
    if not info.blockers:
        out.print("\nNothing blocks hardware.")
        return
    out.print(f"\nOn the host ({len(info.blockers)}):")
    for blocker in info.blockers:
        out.print(f"  {blocker}", soft_wrap=True)


def _span(numbers: Numbers) -> str:
    """One value, or the smallest and largest of several."""
    if numbers is None:
        return ""
    low, high = float(np.min(numbers)), float(np.max(numbers))
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


def print_synthesis(found: Synthesis, design: Design) -> None:
    """Cells by layer beside the estimated ones, and their sum."""
    ultra = found.total.uram > 0
    memories = ("BRAM", "URAM") if ultra else ("BRAM",)
    numbers = ("LUT est.", "LUT", "RAM/SRL", "FF est.", "FF", "carry", "DSP", *memories, "depth", "MHz")
    shown = table("layer", "kind", right=numbers)
    expected = {row.name: row.resources for row in design.performance.layers}
    for unit in found.units:
        guess = expected.get(unit.name)
        guesses = ("", "") if guess is None else (f"{guess.lut:,.0f}", f"{guess.ff:,.0f}")
        cells = ("failed", *[""] * (len(numbers) - 4)) if unit.used is None else _cells(unit.used, ultra)
        shown.add_row(unit.name, unit.kind, guesses[0], *cells[:2], guesses[1], *cells[2:], _mhz(unit.fmax_mhz))
    total = _cells(found.total, ultra)
    named = "sum" if found.complete else "sum of these (partial)"
    shown.add_row(named, "", "", *total[:2], "", *total[2:], _mhz(found.fmax_mhz))
    out = console()
    out.print(shown)
    out.print(f"\n{found.tool} for {found.family}, each layer by itself; LUT includes those used as memory (RAM/SRL).")


def print_profile(found: Profile) -> None:
    """How busy layers were, when the first frame left them, and how full FIFOs of more than a word or two."""
    shown = table("layer", "kind", right=("busy", "first frame done", "expected"))
    for row in found.activity:
        shown.add_row(row.name, row.kind, f"{row.mean:.0%}", f"{row.done:,}", f"{row.expected_done:,}")
    out = console()
    out.print(shown)
    deep = table("FIFO", right=("depth", "most words", "bits a word"))
    for fifo in (fifo for fifo in found.fifos if fifo.depth > 2):
        deep.add_row(fifo.name, f"{fifo.depth:,}", f"{fifo.largest:,}", f"{fifo.word_bits:,}")
    if deep.row_count:
        out.print(deep)
    run = f"{counted(found.frames, 'frame')} in {counted(found.cycles, 'cycle')}"
    rate = "" if found.interval is None else f"a frame every {found.interval:,.0f} cycles, "
    out.print(
        f"\n{run}: {rate}expected {found.expected_interval:,}; "
        f"latency {found.latency:,}, expected {found.expected_latency:,}."
    )


def print_validation(found: Validation) -> None:
    """How often each form of the network was right."""
    few = (f"the first {found.simulated:,}",) if found.simulated else ()
    shown = table("top-1", right=(f"all {counted(found.frames, 'frame')}", *few))
    if found.reference is not None:
        shown.add_row("reference, as given", f"{found.reference:.2%}")
    for score in found.scores:
        every = "" if score.right is None else f"{score.right / found.frames:.2%}"
        first = "" if score.first is None else f"{score.first / found.simulated:.2%}"
        shown.add_row(score.stage, every, *([first] if found.simulated else []))
    console().print(shown)


def print_bitstream(found: Bitstream, folder: Path) -> None:
    """Cells used of a board's device, and its timing."""
    shown = table("cell", right=("used", "of", ""))
    for kind, (used, available) in found.cells.items():
        shown.add_row(kind, f"{used:,}", f"{available:,}", f"{used / available:.0%}")
    out = console()
    out.print(shown)
    timing = f"{found.fmax_mhz:g} MHz, the board has {found.clock_mhz:g}"
    path = printable(str(folder / FOLDER / found.board / found.file))
    out.print(f"\n{timing}; {found.baud:,} baud", soft_wrap=True)
    out.print(path, soft_wrap=True)


def _cells(used: Utilisation, ultra: bool) -> tuple[str, ...]:
    memories = (used.brams, used.uram) if ultra else (used.brams,)
    numbers = (used.luts, used.lutram + used.srl, used.ff, used.carry, used.dsp, *memories, used.depth)
    return tuple(f"{number:,}" for number in numbers)


def _mhz(frequency: float | None) -> str:
    return "" if frequency is None else f"{frequency:.0f}"
