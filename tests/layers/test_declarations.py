"""Nothing is used before it is declared, which Verilator and Icarus accept and IEEE 1800 and other tools do not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.codegen.render import render_library, render_text
from headrace.resources import hls_templates

from .conformance import build_bench
from .test_conformance import GROUPS

KEYWORDS = {"input", "output", "logic", "wire", "reg", "integer", "int", "bit", "signed", "localparam", "parameter"}
DECLARED = re.compile(rf"^[ ]*(?:{'|'.join(KEYWORDS)})\b([^;=()\n]*)", re.MULTILINE)


def misplaced(text: str) -> list[str]:
    """Names in a file of SystemVerilog that are there before their declaration."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/|\"[^\"]*\"", "", text, flags=re.DOTALL)
    found = []
    for module in re.split(r"(?m)^endmodule", text):
        first: dict[str, int] = {}
        for name in re.finditer(r"(?<![\w.$'])[A-Za-z_]\w*", module):
            first.setdefault(name[0], name.start())
        seen = set(KEYWORDS)
        for declaration in DECLARED.finditer(module):
            names = re.findall(r"[A-Za-z_]\w*", re.sub(r"\[[^\]]*\]", " ", declaration[1]))
            found += [name for name in names if name not in seen and first[name] < declaration.start(1)]
            seen |= set(names)
    return found


def test_what_is_found() -> None:
    assert misplaced("module m (input logic a);\n  assign b = a;\n  logic b;\nendmodule\n") == ["b"]
    assert misplaced("module m (input logic a);\n  logic [3:0] b;\n  assign b = {4{a}};\nendmodule\n") == []


@pytest.mark.parametrize("group", GROUPS)
def test_layers(group: str, tmp_path: Path) -> None:
    bench = build_bench(GROUPS[group], tmp_path / "bench")
    wrong = {path.name: names for path in bench.manifest.source_paths if (names := misplaced(path.read_text()))}
    assert not wrong


def test_modules_that_are_shared() -> None:
    rtl = {p.name: render_library(p.name)[1] for p in (hls_templates() / "rtl").glob("headrace_*.sv.j2")}
    for folder in ("board", "project"):
        rtl |= {p.name: render_text(p.name, {}, folder) for p in (hls_templates() / folder).glob("headrace_*.sv.j2")}
    assert not {name: names for name, text in rtl.items() if (names := misplaced(text))}
