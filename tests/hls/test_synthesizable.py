"""The part that is synthesised holds nothing that high-level synthesis refuses, and its pragmas reach the tool."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hardware.simulated import Settings

from headrace.codegen.design import generate
from headrace.passes.to_hardware import to_hardware
from headrace.resources import hls_templates
from headrace.schedule import schedule
from hls.networks import residual_network
from hls.synthesizable import findings, functions

HEADERS = {path.name: path.read_text() for path in sorted((hls_templates() / "hls" / "headrace").iterdir())}


@pytest.fixture(scope="module")
def project() -> dict[str, str]:
    """The synthesised files of a network."""
    files = generate(schedule(to_hardware(residual_network()), Settings()), "net", "hls").files
    return {path: text for path, text in files.items() if re.fullmatch(r"hls/(headrace/)?\w+\.[ch]pp", path)}


def test_headers() -> None:
    assert findings(HEADERS) == []


def test_project(project: dict[str, str]) -> None:
    assert {"hls/net.cpp", "hls/net.hpp", "hls/params.hpp"} < set(project)
    assert findings(project) == []


@pytest.mark.parametrize(
    ("code", "finding"),
    [
        ("int* f() { return new int; }", "dynamic allocation: new"),
        ("struct s { virtual int f(); };", "virtual calls: virtual"),
        ("void f() { std::vector<int> x; }", "containers: vector"),
        ("void f() { std::printf(text); }", "system calls: printf"),
        ("#include <map>\n", "#include <map>"),
        ("int f(int n) { return n == 0 ? 0 : f(n - 1); }", "recursion: f"),
        (
            "template <int N> int a(int n) { return b<N>(n); }\nint b(int n) { if (n) { return a<2>(n); } return 1; }",
            "a",
        ),
        ("double f();", "floating point: double"),
    ],
)
def test_what_is_found(code: str, finding: str) -> None:
    assert any(finding in line for line in findings({"x.cpp": code}))


def test_what_is_not_found() -> None:
    assert (
        findings({"x.cpp": '// a new vector\nint f() { return g("malloc"); }\nint g(int renew) { return renew; }'})
        == []
    )


def test_functions_are_seen() -> None:
    names = {name for text in HEADERS.values() for name, _ in functions(text)}
    assert {"mvau", "dot", "take", "advance", "swg", "vvau", "max_pool", "read_axis", "label_select"} <= names


def test_pragmas(project: dict[str, str], tmp_path: Path) -> None:
    """Under ``__SYNTHESIS__`` every pragma is one; otherwise none is left."""
    for path, text in project.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    command = ["g++", "-std=c++17", f"-I{hls_templates() / 'hls' / 'sim'}", str(tmp_path / "hls" / "net.cpp")]
    synthesis = ["-D__SYNTHESIS__", "-Wno-unknown-pragmas"]
    done = subprocess.run([*command, *synthesis, "-E"], capture_output=True, text=True, check=True)
    for pragma in (
        "INTERFACE mode=axis port=s_axis_0",
        "DATAFLOW disable_start_propagation",
        "PIPELINE II=1 style=flp",
    ):
        assert f"#pragma HLS {pragma}" in done.stdout
    written = sum(len(re.findall(r"^ +PRAGMA_HLS\(HLS ", text, re.MULTILINE)) for text in project.values())
    assert len(re.findall(r"#pragma HLS ", done.stdout)) == written
    subprocess.run([*command, *synthesis, "-fsyntax-only", "-Wall", "-Wextra", "-Werror"], check=True)
    assert "#pragma HLS" not in subprocess.run([*command, "-E"], capture_output=True, text=True, check=True).stdout


def test_memories(project: dict[str, str]) -> None:
    """Tables that are addressed have a storage, others become registers."""
    text = project["hls/net.cpp"]
    assert re.search(r"BIND_STORAGE variable=net_conv1_weights type=rom_1p impl=(bram|lutram)", text)
    assert "ARRAY_RESHAPE variable=net_conv1_weights type=complete dim=3" in text
    assert "ARRAY_PARTITION variable=net_act0_base type=complete dim=0" in text
