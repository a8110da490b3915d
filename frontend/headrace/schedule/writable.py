"""Which constants a folding dictionary wants to be replaceable at run time.

``runtime_writeable_weights`` is FINN's name of the setting, ``weightDataType`` that of the type which the memory holds.
They come before everything else: what follows such a layer is analysed for any constants in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.errors import FoldingError
from headrace.ir import Graph, IntRange
from headrace.ir.scaled import Writable
from headrace.layers.base import Layer, layer_types
from headrace.layers.runtime import SETTING, TYPE_SETTING
from headrace.numerics import DataTypeError, datatype
from headrace.schedule.folding_defaults import settings_by_layer
from headrace.schedule.folding_keys import Reading, Settings

MEMORIES = ("internal_decoupled", "decoupled")
"""FINN's ``mem_mode`` of layers whose weights are in a memory that can be written."""

WIDEST_WEIGHT = 32


def asked_writable(
    graph: Graph, settings: Mapping[str, Settings], reading: Reading = Reading.STRICT, file: str = "folding.json"
) -> dict[str, Writable]:
    """The layers of *graph* whose constants *settings* want to be replaceable, by name.

    Args:
        graph: layers as they are when all is constant, unfolded.
        settings: as :func:`headrace.schedule.read_folding` returns them.
        reading, file: as for :func:`headrace.schedule.apply_folding`.

    Raises:
        FoldingError: names the layer, the key, and what would be accepted.
    """
    if not any(SETTING in values for values in settings.values()):
        return {}
    found = {}
    for node, (layer, key, values) in settings_by_layer(graph, settings, reading, file).items():
        hint = f'Set in {file}, key "{key}".'
        if _wanted(values.get(SETTING, 0), f"layer '{node}' ({layer.kind})", hint):
            found[node] = _writable(node, layer, values, hint)
    return found


def _wanted(value: object, where: str, hint: str) -> bool:
    if value not in (0, 1):
        raise FoldingError(f"{where}: {SETTING}={value!r} must be 0 or 1. {hint}")
    return bool(value)


def _writable(node: str, layer: Layer, values: Settings, hint: str) -> Writable:
    where = f"layer '{node}' ({layer.kind})"
    if not layer.replaceable:
        kinds = ", ".join(sorted({type_.kind for type_ in layer_types() if type_.replaceable}))
        raise FoldingError(f"{where}: {SETTING}=1, but it has nothing that could be written; accepted: {kinds}. {hint}")
    memory = values.get("mem_mode", MEMORIES[0])
    if memory not in MEMORIES:
        raise FoldingError(
            f"{where}: {SETTING}=1 and mem_mode={memory!r} exclude each other; accepted: {MEMORIES[0]!r}, or leave "
            f"mem_mode out. {hint}"
        )
    given = values.get(TYPE_SETTING, "")
    return Writable(node, _weight_type(given, where, hint) if given and layer.weight_bits_a_pe else None, hint)


def _weight_type(name: object, where: str, hint: str) -> IntRange:
    """All values of a type that memories hold; of TERNARY those of its two bits."""
    accepted = f"accepted: BIPOLAR, TERNARY, INT2 to INT{WIDEST_WEIGHT}, UINT1 to UINT{WIDEST_WEIGHT}"
    try:
        type_ = datatype(str(name))
    except DataTypeError as error:
        raise FoldingError(f"{where}: {TYPE_SETTING}={name!r} is no type; {accepted}. {hint}") from error
    if not type_.is_integer or type_.bits > WIDEST_WEIGHT:
        raise FoldingError(f"{where}: {TYPE_SETTING}={name!r} cannot be written; {accepted}. {hint}")
    return IntRange(int(type_.lo), int(type_.hi), bipolar=type_.name == "BIPOLAR").whole
