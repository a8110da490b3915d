"""The analysis: integers as far as they are exact, a reason where they are not, and the same bits either way."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from passes.sources import Source, quantizer, random_frames, weights

from headrace.errors import ModelError, UnsupportedError
from headrace.ir import Graph, IntRange, Op, TensorType, Value
from headrace.ir import integer as integer_ops
from headrace.ir.grid import Constant
from headrace.ir.ops import (
    Add,
    AddTensors,
    Arithmetic,
    AveragePool,
    BatchNorm,
    BipolarQuant,
    Clip,
    Codes,
    Concat,
    ConvTranspose,
    Function,
    IntQuant,
    MatMul,
    MaxPool,
    Move,
    Mul,
    Pad,
    Power,
    PRelu,
    Reciprocal,
    TopK,
    ToReal,
)
from headrace.ir.scaled import Floating, Scaled
from headrace.passes import IntegerModel, to_integer

Array = NDArray[Any]


def check(graph: Graph, *frames: Array) -> IntegerModel:
    """Both modes agree, whatever the batch; the integer model."""
    model = to_integer(graph)
    x = frames[0] if frames else random_frames(*graph.type(Value("x")).shape)
    real, integer = graph.run({"x": x}), model.graph.run({"x": x})
    for name in graph.outputs:
        assert real[name].dtype == integer[name].dtype
        assert np.array_equal(real[name], integer[name])
    for k in range(4):
        alone = graph.run({"x": x[k : k + 1]})
        for name in graph.outputs:
            assert np.array_equal(alone[name][0], real[name][k]), "a frame does not depend on its batch"
    return model


def ops(model: IntegerModel) -> list[type[Op]]:
    return [type(model.graph.op(node)) for node in model.graph]


def reasons(model: IntegerModel) -> list[str]:
    return [blocker.reason for blocker in model.blockers]


def test_a_dense_layer() -> None:
    s = Source(3)
    y = s.quantized(s.matmul(s.quantized(), [[1, 0], [2, -1], [0, 3]], 0.5), 0.75)
    model = check(s.output(y))
    kinds = ["Input", "Codes", "IntMatMul", "Activation", "ToReal", "Output"]
    assert [kind.__name__ for kind in ops(model)] == kinds
    assert model.blockers == ()
    assert model.graph.type(Value("MatMul")) == TensorType((2,), IntRange(-31, 29))
    known = model.annotations[y]
    assert isinstance(known, Scaled)
    assert (known.scale, known.bias) == (0.75, 0.0)


def test_the_source_is_left_alone_and_the_result_repeats() -> None:
    s = Source(3)
    graph = s.output(s.quantized(s.matmul(s.quantized(), [[1, 0], [2, -1], [0, 3]])))
    before = str(graph)
    assert str(to_integer(graph).graph) == str(to_integer(graph).graph)
    assert str(graph) == before


def test_integer_inputs_are_hardware_from_the_start() -> None:
    s = Source(2, integers=IntRange(0, 255))
    y = s.quantized(s.matmul(s.add(Mul(np.array([1 / 255.0]))), [[1], [-1]]), 0.25)
    x = np.random.default_rng(0).integers(0, 256, (20, 2))
    model = check(s.output(y), x)
    assert Codes not in ops(model)
    assert model.graph.type(Value("MatMul")).int_range == IntRange(-255, 255)


def test_integers_go_out_as_integers_whatever_their_size() -> None:
    s = Source(2, integers=IntRange(-(2**31), 2**31 - 1))
    graph = s.output(s.matmul(s.x, [[1], [1]]), dtype="int64")
    x = np.array([[2**30 + 1, 2**30], [-(2**31), -(2**31)], [2**24 + 1, 0], [1, 2]])
    model = check(graph, x)
    assert ToReal not in ops(model)
    assert graph.run({"x": x})["y"].ravel().tolist() == [2**31 + 1, -(2**32), 2**24 + 1, 3]


# -- clips and grids ----------------------------------------------------------------------------------------------


def test_a_clip_on_the_grid_stays_on_integers() -> None:
    s = Source(2)
    clipped = s.add(Clip(0.0, 2.0), s.quantized(bits=5))
    model = check(s.output(s.matmul(clipped, [[1, 2], [3, -1]])))
    assert integer_ops.Activation in ops(model)
    assert model.graph.type(Value("IntQuant_clip")).int_range == IntRange(0, 4)
    assert model.blockers == ()


def test_a_clip_off_the_grid_leaves_it_for_every_frame() -> None:
    """Once, a frame that did not reach the clip was computed on integers and one that did was not."""
    s = Source(2)
    clipped = s.add(Clip(0.0, 1.0), s.quantized(step=0.3), name="clip")
    model = check(s.output(s.matmul(clipped, [[1, 2], [3, -1]])))
    assert model.blockers == ()
    assert integer_ops.Lookup in ops(model), "the float32 values, as fixed-point integers"


@pytest.mark.parametrize("op", [PRelu(np.float32([0.3])), Function("Tanh"), Function("Abs")], ids=str)
def test_other_functions_before_a_product(op: Op) -> None:
    """Their few float32 values are integers times a power of two; after a quantizer they are those of its grid."""
    for again in (False, True):
        s = Source(2)
        x = s.add(op, s.quantized(step=0.3))
        model = check(s.output(s.matmul(s.quantized(x) if again else x, [[1, 2], [3, -1]])))
        assert model.blockers == ()


def test_a_function_of_too_many_integers_before_a_product() -> None:
    s = Source(2, integers=IntRange(-(2**20), 2**20))
    graph = s.output(s.matmul(s.add(Function("Tanh")), [[1], [1]]))
    assert reasons(to_integer(graph)) == [
        "its input left the integer grid in Tanh; put a quantizer between them",
    ]


def test_clips_of_scaled_integers_may_round_where_only_integers_count() -> None:
    """Two scales in a row round twice in float32; a product does not care, for it takes the integers."""
    s = Source(2)
    scaled = s.add(Mul(np.array([0.1])), s.add(Mul(np.array([0.7])), s.quantized(step=0.3, bits=8)))
    model = check(s.output(s.matmul(s.add(Clip(0.0), scaled), [[1], [2]])))
    assert model.blockers == ()
    s = Source(2)
    scaled = s.add(Mul(np.array([0.1])), s.add(Mul(np.array([0.7])), s.quantized(step=0.3, bits=8)))
    clipped = s.add(Clip(0.0), scaled)
    model = check(s.output(s.add(Concat(0), clipped, s.quantized())))
    assert reasons(model) == ["its input is clipped where float32 has left the integer grid; put a quantizer there"]


def test_a_clip_of_bipolar_values_is_not_bipolar() -> None:
    s = Source(3)
    signs = s.add(BipolarQuant(np.float32([1.0])))
    model = check(s.output(s.matmul(s.add(Clip(0.0), signs), [[1], [2], [3]])))
    (node,) = [node for node in model.graph if isinstance(model.graph.op(node), integer_ops.Activation)]
    assert model.graph.type(Value(node)).int_range == IntRange(0, 1)
    unclipped = Source(3)
    signs = unclipped.add(BipolarQuant(np.float32([1.0])))
    graph = unclipped.output(unclipped.matmul(unclipped.add(Clip(-1.0), signs), [[1], [2], [3]]))
    assert integer_ops.Activation not in ops(check(graph)), "nothing is clipped: nothing is built"


def test_joined_clips_of_bipolar_values_are_not_bipolar() -> None:
    s = Source(3)
    signs = s.add(BipolarQuant(np.float32([1.0])))
    relu = s.add(Clip(0.0), signs)
    for parts in ((relu, relu), (signs, relu)):
        joined = s.add(Concat(0), *parts)
        graph = s.output(joined, f"y{len(s.graph)}")
        known = check(graph).annotations[joined]
        assert isinstance(known, Scaled)
        assert not known.bipolar


def test_a_clip_after_a_negative_scale() -> None:
    s = Source(3)
    falling = s.add(Mul(np.array([-1.0, 0.5, -2.0])), s.quantized())
    model = check(s.output(s.matmul(s.add(Clip(-1.0, 2.0), falling), [[1], [2], [3]])))
    assert model.blockers == ()


def test_pools_of_clipped_values() -> None:
    s = Source(2, 4, 4)
    relu = s.add(Clip(0.0), s.conv(s.quantized(), np.ones((2, 2, 3, 3), np.int64), 1))
    biggest = s.add(MaxPool((2, 2), (2, 2), (1, 1), ((0, 0), (0, 0))), relu)
    mean = s.add(AveragePool((2, 2), (1, 1), (1, 1), ((0, 0), (0, 0))), biggest)
    model = check(s.output(s.conv(mean, np.ones((1, 2, 1, 1), np.int64))))
    assert model.blockers == ()


@pytest.mark.parametrize(("lo", "hi"), [(3, 9), (-9, -3)])
def test_padded_means_of_integers_away_from_zero(lo: int, hi: int) -> None:
    """A window at the border sums fewer integers: its sum lies outside what full windows reach."""
    s = Source(1, 4, 4, integers=IntRange(lo, hi))
    mean = s.add(AveragePool((3, 3), (1, 1), (1, 1), ((1, 1), (1, 1)), True))
    x = np.random.default_rng(0).integers(lo, hi + 1, (8, 1, 4, 4))
    x[0], x[1] = lo, hi
    model = check(s.output(s.quantized(mean, step=0.25, bits=8)), x)
    assert model.blockers == ()


# -- quantizers ---------------------------------------------------------------------------------------------------


def test_a_quantizer_that_changes_nothing_costs_nothing() -> None:
    s = Source(2)
    twice = s.quantized(s.quantized(step=0.5, bits=4), step=0.5, bits=6)
    model = check(s.output(s.matmul(twice, [[1], [1]])))
    assert integer_ops.Activation not in ops(model)


def test_an_identity_that_others_may_see_otherwise_is_kept_and_counted() -> None:
    """In float32, floor(q * 0.7 / 0.1) is 7q; in real arithmetic it is less. What is counted must have a node."""
    s = Source(1, integers=IntRange(-1, 1))
    floor = IntQuant(np.float32([1.0]), np.float32([0]), -8, 7, "FLOOR")
    shrunk = s.add(Mul(np.array([1 - 2.0**-30])))
    model = check(s.output(s.add(floor, shrunk)), np.array([[-1], [0], [1], [1]]))
    assert sum(model.disagreements.values()) == 1


@pytest.mark.parametrize("kind", ["activation", "lookup"])
def test_parameters_along_several_axes(kind: str) -> None:
    """Every element is a channel of its own."""
    rng = np.random.default_rng(0)
    s = Source(2, 3)
    value = s.quantized(bits=6)
    if kind == "lookup":
        value = s.add(Function("Abs"), s.add(Add(np.array([[1.0], [-2.0]])), value))
    offset = s.add(Add(np.round(rng.normal(size=(2, 3)) * 4) / 4), value)
    model = check(s.output(s.quantized(offset, np.float32(rng.uniform(0.5, 2, (2, 3))))))
    wanted = integer_ops.Lookup if kind == "lookup" else integer_ops.Activation
    assert wanted in ops(model)
    assert model.blockers == ()


def test_constants_that_enlarge_the_frame_stay_on_the_host() -> None:
    s = Source(1, 3)
    model = check(s.output(s.add(Add(np.zeros((2, 3)) + 0.5), s.quantized())))
    assert reasons(model) == ["its constant of shape [2, 3] would enlarge frames [1, 3]"]
    s = Source(1, 3)
    model = check(s.output(s.quantized(s.quantized(), np.full((2, 3), 0.25))))
    assert "would enlarge" in reasons(model)[0]


def test_quantizers_on_the_host_after_what_only_the_host_can_do() -> None:
    s = Source(2)
    product = s.add(Arithmetic("*"), s.quantized(bits=12, name="a"), s.quantized(step=0.25, name="b"), name="times")
    model = check(s.output(s.matmul(s.quantized(product, name="q"), [[1], [1]])))
    assert model.blockers == (), "4096 times 16 integers are tabulated"
    s = Source(2)
    product = s.add(Arithmetic("*"), s.quantized(bits=13, name="a"), s.quantized(step=0.25, name="b"), name="times")
    model = check(s.output(s.matmul(s.quantized(product, name="q"), [[1], [1]])))
    first, second = model.blockers
    assert str(first).startswith("node 'times' (Arithmetic): a product of 8192 x 16 integers is too large for a table")
    assert second.node == "q"
    assert second.reason.startswith("it quantizes what only the host can compute: node 'times'")


# -- products -----------------------------------------------------------------------------------------------------


def test_weights_without_a_quantizer() -> None:
    s = Source(2)
    op = MatMul(Constant(np.float32([[0.123], [0.456]])))
    model = check(s.output(s.add(op, s.quantized())))
    assert reasons(model) == [
        "its weights are not quantized: they are no integers times one scale, for all or for each output channel; put "
        "a quantizer on them, or write them through DequantizeLinear"
    ]
    with pytest.raises(UnsupportedError, match="its weights are not quantized"):
        model.partition()


def test_scales_that_share_no_grid() -> None:
    s = Source(2)
    model = check(s.output(s.matmul(s.quantized(step=[1e-20, 1e20]), [[1], [1]])), random_frames(2))
    assert "share no integer grid (of multiples up to 2^26); use one scale per tensor" in reasons(model)[0]


def test_scales_along_another_axis_than_the_summed_one() -> None:
    s = Source(2, 3)
    model = check(s.output(s.matmul(s.quantized(step=[[0.5], [0.3]]), [[1], [1], [1]])))
    assert model.blockers == ()


def test_what_was_emitted_before_a_refusal_is_dropped() -> None:
    """The clip of the left operand is emitted, then the right one refuses: nothing of it may stay in the hardware."""
    s = Source(2)
    left = s.add(Clip(0.0), s.quantized(step=0.5))
    right = s.add(Function("Tanh"), s.quantized(step=0.25))
    model = check(s.output(s.add(AddTensors(), left, right)))
    assert integer_ops.Activation not in ops(model)
    assert model.disagreements == {}


def test_sums_past_62_bits_stay_on_the_host() -> None:
    s = Source(1, integers=IntRange(-(2**31), 2**31 - 1))
    model = to_integer(s.output(s.matmul(s.x, [[2**31]], name="fc")))
    found = "node 'fc' (MatMul): an accumulator could reach 2^62; narrower weights or activations are needed"
    assert [str(blocker) for blocker in model.blockers] == [found]
    with pytest.raises(UnsupportedError, match=re.escape(found)):
        model.partition()


def test_frames_of_one_number() -> None:
    s = Source(4)
    product = s.add(MatMul(weights([[1], [-2], [3], [1]])), s.quantized())
    scalar = s.add(Move(integer_ops.Reshape(())), product)
    model = check(s.output(s.quantized(s.add(Function("Sigmoid"), scalar), step=0.1)))
    assert model.blockers == ()


def test_float32_values_times_tiny_weights() -> None:
    """2^-40 times 1e-30 is too small for float32 to hold all its digits; one after the other they are not."""
    s = Source(3, integers=IntRange(1, 2000))
    inverse = s.add(Reciprocal(np.float32([1.0])))
    model = check(s.output(s.matmul(inverse, [[1], [2], [3]], 1e-30)), np.arange(1, 2001).reshape(-1, 1).repeat(3, 1))
    assert model.blockers == ()


def test_sums_of_float32_values_past_double_precision() -> None:
    s = Source(3, integers=IntRange(1, 2000))
    inverse = s.add(Reciprocal(np.float32([1.0])))
    model = to_integer(s.output(s.matmul(inverse, [[2**18], [2**18 - 1], [2**18]])))
    assert "pass 2^53" in reasons(model)[0]


@pytest.mark.parametrize("fill", [-1.0, 0.0, 1.0])
def test_padded_signs(fill: float) -> None:
    """Around bipolar values, 0 is a third value."""
    s = Source(2, 3)
    padded = s.add(Pad(((0, 0), (1, 2)), fill), s.add(BipolarQuant(np.float32([[1.0]]))))
    model = check(s.output(s.matmul(padded, [[1], [2], [3], [4], [5], [6]])))
    known = model.annotations[padded]
    assert isinstance(known, Scaled)
    assert known.bipolar == (fill != 0)


def test_spread_pixels_are_surrounded_by_zeros() -> None:
    """Between the pixels of a transposed convolution the integer is 0, below what the data reach."""
    s = Source(1, 3, 3, integers=IntRange(3, 9))
    op = ConvTranspose(weights(np.full((1, 1, 3, 3), 2)), (2, 2), (1, 1), ((2, 2), (2, 2)))
    x = np.random.default_rng(0).integers(3, 10, (6, 1, 3, 3))
    x[0] = 3
    model = check(s.output(s.quantized(s.add(op), step=1.0, bits=8)), x)
    (node,) = [n for n in model.graph if isinstance(model.graph.op(n), integer_ops.IntConv)]
    assert model.graph.type(Value(node)).int_range == IntRange(6, 72), "one pixel at a corner, four at most"


def test_jumps_of_different_height_become_a_table() -> None:
    """0, 3486784401 and 4294967295: as thresholds of one height that would be a billion."""
    s = Source(1, integers=IntRange(0, 2))
    wide = IntQuant(np.float32([1.0]), np.float32([0]), 0, 2**32 - 1)
    steep = s.add(Power(np.float32([20.0])), s.add(Mul(np.array([3.0]))))
    model = check(s.output(s.add(wide, steep)), np.array([[0], [1], [2], [0]]))
    assert integer_ops.Lookup in ops(model)


def test_what_is_no_number_is_not_quantized() -> None:
    s = Source(1)
    infinite = s.add(Mul(np.array([1e38])), s.add(Mul(np.array([1e38])), s.quantized(step=1.0)))
    graph = s.output(s.quantized(s.add(Mul(np.array([0.0])), infinite), name="q"))
    with pytest.raises(ModelError, match=r"^net.onnx: node 'q' \(IntQuant\): it quantizes what is not a number"):
        graph.run({"x": np.float32([[5.0]])})
    with pytest.raises(ModelError, match="it quantizes what is not a number"):
        to_integer(graph).graph.run({"x": np.float32([[5.0]])})


# -- joins, movement, selection -----------------------------------------------------------------------------------


def test_residual_with_one_scale() -> None:
    s = Source(3)
    left = s.quantized(name="left")
    right = s.quantized(s.matmul(left, [[1, 0, 2], [0, 1, -1], [3, 0, 0]]), name="right")
    model = check(s.output(s.quantized(s.add(AddTensors(), left, right), step=1.0)))
    assert integer_ops.IntAdd in ops(model)
    assert model.graph.op("AddTensors").factors == (1, 1)  # type: ignore[attr-defined]


def test_residual_with_two_scales() -> None:
    s = Source(3)
    both = s.add(AddTensors(), s.quantized(step=0.75), s.quantized(step=-0.0 + 0.5))
    model = check(s.output(s.quantized(both, step=1.0)))
    assert model.graph.op("AddTensors").factors == (3, 2)  # type: ignore[attr-defined]


def test_adding_a_tensor_to_itself() -> None:
    s = Source(3)
    q = s.quantized()
    model = check(s.output(s.add(AddTensors(), q, q)))
    assert model.graph.type(Value("AddTensors")).int_range == IntRange(-16, 14)


def test_tensors_of_different_shapes() -> None:
    s = Source(2, 3)
    q = s.quantized()
    part = s.add(Move(integer_ops.Slice(0, 0, 1)), q)
    model = check(s.output(s.quantized(s.add(AddTensors(), q, part), step=0.75)))
    assert model.blockers == ()
    assert integer_ops.Gather in ops(model)
    s = Source(2, 3)
    q = s.quantized()
    column = s.add(Move(integer_ops.Slice(1, 0, 1)), q)
    model = check(s.output(s.quantized(s.add(AddTensors(), column, q), step=0.75)))
    assert integer_ops.IntUpsample in ops(model)


def test_concat_of_scales_offsets_and_real_tensors() -> None:
    s = Source(2)
    a = s.add(Add(np.array([0.25])), s.quantized(step=0.5))
    b = s.add(BatchNorm(np.array([0.3, -1.7]), np.array([0.1, 0.0])), s.quantized(step=0.1, bits=6))
    model = check(s.output(s.quantized(s.add(Concat(0), a, b), step=0.4)))
    assert model.blockers == ()
    assert model.graph.type(Value("Concat")) == TensorType((4,), IntRange(-32, 31))
    s = Source(2)
    mixed = s.add(Concat(0), s.quantized(), s.x, name="cat")
    model = check(s.output(mixed))
    assert [b.node for b in model.blockers] == ["cat"]


def test_selection_compares_integers() -> None:
    for factor, largest in ((0.5, True), (-0.5, False)):
        s = Source(4)
        scaled = s.add(Mul(np.array([factor])), s.quantized())
        model = check(s.output(s.add(TopK(2), scaled), dtype="int64"))
        assert model.graph.op("TopK").largest is largest  # type: ignore[attr-defined]
        assert model.blockers == ()


@pytest.mark.parametrize(
    ("step", "plain"),
    [
        (Mul(np.array([0.5, 0.3])), False),  # channels of different scale
        (Function("Gelu"), False),  # not monotone
        (Mul(np.array([0.0])), False),  # all equal in float32
        (Function("Tanh"), True),
        (Clip(0.0), False),
    ],
)
def test_selection_of_what_the_integers_do_not_order(step: Op, plain: bool) -> None:
    """The float32 values are compared, as fixed-point integers, where the integers themselves have another order."""
    s = Source(2)
    model = check(s.output(s.add(TopK(), s.add(step, s.quantized())), dtype="int64"))
    assert model.blockers == ()
    assert (ops(model).count(integer_ops.IntTopK), len(ops(model))) == (1, 4 if plain else len(ops(model)))


def test_selection_after_falling_twice() -> None:
    s = Source(4)
    scaled = s.add(Mul(np.array([-0.3])), s.add(Mul(np.array([-2.0])), s.quantized()))
    model = check(s.output(s.add(TopK(2), scaled), dtype="int64"))
    assert model.graph.op("TopK").largest is True  # type: ignore[attr-defined]
    assert len(ops(model)) == 4, "the integers are compared as they are"


def test_selection_among_integers_that_are_no_float32_numbers() -> None:
    s = Source(3, integers=IntRange(0, 2**31 - 1))
    graph = s.output(s.add(TopK()), dtype="int64")
    x = np.array([[2**24, 2**24 + 1, 0], [2**31 - 1, 2**31 - 2, 5], [7, 2**25 + 1, 2**25 + 2], [1, 3, 2]])
    model = check(graph, x)
    assert model.blockers == ()
    assert graph.run({"x": x})["y"].ravel().tolist() == [0, 0, 1, 1]


def test_max_pool_of_falling_values() -> None:
    s = Source(1, 4, 4)
    falling = s.add(Mul(np.full((1, 1, 1), -0.3)), s.quantized())
    pooled = s.add(MaxPool((2, 2), (2, 2), (1, 1), ((0, 0), (0, 0))), falling)
    model = check(s.output(pooled))
    assert model.blockers == ()


def test_operators_that_are_no_model_operators() -> None:
    s = Source(2)
    with pytest.raises(ModelError, match="node 'r': Reshape is not an operator of the source graph"):
        to_integer(s.output(s.add(integer_ops.Reshape((2, 1)), name="r")))


def test_annotations_cover_every_tensor() -> None:
    s = Source(2)
    q = s.quantized(name="q")
    graph = s.output(s.add(Function("Tanh"), s.matmul(q, [[1], [1]], name="fc"), name="tanh"))
    model = to_integer(graph)
    assert {value.node for value in model.annotations} == {"x", "q", "fc", "tanh"}
    assert isinstance(model.annotations[s.x], Floating)
    tanh = model.annotations[Value("tanh")]
    assert isinstance(tanh, Scaled)
    assert (tanh.scale, tanh.bias) == (None, None)
    assert [type(step).__name__ for step in tanh.steps] == ["Mul", "Function"]


def test_weights_helper_is_on_its_grid() -> None:
    constant = weights([[1, -2]], 0.5)
    assert constant.grid is not None
    assert np.array_equal(constant.value, constant.grid.q * constant.grid.scale)
    assert quantizer().levels == IntRange(-8, 7)


PLACES = np.random.default_rng(3).integers(-9, 10, (2, 4, 5)) / 4


@pytest.mark.parametrize("step", [0.5, 0.37])
@pytest.mark.parametrize(
    "ops",
    [
        (Add(PLACES),),
        (Mul(PLACES[:1]),),
        (Mul(2.0 ** np.arange(20).reshape(1, 4, 5) % 4),),
        (Add(PLACES), Clip(np.float32(0), np.float32(np.inf))),
        (BatchNorm(PLACES, PLACES[::-1].copy()),),
    ],
    ids=["add", "multiply", "powers of two", "add and clip", "both"],
)
def test_constants_along_several_axes_before_a_product(step: float, ops: tuple[Op, ...]) -> None:
    s = Source(2, 4, 5)
    value = s.quantized(step=step)
    for op in ops:
        value = s.add(op, value)
    y = s.quantized(s.conv(value, np.random.default_rng(4).integers(-3, 4, (3, 2, 2, 3)), pad=1))
    assert not check(s.output(y)).blockers


def test_a_mean_of_padded_integers_with_a_zero_point() -> None:
    s = Source(2, 4, 5)
    offset = IntQuant(np.full((1, 1, 1), np.float32(0.5)), np.full((1, 1, 1), np.float32(3)), 0, 15)
    pool = AveragePool((2, 3), (1, 1), (1, 1), ((1, 0), (1, 1)))
    y = s.quantized(s.add(pool, s.add(offset)))
    assert not check(s.output(y)).blockers
