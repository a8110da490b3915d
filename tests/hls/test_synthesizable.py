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
from hls.synthesizable import findings, functions, region_findings

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


PLANTED = {
    "hls/headrace/mvau.hpp": [
        ("acc sums[PE] = {};", "acc* sums = new acc[PE];", "dynamic allocation: new"),
        ("acc sums[PE] = {};", "std::vector<acc> sums(PE);", "containers: vector"),
        ("acc sums[PE] = {};", "double sums[PE] = {};", "floating point: double"),
        ("int nf = 0;", "int nf = std::rand();", "system calls: rand"),
        ('#include "types.hpp"', '#include "types.hpp"\n#include <iostream>', "#include <iostream>"),
    ],
    "hls/headrace/window.hpp": [
        (
            "class window_buffer {\npublic:",
            "class window_buffer {\npublic:\n    virtual ~window_buffer() {}",
            "virtual calls",
        ),
        (
            "if (written == frame_words ||",
            "if (in.empty()) throw 1;\n        if (written == frame_words ||",
            "exceptions: throw",
        ),
        ("bool next_fold() {", "bool next_fold() {\n        if (fold > 9) return next_fold();", "recursion: next_fold"),
    ],
}
"""What someone might write into a template: where, instead of what, and what must be found."""


@pytest.mark.parametrize(
    ("path", "old", "new", "finding"), [(path, *planted) for path, cases in PLANTED.items() for planted in cases]
)
def test_what_is_planted(project: dict[str, str], path: str, old: str, new: str, finding: str) -> None:
    assert old in project[path]
    found = findings({**project, path: project[path].replace(old, new)})
    assert any(finding in line for line in found), found


def test_region(project: dict[str, str]) -> None:
    assert region_findings("net.cpp", project["hls/net.cpp"]) == []


@pytest.mark.parametrize(
    ("pattern", "replacement", "finding"),
    [
        (r"    PROCESS\((net_fc\(.*)", r"    if (more) PROCESS(\1", "in the region: if"),
        (
            r"    PROCESS\((net_fc\(.*)",
            r"    PROCESS(\1\n    PROCESS(\1",
            "'s_fc_out' is at 3 ends of functions, not 2",
        ),
        (r"    PROCESS\((net_fc\(.*)", "", "'s_fc_out' is at 1 ends of functions, not 2"),
        (r"    REGION\n", "    static int frames = 0;\n    REGION\n", "in the region: static int frames"),
        (r"PROCESS\(read_s_axis_0\(s_axis_0, input0\)\)", "PROCESS(read_s_axis_0(s_axis_0, other))", "'other' is no"),
    ],
)
def test_what_is_planted_in_the_region(project: dict[str, str], pattern: str, replacement: str, finding: str) -> None:
    text, count = re.subn(pattern, replacement, project["hls/net.cpp"])
    assert count == 1
    assert any(finding in line for line in region_findings("net.cpp", text)), region_findings("net.cpp", text)


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
