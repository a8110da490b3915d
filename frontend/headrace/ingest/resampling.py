"""Import rules of operators that pad, repeat, gather and interleave elements."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor

import numpy as np

from headrace.ingest.host import host_operator
from headrace.ingest.operands import Node, Operand, frame_axis
from headrace.ingest.rules import imports
from headrace.ir import Shape, Value
from headrace.ir.integer import Gather, IntUpsample, Reshape, Slice, Transpose
from headrace.ir.ops import Move, Pad

# -- repeating ------------------------------------------------------------------------------------------------------


def gathered(node: Node, x: Value, axis: int, indices: Sequence[int]) -> Value:
    """Elements of *x* along a frame axis, by the cheapest operator that moves them so."""
    n = node.shape(x)[axis]
    wanted = tuple(int(k) for k in indices)
    if wanted == tuple(range(n)):
        return x
    step = wanted[1] - wanted[0] if len(wanted) > 1 else 1
    if step > 0 and wanted == tuple(range(wanted[0], wanted[-1] + 1, step)):
        return node.add(Move(Slice(axis, wanted[0], wanted[-1] + 1, step)), x)
    factor = len(wanted) // n
    if axis > 0 and len(wanted) == factor * n and wanted == tuple(np.repeat(np.arange(n), factor)):
        factors = tuple(factor if k == axis else 1 for k in range(1, len(node.shape(x))))
        return node.add(Move(IntUpsample(factors)), x)
    shuffled = _shuffle(node, x, axis, wanted)
    return node.add(Move(Gather(axis, wanted)), x) if shuffled is None else shuffled


def _shuffle(node: Node, x: Value, axis: int, wanted: tuple[int, ...]) -> Value | None:
    """A permutation that is the transposition of rows and columns of the axis, as channel shuffles are."""
    shape = node.shape(x)
    n = shape[axis]
    if len(wanted) != n or wanted[0] != 0:
        return None
    columns = wanted[1]
    if columns < 2 or n % columns or wanted != tuple(np.arange(n).reshape(-1, columns).T.reshape(-1)):
        return None
    split = (*shape[:axis], n // columns, columns, *shape[axis + 1 :])
    perm = (*range(axis), axis + 1, axis, *range(axis + 2, len(split)))
    y = node.add(Move(Transpose(perm)), node.add(Move(Reshape(split)), x, suffix="split"), suffix="swap")
    return node.add(Move(Reshape(shape)), y)


def repeated(node: Node, x: Value, shape: Shape) -> Value:
    """*x* repeated along its axes of length one until it has *shape*."""
    own = node.shape(x)
    if len(own) > 1 and own[0] == shape[0] and own != shape:
        return node.add(Move(IntUpsample(tuple(n // m for n, m in zip(shape[1:], own[1:], strict=True)))), x)
    for axis, n in enumerate(shape):
        if own[axis] != n:
            x = node.add(Move(Gather(axis, (0,) * n)), x)
    return x


@imports("Expand")
def expand(node: Node) -> Sequence[Operand]:
    """Broadcast to a constant shape."""
    x = node.value(0)
    frame = node.shape(x)
    target = tuple(int(n) for n in node.constant(1, "shape").reshape(-1))
    if len(target) > len(frame) + 1 or (len(target) == len(frame) + 1 and target[0] not in (1, node.batch)):
        raise node.unsupported(f"an expansion of frames {list(frame)} to {list(target)}, which changes the batch axis")
    inner = target[1:] if len(target) == len(frame) + 1 else target
    try:
        shape = np.broadcast_shapes(frame, inner)
    except ValueError as error:
        raise node.error(f"frames of shape {list(frame)} cannot be expanded to {list(target)}") from error
    if min(inner, default=1) < 1:
        raise node.error(f"its shape {list(target)} must hold positive numbers")
    return [repeated(node, x, node.indexable(tuple(int(n) for n in shape)))]


@imports("Tile")
def tile(node: Node) -> Sequence[Operand]:
    """Whole copies along frame axes."""
    x = node.value(0)
    repeats = [int(n) for n in node.constant(1, "repeats").reshape(-1)]
    if len(repeats) != len(node.shape(x)) + 1 or min(repeats) < 1:
        raise node.error(f"its repeats {repeats} do not fit a tensor of rank {len(node.shape(x)) + 1}")
    if repeats[0] != 1:
        raise node.unsupported("tiling along the batch axis")
    node.indexable(tuple(n * count for n, count in zip(node.shape(x), repeats[1:], strict=True)))
    for axis, count in enumerate(repeats[1:]):
        x = gathered(node, x, axis, list(range(node.shape(x)[axis])) * count)
    return [x]


@imports("Gather")
def gather(node: Node) -> Sequence[Operand]:
    """Constant indices along a frame axis."""
    x = node.value(0)
    axis = frame_axis(node, node.integer("axis", 0), len(node.shape(x)))
    n = node.shape(x)[axis]
    indices = node.constant(1, "indices")
    if indices.size == 0 or np.any(indices < -n) or np.any(indices >= n):
        raise node.error(f"its indices {indices.reshape(-1).tolist()} are out of range for an axis of {n} elements")
    y = gathered(node, x, axis, (indices.reshape(-1) % n).tolist())
    if indices.ndim == 1:
        return [y]
    shape = node.shape(x)
    return [node.add(Move(Reshape((*shape[:axis], *indices.shape, *shape[axis + 1 :]))), y, suffix="reshape")]


# -- resizing -------------------------------------------------------------------------------------------------------


@imports("Resize", "Upsample", ignores=("antialias", "cubic_coeff_a", "exclude_outside", "extrapolation_value"))
def resize(node: Node) -> Sequence[Operand]:
    """Nearest neighbour along frame axes, in every coordinate system; other modes stay on the host."""
    x = node.value(0)
    mode = node.text("mode", "nearest")
    transform = node.text("coordinate_transformation_mode", "asymmetric" if node.opset < 11 else "half_pixel")
    rounding = node.text("nearest_mode", "floor" if node.opset < 11 else "round_prefer_floor")
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if mode != "nearest" or transform == "tf_crop_and_resize" or policy != "stretch":
        return host_operator(node)
    if rounding not in _ROUNDINGS:
        raise node.error(f"its nearest_mode '{rounding}' is none of {', '.join(_ROUNDINGS)}")
    taken = []
    sizes = _sizes(node, x)
    node.indexable(tuple(size for size, _ in sizes))
    for n, (size, scale) in zip(node.shape(x), sizes, strict=True):
        positions = [_source(transform, k, n, size, scale, node) for k in range(size)]
        taken.append([min(max(_ROUNDINGS[rounding](p), 0), n - 1) for p in positions])
    factors = [len(indices) // n for n, indices in zip(node.shape(x), taken, strict=True)]
    whole = zip(node.shape(x), factors, taken, strict=True)
    repeats = [indices == np.repeat(np.arange(n), factor).tolist() for n, factor, indices in whole]
    if factors[0] == 1 and all(repeats) and max(factors) > 1:
        return [node.add(Move(IntUpsample(tuple(factors[1:]))), x)]
    for axis, indices in enumerate(taken):
        x = gathered(node, x, axis, indices)
    return [x]


_ROUNDINGS = {
    "round_prefer_floor": lambda p: ceil(p - Fraction(1, 2)),
    "round_prefer_ceil": lambda p: floor(p + Fraction(1, 2)),
    "floor": floor,
    "ceil": ceil,
}


def _sizes(node: Node, x: Value) -> list[tuple[int, Fraction]]:
    """Output size and exact scale per frame axis."""
    shape = node.shape(x)
    rank = len(shape) + 1
    scales = node.attribute("scales")  # Upsample before opset 9
    if scales is None:
        position = 1 if node.proto.op_type == "Upsample" or node.opset < 11 else 2
        scales = node.constant(position, "scales").reshape(-1).tolist() if node.has(position) else []
    sizes = [int(n) for n in node.constant(3, "sizes").reshape(-1)] if node.has(3) else []
    axes = node.axes(node.integers("axes") or range(rank), rank)
    given = list(scales) or sizes
    if len(given) != len(axes) or not np.all(np.isfinite(np.asarray(given, np.float64))):
        raise node.error(f"it needs scales or sizes for {len(axes)} axes, not {list(given)}")
    result = [(n, Fraction(1)) for n in shape]
    for axis, value in zip(axes, given, strict=True):
        if axis == 0:
            if value != (1 if scales else node.batch):
                raise node.unsupported("resizing along the batch axis")
            continue
        n = shape[axis - 1]
        size = floor(n * Fraction(float(value))) if scales else int(value)
        if size < 1:
            raise node.error(f"it would make axis {axis} of {n} elements empty")
        result[axis - 1] = (size, Fraction(float(value)) if scales else Fraction(size, n))
    return result


def _source(transform: str, k: int, n: int, size: int, scale: Fraction, node: Node) -> Fraction:
    """Where output *k* of *size* lies among *n* inputs; as ONNX defines it, in exact arithmetic."""
    half = Fraction(1, 2)
    if transform == "asymmetric":
        return k / scale
    if transform == "align_corners":
        return Fraction(k * (n - 1), size - 1) if size > 1 else Fraction(0)
    if transform == "half_pixel" or (transform == "pytorch_half_pixel" and size > 1):
        return (k + half) / scale - half
    if transform == "pytorch_half_pixel":
        return Fraction(0)
    if transform == "half_pixel_symmetric":
        center = Fraction(n, 2)
        return center * (1 - size / (n * scale)) + (k + half) / scale - half
    if transform == "tf_half_pixel_for_nn":
        return (k + half) / scale
    raise node.error(f"its coordinate_transformation_mode '{transform}' is unknown")


# -- padding --------------------------------------------------------------------------------------------------------


@imports("Pad")
def pad(node: Node) -> Sequence[Operand]:
    """A constant around frame axes, or elements of the frame itself; negative pads crop."""
    x = node.value(0)
    rank = len(node.shape(x)) + 1
    mode = node.text("mode", "constant")
    flat = node.integers("pads") or node.integers("paddings")
    value = node.number("value", 0.0)
    if flat is None:
        flat = tuple(int(n) for n in node.constant(1, "pads").reshape(-1))
        value = node.one_number(2, "constant value") if node.has(2) else 0.0
    given = (int(a) for a in node.constant(3, "axes").reshape(-1)) if node.has(3) else range(rank)
    axes = node.axes(given, rank)
    if len(flat) != 2 * len(axes):
        raise node.error(f"its pads {list(flat)} must be {2 * len(axes)} numbers")
    pairs = dict(zip(axes, zip(flat[: len(axes)], flat[len(axes) :], strict=True), strict=True))
    if pairs.pop(0, (0, 0)) != (0, 0):
        raise node.unsupported("padding the batch axis")
    for axis, (begin, end) in pairs.items():
        n = node.shape(x)[axis - 1]
        if begin < 0 or end < 0:
            if max(-begin, 0) + max(-end, 0) >= n:
                raise node.error(
                    f"its pads {[begin, end]} leave nothing of frame axis {axis - 1}, which has {n} elements"
                )
            x = gathered(node, x, axis - 1, range(max(-begin, 0), n - max(-end, 0)))
    grown = [pairs.get(axis, (0, 0)) for axis in range(1, rank)]
    pads = tuple((max(begin, 0), max(end, 0)) for begin, end in grown)
    if not any(n for pair in pads for n in pair):
        return [x]
    if mode == "constant":
        if not np.isfinite(value):
            raise node.unsupported(f"padding with {value}")
        return [node.add(Pad(pads, value), x)]
    kinds = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}
    if mode not in kinds:
        raise node.error(f"its mode '{mode}' is none of constant, edge, reflect, wrap")
    for axis, pair in enumerate(pads):
        indices = np.arange(node.shape(x)[axis])
        node.indexable((len(indices) + sum(pair),))
        x = gathered(node, x, axis, np.pad(indices, pair, mode=kinds[mode]).tolist())  # type: ignore[call-overload]
    return [x]


# -- depth and space ------------------------------------------------------------------------------------------------


@imports("DepthToSpace", "SpaceToDepth")
def depth_and_space(node: Node) -> Sequence[Operand]:
    """Channels to blocks of pixels and back: a transposition between two reshapes."""
    x = node.value(0)
    shape, b = node.shape(x), node.integer("blocksize", 0)
    if len(shape) != 3 or b < 1:
        raise node.error(f"it needs images and a positive blocksize, not frames {list(shape)} and {b}")
    c, h, w = shape
    if node.proto.op_type == "SpaceToDepth":
        if h % b or w % b:
            raise node.error(f"blocksize {b} does not divide the image {h} x {w}")
        split, perm = (c, h // b, b, w // b, b), (2, 4, 0, 1, 3)
        target: Shape = (c * b * b, h // b, w // b)
    else:
        mode = node.text("mode", "DCR")
        if c % (b * b) or mode not in ("DCR", "CRD"):
            raise node.error(f"blocksize {b} squared does not divide {c} channels, or its mode '{mode}' is unknown")
        split, perm = (
            ((b, b, c // (b * b), h, w), (2, 3, 0, 4, 1))
            if mode == "DCR"
            else (
                (c // (b * b), b, b, h, w),
                (0, 3, 1, 4, 2),
            )
        )
        target = (c // (b * b), h * b, w * b)
    y = node.add(Move(Transpose(perm)), node.add(Move(Reshape(split)), x, suffix="split"), suffix="swap")
    return [node.add(Move(Reshape(target)), y)]
