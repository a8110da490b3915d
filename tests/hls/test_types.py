"""The types for C simulation against their documented behaviour, and against the Apache-licensed originals."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.resources import hls_templates
from hls.vendor import apache_types

SOURCE = Path(__file__).with_name("types.cpp")


def wrap(value: int, bits: int, signed: bool) -> int:
    """The low bits of a value, read again."""
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if signed and low >> (bits - 1) else low


def expected(a_bits: int, b_bits: int, x: int, y: int) -> Iterator[tuple[str, int]]:
    """What the program must print for a pair of operands; sums and products are exact."""
    a, b = wrap(x, a_bits, True), wrap(y, b_bits, True)
    u, v = wrap(x, a_bits, False), wrap(y, b_bits, False)
    total = wrap(b + a, b_bits, True)
    field = ((1 << a_bits) - 1) >> (a_bits // 2) << (a_bits // 2)
    mixed = u & ~field | v << (a_bits // 2) & field
    yield from (("a", a), ("u", u), ("a+b", a + b), ("a-b", a - b), ("a*b", a * b), ("a+v", a + v), ("a*v", a * v))
    yield from (("u+v", u + v), ("u-v", u - v), ("u*v", u * v), ("a<b", a < b), ("a<v", a < v), ("a==v", a == v))
    yield from (("u>=b", u >= b), ("u!=v", u != v), ("a>3", a > 3), ("u<-1", u < -1), ("a*5", a * 5))
    yield from (("b+=a", total), ("b-=u", wrap(total - u, b_bits, True)))
    yield from (("b=a", wrap(a, b_bits, True)), ("v=a", wrap(a, b_bits, False)), ("top", u >> (a_bits - 1)))
    yield from (("range", mixed), ("bit", mixed >> (a_bits // 2) & 1))


def printed(folder: Path, *flags: str) -> list[str]:
    """The lines that the program prints, compiled with *flags*."""
    program = folder / "types"
    command = ["g++", "-std=c++17", "-O1", *flags, "-o", str(program), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What our types make of the operands, under the sanitizers and without a warning."""
    folder = tmp_path_factory.mktemp("types")
    checks = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    warnings = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wsign-conversion", "-Werror")
    return printed(folder, *checks, *warnings, f"-I{hls_templates() / 'hls' / 'sim'}")


def test_arithmetic(ours: list[str]) -> None:
    seen = 0
    operands: tuple[int, int, int, int] | None = None
    wanted: Iterator[tuple[str, int]] = iter(())
    for line in ours:
        name, *values = line.split()
        if name == "operands":
            assert next(wanted, None) is None
            a_bits, b_bits, x, y = map(int, values)
            operands, wanted = (a_bits, b_bits, x, y), expected(a_bits, b_bits, x, y)
            seen += 1
        elif name in ("lane", "end", "ones", "equal", "copied"):
            continue
        else:
            want = next(wanted)
            assert (name, int(values[0])) == (want[0], int(want[1])), operands
    assert seen == 14 * 14 * 6


def test_wide(ours: list[str]) -> None:
    """Ranges that cross the borders of machine words."""
    lines = [line for line in ours if line.split()[0] in ("lane", "end", "ones", "equal", "copied")]
    assert lines == [*(f"lane {(37 * k + 11) % 128}" for k in range(28)), "end 0", "ones 255", "equal 0", "copied 1"]


def test_equal_to_the_originals(ours: list[str], tmp_path: Path) -> None:
    assert printed(tmp_path, "-w", f"-I{apache_types()}") == ours


def test_size(tmp_path: Path) -> None:
    """A value lies in the smallest standard integer."""
    widths = {1: 1, 8: 1, 9: 2, 16: 2, 17: 4, 32: 4, 33: 8, 64: 8}
    checks = [f"static_assert(sizeof(ap_{t}<{w}>) == {size});" for w, size in widths.items() for t in ("int", "uint")]
    source = tmp_path / "size.cpp"
    source.write_text("\n".join(["#include <ap_int.h>", *checks, ""]))
    include = f"-I{hls_templates() / 'hls' / 'sim'}"
    subprocess.run(["g++", "-std=c++17", "-fsyntax-only", include, str(source)], check=True)
