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
    "Vector_Vector_Activate": "VVAU",
    "ConvolutionInputGenerator": "SWG",
    "ConvolutionInputGenerator1D": "SWG",
    "StreamingMaxPool": "MaxPool",
    "GlobalAccPool": "SumPool",
    "AddStreams": "AddStreams",
    "ElementwiseAdd": "AddStreams",
    "StreamingConcat": "Concat",
    "StreamingSplit": "Split",
    "StreamingDataWidthConverter": "DWC",
    "StreamingFIFO": "FIFO",
    "UpsampleNearestNeighbour": "Upsample",
}
"""FINN's names of layers, and the kind that each is here."""

_AROUND = "the design has streams at its ends, and what moves data is put around it"

FINN_ELSEWHERE = {
    "FMPadding": "padding is part of the SWG, or a Pad that is folded by its own name",
    "FMPadding_Pixel": "the zeros of a transposed convolution are put in by a Pad that is folded by its own name",
    "ChannelwiseOp": "what it does is part of a Thresholding, or an Affine that is folded by its own name",
    "DownSampler": "an SWG leaves pixels out itself",
    "ConvDoublePacked": "a convolution is an SWG and an MVAU",
    "IODMA": _AROUND,
    "TLastMarker": _AROUND,
    "StreamingDataflowPartition": _AROUND,
}
"""FINN's layers that have no counterpart to be folded, and why."""

POOLS = ("MaxPool", "SumPool")
"""What FINN makes of a sliding window, which has a number, and a ``Pool``; and sometimes of one layer."""

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

KEY = re.compile(r"(?P<kind>[A-Za-z]\w*?)(?P<form>_hls|_rtl|_Batch|_batch)?_(?P<index>\d+)")
FINN_ONLY = (
    "mem_mode", "resType", "mac_resource", "pumpedMemory", "pumpedCompute", "impl_style", "parallel_window",
    "inFIFODepths", "outFIFODepths", "inFIFODepth", "outFIFODepth", "depth", "mlo_max_iter", "depth_trigger_uram",
    "depth_trigger_bram", "ram_style_thresholds", "cpp_interface", "hls_style", "use_ocm", "slr", "partition_id",
    "device_id", "noActivation", "outputDataType",
)  # fmt: skip
"""FINN's settings that have no meaning here and change no result: accepted, with a note."""

PIXELS = "M"
"""How many pixels a layer makes at once; FINN has it at the sliding window, where it is noted only."""

DEFAULTS = "Defaults"
GUARD = "layer"

Settings = Mapping[str, object]


def numbered_in(graph: Graph, settings: Mapping[str, Settings], reading: Reading, file: str) -> dict[str, str]:
    """:func:`numbered` as *reading* counts, and as the keys of a file tell that FINN did.

    Where the file has a ``Pool``, sliding windows of pools have numbers, too. FINN counts ``_hls`` and ``_rtl`` of one
    kind apart: a file that has both, and all layers of the kind, lists them in their order.

    Raises:
        FoldingError: when keys with ``_hls`` and ``_rtl`` have the same number, and are not all there.
    """
    if reading is Reading.STRICT:
        return numbered(graph)
    named = {match["kind"] for key in settings if (match := KEY.fullmatch(key))}
    pools = [kind for kind in POOLS if "Pool" in named and not (kind == "MaxPool" and "StreamingMaxPool" in named)]
    found = numbered(graph, FINN_FUSED if reading is Reading.FINN else (), pools)
    for kind, keys in _counted_apart(settings).items():
        nodes = [node for key, node in found.items() if kind_of(key) == kind]
        if len(nodes) != len(keys):
            raise FoldingError(
                f'{file}: FINN counts "{keys[0]}" and "{keys[-1]}" apart, so that the numbers do not tell which of the '
                f"{len(nodes)} layers is meant where {len(keys)} are listed; list all of them in order, or use their "
                f"names: {', '.join(nodes)}"
            )
        found |= dict(zip(keys, nodes, strict=True))
    return found


def _counted_apart(settings: Mapping[str, Settings]) -> dict[str, list[str]]:
    """Keys by kind, in the order of the file, where some have the same number and another ending."""
    found: dict[str, list[str]] = {}
    for key in settings:
        if KEY.fullmatch(key) and kind_of(key) not in INSERTED:
            found.setdefault(kind_of(key), []).append(key)
    numbers = {kind: {_number(key) for key in keys} for kind, keys in found.items()}
    return {kind: keys for kind, keys in found.items() if len(numbers[kind]) < len(keys) and len(_forms(keys)) > 1}


def _number(key: str) -> int:
    match = KEY.fullmatch(key)
    return int(match["index"]) if match else -1


def _forms(keys: Collection[str]) -> set[str]:
    return {match["form"] for key in keys if (match := KEY.fullmatch(key)) and match["form"] in ("_hls", "_rtl")}


def numbered(graph: Graph, fused: Collection[tuple[str, str]] = (), pools: Collection[str] = ()) -> dict[str, str]:
    """Layer name by ``kind_number``, in topological order.

    Args:
        graph: layers.
        fused: pairs of kinds of which the second has no number where it follows the first.
        pools: kinds that are called ``Pool``, too, behind an SWG that is counted.
    """
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
        for kind in (layer.kind, "Pool", "SWG") if layer.kind in pools else (layer.kind,):
            index = counts.get(kind, 0)
            counts[kind] = index + 1
            if kind == layer.kind or kind == "Pool":
                result[f"{kind}_{index}"] = node
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
    if key in keys_of:
        return keys_of[key]
    match = KEY.fullmatch(key)
    if match is None:
        return None
    return keys_of.get(f"{kind_of(key)}_{int(match['index'])}")


def kind_of(key: str) -> str:
    """The kind of layer that a numbered key is for, or an empty string."""
    match = KEY.fullmatch(key)
    return FINN_KINDS.get(match["kind"], match["kind"]) if match else ""


def _reason(key: str, keys_of: Mapping[str, str], found: Mapping[str, Layer]) -> str:
    """Why a key fits no layer, or which do."""
    if reason := FINN_ELSEWHERE.get(kind_of(key)):
        return f": {reason}"
    windows = [name for name in keys_of if name.startswith(("SWG_", "Pool_"))]
    if kind_of(key) == "SWG" and "Pool_0" in keys_of and _number(key) < len(windows):
        return ": the sliding window of a pool is part of it"
    return f"{did_you_mean(_plain(key), [*keys_of, *found])}; layers: {_listing(keys_of, found)}"


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
    keys_of, found = numbered_in(graph, settings, reading, file), layers(graph)
    for key, values in settings.items():
        if key == DEFAULTS:
            continue
        strict = reading is Reading.STRICT
        node = find_key(key, keys_of, found) if strict else meant_layer(key, values, keys_of, found)
        if node is None and kind_of(key) in INSERTED:
            if said := no_effect(key, values):
                notes.append(f'{file}, key "{key}": {said}')
        elif node is None:
            text = f'{file}, key "{key}": there is no such layer{_reason(key, keys_of, found)}'
            refuse(text, not strict, notes)
        elif node in chosen:
            raise FoldingError(f'{file}, keys "{chosen[node][0]}" and "{key}" both fold layer \'{node}\'')
        else:
            chosen[node] = (key, values)
    return chosen


def refuse(message: str, tolerant: bool, notes: list[str]) -> None:
    """Raise *message*, or note it where the reading is *tolerant*."""
    if not tolerant:
        raise FoldingError(message)
    notes.append(message)


def options(layer: Layer | type[Layer]) -> set[str]:
    """Fields of *layer* that choose an implementation by a word, such as ``ram_style``."""
    return {f.name for f in fields(layer) if str(f.type).strip("'\"") == "str" or "Literal" in str(f.type)}
