"""Renders the templates of ``hls_templates``; what they say is decided by the layers.

Text reaches a template only through filters: ``finalize`` refuses a plain string in ``{{ }}``, so that nothing from
a model file can enter generated code unescaped. Integers are written in decimal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from headrace.codegen.cpp import CPP_FILTERS
from headrace.codegen.names import is_identifier
from headrace.codegen.safe import Verilog
from headrace.layers.base import RtlModule
from headrace.resources import hls_templates

LONGEST_COMMENT = 1000
"""Characters of a text in a comment; Icarus takes no word of many more."""

_TOOLS = "0in ambit altera cadence coverage exemplar lint pragma quartus spyglass synopsys synplify synthesis vcs"
_DIRECTIVE = re.compile(rf"\W*({_TOOLS.replace(' ', '|')}|surelog|verilator|vivado|xilinx|yosys)\b", re.IGNORECASE)


def render_module(rtl: RtlModule, module: str, layer: str) -> tuple[str, dict[str, str]]:
    """The text of a layer's module, and its memory files by name.

    Args:
        rtl: what the layer asks for.
        module: name of the generated module, an identifier that is unique in the design.
        layer: display name of the layer for the header comment; any text.

    Raises:
        ValueError: when *module* or a memory's suffix is not an identifier.
    """
    memory = {suffix: f"{ident(module)}_{suffix}.hex" for suffix in rtl.memories}
    text = _render(rtl.template, {**rtl.context, "module": module, "layer": layer, "memory": memory})
    return text, {memory[suffix]: content for suffix, content in rtl.memories.items()}


def render_library(template: str) -> tuple[str, str]:
    """``(module name, text)`` of a shared module: a template named after its module, rendered without context."""
    module = template.removesuffix(".sv.j2")
    return module, _render(template, {"module": module})


def render_text(template: str, context: Mapping[str, object], folder: str = "rtl") -> str:
    """A template of ``hls_templates/<folder>`` with *context*: for what is not a layer, such as the top level."""
    return _render(template, context, folder)


def library_modules() -> tuple[str, ...]:
    """Names that shared modules use, so that no layer's module takes one."""
    return tuple(sorted(p.name.removesuffix(".sv.j2") for p in (hls_templates() / "rtl").glob("headrace_*.sv.j2")))


def _render(template: str, context: Mapping[str, object], folder: str = "rtl") -> str:
    return _environment(folder).get_template(template).render(context)


@cache
def _environment(folder: str) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(hls_templates() / folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # the output is SystemVerilog or C++: `finalize` and the filters are its escaping
        finalize=_finalize,
    )
    environment.filters.update(
        {"ident": ident, "comment": comment, "quoted": quoted, "hexlit": hexlit, "declit": declit, "bits": bits}
    )
    environment.filters.update(CPP_FILTERS)
    return environment


def _finalize(value: object) -> object:
    if isinstance(value, Verilog) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise TypeError(f"a template prints {value!r}, which went through no filter")


# -- filters ------------------------------------------------------------------------------------------------------


def ident(name: str) -> Verilog:
    """*name* as it is, when it is an identifier.

    Raises:
        ValueError: when it is not; names are made legal by :class:`headrace.codegen.names.Namespace`, not here.
    """
    if not is_identifier(name):
        raise ValueError(f"{name!r} is not a legal identifier")
    return Verilog(name)


def comment(text: str) -> Verilog:
    """*text* for the inside of a ``//`` comment: one line of printable ASCII without backslash or backquote.

    It is no longer than scanners take, and no directive to a tool: many take the first word of a comment for one, and
    ``// synthesis translate_off`` hides what follows.
    """
    plain = "".join(c if " " <= c <= "~" and c not in "\\`" else "_" for c in text)
    if len(plain) > LONGEST_COMMENT:
        plain = f"{plain[: LONGEST_COMMENT - 3]}..."
    if _DIRECTIVE.match(plain):
        plain = f"'{plain}'"
    return Verilog(plain.replace("*/", "* /").replace("/*", "/ *"))


def quoted(text: str) -> Verilog:
    """*text* as a string literal; only what a file name or a message needs is accepted.

    Raises:
        ValueError: for a quote, a backslash, a percent sign or a character that is not printable ASCII.
    """
    if any(not " " <= c <= "~" or c in '"\\%' for c in text):
        raise ValueError(f"{text!r} cannot stand in a string literal")
    return Verilog(f'"{text}"')


def hexlit(value: int, width: int) -> Verilog:
    """*value* as a hexadecimal literal of *width* bits, negative values in two's complement.

    Raises:
        ValueError: when the value does not fit.
    """
    if not -(1 << (width - 1)) <= value < 1 << width:
        raise ValueError(f"{value} does not fit {width} bits")
    return Verilog(f"{width}'h{value & ((1 << width) - 1):x}")


def declit(value: int, width: int, signed: bool = False) -> Verilog:
    """*value* as a decimal literal of *width* bits: ``5'd12``, ``-5'sd12``.

    Raises:
        ValueError: when the value does not fit.
    """
    low, high = (-(1 << (width - 1)), 1 << (width - 1)) if signed else (0, 1 << width)
    if not low <= value < high:
        raise ValueError(f"{value} does not fit {width} {'signed ' if signed else ''}bits")
    return Verilog(f"{'-' if value < 0 else ''}{width}'{'s' if signed else ''}d{abs(value)}")


def bits(width: int) -> Verilog:
    """The packed range of a vector: ``[width-1:0]``."""
    if width < 1:
        raise ValueError(f"a vector of {width} bits")
    return Verilog(f"[{width - 1}:0]")
