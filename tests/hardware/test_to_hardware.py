"""The hardware graph computes what the integer graph computes, whatever happens to the order of its tensors."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import InputError
from headrace.ir import Graph, IntRange, Value
from headrace.ir.integer import Concat, Gather, IntAdd, IntMaxPool, IntSumPool, IntTopK, Reshape, Slice, Transpose
from headrace.passes.hardware_design import HardwareDesign
from headrace.passes.to_hardware import to_hardware

from .cores import BIPOLAR, INT4, UINT2, Core, mlp, random_frames
from .reference_layers import reference_lower


@pytest.fixture(autouse=True)
def _reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.passes.to_hardware.lower", reference_lower)


def check(core: Graph, frames: int = 5) -> HardwareDesign:
    """The design of *core*, after comparing every tensor of it."""
    design = to_hardware(core)
    feeds = random_frames(core, frames)
    expected = core.values(feeds, list(core))
    got = design.run(feeds)
    for port in design.outputs:
        assert np.array_equal(got[port.name], expected[port.name])
    packed = design.pack_frames(feeds)
    streams = {p.node: packed[p.name].reshape(frames, *p.layout.frame) for p in design.inputs}
    values: dict[str, tuple[np.ndarray, ...]] = {}
    design.graph.run(streams, observe=lambda node, arrays: values.update({node: arrays}))
    for node, place in design.places.items():
        stream = values[place.value.node][place.value.port]
        assert np.array_equal(place.layout.unpack(stream), expected[node]), node
    for node in design.graph:
        for port in range(len(design.graph.types(node))):
            assert len(design.graph.consumers(Value(node, port))) <= 1
    return design


def kinds(design: HardwareDesign) -> list[str]:
    return [type(design.graph.op(node)).__name__ for node in design.graph]


def test_chain_of_products() -> None:
    design = check(mlp())
    assert kinds(design) == ["Input", *["ReferenceLayer"] * 5, "Output"]
    assert list(design.graph) == ["x", "fc0", "act0", "fc1", "act1", "fc2", "y"]


@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 1)])
def test_convolution_flatten_product(shape: tuple[int, ...]) -> None:
    core = Core()
    x = core.input(shape)
    x = core.conv(x, 6, (1, 1))
    x = core.activation(x)
    x = core.graph.add(Reshape((6 * shape[1] * shape[2],)), (x,))
    x = core.matmul(x, 7)
    core.output(x)
    design = check(core.graph)
    assert design.inputs[0].layout.frame == (*shape[1:], shape[0])


def test_activation_after_flatten_keeps_one_row_a_channel() -> None:
    core = Core()
    x = core.conv(core.input((3, 5, 5)), 4, (3, 3), pad=1, stride=2)
    x = core.graph.add(Reshape((4, 9)), (x,))
    x = core.activation(x, axis=0)
    core.output(core.matmul(core.graph.add(Reshape((36,)), (x,)), 3))
    design = check(core.graph)
    layer = design.graph.op("act")
    assert layer.op.thresholds.shape[0] == 4


def test_rows_are_repeated_when_channels_are_apart() -> None:
    core = Core()
    x = core.matmul(core.input((4, 5), INT4), 3)  # (4, 3), vector by vector
    core.output(core.activation(x, axis=0))  # a row per vector
    design = check(core.graph)
    assert design.graph.op("act").op.thresholds.shape[0] == 12


def test_lookup_and_bipolar() -> None:
    core = Core()
    x = core.activation(core.input((3, 4, 4), INT4), axis=0, output=BIPOLAR)
    x = core.conv(x, 5, (2, 2))
    core.output(core.lookup(x, axis=0))
    check(core.graph)


def test_tokens() -> None:
    core = Core()
    x = core.matmul(core.input((6, 4)), 5)
    x = core.activation(x, axis=1)
    x = core.matmul(x, 3)
    x = core.graph.add(IntTopK(2), (x,))
    core.output(x)
    design = check(core.graph)
    assert design.inputs[0].layout.frame == (6, 4)


def test_image_to_tokens_and_back() -> None:
    core = Core()
    x = core.conv(core.input((3, 4, 4)), 4, (1, 1))
    x = core.activation(x)
    x = core.graph.add(Reshape((4, 16)), (x,))
    x = core.graph.add(Transpose((1, 0)), (x,))  # (16, 4): vectors of channels, which is how they travel
    x = core.activation(core.matmul(x, 6, "tokens"), axis=1, name="act2")
    x = core.graph.add(Transpose((1, 0)), (x,))
    x = core.graph.add(Reshape((6, 4, 4)), (x,))
    core.output(core.conv(x, 2, (3, 3), "last"))
    design = check(core.graph)
    assert design.graph.types("tokens")[0].shape == (4, 4, 6)


def test_channel_shuffle_before_a_dense_and_a_depthwise_convolution() -> None:
    for groups in (1, 6):
        core = Core()
        x = core.activation(core.input((6, 3, 3), INT4))
        x = core.graph.add(Reshape((2, 3, 3, 3)), (x,))
        x = core.graph.add(Transpose((1, 0, 2, 3)), (x,))
        x = core.graph.add(Reshape((6, 3, 3)), (x,))
        x = core.conv(x, 12, (2, 2), groups=groups)
        x = core.activation(x, name="second")
        x = core.graph.add(IntMaxPool((2, 2), (1, 1), (1, 1), ((0, 0), (0, 0))), (x,), "pool")
        core.output(core.matmul(core.graph.add(Reshape((12,)), (x,)), 3))
        check(core.graph)


def test_grouped_convolution_reads_permuted_groups() -> None:
    core = Core()
    x = core.activation(core.input((6, 2, 2), INT4))
    x = core.graph.add(Reshape((3, 2, 2, 2)), (x,))
    x = core.graph.add(Slice(0, 2, -4, -1), (x,))  # groups the other way round
    x = core.graph.add(Reshape((6, 2, 2)), (x,))
    core.output(core.conv(x, 9, (1, 1), groups=3))
    assert kinds(check(core.graph)) == ["Input", "ReferenceLayer", "ReferenceLayer", "Output"]


def test_groups_that_travel_mixed_are_put_in_order_pixel_by_pixel() -> None:
    core = Core()
    x = core.activation(core.input((4, 3, 3), INT4))
    x = core.graph.add(Transpose((1, 0, 2, 3)), (core.graph.add(Reshape((2, 2, 3, 3)), (x,)),))
    x = core.graph.add(Reshape((4, 3, 3)), (x,))
    core.output(core.conv(x, 4, (1, 1), "mixed", groups=2))
    design = check(core.graph)
    assert design.graph.op("mixed_order").op.indices == (0, 2, 1, 3)


def test_pools() -> None:
    core = Core()
    x = core.conv(core.input((3, 6, 6)), 4, (1, 1))
    x = core.graph.add(IntMaxPool((2, 2), (2, 2), (1, 1), ((0, 0), (0, 0))), (x,))
    x = core.graph.add(IntSumPool((3, 3), (1, 1), (1, 1), ((0, 0), (0, 0))), (x,))
    core.output(core.matmul(core.graph.add(Reshape((4,)), (x,)), 2))
    check(core.graph)


def test_one_dimensional_convolution() -> None:
    core = Core()
    x = core.activation(core.input((3, 9)), channels=1)
    x = core.conv(x, 4, (3,), stride=2)
    core.output(core.matmul(core.graph.add(Reshape((16,)), (x,)), 2))
    design = check(core.graph)
    assert design.inputs[0].layout.frame == (9, 3)


def test_residual_add_and_forks() -> None:
    core = Core()
    x = core.activation(core.input((4, 3, 3), INT4))
    y = core.activation(core.conv(x, 4, (3, 3), pad=1), name="act2")
    z = core.graph.add(IntAdd((1, 3)), (x, y))
    core.output(z, "sum")
    core.output(y, "inner")
    core.output(core.activation(z, name="act3"), "last")
    design = check(core.graph)
    assert kinds(design).count("DuplicateStreams") == 3


def test_one_tensor_twice_in_one_node() -> None:
    core = Core()
    x = core.input((5,))
    core.output(core.graph.add(IntAdd((1, -2)), (x, x)))
    assert kinds(check(core.graph)) == ["Input", "DuplicateStreams", "ReferenceLayer", "Output"]


def test_operands_in_different_orders_are_put_into_one() -> None:
    core = Core()
    x = core.conv(core.input((4, 3, 3)), 4, (1, 1))
    y = core.graph.add(Transpose((0, 2, 1)), (x,))
    core.graph.output("y", core.graph.add(IntAdd(), (x, y), "join"))
    design = check(core.graph)
    assert "join_order" in design.graph


def test_joined_tensors_are_put_into_the_order_of_the_first() -> None:
    core = Core()
    image = core.conv(core.input((2, 3, 5)), 4, (1, 1))
    rows = core.graph.add(Reshape((4, 3, 5)), (core.matmul(core.input((4, 6), name="x2"), 15),))
    core.output(core.conv(core.graph.add(Concat(0), (image, rows), "joined"), 2, (2, 2), "after"))
    design = check(core.graph)
    assert "joined_order" in design.graph
    assert "after_order" not in design.graph


def test_convolution_of_a_turned_image() -> None:
    core = Core()
    x = core.conv(core.input((4, 3, 5)), 4, (1, 1))
    x = core.graph.add(Transpose((0, 2, 1)), (x,))
    core.output(core.conv(x, 2, (2, 2), "turned"))
    design = check(core.graph)
    assert len(design.graph.op("turned_order").op.indices) == 60


def test_products_and_ranks_of_interleaved_vectors() -> None:
    core = Core()
    x = core.matmul(core.input((4, 3)), 5)
    x = core.graph.add(Transpose((1, 0)), (x,))
    core.output(core.matmul(x, 2, "across"))
    core.output(core.graph.add(IntTopK(1), (x,), "best"), "z")
    design = check(core.graph)
    assert {"across_order", "best_order"} <= set(design.graph)


def test_ranks_of_a_flattened_image() -> None:
    core = Core()
    x = core.conv(core.input((2, 3, 3)), 4, (1, 1))
    x = core.graph.add(Reshape((36,)), (x,))
    core.output(core.graph.add(IntTopK(2), (x,), "best"))
    assert "best_order" in check(core.graph).graph


@pytest.mark.parametrize("indices", [(3, 3, 0), (0, 1, 2, 3, 3), (2, 0), (3, 1, 0, 2)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather(axis: int, indices: tuple[int, ...]) -> None:
    core = Core()
    x = core.conv(core.input((2, 4, 4)), 4, (1, 1))
    x = core.graph.add(Gather(axis, indices), (x,), "gather")
    core.output(core.conv(x, 3, (2, 2), "after"))
    check(core.graph)


def test_what_moves_alike_in_every_pixel_is_buffered_pixel_by_pixel() -> None:
    core = Core()
    x = core.conv(core.input((2, 4, 4)), 4, (1, 1))
    core.output(core.graph.add(Gather(0, (3, 3, 0)), (x,), "gather"))
    assert check(core.graph).graph.op("gather").op.indices == (3, 3, 0)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_concat_and_slice_of_images(axis: int) -> None:
    core = Core()
    x = core.input((4, 3, 5), INT4)
    a, b = core.activation(x, name="a"), core.lookup(x, channels=1, name="b")
    joined = core.graph.add(Concat(axis), (a, b))
    size = core.graph.type(joined).shape[axis]
    cut = core.graph.add(Slice(axis, 1, size - 1), (joined,))
    core.output(core.activation(cut, name="last"))
    check(core.graph)


def test_slices_with_steps() -> None:
    core = Core()
    x = core.activation(core.input((8, 3, 3), INT4))
    core.output(core.graph.add(Slice(0, 1, 8, 3), (x,)), "channels")
    core.output(core.graph.add(Slice(1, 0, 2), (x,)), "rows")
    check(core.graph)


def test_channels_cut_after_rows_were_joined() -> None:
    core = Core()
    x = core.activation(core.input((4, 3, 5), INT4))
    x = core.graph.add(Concat(2), (x, x))
    core.output(core.graph.add(Slice(0, 1, 4), (x,)))
    check(core.graph)


def test_concat_of_vectors() -> None:
    core = Core()
    x, y = core.input((4,)), core.input((6,), INT4, "x2")
    z = core.graph.add(Concat(0), (x, y))
    core.output(core.matmul(z, 3))
    check(core.graph)


def test_unused_parts_are_left_out() -> None:
    core = Core()
    x = core.input((4,))
    core.input((3,), name="unused")
    core.matmul(x, 5, "dead")
    core.output(core.matmul(x, 2, "alive"))
    design = check(core.graph)
    assert list(design.graph) == ["x", "alive", "y"]
    assert [p.name for p in design.inputs] == ["x"]


def test_input_straight_to_output() -> None:
    core = Core()
    x = core.input((2, 3))
    core.output(x, "same")
    core.output(core.graph.add(Transpose((1, 0)), (x,)), "turned")
    check(core.graph)


def test_several_inputs_and_outputs_keep_their_order() -> None:
    core = Core()
    b, a = core.input((4,), name="b"), core.input((4,), INT4, "a")
    core.output(core.matmul(a, 2, "fa"), "z")
    core.output(core.matmul(b, 2, "fb"), "y")
    design = check(core.graph)
    assert [p.name for p in design.inputs] == ["b", "a"]
    assert [p.name for p in design.outputs] == ["z", "y"]


def test_names_that_derived_nodes_could_take() -> None:
    core = Core()
    x = core.input((4,))
    y = core.matmul(x, 3, "fc")
    core.output(y, "fc_fork")
    core.output(core.matmul(y, 2, "fc_fork_1"), "x_fork")
    design = check(core.graph)
    assert {"fc_fork", "fc_fork_1", "x_fork"} <= set(design.graph)


def test_scalar_frames() -> None:
    core = Core()
    x = core.graph.add(Reshape(()), (core.matmul(core.input((4,)), 1),))
    core.output(core.activation(core.graph.add(Reshape((1,)), (x,)), axis=0))
    check(core.graph)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x + 4, "values from .* only UINT2"),
        (lambda x: x.astype(np.float32), "float32"),
        (lambda x: x[:, :3], "shape"),
    ],
)
def test_frames_that_cannot_travel(change: Callable[[np.ndarray], np.ndarray], message: str) -> None:
    design = to_hardware(mlp())
    with pytest.raises(InputError, match=message):
        design.pack_frames({"x": change(np.zeros((2, 12), np.int64))})


def test_missing_input() -> None:
    with pytest.raises(InputError, match="no array for input 'x'"):
        to_hardware(mlp()).pack_frames({"X1": np.zeros((1, 12), np.int64)})


def test_zero_does_not_travel_as_a_bipolar_value() -> None:
    core = Core()
    core.output(core.matmul(core.input((4,), BIPOLAR), 2))
    with pytest.raises(InputError, match="holds 0"):
        to_hardware(core.graph).pack_frames({"x": np.zeros((1, 4), np.int64)})


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_random_image_networks(seed: int) -> None:
    """Random chains of reshapes, transposes, convolutions, activations and products."""
    rng = np.random.default_rng(seed)
    core = Core(seed)
    x = core.input(tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 4))), IntRange(-2, 5))
    for step in range(rng.integers(1, 7)):
        shape = core.graph.type(x).shape
        match rng.integers(6):
            case 0:
                x = core.graph.add(Transpose(tuple(int(p) for p in rng.permutation(len(shape)))), (x,))
            case 1:
                flat = (int(np.prod(shape)),)
                x = core.graph.add(Reshape(flat if rng.integers(2) else (shape[0], flat[0] // shape[0])), (x,))
            case 2 if len(shape) in (2, 3):
                x = core.conv(x, int(rng.integers(1, 5)), (1,) * (len(shape) - 1), f"conv{step}")
            case 3:
                x = core.matmul(x, int(rng.integers(1, 5)), f"fc{step}")
            case _:
                x = core.activation(x, int(rng.integers(len(shape))), name=f"act{step}", output=UINT2)
    core.output(core.matmul(core.graph.add(Reshape((int(np.prod(core.graph.type(x).shape)),)), (x,)), 2, "end"))
    check(core.graph, 3)
