"""Finds in C++ what tools for high-level synthesis refuse: by tokens, without a compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import networkx as nx

WORDS = {
    "dynamic allocation": "new delete malloc calloc realloc free make_unique make_shared unique_ptr shared_ptr",
    "virtual calls": "virtual override dynamic_cast typeid",
    "exceptions": "throw try catch",
    "jumps": "goto setjmp longjmp",
    "system calls": "printf fprintf sprintf puts fopen fread fwrite cout cerr exit abort system getenv rand time clock",
    "containers": "vector string map unordered_map set list deque array tuple function optional variant",
    "threads": "thread mutex atomic async",
    "floating point": "float double",
}
"""What is refused (or, for floating point, must not appear in an exact design), and its words."""

HEADERS = {"ap_int.h", "hls_stream.h", "ap_axi_sdata.h", "cstdint", "type_traits"}
"""System headers that the tools have."""

_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
_INCLUDE = re.compile(r"^\s*#\s*include\s*<([^>]+)>", re.MULTILINE)
_FUNCTION = re.compile(r"\b([A-Za-z_]\w*)\s*\(([^;{}()]|\([^()]*\))*\)\s*(?:const\s*)?\{")
_TOP = re.compile(r"^void \w+\((.*?)\) \{\n(.*?)^\}", re.DOTALL | re.MULTILINE)
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*(?:<[^;{}()]*>)?\s*\(")
_KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "static_cast", "static_assert", "decltype"}


def findings(files: Mapping[str, str]) -> list[str]:
    """One line for everything in *files* that would be refused."""
    found = []
    calls: nx.DiGraph[str] = nx.DiGraph()
    for path, text in files.items():
        found += [f"{path}: #include <{h}>" for h in _INCLUDE.findall(text) if h not in HEADERS]
        code = _NOISE.sub(" ", re.sub(r"^\s*#\s*include[^\n]*", "", text, flags=re.MULTILINE))
        tokens = set(re.findall(r"[A-Za-z_]\w*", code))
        for what, words in WORDS.items():
            found += [f"{path}: {what}: {word}" for word in words.split() if word in tokens]
        for name, body in functions(code):
            calls.add_edges_from((name, callee) for callee in _CALL.findall(body) if callee not in _KEYWORDS)
    found += [f"recursion: {' -> '.join(cycle)}" for cycle in nx.simple_cycles(calls)]
    return found


def region_findings(path: str, text: str) -> list[str]:
    """What breaks the rules of a dataflow region in the top function, the last of *text*.

    It holds declarations of streams, pragmas, and calls, none of them under a condition; every stream inside is an
    argument of two calls, which the one writes and the other reads; every port of one.
    """
    code = _NOISE.sub('""', text)
    signature, body = list(_TOP.finditer(code))[-1].groups()
    ports = re.findall(r"& (\w+)", signature)
    streams = re.findall(r"hls::stream<.*> (\w+)\(", body)
    calls = re.findall(r"PROCESS\(\w+\(([^()]*)\)\);", body)
    found = []
    for line in filter(None, map(str.strip, body.splitlines())):
        if not re.fullmatch(
            r'REGION|PRAGMA_HLS\(.*\)|hls::stream<.*> \w+\(""\);(\s*"")?|PROCESS\(\w+\([\w, ]*\)\);', line
        ):
            found.append(f"{path}: in the region: {line}")
    uses = [name.strip() for arguments in calls for name in arguments.split(",")]
    for name, ends in (*((p, 1) for p in ports), *((s, 2) for s in streams)):
        if uses.count(name) != ends:
            found.append(f"{path}: '{name}' is at {uses.count(name)} ends of functions, not {ends}")
    return found + [f"{path}: '{name}' is no stream of the region" for name in {*uses} - {*ports, *streams}]


def functions(code: str) -> Iterator[tuple[str, str]]:
    """Name and body of every function that is defined in *code*."""
    for match in _FUNCTION.finditer(code):
        if match[1] in _KEYWORDS:
            continue
        depth, at = 1, match.end()
        while depth and at < len(code):
            depth += {"{": 1, "}": -1}.get(code[at], 0)
            at += 1
        yield match[1], code[match.end() : at]
