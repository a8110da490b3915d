"""The first value that differs from what was expected, in the order in which data flows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace_sim.c_simulation import CsimResult
from headrace_sim.errors import ArrayError
from headrace_sim.manifest import Manifest
from headrace_sim.packing import Ints
from headrace_sim.result import SimResult


@dataclass(frozen=True)
class Mismatch:
    """The first wrong element of the first wrong stream.

    `position` is the element's index in its frame, `total` the number of wrong elements in that stream.
    `got` is None if the simulation delivered fewer frames than expected. `cycle` is that in which the word with the
    element was transferred, where the simulation counts cycles.
    """

    layer: str
    kind: str
    stream: str
    frame: int
    position: int
    expected: int
    got: int | None
    total: int
    compared: int
    cycle: int | None = None

    def __str__(self) -> str:
        where = f"layer {self.layer} ({self.kind}), " if self.layer else ""
        got = "nothing" if self.got is None else str(self.got)
        return (
            f"{where}stream {self.stream}: frame {self.frame}, element {self.position}: "
            f"expected {self.expected}, got {got} ({self.total} of {self.compared} elements differ)"
        )


def first_mismatch(
    result: SimResult | CsimResult, expected: Mapping[str, NDArray[np.integer]], manifest: Manifest
) -> Mismatch | None:
    """Compare `result` with `expected`; None if every given array is equal.

    Args:
        expected: arrays (frames, frame_elements), trailing dimensions flattened, by stream name, output
            tensor or output port. Streams that are not given are not compared.

    Raises:
        ArrayError: a name is unknown, its stream was not traced, or a shape does not fit.
    """
    rest = dict(expected)
    for layer, kind, names in _in_data_order(manifest):
        name = names[0]
        given = [rest.pop(alias) for alias in names if alias in rest]
        if not given:
            continue
        got = result.outputs.get(name, result.streams.get(name))
        if got is None:
            raise ArrayError(f"stream {name!r} was not traced: simulate with trace=True")
        mismatch = _compare(layer, kind, name, np.asarray(given[0]), got)
        if mismatch is not None:
            return replace(mismatch, cycle=_cycle(result, mismatch, got.shape[1]))
    if rest:
        known = ", ".join(repr(names[0]) for _, _, names in _in_data_order(manifest))
        raise ArrayError(f"the design has no stream or output {next(iter(rest))!r}; it has {known}")
    return None


def _in_data_order(manifest: Manifest) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(layer, kind, names) of every stream and output once: the layers in topological order, then the rest."""
    aliases: dict[str, tuple[str, ...]] = {port.port: (port.tensor, port.port) for port in manifest.outputs}
    aliases |= {port.tensor: (port.tensor, port.port) for port in manifest.outputs}
    aliases |= {stream.name: (stream.name,) for stream in manifest.streams}
    kinds = {layer.name: layer.kind for layer in manifest.layers}
    ordered = [(layer.name, name) for layer in manifest.layers for name in layer.outputs]
    ordered += [(stream.layer, stream.name) for stream in manifest.streams]
    ordered += [("", port.tensor) for port in manifest.outputs]
    seen: set[str] = set()
    for layer_name, name in ordered:
        names = aliases[name]
        if names[0] not in seen:
            seen.add(names[0])
            yield layer_name, kinds.get(layer_name, ""), names


def _cycle(result: SimResult | CsimResult, mismatch: Mismatch, elements: int) -> int | None:
    """The cycle in which the word with the wrong element was transferred; a frame has so many *elements*."""
    if mismatch.got is None or not isinstance(result, SimResult) or mismatch.stream not in result.time_stamps:
        return None
    stamps = result.time_stamps[mismatch.stream][mismatch.frame]
    return int(stamps[mismatch.position * len(stamps) // elements])


def _compare(layer: str, kind: str, stream: str, want: NDArray[np.integer], got: Ints) -> Mismatch | None:
    size = got.shape[1]
    if want.ndim < 1 or want.size % size or want.size // size != len(want):
        raise ArrayError(f"stream {stream!r}: expected values of shape {want.shape} are not frames of {size}")
    if want.dtype.kind not in "iu":
        raise ArrayError(f"stream {stream!r}: expected values must be integers, not {want.dtype}")
    flat = want.reshape(len(want), size)
    common = min(len(flat), len(got))
    wrong = flat[:common] != got[:common]
    missing = (len(flat) - common) * size
    total = int(np.count_nonzero(wrong)) + missing
    if total == 0:
        return None
    if wrong.any():
        frame, position = (int(i) for i in np.argwhere(wrong)[0])
        value: int | None = int(got[frame, position])
    else:
        frame, position, value = common, 0, None
    return Mismatch(
        layer=layer,
        kind=kind,
        stream=stream,
        frame=frame,
        position=position,
        expected=int(flat[frame, position]),
        got=value,
        total=total,
        compared=flat.size,
    )
