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
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path

from headrace.errors import FoldingError, did_you_mean
from headrace.ir import Graph
from headrace.layers.base import Layer, layer_types
from headrace.layers.fifo import STYLES
from headrace.schedule.streams import layers, links, rebuild

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

FINN_ONLY = (
    "mem_mode", "resType", "runtime_writeable_weights", "pumpedMemory", "impl_style",
    "parallel_window", "inFIFODepths", "outFIFODepths", "mlo_max_iter", "depth_trigger_uram", "depth_trigger_bram",
    "cpp_interface", "hls_style", "use_ocm", "slr", "partition_id", "device_id", "noActivation", "depth",
)  # fmt: skip
"""FINN's settings that have no meaning here and change no result: accepted, with a note."""

FINN_FUSED = frozenset({("MVAU", "Thresholding"), ("VVAU", "Thresholding")})
"""Kinds of layers of which FINN makes one: the second is part of the first, and has no number of its own."""


INSERTED = ("DWC", "FIFO")
"""Kinds of layers that are put between the others once these are folded."""

FIFO_STYLE = "ram_style"
"""The setting that a FIFO has before it is there."""


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

LAYER_BACKENDS = ("rtl", "hls")

PIXELS = "M"
"""How many pixels a layer makes at once; FINN has it at the sliding window, where it is noted only."""

_KEY = re.compile(r"(?P<kind>[A-Za-z]\w*?)(?:_hls|_rtl|_Batch|_batch)?_(?P<index>\d+)")
_DEFAULTS = "Defaults"
_GUARD = "layer"

Settings = Mapping[str, object]


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
        data = json.loads(Path(path).read_text(encoding="utf-8"), object_pairs_hook=_without_doubles)
    except OSError as error:
        raise FoldingError(f"cannot read the folding file {path} ({error.strerror})") from error
    except RecursionError as error:
        raise FoldingError(f"the folding file {path} is nested too deeply") from error
    except _DoubledKeyError as error:
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


class _DoubledKeyError(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _without_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON; of a key that stands twice, the parser would silently keep the last."""
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise _DoubledKeyError(key)
        found[key] = value
    return found


def asked_pixels(graph: Graph, settings: Mapping[str, Settings], file: str = "folding.json") -> dict[str, int]:
    """How many pixels at once *settings* ask for (``M``), by node; what asks for none is left out.

    Args:
        graph: layers without width converters and FIFOs, each pixel for itself or not.
        settings: as :func:`read_folding` returns them.
        file: what messages call their source.

    Raises:
        FoldingError: when a number is none.
    """
    keys_of, found = numbered(graph), layers(graph)
    asked: dict[str, int] = {}
    for key, values in settings.items():
        value = values.get(PIXELS, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise FoldingError(f'{file}, key "{key}": M={value!r} must be a number of pixels, 1 or more')
        written = values.get(_GUARD)  # a number counts the layers of the design that the file was written for
        node = written if isinstance(written, str) and written in found else _find(key, keys_of, found)
        if node is not None and value > 1:
            asked[node] = value
    return asked


def write_folding(
    graph: Graph,
    backends: Mapping[str, str] | None = None,
    pixels: Mapping[str, int] | None = None,
    fifos: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, Settings]:
    """The folding of *graph* in the form that :func:`apply_folding` reads, with the *backends* of layers, the *pixels*
    that layers make at once, and the settings of *fifos*."""
    fifos = fifos or {}
    everywhere = {name: [value, ["FIFO"]] for name, value in fifos.get("FIFO", {}).items()}
    result: dict[str, Settings] = {_DEFAULTS: everywhere}
    for key, node in numbered(graph).items():
        layer = layers(graph)[node]
        chosen = {f.name: getattr(layer, f.name) for f in fields(layer) if f.name in _options(layer)}
        usual = {f.name: f.default for f in fields(layer)}
        settings: dict[str, object] = {**layer.folding}
        settings |= {name: value for name, value in chosen.items() if value != usual[name]}
        if backends and node in backends:
            settings["backend"] = backends[node]
        if pixels and node in pixels:
            settings[PIXELS] = pixels[node]
        if settings:
            result[key] = {**settings, _GUARD: node}
    return {**result, **{key: values for key, values in fifos.items() if key != "FIFO"}}


def folding_json(
    graph: Graph,
    backends: Mapping[str, str] | None = None,
    pixels: Mapping[str, int] | None = None,
    fifos: Mapping[str, Mapping[str, str]] | None = None,
) -> str:
    """The text of ``folding.json`` for *graph*; the other arguments as for :func:`write_folding`."""
    return json.dumps(write_folding(graph, backends, pixels, fifos), indent=2) + "\n"


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
        pixels: nodes that make several pixels at once, where that is known.

    Raises:
        FoldingError: names the layer, the value, the key, and what would be accepted.
    """
    notes: list[str] = []
    tolerant = reading is not Reading.STRICT
    keys_of = numbered(graph, fused=FINN_FUSED if reading is Reading.FINN else frozenset())
    found = layers(graph)
    chosen: dict[str, tuple[str, Settings]] = {}
    fifos = {} if tolerant else _fifo_settings(settings, file)
    _check_defaults(settings.get(_DEFAULTS, {}), file, tolerant, notes)
    for key, values in settings.items():
        if key == _DEFAULTS:
            continue
        node = _find(key, keys_of, found)
        if node is None and _kind_of(key) in INSERTED:
            if {*values} - ({FIFO_STYLE, _GUARD} if _plain_fifo(key) in fifos else set()) or not values:
                notes.append(
                    f'{file}, key "{key}": has no effect; a {_kind_of(key)} is put in, and sized, where one is needed'
                    f"{f', and {FIFO_STYLE} says in what' if _kind_of(key) == 'FIFO' else ''}"
                )
        elif node is None:
            near = did_you_mean(_plain(key), [*keys_of, *found])
            text = f'{file}, key "{key}": there is no such layer{near}; layers: {_listing(keys_of, found)}'
            _refuse(text, tolerant, notes)
        elif node in chosen:
            raise FoldingError(f'{file}, keys "{chosen[node][0]}" and "{key}" both fold layer \'{node}\'')
        else:
            _check_pixels(node, key, values, pixels, file)
            chosen[node] = (key, values)
    folded: dict[str, Layer] = {}
    explicit: set[str] = set()
    backends: dict[str, str] = {}
    keys = {node: key for key, node in keys_of.items()}
    for node, layer in found.items():
        defaults = _defaults(settings.get(_DEFAULTS, {}), layer, file)
        key, values = chosen.get(node, (keys.get(node, node), {}))
        if {*defaults, *values} - {*BACKEND_KEYS}:
            explicit.add(node)
        backend = _backend({**defaults, **values}, f"layer '{node}' ({layer.kind})", f'Set in {file}, key "{key}".')
        if backend:
            backends[node] = backend
        folded[node] = _fold(node, layer, {**defaults, **values}, (file, key), tolerant, notes)
    _follow(graph, folded, explicit)
    return Applied(rebuild(graph, folded), tuple(notes), backends, fifos)


def _fifo_settings(settings: Mapping[str, Settings], file: str) -> dict[str, dict[str, str]]:
    """What *settings* say of FIFOs, which are not there yet: their ``ram_style``, by number or for all."""
    found: dict[str, dict[str, str]] = {}
    style, kinds = _default(FIFO_STYLE, settings.get(_DEFAULTS, {}).get(FIFO_STYLE, ["auto", []]), file)
    asked: dict[str, Settings] = {"FIFO": {FIFO_STYLE: style}} if {"FIFO", "StreamingFIFO"} & {*kinds} else {}
    asked |= {key: values for key, values in settings.items() if _kind_of(key) == "FIFO" and FIFO_STYLE in values}
    for key, values in asked.items():
        style = values[FIFO_STYLE]
        if style not in STYLES:
            near = did_you_mean(str(style), STYLES)
            raise FoldingError(f'{file}, key "{key}": {FIFO_STYLE}={style!r} is not one of {", ".join(STYLES)}{near}')
        kept = {FIFO_STYLE: str(style), **{name: str(v) for name, v in values.items() if name == _GUARD}}
        found[_plain_fifo(key)] = kept
    return found


def _plain_fifo(key: str) -> str:
    """*key* of a FIFO as it is numbered here."""
    match = _KEY.fullmatch(key)
    return f"FIFO_{int(match['index'])}" if match else key


def _check_pixels(node: str, key: str, values: Settings, pixels: Collection[str] | None, file: str) -> None:
    """Refuse a number that counts another layer once pixels are in blocks, which are made by layers of other kinds."""
    if pixels is not None and values.get(PIXELS, 1) != 1 and node not in pixels:
        text = f"with M the number stands for another layer, '{node}', than without; use the name of the layer"
        raise FoldingError(f'{file}, key "{key}": {text}')


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
    match = _KEY.fullmatch(key)
    return f"{match['kind']}_{match['index']}" if match else key


def _find(key: str, keys_of: Mapping[str, str], found: Mapping[str, Layer]) -> str | None:
    if key in found:
        return key
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    return keys_of.get(f"{_kind_of(key)}_{int(match['index'])}")


def _kind_of(key: str) -> str:
    """The kind of layer that a numbered key is for, or an empty string."""
    match = _KEY.fullmatch(key)
    return FINN_KINDS.get(match["kind"], match["kind"]) if match else ""


def _listing(keys_of: Mapping[str, str], found: Mapping[str, Layer]) -> str:
    foldable = [f"{key} ('{node}')" for key, node in keys_of.items() if found[node].folding_choices]
    return ", ".join(foldable) or "none can be folded"


def _refuse(message: str, tolerant: bool, notes: list[str]) -> None:
    if not tolerant:
        raise FoldingError(message)
    notes.append(message)


def _defaults(defaults: Settings, layer: Layer, file: str) -> dict[str, object]:
    """What the section ``Defaults`` says for *layer*: a value, or ``[value, [kinds]]`` as in FINN."""
    result = {}
    for name, entry in defaults.items():
        value, kinds = _default(name, entry, file)
        meant = "all" in kinds or layer.kind in {FINN_KINDS.get(kind, kind) for kind in kinds}
        if meant and (name in (*layer.folding_choices, *BACKEND_KEYS) or name.lower() in _options(layer)):
            result[name] = value
    return result


def _default(name: str, entry: object, file: str) -> tuple[object, list[str]]:
    """The value of an entry of the section ``Defaults``, and the kinds of layers that it is for."""
    if not isinstance(entry, list):
        return entry, ["all"]
    if len(entry) != 2 or not isinstance(entry[1], list):
        raise FoldingError(f'{file}, "Defaults": {name} must be a value or [value, [kinds]], not {entry}')
    return entry[0], [re.sub(r"_(hls|rtl)$", "", str(kind)) for kind in entry[1]]


def _check_defaults(defaults: Settings, file: str, tolerant: bool, notes: list[str]) -> None:
    """Refuse names of settings and kinds in the section ``Defaults`` that no model has; else they would do nothing."""
    kinds = {"all", *FINN_KINDS, *(type_.kind for type_ in layer_types())}
    options = {option for type_ in layer_types() for option in _options(type_)}
    names = ["PE", "SIMD", PIXELS, *BACKEND_KEYS, *sorted(options)]
    for name, entry in defaults.items():
        if name not in (*names, *FINN_ONLY, "ram_style") and name.lower() not in options:
            text = f"unknown setting '{name}'{did_you_mean(name, names)}; known: {', '.join(names)}"
            _refuse(f'{file}, "Defaults": {text}', tolerant, notes)
        for kind in _default(name, entry, file)[1]:
            if kind not in kinds:
                text = f"unknown kind '{kind}'{did_you_mean(kind, kinds)}; known: {', '.join(sorted(kinds))}"
                _refuse(f'{file}, "Defaults": {name} is for an {text}', tolerant, notes)


def _options(layer: Layer | type[Layer]) -> set[str]:
    """Fields of *layer* that choose an implementation by a word, such as ``ram_style``."""
    return {f.name for f in fields(layer) if str(f.type).strip("'\"") == "str" or "Literal" in str(f.type)}


def _fold(node: str, layer: Layer, values: Settings, place: tuple[str, str], tolerant: bool, notes: list[str]) -> Layer:
    file, key = place
    where = f"layer '{node}' ({layer.kind})"
    hint = f'Set in {file}, key "{key}".'
    folding: dict[str, int] = {}
    for name, value in values.items():
        if name == _GUARD:
            if value != node:
                raise FoldingError(f"{file}, key \"{key}\" was written for layer '{value}' but is now '{node}'")
        elif name in BACKEND_KEYS or (name == PIXELS and not tolerant):  # see asked_pixels
            continue
        elif name in layer.folding_choices:
            folding[name] = _legal(value, name, layer, where, hint)
        elif name.lower() in _options(layer):
            layer = _with_option(layer, name, value, where, hint)
        elif name in FINN_ONLY or name in ("ram_style", PIXELS) or (name in ("PE", "SIMD") and value == 1):
            notes.append(f"{where}: {name} has no effect. {hint}")
        else:
            known = [*layer.folding_choices, *sorted(_options(layer)), BACKEND_KEYS[0]]
            text = f"{where}: unknown setting '{name}'{did_you_mean(name, known)}; known: {', '.join(known) or 'none'}"
            _refuse(f"{text}. {hint}", tolerant, notes)
    return layer.with_folding(**folding) if folding else layer


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
    try:
        return replace(layer, **{name.lower(): value})
    except (ValueError, TypeError) as error:
        raise FoldingError(f"{where}: {name}={value!r} is not accepted: {error}. {hint}") from error


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
