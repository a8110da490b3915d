"""Folding files: JSON in the form that FINN uses, read and written.

    {"Defaults": {"PE": [4, ["Thresholding"]]},
     "MVAU_0": {"PE": 16, "SIMD": 49, "layer": "fc1"},
     "Thresholding_rtl_0": {"PE": 16},
     "fc2": {"PE": 8, "SIMD": 8}}

A key is the name of a layer, or a kind and a number that counts the layers of that kind in topological order; FINN's
names for kinds, and its ``_hls`` and ``_rtl``, are understood. ``layer``, which written files have, guards against a
number that has come to mean another layer. ``backend`` (or FINN's ``preferred_impl_style``) says whether a layer is
``"rtl"`` or ``"hls"``; the ``_hls`` in a key does not, as in FINN it is a part of the name.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from headrace.bounded_text import given_text
from headrace.errors import FoldingError, did_you_mean
from headrace.ir import Graph
from headrace.layers.base import Layer
from headrace.layers.fifo import STYLES
from headrace.layers.runtime import NOT_IN_CPP, SETTING
from headrace.schedule.folding_defaults import check_defaults, default_entries, defaults_for
from headrace.schedule.folding_keys import (
    BACKEND_KEYS,
    DEFAULTS,
    FINN_KINDS,
    FINN_ONLY,
    GUARD,
    KEY,
    PIXELS,
    RUNTIME_KEYS,
    Reading,
    Settings,
    chosen_keys,
    kind_of,
    meant_layer,
    numbered,
    numbered_in,
    options,
    refuse,
)
from headrace.schedule.streams import layers, links, rebuild

FIFO_STYLE = "ram_style"
"""The setting that a FIFO has before it is there."""

SHOWN = (FIFO_STYLE,)
"""Settings of layers that whole files have where they are as usual, too: scripts for FINN change them."""

LAYER_BACKENDS = ("rtl", "hls")


@dataclass(frozen=True, eq=False)
class Applied:
    """A folded graph, what in the file had no effect (one sentence each), and the backends that it asks for.

    ``fifos`` are settings of FIFOs as in :class:`~headrace.passes.hardware_design.HardwareDesign`.
    """

    graph: Graph
    notes: tuple[str, ...]
    backends: Mapping[str, str] = field(default_factory=dict)
    fifos: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def read_folding(path: str | Path) -> dict[str, Settings]:
    """The content of a folding file.

    Raises:
        FoldingError: when the file is missing, is not JSON, or is not an object of objects.
    """
    try:
        data = json.loads(given_text(Path(path)), object_pairs_hook=without_doubles)
    except OSError as error:
        raise FoldingError(f"cannot read the folding file {path} ({error.strerror})") from error
    except RecursionError as error:
        raise FoldingError(f"the folding file {path} is nested too deeply") from error
    except DoubledKeyError as error:
        raise FoldingError(
            f"the folding file {path} has the key {json.dumps(error.key)} twice in one object"
        ) from error
    except ValueError as error:
        raise FoldingError(f"the folding file {path} is not JSON ({error})") from error
    wrong = [key for key, value in data.items() if not isinstance(value, dict)] if isinstance(data, dict) else [""]
    if wrong:
        place = f"; key {json.dumps(wrong[0])} holds no settings" if wrong[0] else ""
        example = '{"MVAU_0": {"PE": 2, "SIMD": 4}}'
        raise FoldingError(f"the folding file {path} must hold an object like {example}{place}")
    return dict(data)


class DoubledKeyError(Exception):
    """A key stands twice in one object of JSON."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def without_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON; of a key that stands twice, the parser would silently keep the last."""
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise DoubledKeyError(key)
        found[key] = value
    return found


def asked_pixels(graph: Graph, settings: Mapping[str, Settings], file: str = "folding.json") -> dict[str, int]:
    """How many pixels at once *settings* ask for (``M``), by node; what asks for none is left out.

    Args:
        graph: layers without width converters and FIFOs, each pixel for itself or not.
        settings: as :func:`read_folding` returns them.
        file: what messages call their source.

    Raises:
        FoldingError: when a number is none, or is for no layer.
    """
    keys_of, found = numbered(graph), layers(graph)
    asked: dict[str, int] = {}
    for key, values in settings.items():
        if PIXELS not in values:
            continue
        if key == DEFAULTS:
            raise FoldingError(f'{file}, "{DEFAULTS}": {PIXELS} is said of every layer, at its name')
        value = values[PIXELS]
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise FoldingError(f'{file}, key "{key}": M={value!r} must be a number of pixels, 1 or more')
        node = meant_layer(key, values, keys_of, found)
        if node is None:
            near = did_you_mean(key, [*keys_of, *found])
            raise FoldingError(f'{file}, key "{key}": there is no such layer{near} to make M={value} pixels at once')
        if value > 1:
            asked[node] = value
    return asked


def write_folding(
    graph: Graph,
    backends: Mapping[str, str] | None = None,
    pixels: Mapping[str, int] | None = None,
    fifos: Mapping[str, Mapping[str, str]] | None = None,
    whole: bool = False,
) -> dict[str, Settings]:
    """The folding of *graph* in the form that :func:`apply_folding` reads, with the *backends* of layers, the *pixels*
    that layers make at once, and the settings of *fifos*; the *whole* has what is as usual, too, as FINN's files do."""
    fifos = fifos or {}
    everywhere = {name: [value, ["FIFO"]] for name, value in fifos.get("FIFO", {}).items()}
    result: dict[str, Settings] = {DEFAULTS: everywhere}
    found = layers(graph)
    for key, node in numbered(graph).items():
        layer = found[node]
        chosen = {f.name: getattr(layer, f.name) for f in fields(layer) if f.name in options(layer)}
        usual = {f.name: f.default for f in fields(layer)}
        settings: dict[str, object] = {**layer.folding}
        settings |= {name: value for name, value in chosen.items() if value != usual[name] or (whole and name in SHOWN)}
        settings |= {SETTING: 0} if whole and layer.replaceable else {}
        settings |= layer.runtime_settings
        if backends and node in backends:
            settings["backend"] = backends[node]
        if pixels and node in pixels:
            settings[PIXELS] = pixels[node]
        if settings:
            result[key] = {**settings, GUARD: node}
    return {**result, **{key: values for key, values in fifos.items() if key != "FIFO"}}


def folding_json(
    graph: Graph,
    backends: Mapping[str, str] | None = None,
    pixels: Mapping[str, int] | None = None,
    fifos: Mapping[str, Mapping[str, str]] | None = None,
    whole: bool = False,
) -> str:
    """The text of ``folding.json`` for *graph*; the other arguments as for :func:`write_folding`."""
    return json.dumps(write_folding(graph, backends, pixels, fifos, whole), indent=2) + "\n"


def apply_folding(
    graph: Graph,
    settings: Mapping[str, Settings],
    reading: Reading = Reading.STRICT,
    file: str = "folding.json",
    pixels: Collection[str] | None = None,
) -> Applied:
    """*graph* folded as *settings* say.

    A layer that is not mentioned follows its neighbour where it can: one that folds only over ``PE`` takes words as
    wide as it is sent, one that folds only over ``SIMD`` gives words as wide as its reader takes.

    Args:
        graph: layers without width converters and FIFOs.
        settings: as :func:`read_folding` returns them.
        reading: whether keys and settings that fit nothing are refused or noted, and what a number counts.
        file: what messages call the source of *settings*.
        pixels: nodes that make several pixels at once, which have been asked for (:func:`asked_pixels`); None where
            nobody has.

    Raises:
        FoldingError: names the layer, the value, the key, and what would be accepted.
    """
    notes: list[str] = []
    tolerant = reading is not Reading.STRICT
    keys_of, found = numbered_in(graph, settings, reading, file), layers(graph)
    fifos = {} if tolerant else _fifo_settings(settings, file)
    check_defaults(settings.get(DEFAULTS, {}), file, tolerant, notes)
    if pixels is not None:  # what says nothing else has been heard: see asked_pixels
        settings = {key: values for key, values in settings.items() if not {*values} or {*values} - {PIXELS, GUARD}}
    chosen = chosen_keys(graph, settings, reading, file, notes, lambda key, values: _no_effect(key, values, fifos))
    for node, (key, values) in chosen.items() if pixels is not None else ():
        _check_pixels(node, key, values, file)
    folded: dict[str, Layer] = {}
    explicit: set[str] = set()
    backends: dict[str, str] = {}
    keys = {node: key for key, node in keys_of.items()}
    for node, layer in found.items():
        defaults = defaults_for(settings.get(DEFAULTS, {}), layer, file)
        key, values = chosen.get(node, (keys.get(node, node), {}))
        if {*defaults, *values} - {*BACKEND_KEYS, *RUNTIME_KEYS}:
            explicit.add(node)
        backend = _backend({**defaults, **values}, f"layer '{node}' ({layer.kind})", f'Set in {file}, key "{key}".')
        if backend:
            backends[node] = backend
        folded[node] = _fold(node, layer, {**defaults, **values}, (file, key), tolerant, notes)
        if backend == "hls" and layer.parameters:
            raise FoldingError(f"layer '{node}' ({layer.kind}) {NOT_IN_CPP}. Set in {file}, key \"{key}\".")
    _follow(graph, folded, explicit)
    return Applied(rebuild(graph, folded), tuple(notes), backends, fifos)


def _fifo_settings(settings: Mapping[str, Settings], file: str) -> dict[str, dict[str, str]]:
    """What *settings* say of FIFOs, which are not there yet: their ``ram_style``, by number or for all."""
    found: dict[str, dict[str, str]] = {}
    entries = default_entries(FIFO_STYLE, settings.get(DEFAULTS, {}).get(FIFO_STYLE, {}), file)
    styles = [style for kind, style in entries if FINN_KINDS.get(kind, kind) == "FIFO"]
    asked: dict[str, Settings] = {"FIFO": {FIFO_STYLE: styles[-1]}} if styles else {}
    asked |= {key: values for key, values in settings.items() if kind_of(key) == "FIFO" and FIFO_STYLE in values}
    for key, values in asked.items():
        style = values[FIFO_STYLE]
        if style not in STYLES:
            near = did_you_mean(str(style), STYLES)
            raise FoldingError(f'{file}, key "{key}": {FIFO_STYLE}={style!r} is not one of {", ".join(STYLES)}{near}')
        kept = {FIFO_STYLE: str(style), **{name: str(v) for name, v in values.items() if name == GUARD}}
        found[_plain_fifo(key)] = kept
    return found


def _no_effect(key: str, values: Settings, fifos: Mapping[str, Mapping[str, str]]) -> str:
    """What of a key for layers that are put in later changes nothing; empty where it sets the memory of FIFOs."""
    heard = {FIFO_STYLE, GUARD} if _plain_fifo(key) in fifos else set()
    unheard = [name for name in values if name not in heard]
    if values and not unheard:
        return ""
    which = f"{', '.join(unheard)} {'has' if len(unheard) == 1 else 'have'}" if unheard else "has"
    style = f", and {FIFO_STYLE} says in what" if kind_of(key) == "FIFO" else ""
    return f"{which} no effect; a {kind_of(key)} is put in, and sized, where one is needed{style}"


def _plain_fifo(key: str) -> str:
    """*key* of a FIFO as it is numbered here."""
    match = KEY.fullmatch(key)
    return f"FIFO_{int(match['index'])}" if match else key


def _check_pixels(node: str, key: str, values: Settings, file: str) -> None:
    """Refuse a bare number with M and more: layers of other kinds make blocks of pixels, so that numbers change."""
    if values.get(PIXELS, 1) != 1 and key != node and GUARD not in values:
        text = f"M stands beside other settings, and with M the number can be of another layer than without ('{node}')"
        raise FoldingError(f'{file}, key "{key}": {text}; use the name of the layer')


def _fold(node: str, layer: Layer, values: Settings, place: tuple[str, str], tolerant: bool, notes: list[str]) -> Layer:
    file, key = place
    where = f"layer '{node}' ({layer.kind})"
    hint = f'Set in {file}, key "{key}".'
    folding: dict[str, int] = {}
    for name, value in values.items():
        if name == GUARD:
            if value != node:  # as FINN reads it, names may change: qonnx draws new ones where models are merged
                refuse(f"{file}, key \"{key}\" was written for layer '{value}' but is now '{node}'", tolerant, notes)
        elif name in RUNTIME_KEYS:
            _check_runtime(layer, values, where, hint, notes)
        elif name in BACKEND_KEYS or (name == PIXELS and not tolerant):  # see asked_pixels
            continue
        elif name in layer.folding_choices:
            folding[name] = _legal(value, name, layer, where, hint)
        elif name.lower() in options(layer):
            layer = _with_option(layer, name, value, where, hint)
        elif name in FINN_ONLY or name in ("ram_style", PIXELS) or (name in ("PE", "SIMD") and value == 1):
            notes.append(f"{where}: {name} has no effect. {hint}")
        else:
            known = [*layer.folding_choices, *sorted(options(layer)), BACKEND_KEYS[0]]
            known += [SETTING] if layer.replaceable else []
            text = f"{where}: unknown setting '{name}'{did_you_mean(name, known)}; known: {', '.join(known) or 'none'}"
            refuse(f"{text}. {hint}", tolerant, notes)
    return layer.with_folding(**folding) if folding else layer


def _check_runtime(layer: Layer, values: Settings, where: str, hint: str, notes: list[str]) -> None:
    """Refuse to write constants of *layer* at run time where it was not made so (:mod:`headrace.schedule.writable`)."""
    if not layer.parameters and values.get(SETTING, 0):
        raise FoldingError(
            f"{where}: {SETTING}=1 is not possible here: its constants are those of a function that no thresholds "
            f"stand for, or this file is read too late; accepted: MVAU, VVAU and Thresholding, in the folding of the "
            f"configuration. {hint}"
        )
    if not layer.parameters and SETTING not in values:
        notes.append(f"{where}: {', '.join(RUNTIME_KEYS[1:])} has no effect without {SETTING}=1. {hint}")


def _backend(values: Settings, where: str, hint: str) -> str:
    """How a layer is to be made; empty when the file does not say."""
    said = {str(value): name for name, value in values.items() if name in BACKEND_KEYS and value != ""}
    for value, name in said.items():
        if value not in LAYER_BACKENDS:
            raise FoldingError(f"{where}: {name}={value!r} is not one of {', '.join(LAYER_BACKENDS)}. {hint}")
    if len(said) > 1:
        raise FoldingError(f"{where}: {' and '.join(BACKEND_KEYS)} say different things. {hint}")
    return next(iter(said), "")


def _legal(value: object, name: str, layer: Layer, where: str, hint: str) -> int:
    choices = layer.folding_choices[name]
    valid = ", ".join(map(str, choices))
    if isinstance(value, bool) or not isinstance(value, int):
        raise FoldingError(f"{where}: {name}={value!r} must be a whole number; valid: {valid}. {hint}")
    if value not in choices:
        whole = choices[-1]
        text = f"{name}={value!r} does not divide {_whole(layer, name, whole)}; valid: {valid}"
        raise FoldingError(f"{where}: {text}. {hint}")
    return value


def _whole(layer: Layer, name: str, whole: int) -> str:
    """What *name* must divide, with its usual name."""
    usual = {"PE": "mh", "SIMD": "mw"}.get(name)
    return f"{usual.upper()}={whole}" if usual and getattr(layer, usual, None) == whole else str(whole)


def _with_option(layer: Layer, name: str, value: object, where: str, hint: str) -> Layer:
    if not isinstance(value, str):
        raise FoldingError(f"{where}: {name}={value!r} must be a word. {hint}")
    try:
        return replace(layer, **{name.lower(): value})
    except (ValueError, FoldingError) as error:  # which names the value itself
        reason = str(error).removeprefix(f"{layer.kind}: ")
        raise FoldingError(f"{where}: {reason}. {hint}") from error


def _follow(graph: Graph, folded: dict[str, Layer], explicit: set[str]) -> None:
    """Fold the layers that nobody folded after their neighbours."""
    edges = [e for e in links(graph) if e.source.node in folded and e.target.node in folded]
    for edge in edges:  # in topological order: widths run on from layer to layer
        node = edge.target.node
        if node not in explicit and folded[node].width_name == "PE":
            _match(folded, node, "PE", folded[edge.source.node].outputs[edge.source.port].elements)
    for edge in reversed(edges):
        node = edge.source.node
        if node not in explicit and folded[node].width_name == "SIMD":
            _match(folded, node, "SIMD", folded[edge.target.node].inputs[edge.target.port].elements)


def _match(folded: dict[str, Layer], node: str, name: str, elements: int) -> None:
    if elements in folded[node].folding_choices[name]:
        folded[node] = folded[node].with_folding(**{name: elements})
