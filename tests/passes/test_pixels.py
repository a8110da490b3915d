"""Several pixels a cycle: the blocked convolution is the convolution, in the graph, in layers and in RTL."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hardware.cores import Core, random_frames
from hardware.pixel_operators import BIPOLAR, INT3, OPERATORS, SAME, one_operator
from hardware.random_networks import RandomNetwork
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import FoldingError
from headrace.ir import Graph, IntRange, TensorType, Value
from headrace.ir.integer import Activation, IntConv
from headrace.passes.pixels import block_pixels, pixel_choices, pixels_for
from headrace.passes.to_hardware import to_hardware
from headrace.schedule import (
    asked_pixels,
    fold_by_file,
    insert_fifos,
    insert_width_converters,
    solve_folding,
    write_folding,
)
from headrace.schedule.folding_keys import numbered
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
    assert pixels == {"conv": 4, "act": 4, "second": 4}
    folded = insert_fifos(insert_width_converters(solve_folding(to_hardware(core, pixels).graph, 20)))
    assert max(layer.cycles for layer in layers(folded).values()) <= 20


def test_numbers_that_do_not_fit() -> None:
    core = network(np.random.default_rng(0), (3, 4, 12), (3, 3), pads=((1, 1), (1, 1)))
    assert pixel_choices(core, "conv") == (1, 2, 3, 4, 6, 12, 24, 48)
    assert pixel_choices(core, "act") == (1, 2, 3, 4, 6, 12, 24, 48)
    with pytest.raises(FoldingError, match=r"layer 'conv': M=5 pixels at once do not fit; valid: 1, 2, 3, 4, 6, 12,"):
        to_hardware(core, {"conv": 5})
    with pytest.raises(FoldingError, match=r"layer 'none': M=2 pixels at once do not fit; valid: 1$"):
        to_hardware(core, {"none": 2})
    odd = network(np.random.default_rng(0), (3, 4, 9), (1, 3))  # rows of 9 become rows of 7, as a whole or one by one
    assert pixel_choices(odd, "conv") == (1, 7, 14, 28)
    assert pixels_for(odd, 12) == {"conv": 7, "act": 7, "second": 7}


@pytest.mark.parametrize("x", [INT3, BIPOLAR], ids=["int3", "bipolar"])
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_in_all_blocks(name: str, x: IntRange) -> None:
    """Every operator in all the blocks that it offers, on random frames and extremes, in the graph and in layers."""
    op, shape, numbers = OPERATORS[name]
    core = one_operator(op, shape, x)
    feeds = random_frames(core, 6)
    expected = core.run(feeds)["y"]
    assert pixel_choices(core, "op") == numbers
    for m in numbers[1:]:
        assert np.array_equal(block_pixels(core, {"op": m}).graph.run(feeds)["y"], expected)
        design = to_hardware(core, {"op": m})
        assert np.array_equal(design.run(feeds)["y"], expected)
        assert core.types("op")[0].int_range == design.outputs[0].range
        assert "Gather" not in {layer.kind for layer in layers(design.graph).values()}


def depthwise(seed: int = 0) -> Graph:
    """A depthwise convolution, which several pixels make an MVAU of, and one of a pixel."""
    core = Core(seed)
    x = core.activation(core.conv(core.input((3, 4, 8), INT3), 3, (3, 3), "depthwise", pad=1, groups=3), name="act")
    core.output(core.conv(x, 2, (1, 1), "pointwise"))
    return core.graph


def test_numbers_count_layers_without_pixels() -> None:
    core = depthwise()
    plain = to_hardware(core).graph
    folding = {"VVAU_0": {"M": 2}, "MVAU_0": {"M": 4}}
    pixels = asked_pixels(plain, folding)
    assert pixels == {"depthwise": 2, "pointwise": 4}
    design = to_hardware(core, pixels)
    assert {kind for kind in numbered(design.graph) if kind.startswith("MVAU")} == {"MVAU_0", "MVAU_1"}
    assert layers(fold_by_file(design, folding).graph).keys() == layers(design.graph).keys()
    with pytest.raises(FoldingError, match=r"another layer than without \('depthwise'\); use the name of the layer"):
        fold_by_file(design, {"VVAU_0": {"M": 2}, "MVAU_0": {"M": 4, "PE": 2}})
    written = write_folding(design.graph, pixels=design.pixels)
    assert asked_pixels(plain, written) == pixels
    with pytest.raises(FoldingError, match=r'key "pointwse": there is no such layer .did you mean .pointwise.'):
        asked_pixels(plain, {"pointwse": {"M": 4}})
    with pytest.raises(FoldingError, match='"Defaults": M is said of every layer, at its name'):
        asked_pixels(plain, {"Defaults": {"M": 4}})


def test_constants_written_at_run_time_stay_single() -> None:
    core = network(np.random.default_rng(0), (3, 4, 8), (3, 3), pads=((1, 1), (1, 1)), writable=IntRange(-3, 3))
    assert pixel_choices(core, "conv") == (1,)
    act = replace(core.op("act"), writable=True)
    assert pixel_choices(one_operator(act, (5, 4, 8), core.type(Value("conv")).int_range), "op") == (1,)


@pytest.mark.parametrize("seed", range(60))
def test_random_networks_in_random_blocks(seed: int) -> None:
    core = RandomNetwork(seed).graph
    rng = np.random.default_rng(seed)
    offered = {node: pixel_choices(core, node) for node in core if core.sources(node)}
    pixels = {node: int(rng.choice(numbers)) for node, numbers in offered.items() if len(numbers) > 1}
    feeds = random_frames(core, 3)
    expected, got = core.run(feeds), to_hardware(core, pixels).run(feeds)
    assert all(np.array_equal(got[name], expected[name]) for name in expected)


def test_functions_take_what_comes() -> None:
    """A function behind blocks works on blocks, unless a number says otherwise."""
    core = network(np.random.default_rng(0), (3, 4, 8), (3, 3), pads=((1, 1), (1, 1)))
    assert set(block_pixels(core, {"conv": 4}).blocks) == {"conv", "act"}
    assert set(block_pixels(core, {"conv": 4, "act": 1}).blocks) == {"conv"}
    assert block_pixels(core, {"conv": 4, "act": 2}).blocks == {"conv": (1, 4), "act": (1, 2)}


def test_a_fork_of_the_input_is_as_wide_as_its_readers() -> None:
    core = Graph()
    value = core.input("x", TensorType((2, 4, 8), INT3))
    rng = np.random.default_rng(0)
    names = ("x_frame", "x_fork_frame")  # as frames of forks are called
    for name in names:
        core.output(f"{name}_y", core.add(conv(rng, 2, 3, (3, 3), INT3, pads=SAME), (value,), name))
    design = to_hardware(core, pixels_for(core, 4))
    assert {layers(design.graph)[name].kind for name in names} == {"MVAU"}, "layers keep the names of their nodes"
    folded = solve_folding(design.graph, 4)
    assert max(layer.cycles for layer in layers(folded).values()) == 4


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
