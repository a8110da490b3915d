"""Import rules of data movement. Nothing may move elements between frames: the batch axis stays first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.ingest.operands import Node, Operand, frame_axis
from headrace.ingest.rules import imports
from headrace.ir import Shape, Value
from headrace.ir.integer import Reshape, Slice, Transpose
from headrace.ir.ops import Concat, Move


def _reshaped(node: Node, x: Value, shape: Shape) -> Value:
    return x if shape == node.shape(x) else node.add(Move(Reshape(shape)), x)


@imports("Identity", "Dropout", "Cast", "CastLike")
def hand_on(node: Node) -> Sequence[Operand]:
    """Operators that do nothing at inference. A cast to an integer type would truncate, so it is refused."""
    if node.proto.op_type == "Cast":
        to = node.integer("to", 1)
        if to not in (1, 10, 11, 16) and not node.type(node.value(0)).is_integer:
            raise node.unsupported("a cast of real data to an integer type")
    if node.proto.op_type == "Dropout" and len(node.inputs) > 2 and node.has(2):
        training = node.constant(2, "training_mode flag")
        if bool(np.any(training)):
            raise node.error("it is in training mode; export the model in eval mode")
    return [node.value(0)]


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
    if axis % rank != 1 and not (rank == 1 and axis == 1):
        raise node.unsupported(f"Flatten from axis {axis}; axis 1 keeps frames apart")
    return [_reshaped(node, x, (int(np.prod(node.shape(x))),))]


def _axes(node: Node, rank: int) -> tuple[int, ...] | None:
    given = node.integers("axes")
    if given is None and node.has(1):
        given = tuple(int(v) for v in node.constant(1, "axes").reshape(-1))
    return None if given is None else tuple(a % rank if -rank <= a < rank else _bad_axis(node, a, rank) for a in given)


def _bad_axis(node: Node, axis: int, rank: int) -> int:
    raise node.error(f"axis {axis} is out of range for a tensor of rank {rank}")


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
    axes = _axes(node, rank)
    assert axes is not None
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


@imports("Slice")
def slice_(node: Node) -> Sequence[Operand]:
    """Constant bounds along frame axes."""
    x = node.value(0)
    rank = len(node.shape(x))
    starts, ends, axes, steps = _slice_parameters(node, rank)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        inner = frame_axis(node, axis, rank)
        if step < 1:
            raise node.unsupported("a slice with a negative step")
        n = node.shape(x)[inner]
        first, last, _ = slice(start, end, step).indices(n)
        if (first, last, step) != (0, n, 1):
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
    return starts, ends, axes, steps
