"""Several pixels a cycle: the blocked convolution is the convolution, in the graph, in layers and in RTL."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import FoldingError
from headrace.ir import Graph, IntRange, TensorType, Value
from headrace.ir.integer import Activation, IntConv
from headrace.passes.pixels import block_pixels, pixel_choices, pixels_for
from headrace.passes.to_hardware import to_hardware
from headrace.schedule import insert_fifos, insert_width_converters, solve_folding
from headrace.schedule.streams import layers


def conv(
    rng: np.random.Generator, inputs: int, outputs: int, kernel: tuple[int, ...], x: IntRange, **options: object
) -> IntConv:
    weights = rng.integers(-3, 4, (outputs, inputs, *kernel))
    reach = np.abs(weights).reshape(outputs, -1).sum(axis=1) * max(abs(x.lo), x.hi)
    rank = len(kernel)
    usual = {"strides": (1,) * rank, "dilations": (1,) * rank, "pads": ((0, 0),) * rank}
    return IntConv(weights, np.stack([-reach, reach]), **{**usual, **options})  # type: ignore[arg-type]


def activation(rng: np.random.Generator, channels: int, x: IntRange) -> Activation:
    thresholds = np.sort(rng.integers(x.lo + 1, x.hi + 1, (channels, 3)), axis=1)
    return Activation(thresholds, np.zeros(channels, np.int64), np.ones(channels, np.int64), IntRange(0, 3))


def network(
    rng: np.random.Generator, shape: tuple[int, ...], kernel: tuple[int, ...], functions: bool = True, **options: object
) -> Graph:
    """One convolution, an activation by channel, and a second convolution of one pixel."""
    graph, x = Graph(), IntRange(0, 3)
    value = graph.input("x", TensorType(shape, x))
    value = graph.add(conv(rng, shape[0], 5, kernel, x, **options), (value,), "conv")
    if functions:
        value = graph.add(activation(rng, 5, graph.type(value).int_range), (value,), "act")
        value = graph.add(conv(rng, 5, 4, (1,) * len(kernel), graph.type(value).int_range), (value,), "second")
    graph.output("y", value)
    return graph


def frames(graph: Graph, count: int = 3) -> dict[str, np.ndarray]:
    shape = graph.types(graph.input_node("x"))[0].shape
    x = np.random.default_rng(1).integers(0, 4, (count, *shape))
    x[0], x[-1] = 0, 3
    return {"x": x}


@given(
    st.integers(0, 2**32),
    st.integers(1, 3),
    st.tuples(st.integers(1, 4), st.integers(1, 16)),
    st.tuples(st.integers(1, 3), st.integers(1, 4)),
    st.integers(1, 3),
    st.integers(1, 2),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.booleans(),
)
def test_every_number_of_pixels_gives_the_same(
    seed: int, inputs: int, size: tuple[int, int], kernel: tuple[int, int], stride: int, dilation: int,
    pads: tuple[int, int], flat: bool,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    rows = () if flat else (size[0],)
    window = kernel[1:] if flat else (min(kernel[0], size[0]), kernel[1])
    if size[1] + sum(pads) < dilation * (kernel[1] - 1) + 1:
        return
    rank = len(window)
    options = {
        "strides": (*(1,) * (rank - 1), stride),
        "dilations": (*(1,) * (rank - 1), dilation),
        "pads": (*((0, 0),) * (rank - 1), pads),
    }
    core = network(rng, (inputs, *rows, size[1]), window, **options)
    feeds = frames(core)
    expected = core.run(feeds)["y"]
    for m in pixel_choices(core, "conv"):
        pixels = {"conv": m, "second": pixel_choices(core, "second")[-1]}
        assert np.array_equal(block_pixels(core, pixels).graph.run(feeds)["y"], expected)
        design = to_hardware(core, pixels)
        assert np.array_equal(design.run(feeds)["y"], expected)
        got: dict[str, tuple[np.ndarray, ...]] = {}
        packed = design.pack_frames(feeds)
        physical = {p.node: packed[p.name].reshape(-1, *p.layout.frame) for p in design.inputs}
        design.graph.run(physical, observe=lambda node, arrays, got=got: got.update({node: arrays}))
        values = core.values(feeds, ["conv", "act", "second"])
        for node in ("conv", "act", "second"):
            place = design.places[node]
            stream = got[place.value.node][place.value.port]
            assert np.array_equal(place.layout.unpack(stream), values[node]), node


def test_no_layer_puts_blocks_in_order() -> None:
    core = network(np.random.default_rng(0), (3, 8, 8), (3, 3), pads=((1, 1), (1, 1)))
    kinds = [layer.kind for layer in layers(to_hardware(core, {"conv": 4, "second": 4}).graph).values()]
    assert "Gather" not in kinds
    assert kinds == [layer.kind for layer in layers(to_hardware(core).graph).values()]


def test_more_than_a_pixel_a_cycle() -> None:
    """The whole network takes fewer cycles than the image has pixels."""
    core = network(np.random.default_rng(0), (3, 8, 8), (3, 3), pads=((1, 1), (1, 1)))
    with pytest.raises(FoldingError, match="cannot be reached"):
        solve_folding(to_hardware(core).graph, 20)
    pixels = pixels_for(core, 20)
    assert pixels == {"conv": 4, "second": 4}
    folded = insert_fifos(insert_width_converters(solve_folding(to_hardware(core, pixels).graph, 20)))
    assert max(layer.cycles for layer in layers(folded).values()) <= 20


def test_numbers_that_do_not_fit() -> None:
    core = network(np.random.default_rng(0), (3, 8, 12), (3, 3), pads=((1, 1), (1, 1)))
    assert pixel_choices(core, "conv") == (1, 2, 3, 4, 6, 12)
    assert pixel_choices(core, "act") == (1,)
    with pytest.raises(FoldingError, match=r"layer 'conv': M=5 pixels at once do not fit; valid: 1, 2, 3, 4, 6, 12"):
        to_hardware(core, {"conv": 5})
    with pytest.raises(FoldingError, match=r"layer 'none': M=2 pixels at once do not fit; valid: 1$"):
        to_hardware(core, {"none": 2})
    grouped = Graph()
    value = grouped.input("x", TensorType((2, 4, 4), IntRange(0, 3)))
    weights = np.ones((2, 1, 2, 2), np.int64)
    op = IntConv(weights, np.array([[0, 0], [12, 12]]), (1, 1), (1, 1), ((0, 0), (0, 0)), groups=2)
    grouped.output("y", grouped.add(op, (value,), "conv"))
    assert pixel_choices(grouped, "conv") == (1,)
    assert pixels_for(grouped, 3) == {}


def test_branches_read_pixels() -> None:
    """A blocked tensor with two readers, one of them an output, is seen pixel by pixel by both."""
    rng = np.random.default_rng(0)
    core, x = Graph(), IntRange(0, 3)
    value = core.input("x", TensorType((2, 4, 8), x))
    first = core.add(conv(rng, 2, 3, (3, 3), x, pads=((1, 1), (1, 1))), (value,), "conv")
    act = core.add(activation(rng, 3, core.type(first).int_range), (first,), "act")
    core.output("y", core.add(conv(rng, 3, 2, (1, 1), IntRange(0, 3)), (act,), "second"))
    core.output("z", first)
    feeds = frames(core)
    got, expected = to_hardware(core, {"conv": 2, "second": 4}).run(feeds), core.run(feeds)
    assert all(np.array_equal(got[name], expected[name]) for name in expected)
    assert Value("conv") == first
