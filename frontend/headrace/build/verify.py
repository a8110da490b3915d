"""Proof by running (E4): consecutive stages of the compiler compute the same values on the same frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace.errors import VerificationError
from headrace.ir import Array, FloatType, Graph, Output, TensorType

if TYPE_CHECKING:
    from headrace.build.design import Design


@dataclass(frozen=True)
class Comparison:
    """Two stages compared on one tensor."""

    stages: str
    tensor: str
    frames: int
    values: int
    differing: int


def verify_stages(design: Design, frames: int, seed: int) -> list[Comparison]:
    """Run every stage on the same random frames and compare them node by node, in the order of computation.

    Raises:
        VerificationError: at the first node whose values differ, with its place and both values.
    """
    feeds = random_frames(design.source, frames, seed)
    return [*_float_with_integer(design, feeds), *_integer_with_hardware(design, feeds)]


def _float_with_integer(design: Design, feeds: dict[str, Array]) -> list[Comparison]:
    expected = plain_arrays(design.source.run(feeds))
    got = plain_arrays(design.integer.graph.run(feeds))
    return [compare("model = integer graph", name, expected[name], got[name]) for name in design.source.outputs]


def _integer_with_hardware(design: Design, feeds: dict[str, Array]) -> list[Comparison]:
    core, hardware = design.integer.core, design.hardware
    head = plain_arrays(design.integer.head.run(feeds))
    nodes = [node for node in core if node in hardware.places and not isinstance(core.op(node), Output)]
    expected = core.run({name: head[name] for name in core.inputs}, keep=nodes)
    streams = {port.node: packed for port, packed in zip(hardware.inputs, _packed(design, head), strict=True)}
    seen: dict[str, Array] = {}
    wanted = {place.value.node for node, place in hardware.places.items()}
    hardware.graph.run(streams, observe=lambda node, arrays: seen.update({node: arrays}) if node in wanted else None)
    found = []
    for node in nodes:
        place = hardware.places[node]
        got = place.layout.unpack(seen[place.value.node][place.value.port])
        found.append(compare("integer graph = layers", node, expected[node], got))
    return found


def random_frames(graph: Graph, frames: int, seed: int) -> dict[str, Array]:
    """Random arrays for the inputs of *graph*, from small to large magnitudes and with extremes among them.

    Integer inputs are uniform over their range. Real inputs are normal, each frame scaled by a power of two between
    1/16 and 128, so that quantizers of any scale are driven into saturation by some frames and resolved by others.
    """
    rng = np.random.default_rng(seed)
    return {name: _random(graph.types(name)[0], frames, rng) for name in graph.inputs}


def _random(type_: TensorType, frames: int, rng: np.random.Generator) -> Array:
    shape = (frames, *type_.shape)
    if isinstance(type_.element, FloatType):
        magnitude = np.exp2(rng.integers(-4, 8, size=(frames, *(1 for _ in type_.shape))))
        return (rng.standard_normal(shape) * magnitude).astype(np.float32)
    range_ = type_.int_range
    if range_.bipolar:
        return rng.choice(np.array([-1, 1]), size=shape)
    values = rng.integers(range_.lo, range_.hi, size=shape, endpoint=True)
    values[0] = range_.lo
    values[-1] = range_.hi
    return values


def compare(stages: str, tensor: str, expected: Array, got: Array) -> Comparison:
    """Compare two arrays of the same tensor for equality.

    Raises:
        VerificationError: at the first difference, with its place and both values.
    """
    if expected.shape != got.shape:
        raise VerificationError(f"{stages}: '{tensor}' has shape {list(got.shape)}, expected {list(expected.shape)}")
    different = expected != got
    count = int(different.sum())
    if count:
        index = tuple(int(i) for i in np.argwhere(different)[0])
        raise VerificationError(
            f"{stages}: '{tensor}' differs in {count} of {different.size} values, first in frame {index[0]} at "
            f"{list(index[1:])}: expected {expected[index]}, got {got[index]}"
        )
    return Comparison(stages, tensor, len(expected), int(expected.size), 0)
