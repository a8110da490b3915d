"""Keys of folding files: which layer each is for, and what the section of defaults says of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from enum import StrEnum

from headrace.errors import FoldingError, did_you_mean
from headrace.ir import Graph
from headrace.layers.base import Layer
from headrace.layers.runtime import SETTING, TYPE_SETTING
from headrace.schedule.streams import layers, links

FINN_KINDS = {
    "MatrixVectorActivation": "MVAU",
    "StreamingFCLayer": "MVAU",
    "VectorVectorActivation": "VVAU",
    "ConvolutionInputGenerator": "SWG",
    "StreamingMaxPool": "MaxPool",
    "AddStreams": "AddStreams",
    "ElementwiseAdd": "AddStreams",
    "StreamingConcat": "Concat",
    "StreamingSplit": "Split",
    "StreamingDataWidthConverter": "DWC",
    "StreamingFIFO": "FIFO",
    "UpsampleNearestNeighbour": "Upsample",
}
"""FINN's names of layers, and the kind that each is here."""

FINN_FUSED = frozenset({("MVAU", "Thresholding"), ("VVAU", "Thresholding")})
"""Kinds of layers of which FINN makes one: the second is part of the first, and has no number of its own."""


INSERTED = ("DWC", "FIFO")
"""Kinds of layers that are put between the others once these are folded."""


class Reading(StrEnum):
    """How a folding dictionary is read."""

    STRICT = "strict"
    """What fits nothing is refused, and a number counts every layer of its kind."""

    FINN = "finn"
    """What fits nothing is noted; thresholds behind a matrix-vector unit are a part of it, and not counted."""

    FINN_STANDALONE = "finn_standalone"
    """As ``FINN``, for a model built with ``standalone_thresholds``: every layer is counted."""


BACKEND_KEYS = ("backend", "preferred_impl_style")
"""Settings that say how a layer is made; the second is FINN's, where it may be empty."""

RUNTIME_KEYS = (SETTING, TYPE_SETTING)
"""Settings of constants that are written at run time; see :mod:`headrace.schedule.writable`."""

KEY = re.compile(r"(?P<kind>[A-Za-z]\w*?)(?:_hls|_rtl|_Batch|_batch)?_(?P<index>\d+)")
DEFAULTS = "Defaults"
GUARD = "layer"

Settings = Mapping[str, object]


def numbered_for(graph: Graph, reading: Reading) -> dict[str, str]:
    """:func:`numbered` as *reading* counts."""
    return numbered(graph, fused=FINN_FUSED if reading is Reading.FINN else frozenset())


def numbered(graph: Graph, fused: Collection[tuple[str, str]] = ()) -> dict[str, str]:
    """Layer name by ``kind_number``, in topological order; without the second of two layers of *fused* kinds."""
    found = layers(graph)
    inner: set[str] = set()
    if fused:
        ends = [(e.source.node, e.target.node) for e in links(graph)]
        inner = {b for a, b in ends if {a, b} <= found.keys() and (found[a].kind, found[b].kind) in fused}
    counts: dict[str, int] = {}
    result = {}
    for node, layer in found.items():
        if node in inner:
            continue
        index = counts.get(layer.kind, 0)
        counts[layer.kind] = index + 1
        result[f"{layer.kind}_{index}"] = node
    return result


def _plain(key: str) -> str:
    """*key* without FINN's ``_hls`` and ``_rtl``, so that it is near to the key that was meant."""
    match = KEY.fullmatch(key)
    return f"{match['kind']}_{match['index']}" if match else key


def meant_layer(key: str, values: Settings, keys_of: Mapping[str, str], found: Mapping[str, Layer]) -> str | None:
    """The layer that an entry was written for, as it says; else that of its *key*.

    For entries that are read before the design is what it was when they were written: numbers count the layers of then.
    """
    written = values.get(GUARD)
    return written if isinstance(written, str) and written in found else find_key(key, keys_of, found)


def find_key(key: str, keys_of: Mapping[str, str], found: Mapping[str, Layer]) -> str | None:
    """The layer with the name *key*, or with that number (:func:`numbered`); None where there is none."""
    if key in found:
        return key
    match = KEY.fullmatch(key)
    if match is None:
        return None
    return keys_of.get(f"{kind_of(key)}_{int(match['index'])}")


def kind_of(key: str) -> str:
    """The kind of layer that a numbered key is for, or an empty string."""
    match = KEY.fullmatch(key)
    return FINN_KINDS.get(match["kind"], match["kind"]) if match else ""


def _listing(keys_of: Mapping[str, str], found: Mapping[str, Layer]) -> str:
    foldable = [f"{key} ('{node}')" for key, node in keys_of.items() if found[node].folding_choices]
    return ", ".join(foldable) or "none can be folded"


def chosen_keys(
    graph: Graph,
    settings: Mapping[str, Settings],
    reading: Reading,
    file: str,
    notes: list[str],
    no_effect: Callable[[str, Settings], str],
) -> dict[str, tuple[str, Settings]]:
    """Key and settings by layer; what fits none is refused or put into *notes*, as *reading* says.

    Args:
        graph, settings, reading, file: as for :func:`headrace.schedule.apply_folding`.
        notes: where sentences go.
        no_effect: what to say of a key for layers that are put in later; empty where there is nothing to say.
    """
    chosen: dict[str, tuple[str, Settings]] = {}
    keys_of, found = numbered_for(graph, reading), layers(graph)
    for key, values in settings.items():
        if key == DEFAULTS:
            continue
        node = find_key(key, keys_of, found)
        if node is None and kind_of(key) in INSERTED:
            if said := no_effect(key, values):
                notes.append(f'{file}, key "{key}": {said}')
        elif node is None:
            near = did_you_mean(_plain(key), [*keys_of, *found])
            text = f'{file}, key "{key}": there is no such layer{near}; layers: {_listing(keys_of, found)}'
            refuse(text, reading is not Reading.STRICT, notes)
        elif node in chosen:
            raise FoldingError(f'{file}, keys "{chosen[node][0]}" and "{key}" both fold layer \'{node}\'')
        else:
            chosen[node] = (key, values)
    return chosen


def settings_by_layer(
    graph: Graph, settings: Mapping[str, Settings], reading: Reading, file: str
) -> dict[str, tuple[Layer, str, Settings]]:
    """Each layer with its key and all that *settings* say of it, the defaults among them."""
    keys_of, found = numbered_for(graph, reading), layers(graph)
    keys = {node: key for key, node in keys_of.items()}
    chosen = {}
    for key, values in settings.items():  # what fits no layer is told when the file is applied
        node = meant_layer(key, values, keys_of, found)
        if node is not None and key != DEFAULTS:
            chosen[node] = (key, values)
    result: dict[str, tuple[Layer, str, Settings]] = {}
    for node, layer in found.items():
        key, own = chosen.get(node, (keys.get(node, node), {}))
        result[node] = (layer, key, {**defaults_for(settings.get(DEFAULTS, {}), layer, file), **own})
    return result


def refuse(message: str, tolerant: bool, notes: list[str]) -> None:
    """Raise *message*, or note it where the reading is *tolerant*."""
    if not tolerant:
        raise FoldingError(message)
    notes.append(message)


def defaults_for(defaults: Settings, layer: Layer, file: str) -> dict[str, object]:
    """What the section ``Defaults`` says for *layer*: a value, or ``[value, [kinds]]`` as in FINN."""
    result = {}
    for name, entry in defaults.items():
        value, kinds = default_entry(name, entry, file)
        meant = "all" in kinds or layer.kind in {FINN_KINDS.get(kind, kind) for kind in kinds}
        runtime = layer.replaceable and name in RUNTIME_KEYS
        if meant and (runtime or name in (*layer.folding_choices, *BACKEND_KEYS) or name.lower() in options(layer)):
            result[name] = value
    return result


def default_entry(name: str, entry: object, file: str) -> tuple[object, list[str]]:
    """The value of an entry of the section ``Defaults``, and the kinds of layers that it is for."""
    if not isinstance(entry, list):
        return entry, ["all"]
    if len(entry) != 2 or not isinstance(entry[1], list):
        raise FoldingError(f'{file}, "Defaults": {name} must be a value or [value, [kinds]], not {entry}')
    return entry[0], [re.sub(r"_(hls|rtl)$", "", str(kind)) for kind in entry[1]]


def options(layer: Layer | type[Layer]) -> set[str]:
    """Fields of *layer* that choose an implementation by a word, such as ``ram_style``."""
    return {f.name for f in fields(layer) if str(f.type).strip("'\"") == "str" or "Literal" in str(f.type)}
