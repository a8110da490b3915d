"""The section ``Defaults`` of folding files, which speaks of all layers, or of all of a kind."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.errors import FoldingError, did_you_mean
from headrace.ir import Graph
from headrace.layers.base import Layer, layer_types
from headrace.schedule.folding_keys import (
    BACKEND_KEYS,
    DEFAULTS,
    FINN_ELSEWHERE,
    FINN_KINDS,
    FINN_ONLY,
    PIXELS,
    RUNTIME_KEYS,
    Reading,
    Settings,
    meant_layer,
    numbered_in,
    options,
    refuse,
)
from headrace.schedule.streams import layers


def settings_by_layer(
    graph: Graph, settings: Mapping[str, Settings], reading: Reading, file: str
) -> dict[str, tuple[Layer, str, Settings]]:
    """Each layer with its key and all that *settings* say of it, the defaults among them."""
    keys_of, found = numbered_in(graph, settings, reading, file), layers(graph)
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


def defaults_for(defaults: Settings, layer: Layer, file: str) -> dict[str, object]:
    """What the section ``Defaults`` says for *layer* (:func:`default_entries`)."""
    result = {}
    for name, entry in defaults.items():
        runtime = layer.replaceable and name in RUNTIME_KEYS
        if not (runtime or name in (*layer.folding_choices, *BACKEND_KEYS) or name.lower() in options(layer)):
            continue
        for kind, value in default_entries(name, entry, file):
            if kind == "all" or FINN_KINDS.get(kind, kind) == layer.kind:
                result[name] = value
    return result


def default_entries(name: str, entry: object, file: str) -> list[tuple[str, object]]:
    """Kinds of layers and the value for each, of an entry of the section ``Defaults``: a value for all, ``[value,
    [kinds]]`` as in FINN, or ``{kind: value}``; of two that fit a layer, the later."""
    if isinstance(entry, Mapping):
        return [(_without_backend(kind), value) for kind, value in entry.items()]
    if not isinstance(entry, list):
        return [("all", entry)]
    if len(entry) != 2 or not isinstance(entry[1], list | str):
        raise FoldingError(
            f'{file}, "Defaults": {name} must be a value, [value, [kinds]] or {{kind: value}}, not {entry}'
        )
    kinds = [entry[1]] if isinstance(entry[1], str) else entry[1]
    return [(_without_backend(kind), entry[0]) for kind in kinds]


def _without_backend(kind: object) -> str:
    return re.sub(r"_(hls|rtl|Batch)$", "", str(kind))


def check_defaults(defaults: Settings, file: str, tolerant: bool, notes: list[str]) -> None:
    """Refuse names of settings and kinds in the section ``Defaults`` that no model has; else they would do nothing.

    They are put into *notes* where the reading is *tolerant*.
    """
    for name, entry in defaults.items():
        if text := setting_complaint(name):
            refuse(f'{file}, "Defaults": {text}', tolerant, notes)
        for kind, _ in default_entries(name, entry, file):
            if text := kind_complaint(kind):
                refuse(f'{file}, "Defaults": {name} is for an {text}', tolerant, notes)


def with_value(settings: Mapping[str, Settings], key: str, name: str, value: object, file: str) -> dict[str, Settings]:
    """*settings* in which *name* has *value* for the layers of the kind *key*, or for the layer with this key.

    Args:
        settings: as :func:`read_folding` returns them.
        key: a kind, ``all``, or a key of a folding file.
        name: of a setting.
        value: of it.
        file: what messages call the source of *settings*.
    """
    if kind_complaint(key):
        return {**settings, key: {**settings.get(key, {}), name: value}}
    defaults = settings.get(DEFAULTS, {})
    entries = default_entries(name, defaults.get(name, {}), file)
    return {**settings, DEFAULTS: {**defaults, name: {**dict(entries), key: value}}}


def setting_complaint(name: str) -> str:
    """Why *name* is no setting of any layer, so that it would do nothing; empty when it is one."""
    choices = {option for type_ in layer_types() for option in options(type_)}
    names = ["PE", "SIMD", PIXELS, *BACKEND_KEYS, *RUNTIME_KEYS, *sorted(choices)]
    if name in (*names, *FINN_ONLY, "ram_style") or name.lower() in choices:
        return ""
    return f"unknown setting '{name}'{did_you_mean(name, names)}; known: {', '.join(names)}"


def kind_complaint(kind: str) -> str:
    """Why *kind* is no kind of layers; empty when it is one."""
    kinds = {"all", "Pool", *FINN_KINDS, *FINN_ELSEWHERE, *(type_.kind for type_ in layer_types())}
    return (
        "" if kind in kinds else f"unknown kind '{kind}'{did_you_mean(kind, kinds)}; known: {', '.join(sorted(kinds))}"
    )
