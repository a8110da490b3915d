"""Import rules of data movement. Nothing may move elements between frames: the batch axis stays first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from headrace.ingest.operands import Node, Operand, frame_axis
from headrace.ingest.rules import imports
from headrace.ir import Element, FloatType, IntRange, Shape, Value
from headrace.ir.grid import Constant
from headrace.ir.integer import Gather, Reshape, Slice, Transpose
from headrace.ir.ops import Concat, Function, Move


def _reshaped(node: Node, x: Value, shape: Shape) -> Value:
    return x if shape == node.shape(x) else node.add(Move(Reshape(shape)), x)


@imports("Identity")
def identity(node: Node) -> Sequence[Operand]:
    """The tensor itself."""
    return [node.value(0)]


@imports("Dropout", ignores=("ratio", "seed"))
def dropout(node: Node) -> Sequence[Operand]:
    """Nothing at inference."""
    training = bool(np.any(node.constant(2, "training_mode flag"))) if node.has(2) else False
    if training or not node.integer("is_test", int(node.opset >= 7)):  # before opset 7 training was the default
        raise node.error("it is in training mode; export the model in eval mode")
    return [node.value(0)]


@imports("Cast", "CastLike", ignores=("saturate", "round_mode"))  # of float8 types
def cast(node: Node) -> Sequence[Operand]:
    """Between real types, or of integers to a type that holds them all. Anything else changes values.

    A cast to float16 rounds; the canonical arithmetic is float32, so a cast to double changes nothing.
    """
    like = node.operand(1) if node.proto.op_type == "CastLike" else None
    if isinstance(like, Value):
        return [_cast_like(node, node.operand(0), node.type(like).element)]
    x = node.value(0)
    if like is None:
        kind = node.integer("to", onnx.TensorProto.UNDEFINED)
    else:
        kind = onnx.helper.np_dtype_to_tensor_dtype(np.asarray(like.value).dtype)
    if kind in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE):
        return [x]
    if kind == onnx.TensorProto.FLOAT16:
        return [node.add(Function("Float16"), x)]
    element = node.type(x).element
    limits = _INTEGERS.get(kind)
    if limits is None or not isinstance(element, IntRange):
        name = onnx.TensorProto.DataType.Name(kind) if kind in onnx.TensorProto.DataType.values() else str(kind)
        raise node.unsupported(f"a cast of {'integers' if isinstance(element, IntRange) else 'real data'} to {name}")
    if element.lo < limits.min or element.hi > limits.max:
        raise node.unsupported(f"a cast of integers from {element.lo} to {element.hi} to {limits.dtype}, which wraps")
    return [x]


def _cast_like(node: Node, x: Operand, target: Element) -> Operand:
    """A cast to the type of a tensor that depends on the input: only whether that is real or integer is known of it.

    Raises:
        UnsupportedError: when *target* is of integers that do not include every value of *x*.
    """
    if isinstance(target, FloatType):
        return x if isinstance(x, Value) else Constant(np.asarray(x.value, np.float32), x.grid)
    if isinstance(x, Value):
        element = node.type(x).element
        fits = isinstance(element, IntRange) and target.lo <= element.lo and element.hi <= target.hi
    else:
        fits = x.value.dtype.kind in "iu" and bool(np.all((x.value >= target.lo) & (x.value <= target.hi)))
    if not fits:
        raise node.unsupported(
            f"a cast to the type of input 1, integers from {target.lo} to {target.hi}; input 0 must be integers of "
            "that range"
        )
    return x


_INTEGERS = {
    int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))): np.iinfo(kind)
    for kind in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
}


@imports("Reshape")
def reshape(node: Node) -> Sequence[Operand]:
    """A constant target shape whose first axis is the batch."""
    x = node.value(0)
    frame = node.shape(x)
    given = node.integers("shape")
    target = [int(v) for v in (given if given is not None else node.constant(1, "target shape").reshape(-1))]
    return [_reshaped(node, x, _frame_target(node, target, frame))]


def _frame_target(node: Node, target: list[int], frame: Shape) -> Shape:
    """The frame shape that a full target shape means.

    Raises:
        UnsupportedError: when elements would move between frames.
    """
    zero_copies = not node.integer("allowzero", 0)
    size = int(np.prod(frame))
    if not target:
        raise node.unsupported("a reshape to a scalar")
    rest = [frame[k] if n == 0 and zero_copies and k < len(frame) else n for k, n in enumerate(target[1:])]
    known = int(np.prod([n for n in rest if n != -1]))
    if rest.count(-1) == 1 and known and size % known == 0:
        rest[rest.index(-1)] = size // known
    first_is_batch = target[0] in (-1, node.batch) or (target[0] == 0 and zero_copies)
    if not first_is_batch or -1 in rest or int(np.prod(rest)) != size:
        raise node.unsupported(
            f"a reshape of frames {list(frame)} to {target} would move elements between frames; the first axis must "
            "stay the batch"
        )
    return tuple(rest)


@imports("Flatten")
def flatten(node: Node) -> Sequence[Operand]:
    """Flatten from axis 1."""
    x = node.value(0)
    axis = node.integer("axis", 1)
    rank = len(node.shape(x)) + 1
    if axis not in (1, 1 - rank):
        raise node.unsupported(f"Flatten from axis {axis}; axis 1 keeps frames apart")
    return [_reshaped(node, x, (int(np.prod(node.shape(x))),))]


def _axes(node: Node, rank: int) -> tuple[int, ...] | None:
    given = node.integers("axes")
    if given is None and node.has(1):
        given = tuple(int(v) for v in node.constant(1, "axes").reshape(-1))
    if given is None:
        return None
    axes = tuple(a % rank for a in given)
    if any(not -rank <= a < rank for a in given) or len(set(axes)) < len(axes):
        raise node.error(f"its axes {list(given)} must be different ones of a tensor of rank {rank}")
    return axes


@imports("Squeeze")
def squeeze(node: Node) -> Sequence[Operand]:
    """Drop axes of length one."""
    x = node.value(0)
    frame = node.shape(x)
    axes = _axes(node, len(frame) + 1)
    if axes is None:
        axes = tuple(k + 1 for k, n in enumerate(frame) if n == 1)
    if 0 in axes:
        raise node.unsupported("squeezing the batch axis")
    if any(frame[a - 1] != 1 for a in axes):
        raise node.error(f"it squeezes axes {list(axes)} of frames {list(frame)}, which are not all of length 1")
    return [_reshaped(node, x, tuple(n for k, n in enumerate(frame) if k + 1 not in axes))]


@imports("Unsqueeze")
def unsqueeze(node: Node) -> Sequence[Operand]:
    """Insert axes of length one."""
    x = node.value(0)
    frame = node.shape(x)
    given = node.integers("axes")
    count = len(given) if given is not None else int(node.constant(1, "axes").size)
    rank = len(frame) + 1 + count
    axes = _axes(node, rank) or ()
    if 0 in axes:
        raise node.unsupported("an axis before the batch axis")
    rest = iter(frame)
    return [_reshaped(node, x, tuple(1 if k in axes else next(rest) for k in range(1, rank)))]


@imports("Transpose")
def transpose(node: Node) -> Sequence[Operand]:
    """A permutation that leaves the batch axis first."""
    x = node.value(0)
    rank = len(node.shape(x)) + 1
    perm = node.integers("perm") or tuple(reversed(range(rank)))
    if sorted(perm) != list(range(rank)):
        raise node.error(f"its perm {list(perm)} is no permutation of {rank} axes")
    if perm[0] != 0:
        raise node.unsupported(f"perm {list(perm)} moves the batch axis, but frames are independent in hardware")
    inner = tuple(p - 1 for p in perm[1:])
    return [x if inner == tuple(range(rank - 1)) else node.add(Move(Transpose(inner)), x)]


@imports("Concat")
def concat(node: Node) -> Sequence[Operand]:
    """Join tensors that depend on the input along a frame axis."""
    if any(not isinstance(x, Value) for x in node.inputs):
        raise node.unsupported("joining a tensor with a constant")
    values = [x for x in node.inputs if isinstance(x, Value)]
    axis = frame_axis(node, node.integer("axis", 1), len(node.shape(values[0])))
    return [values[0] if len(values) == 1 else node.add(Concat(axis), *values)]


@imports("Split")
def split(node: Node) -> Sequence[Operand]:
    """Cut along a frame axis."""
    x = node.value(0)
    axis = frame_axis(node, node.integer("axis", 0), len(node.shape(x)))
    size = node.shape(x)[axis]
    if node.integer("num_outputs", len(node.proto.output)) != len(node.proto.output):
        raise node.error(f"its num_outputs contradicts its {len(node.proto.output)} outputs")
    parts = node.integers("split")
    if parts is None and node.has(1):
        parts = tuple(int(v) for v in node.constant(1, "split sizes").reshape(-1))
    if parts is None:
        count = len(node.proto.output)
        each = -(-size // count)
        parts = tuple(min(each, size - k * each) for k in range(count))
    if sum(parts) != size or min(parts) < 1 or len(parts) != len(node.proto.output):
        raise node.error(f"split sizes {list(parts)} do not make up the {size} elements of the axis")
    edges = np.cumsum((0, *parts)).tolist()
    return [node.add(Move(Slice(axis, edges[k], edges[k + 1])), x) for k in range(len(parts))]


_EVERYTHING = 2**31 - 1
"""From here on, exporters mean "to the end" by the end of a slice."""


@imports("Slice")
def slice_(node: Node) -> Sequence[Operand]:
    """Constant bounds along frame axes."""
    x = node.value(0)
    rank = len(node.shape(x))
    starts, ends, axes, steps = _slice_parameters(node, rank)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if axis in (0, -rank - 1) and start == 0 and end >= _EVERYTHING and step == 1:
            continue  # every frame, whatever the batch
        inner = frame_axis(node, axis, rank)
        if step == 0:
            raise node.error("its step must not be 0")
        n = node.shape(x)[inner]
        first, last, _ = slice(start, end, step).indices(n)
        if step < 0:
            x = node.add(Move(Gather(inner, tuple(range(first, last, step)))), x)
        elif (first, last, step) != (0, n, 1):
            x = node.add(Move(Slice(inner, first, last, step)), x)
    return [x]


def _slice_parameters(node: Node, rank: int) -> tuple[tuple[int, ...], ...]:
    def read(name: str, position: int) -> tuple[int, ...] | None:
        given = node.integers(name)
        if given is None and node.has(position):
            given = tuple(int(v) for v in node.constant(position, name).reshape(-1))
        return given

    starts, ends = read("starts", 1), read("ends", 2)
    if starts is None or ends is None:
        raise node.error("its starts and ends are missing")
    axes = read("axes", 3) or tuple(range(len(starts)))
    steps = read("steps", 4) or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or len({a % (rank + 1) for a in axes}) < len(axes):
        raise node.error(
            f"its starts {list(starts)}, ends {list(ends)}, axes {list(axes)} and steps {list(steps)} must be as many, "
            "each axis once"
        )
    return starts, ends, axes, steps
