"""Proof by running (E4): consecutive stages of the compiler compute the same values on the same frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Literal

import numpy as np

from headrace.build.arrays import plain_arrays
from headrace.errors import VerificationError
from headrace.ir import Array, FloatType, Graph, Output, TensorType
from headrace.ir.ops import ToReal
from headrace.ir.scaled import Scaled

if TYPE_CHECKING:
    from headrace.build.design import Design
    from headrace.build.simulate import CSimulation, Simulation

Feeds = dict[str, Array]

KEPT_ELEMENTS = 2**25
"""Most elements that are kept of one stage for comparison; a large model is compared on fewer frames."""


@dataclass(frozen=True)
class Comparison:
    """Two stages that were equal on one tensor.

    ``data`` says which frames they were: random ones, those of an expected output, or labelled ones; ``simulated`` is
    the generated language that was run.
    """

    stages: str
    tensor: str
    frames: int
    values: int
    data: Literal["random", "expected", "labelled"] = "random"
    simulated: str = ""


def verify_stages(design: Design, frames: int, seed: int) -> list[Comparison]:
    """Run every stage on the same random frames and compare them node by node, in the order of computation.

    Args:
        design: folded.
        frames: most frames to compare on.
        seed: of the random frames.

    Raises:
        VerificationError: at the first node whose values differ, with its place and both values.
    """
    elements = sum(prod(type_.shape) for node in design.source for type_ in design.source.types(node))
    feeds = random_frames(design.source, max(1, min(frames, KEPT_ELEMENTS // elements)), seed)
    return [*_model_with_integers(design, feeds), *_integers_with_layers(design, feeds)]


def _model_with_integers(design: Design, feeds: Feeds) -> Iterator[Comparison]:
    """The model's real tensors against the integers that stand for them, read as real numbers."""
    stages = "model = integer graph"
    annotations = {value.node: x for value, x in design.integer.annotations.items() if value.port == 0}
    source, graph = design.source, design.integer.graph
    ends = [(source.output_node(name), graph.output_node(name)) for name in source.outputs]
    got = plain_arrays(graph.values(feeds, [*(x.value.node for x in annotations.values()), *(b for _, b in ends)]))
    expected = plain_arrays(source.values(feeds, [*annotations, *(a for a, _ in ends)]))
    for node, x in annotations.items():
        if x.value.port == 0:
            values = got[x.value.node]
            real = ToReal(x.steps, x.scale, x.bias).execute(values)[0] if isinstance(x, Scaled) else values
            yield compare(stages, node, expected[node], plain_arrays({node: real})[node])
    for mine, theirs in ends:
        yield compare(stages, mine, expected[mine], got[theirs])


def _integers_with_layers(design: Design, feeds: Feeds) -> Iterator[Comparison]:
    """The integer graph's tensors against the streams between the layers."""
    core, hardware = design.parts.core, design.hardware
    integers = design.core_feeds(feeds)
    nodes = [node for node in core if node in hardware.places and not isinstance(core.op(node), Output)]
    expected = core.values({name: integers[name] for name in core.inputs}, nodes)
    got: dict[str, tuple[Array, ...]] = {}
    hardware.graph.run(hardware_feeds(design, feeds), observe=lambda node, arrays: got.update({node: arrays}))
    for node in nodes:
        place = hardware.places[node]
        values = place.layout.unpack(got[place.value.node][place.value.port])
        yield compare("integer graph = layers", node, expected[node], values)


def compare_simulation(design: Design, feeds: Feeds, simulation: Simulation | CSimulation) -> list[Comparison]:
    """The words on every stream of a simulation with ``trace=True`` against the layers' own arithmetic.

    Raises:
        VerificationError: at the first stream that differs, with frame, position and both values.
    """
    expected: dict[str, Array] = {}

    def observe(node: str, arrays: tuple[Array, ...]) -> None:
        for port, values in enumerate(arrays):
            if (node, port) in design.plan.streams:
                expected[design.plan.streams[node, port]] = values.reshape(len(values), -1)

    design.hardware.graph.run(hardware_feeds(design, feeds), observe=observe)
    traced = simulation.result.streams
    return [compare(f"layers = {simulation.of}", name, values, traced[name]) for name, values in expected.items()]


def hardware_feeds(design: Design, feeds: Feeds) -> Feeds:
    """The inputs of the hardware graph for feeds of the model."""
    packed = design.hardware.pack_frames(design.core_feeds(feeds))
    return {port.node: packed[port.name].reshape(-1, *port.layout.frame) for port in design.hardware.inputs}


def random_frames(graph: Graph, frames: int, seed: int) -> Feeds:
    """Random arrays for the inputs of *graph*, of small to large magnitude and with extremes among them.

    Integer inputs are uniform over their range. Real inputs are normal, each frame scaled by a power of two between
    1/16 and 128, so that quantizers of any scale are driven into saturation by some frames and resolved by others.
    """
    rng = np.random.default_rng(seed)
    return {name: _random(graph.types(graph.input_node(name))[0], frames, rng) for name in graph.inputs}


def _random(type_: TensorType, frames: int, rng: np.random.Generator) -> Array:
    shape = (frames, *type_.shape)
    if isinstance(type_.element, FloatType):
        magnitude = np.exp2(rng.integers(-4, 8, size=(frames, *(1 for _ in type_.shape))))
        return (rng.standard_normal(shape) * magnitude).astype(np.float32)
    allowed = type_.int_range
    if allowed.bipolar:
        return rng.choice(np.array([-1, 1]), size=shape)
    values = rng.integers(allowed.lo, allowed.hi, size=shape, endpoint=True)
    values[0] = allowed.lo
    values[-1] = allowed.hi
    return values


def compare(stages: str, tensor: str, expected: Array, got: Array) -> Comparison:
    """Compare two arrays of the same tensor for equality; NaN equals NaN.

    Raises:
        VerificationError: at the first difference, with its place and both values.
    """
    if expected.shape != got.shape:
        raise VerificationError(f"{stages}: '{tensor}' has shape {list(got.shape)}, expected {list(expected.shape)}")
    different = (expected != got) & ~((expected != expected) & (got != got))
    count = int(different.sum())
    if count:
        index = tuple(int(i) for i in np.argwhere(different)[0])
        raise VerificationError(
            f"{stages}: '{tensor}' differs in {count} of {different.size} values, first in frame {index[0]} at "
            f"{list(index[1:])}: expected {expected[index]}, got {got[index]}"
        )
    return Comparison(stages, tensor, len(expected), int(expected.size))
