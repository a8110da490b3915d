"""Synthesis of units one by one: in parallel, kept by content, a failure of one leaving the others standing."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from headrace.bounded_text import kept_text
from headrace.errors import InputError, ToolError
from headrace.synth.families import Family
from headrace.synth.harness import HARNESS, harness
from headrace.synth.results import Synthesis, UnitResult, Utilisation
from headrace.synth.tools import place_and_route, run, yosys
from headrace.synth.units import MODULE, TOP, Unit
from headrace.whole_files import write_whole
from headrace_sim.processes import side_by_side

_NETLIST, _STAT, _PATH = "netlist.json", "stat.json", "path.txt"
_REPORT = "report.json"
_FIRST_ERROR = re.compile(r"^(?:.*?:\d+: )?ERROR: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Settings:
    """How to synthesise.

    Attributes:
        place_and_route: whether nextpnr finds the clock frequency that each unit reaches.
        timeout: seconds that each program may take for one unit.
        jobs: units at the same time; 0 is one for every two processors.
        cache: folder in which results are kept by content; None keeps none.

    Raises:
        InputError: for fewer jobs.
    """

    place_and_route: bool = False
    timeout: float = 1800.0
    jobs: int = 0
    cache: Path | None = None

    def __post_init__(self) -> None:
        if self.jobs < 0:
            raise InputError(f"jobs={self.jobs}: expected a number of units, or 0 for one for every two processors")


Progress = Callable[[str, int, int], None]


def synthesise(
    units: Sequence[Unit],
    family: Family,
    settings: Settings | None = None,
    *,
    digest: str = "",
    whole: bool = True,
    progress: Progress = lambda text, done, total: None,
) -> Synthesis:
    """Synthesise every unit by itself for *family*.

    A unit that fails, or takes too long, has its reason as a sentence in its result; the others are not affected.

    Args:
        units: as :func:`headrace.synth.units.units_of` makes them.
        family: the devices.
        settings: the defaults when None.
        digest, whole: kept in the result.
        progress: told the last unit, how many are done, and of how many.

    Raises:
        ToolError: when the synthesiser, or place and route, is not installed.
        InputError: when *family* has no open place and route and that is asked for.
    """
    settings = settings or Settings()
    tool = yosys()
    if settings.place_and_route:
        if family.pnr is None:
            raise InputError(f"there is no open place and route for {family.title}; families that have it: ecp5, ice40")
        place_and_route(family.pnr.program)
    count = 0

    def one(unit: Unit) -> UnitResult:
        nonlocal count
        result = synthesise_unit(unit, family, settings)
        count += 1
        progress(f"last '{unit.name}'", count, len(units))
        return result

    jobs = settings.jobs or max((os.cpu_count() or 2) // 2, 1)
    results = side_by_side(one, units, jobs)
    return Synthesis(family.name, f"Yosys {tool.version}", digest, whole, tuple(results))


def synthesise_unit(unit: Unit, family: Family, settings: Settings) -> UnitResult:
    """Synthesise one unit, or find the result of an equal one in the cache."""
    pnr = settings.place_and_route and unit.name != TOP
    key = _key(unit, family, pnr)
    kept = _read(settings.cache, key)
    if kept is not None:
        return replace(kept, name=unit.name, kind=unit.kind)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="headrace-synth-") as scratch:
        folder = Path(scratch)
        for name, text in {**unit.sources, **unit.memories}.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
        result = UnitResult(unit.name, unit.kind)
        try:
            result = replace(result, used=_synthesise(unit, family, folder, settings.timeout))
            if pnr:
                result = replace(result, fmax_mhz=_fmax(unit, family, folder, settings.timeout))
        except _FailedError as failure:
            what = f"layer '{unit.name}' ({unit.kind})" if unit.name != TOP else "the top level"
            return replace(result, error=f"{what}: {failure}", seconds=time.perf_counter() - start)
    _write(settings.cache, key, result)
    return replace(result, seconds=time.perf_counter() - start)


class _FailedError(Exception):
    """A program that failed or took too long for one unit, in one sentence."""


def _synthesise(unit: Unit, family: Family, folder: Path, timeout: float) -> Utilisation:
    excluded = " ".join(f"t:{pattern}" for pattern in (*family.sequential, *unit.boxes))
    script = [
        *family.read([*unit.sources], MODULE),
        f"{family.command} -top {MODULE}",
        f"tee -q -o {_STAT} stat -json",
        f"select -set end {excluded}",
        f"tee -q -o {_PATH} ltp * @end %d",
    ]
    _run_yosys(script, folder, timeout, family)
    cells = json.loads((folder / _STAT).read_text())["modules"][f"\\{MODULE}"]["num_cells_by_type"]
    columns = family.count({kind: number for kind, number in cells.items() if kind not in unit.boxes})
    length = re.search(r"\(length=(\d+)\)", (folder / _PATH).read_text())
    return Utilisation(**columns, depth=int(length[1]) if length else 0)


def _run_yosys(script: Sequence[str], folder: Path, timeout: float, family: Family) -> None:
    try:
        status, output = run([yosys().path, "-q", "-p", "; ".join(script)], folder, timeout)
    except subprocess.TimeoutExpired as error:
        raise _FailedError(f"synthesis took more than the limit of {timeout:g} s; raise it with --timeout") from error
    if status == 0:
        return
    found = _FIRST_ERROR.search(output)
    reason = found[1].strip() if found else (output.strip().splitlines() or [f"exit status {status}"])[-1]
    if "no valid mapping found for memory" in reason:
        reason += (
            f"; {family.title} lacks the kind of memory that the layer asks for, as UltraRAM with initial contents"
        )
    raise _FailedError(f"synthesis for {family.title} failed: {reason}")


def _fmax(unit: Unit, family: Family, folder: Path, timeout: float) -> float:
    """Clock frequency in MHz that *unit* reaches between registers, in an otherwise empty device."""
    assert family.pnr is not None
    (folder / f"{HARNESS}.sv").write_text(harness(unit), encoding="utf-8")
    command = f"{family.command} -top {HARNESS} -json {_NETLIST}"
    reads = family.read([*unit.sources, f"{HARNESS}.sv"], HARNESS)
    _run_yosys([*reads, command], folder, timeout, family)
    program = place_and_route(family.pnr.program).path
    options = ["--json", _NETLIST, "--report", _REPORT, "--timing-allow-fail", "--seed", "1", "-q"]
    try:
        status, output = run([program, *family.pnr.part, *options], folder, timeout)
    except subprocess.TimeoutExpired as error:
        raise _FailedError(
            f"place and route took more than the limit of {timeout:g} s; raise it with --timeout"
        ) from error
    if status:
        found = _FIRST_ERROR.search(output)
        reason = found[1].strip() if found else f"exit status {status}"
        raise _FailedError(f"place and route for {family.title} failed: {reason}")
    clocks = json.loads((folder / _REPORT).read_text())["fmax"]
    return min(float(clock["achieved"]) for clock in clocks.values())


# -- results by content -----------------------------------------------------------------------------------------------


def _key(unit: Unit, family: Family, pnr: bool) -> str:
    """Whatever the result depends on, as a file name; comments do not count."""
    program = place_and_route(family.pnr.program).version if pnr and family.pnr else ""
    digest = hashlib.sha256()
    texts = {name: re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE) for name, text in unit.sources.items()}
    head = ["2", yosys().version, *family.read((), MODULE), family.command, repr(family.cells), program, *unit.boxes]
    for part in (*head, *(x for item in sorted({**texts, **unit.memories}.items()) for x in item)):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:40]


def _read(cache: Path | None, key: str) -> UnitResult | None:
    if cache is None:
        return None
    try:
        data = json.loads(kept_text(cache / f"{key}.json"))
        kept = TypeAdapter(tuple[Utilisation, float | None]).validate_python((data["used"], data["fmax_mhz"]))
        return UnitResult("", "", *kept)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _write(cache: Path | None, key: str, result: UnitResult) -> None:
    """Keep *result*; the file appears when it is whole."""
    if cache is None or result.used is None:
        return
    try:
        cache.mkdir(parents=True, exist_ok=True)
        kept = {"used": asdict(result.used), "fmax_mhz": result.fmax_mhz}
        write_whole(cache / f"{key}.json", json.dumps(kept))
    except OSError as error:
        raise ToolError(
            f"the cache {cache} cannot be written ({error.strerror}): choose another folder with HEADRACE_CACHE"
        ) from error
