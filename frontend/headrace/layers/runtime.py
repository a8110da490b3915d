"""What layers with writable constants share: memories with a second way in, what they cost, what files say of them."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import UnsupportedError
from headrace.ir import IntRange
from headrace.layers.base import Layer, Resources
from headrace.layers.memory import index_bits, ram_resources
from headrace.layers.parameter import WORD, Parameter, address_bits

PARAMETER_RAM = "headrace_parameter_ram.sv.j2"
"""The shared module of a memory that the data path reads and the control interface reads and writes."""

SETTING = "runtime_writeable_weights"
"""FINN's name of the setting of a layer."""

TYPE_SETTING = "weightDataType"
"""FINN's name of the type of a layer's weights."""


@dataclass(frozen=True)
class Column:
    """A memory of at most 32 bits a word: one column of a wider one."""

    index: int
    width: int
    low: int
    memory: str


@dataclass(frozen=True)
class Config:
    """The control interface's way into a memory of weights.

    Attributes:
        address_bits: of an address in the layer: the word, then the column in it.
        column_bits: of the latter; 0 for memories of one column.
        depth: words.
        columns: the memories.
        style: where they are to be.
    """

    address_bits: int
    column_bits: int
    depth: int
    columns: tuple[Column, ...]
    style: str = "auto"

    @property
    def word_bits(self) -> int:
        """Bits of the number of a word."""
        return index_bits(self.depth)


def weight_memory(weights: Parameter, ram_style: str = "auto") -> tuple[Config, dict[str, str]]:
    """The columns of a memory of *weights*, and their contents by suffix; *ram_style* is where they are to be."""
    texts = weights.column_texts()
    columns = tuple(Column(k, width, WORD * k, f"weights{k}") for k, (width, _) in enumerate(texts))
    memories = {column.memory: text for column, (_, text) in zip(columns, texts, strict=True)}
    depth = len(weights.words)
    bits = (len(columns) - 1).bit_length()
    return Config(address_bits((weights,)), bits, depth, columns, ram_style), memories


def parameter_resources(parameters: tuple[Parameter, ...], asked: str = "auto") -> Resources:
    """Estimate of the memories of *parameters*, of the address that each holds, and of the way to and from them."""
    total = Resources(lut=16.0 + address_bits(parameters), ff=2.0)
    for p in parameters:
        depth = len(p.words)
        for width in p.column_widths:
            memory = ram_resources(depth, width, asked) if depth > 1 else Resources(ff=float(width))
            total += memory + Resources(lut=2.0 * index_bits(depth))
        total += Resources(lut=WORD * (p.columns - 1) / 2 + 2.0, ff=float(p.width + index_bits(depth)))
    return total


def weight_settings(writable: IntRange | None) -> dict[str, object]:
    """What a folding file says of weights in this range."""
    if writable is None:
        return {}
    return {SETTING: 1, TYPE_SETTING: writable.type_name}


NOT_IN_CPP = f"with {SETTING}=1 is made in SystemVerilog only; use the backend 'rtl' for it, or leave {SETTING} out"
"""What is wrong with C++ that is asked of a layer with writable constants."""


def not_in_cpp(layer: Layer) -> UnsupportedError:
    """That as the error of a layer."""
    return UnsupportedError(f"layer kind {layer.kind} {NOT_IN_CPP}")
