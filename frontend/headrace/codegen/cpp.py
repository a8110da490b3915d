"""Filters of the C++ templates: types, sizes and values of constants."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.codegen.safe import Verilog
from headrace.ir import IntRange
from headrace.layers.base import StreamType

LINE = 116
"""Longest line of a constant array."""


def element_type(values: IntRange) -> Verilog:
    """The C++ type of integers of a range: as many bits as their hardware encoding has."""
    if values.bipolar:
        return Verilog("headrace::bipolar")
    return Verilog(f"ap_{'' if values.signed else 'u'}int<{values.bits}>")


@dataclass(frozen=True)
class AxisWord:
    """A word of an AXI4-Stream port: bits of tdata, and whether tkeep, tstrb and tlast come with it."""

    bits: int
    sideband: bool = True


def word_type(stream: StreamType | AxisWord) -> Verilog:
    """The C++ type of a word of a stream or of a port."""
    if isinstance(stream, AxisWord):
        return Verilog(f"headrace::axis_word<{stream.bits}>" if stream.sideband else f"ap_uint<{stream.bits}>")
    return Verilog(f"headrace::pack<{element_type(stream.range)}, {stream.elements}>")


def array_size(values: NDArray[np.int64]) -> Verilog:
    """The dimensions of an array in its declaration: ``[4][2]``."""
    return Verilog("".join(f"[{n}]" for n in values.shape))


def initializer(values: NDArray[np.int64]) -> Verilog:
    """The values of an array in nested braces, wrapped."""
    if values.ndim > 1:
        rows = ",\n    ".join(_flat(row) for row in values)
        return Verilog(f"{{\n    {rows}}}")
    return Verilog(_flat(values))


def integer_type(value: int) -> Verilog:
    """The type of a named constant: ``int`` when the value fits."""
    return Verilog("int" if -(2**31) <= value < 2**31 else "long long")


def indent_of(name: str) -> Verilog:
    """Spaces under ``void name(``, where the second parameter of a function begins."""
    return Verilog(" " * len(f"void {name}("))


def header_name(name: str) -> Verilog:
    """The file of a template, as it is.

    Raises:
        ValueError: when it is no plain name of a header.
    """
    if not re.fullmatch(r"[a-z_]+\.hpp", name):
        raise ValueError(f"{name!r} is no header of a template")
    return Verilog(name)


def pragma(text: str) -> Verilog:
    """The text of a pragma, as it is.

    Raises:
        ValueError: when it holds anything but names and ``name=value``.
    """
    if not re.fullmatch(r"[A-Z_]+( \w+(=\w+)?)*", text):
        raise ValueError(f"{text!r} is no pragma")
    return Verilog(text)


def part_name(name: str) -> Verilog:
    """The name of an FPGA part, as it is.

    Raises:
        ValueError: when it is not made of letters, digits and hyphens.
    """
    if not re.fullmatch(r"[A-Za-z0-9-]+", name):
        raise ValueError(f"{name!r} is no part")
    return Verilog(name)


def decimal(value: float) -> Verilog:
    """A number with three decimals."""
    return Verilog(f"{value:.3f}")


def _flat(values: NDArray[np.int64]) -> str:
    if values.ndim > 1:
        return "{" + ",\n     ".join(_flat(row) for row in values) + "}"
    numbers = list(map(str, values.tolist()))
    per_line = max(LINE // (max(map(len, numbers)) + 2), 1)
    lines = [", ".join(numbers[k : k + per_line]) for k in range(0, len(numbers), per_line)]
    return "{" + ",\n     ".join(lines) + "}"


CPP_FILTERS: dict[str, Callable[..., Verilog]] = {
    "element_type": element_type,
    "word_type": word_type,
    "array_size": array_size,
    "initializer": initializer,
    "integer_type": integer_type,
    "indent_of": indent_of,
    "header_name": header_name,
    "pragma": pragma,
    "part_name": part_name,
    "decimal": decimal,
}
