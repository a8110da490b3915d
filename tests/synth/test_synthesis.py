"""Synthesis of builds: real results where yosys is installed, and errors that a stand-in for yosys provokes."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.build.synthesis import failures, synthesise_build
from headrace.errors import InputError, ToolError
from headrace.ir import IntRange
from headrace.layers import StreamType
from headrace.layers.fifo import FIFO
from headrace.layers.mvau import MVAU
from headrace.synth import FAMILIES, Settings, Utilisation, synthesise, tools, unit_of_layer
from headrace.synth.results import UnitResult, read_synthesis

STREAM = StreamType((8,), IntRange(0, 15))


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Programs are looked for once; here they come and go."""
    yield
    tools.yosys.cache_clear()
    tools.place_and_route.cache_clear()


@pytest.fixture
def real() -> None:
    tools.yosys.cache_clear()
    try:
        tools.yosys()
    except ToolError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def built(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> headrace.build.Design:
    return headrace.build(tiny_model, tmp_path_factory.mktemp("synth") / "out", target_fps=1e6)


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """A yosys that says that it is 0.70 and otherwise does *body*."""
    script = folder / "yosys"
    script.write_text(f'#!/bin/sh\n[ "$1" = -V ] && echo "Yosys 0.70 (git)" && exit 0\n{body}\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    tools.yosys.cache_clear()


CELLS = '{"LUT3": 5, "FDRE": 7, "SRL16E": 2, "RAM32M": 1, "XYZ": 1}'
WRITES = f"""
printf '%s' '{{"modules": {{"\\\\unit": {{"num_cells_by_type": {CELLS}}}}}}}' > stat.json
echo 'Longest topological path in unit (length=3):' > path.txt
echo run >> "$COUNT"
"""


@pytest.mark.usefixtures("real")
def test_a_layer_for_every_family() -> None:
    """Every family knows all the cells of a FIFO, whose words are in what the family has: shift registers in look-up
    tables, memory in look-up tables, or block RAM and registers."""
    stream = StreamType((8,), IntRange(0, (1 << 32) - 1))
    for family in FAMILIES.values():
        found = synthesise([unit_of_layer(FIFO(stream, 17))], family, Settings(jobs=1))
        assert found.complete, [unit.error for unit in found.failed]
        used = found.total
        assert used.lut > 0
        assert 0 < used.ff < 5 * 32
        assert used.depth > 0
        assert used.other == 0
        assert (used.srl > 0) == family.srl
        assert (used.lutram > 0) == (family.lutram and not family.srl)
        assert (used.brams > 0) == (not family.lutram)


@pytest.mark.usefixtures("real")
def test_every_style_of_a_fifo_is_inferred() -> None:
    """What a FIFO asks for by name is what it gets, or a clear error."""
    columns = {"srl": "srl", "distributed": "lutram", "block": "bram18", "ultra": "uram", "registers": "ff"}
    wide = StreamType((8,), IntRange(0, (1 << 40) - 1))
    for style, column in columns.items():
        used = synthesise([unit_of_layer(FIFO(wide, 5, style))], FAMILIES["xcup"], Settings(jobs=1)).total
        held = {name: getattr(used, name) for name in ("srl", "lutram", "bram18", "uram")}
        assert [name for name, count in held.items() if count] == [column] * (style != "registers")
        assert (used.ff >= 5 * 40) == (style == "registers")
    for family, style in (("ecp5", "srl"), ("ice40", "distributed"), ("xc7", "ultra"), ("ice40", "ultra")):
        (failed,) = synthesise([unit_of_layer(FIFO(wide, 5, style))], FAMILIES[family], Settings(jobs=1)).failed
        assert "lacks" in failed.error


@pytest.mark.usefixtures("real")
def test_every_memory_of_weights_is_inferred() -> None:
    weights = np.random.default_rng(0).integers(-8, 8, (64, 64))
    reach = int(np.abs(weights).sum(axis=0).max()) * 15
    layer = MVAU(weights, StreamType((64,), IntRange(0, 15)), IntRange(-reach, reach), 2, 4)

    def of(style: str) -> UnitResult:
        unit = unit_of_layer(replace(layer, ram_style=style))
        return synthesise([unit], FAMILIES["xcup"], Settings(jobs=1)).units[0]

    found = {style: of(style).used for style in ("auto", "distributed", "block")}
    assert found["auto"] == found["block"]
    assert found["block"] is not None
    assert found["block"].bram18 == layer.resources().bram18 == 1
    assert found["distributed"] is not None
    assert found["distributed"].brams == 0
    assert found["distributed"].luts > found["block"].luts + 256
    assert "UltraRAM" in of("ultra").error


@pytest.mark.usefixtures("real")
def test_build_is_synthesised_and_reported(built: headrace.build.Design, tmp_path: Path) -> None:
    settings = Settings(cache=tmp_path)
    one = synthesise_build(built, "ice40", "fc0", settings)
    assert not one.complete
    assert not one.failed
    assert built.folder is not None
    assert json.loads((built.folder / "synthesis.json").read_text())["complete"] is False
    whole = synthesise_build(built, "ice40", settings=settings)
    assert whole.complete
    assert read_synthesis(built.folder) == whole
    assert whole.by_name["fc0"] == one.by_name["fc0"]
    assert [unit.name for unit in whole.units[:-1]] == [row.name for row in built.performance.layers]
    assert whole.total.lut == sum(unit.used.lut for unit in whole.units if unit.used)
    page = (built.folder / "report" / "index.html").read_text()
    assert "Synthesised by Yosys" in page
    assert "Partial" not in page
    again = synthesise_build(headrace.load(built.folder), "ice40", "fc1", settings)
    assert again.complete, "the other results were of the same design"
    assert all(unit.seconds == 0 for unit in again.units if unit.name == "fc1")


def test_fewer_than_no_units_at_a_time() -> None:
    with pytest.raises(InputError, match="jobs=-1: expected a number of units, or 0"):
        Settings(jobs=-1)


def test_cells_become_columns_and_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, WRITES)
    monkeypatch.setenv("COUNT", str(tmp_path / "count"))
    units = [unit_of_layer(FIFO(STREAM, depth), f"f{depth}") for depth in (2, 3)]
    units.append(unit_of_layer(FIFO(STREAM, 2), "same"))
    for _ in range(2):
        found = synthesise(units, FAMILIES["xc7"], Settings(jobs=1, cache=tmp_path / "cache"))
        assert [unit.name for unit in found.units] == ["f2", "f3", "same"]
        assert found.units[0].used == Utilisation(lut=5, ff=7, srl=2, lutram=4, other=1, depth=3)
        assert found.total.luts == 3 * (5 + 2 + 4)
    assert len((tmp_path / "count").read_text().split()) == 2


def test_failure_and_timeout_name_the_layer_and_keep_the_rest(
    built: headrace.build.Design, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNT", str(tmp_path / "count"))
    refuses = (
        f'grep -q "PE = 1" unit.sv && echo "unit.sv:9: ERROR: no valid mapping found for memory x" && exit 1\n{WRITES}'
    )
    stand_in(tmp_path, monkeypatch, refuses)
    found = synthesise_build(built, "gowin")
    assert 0 < len(found.failed) < len(found.units)
    assert not found.complete
    error = str(failures(found))
    assert "layer 'fc0' (MVAU): synthesis for Gowin GW1N/GW2A failed: no valid mapping found for memory x" in error
    assert "lacks the kind of memory" in error
    assert "kept in synthesis.json" in error
    assert built.folder is not None
    assert "Partial" in (built.folder / "report" / "index.html").read_text()

    stand_in(tmp_path, monkeypatch, "exec sleep 20")
    slow = synthesise([unit_of_layer(FIFO(STREAM, 2), "f")], FAMILIES["xc7"], Settings(timeout=0.2))
    assert "layer 'f' (FIFO): synthesis took more than the limit of 0.2 s" in slow.units[0].error


def test_errors_before_anything_runs(
    built: headrace.build.Design, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, WRITES)
    with pytest.raises(InputError, match=r"no device family 'xcpu' \(did you mean 'xcup'"):
        synthesise_build(built, "xcpu")
    with pytest.raises(InputError, match=r"no layer 'fc9'.*fc0"):
        synthesise_build(built, layer="fc9")
    with pytest.raises(InputError, match="expected the folder of a build"):
        synthesise_build(headrace.load(tiny_model))
    with pytest.raises(InputError, match="no open place and route for AMD 7 series"):
        synthesise_build(built, "xc7", settings=Settings(place_and_route=True))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    tools.yosys.cache_clear()
    with pytest.raises(ToolError, match=r"no synthesiser: .*pip install 'headrace\[synth\]'"):
        synthesise_build(built)


def test_an_old_yosys_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "")
    script = tmp_path / "yosys"
    script.write_text(script.read_text().replace("0.70", "0.9"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    tools.yosys.cache_clear()
    with pytest.raises(ToolError, match=r"is 0\.9; install"):
        tools.yosys()
