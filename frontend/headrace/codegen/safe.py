"""The mark of text that may stand in generated code."""

from __future__ import annotations


class Verilog(str):
    """Text that is safe to stand in generated code, SystemVerilog or C++: what the filters return."""

    __slots__ = ()
