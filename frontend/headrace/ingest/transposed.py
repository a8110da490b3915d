"""Import rule of transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.ingest.linear import add_bias, checked, rearranged, with_grid
from headrace.ingest.operands import Node, Operand
from headrace.ingest.rules import imports
from headrace.ir import Value
from headrace.ir.op import Array
from headrace.ir.ops import ConvTranspose


@imports("ConvTranspose")
def conv_transpose(node: Node) -> Sequence[Operand]:
    """Constant weights ``(C, O/groups, *kernel)``, one or two spatial axes."""
    x = node.value(0)
    weights = node.operand(1)
    if isinstance(weights, Value):
        raise node.unsupported("its weights depend on the input; constant weights are supported")
    shape, given = node.shape(x), checked(node, weights).value.shape
    kernel = tuple(given[2:])
    if len(kernel) not in (1, 2) or len(shape) != len(kernel) + 1 or min(kernel) < 1:
        raise node.unsupported(
            f"a transposed convolution of frames {list(shape)} with weights {list(given)}; 1-D and 2-D are supported"
        )
    stated = node.integers("kernel_shape")
    if stated is not None and stated != kernel:
        raise node.error(f"its kernel_shape {list(stated)} contradicts its weights {list(given)}")
    groups = node.integer("group", 1)
    if groups < 1 or given[0] % groups or given[0] != shape[0]:
        raise node.error(f"its weights {list(given)} in {groups} groups do not fit frames {list(shape)}")
    strides, dilations, pads = _geometry(node, shape[1:], kernel)
    inner = tuple(
        (d * (k - 1) - begin, d * (k - 1) - end) for k, d, (begin, end) in zip(kernel, dilations, pads, strict=True)
    )
    mirrored = rearranged(with_grid(weights, 1), lambda a: _mirrored(a, groups))
    y = node.add(ConvTranspose(mirrored, strides, dilations, inner, groups), x)
    if node.has(2):
        bias = node.constant(2, "bias").astype(np.float32)
        if bias.shape != (given[1] * groups,):
            raise node.error(f"its bias has shape {list(bias.shape)} for {given[1] * groups} output channels")
        y = add_bias(node, bias.reshape(-1, *(1,) * len(kernel)), y)
    return [y]


def _mirrored(weights: Array, groups: int) -> Array:
    """Weights of the convolution: ``(O, C/groups, *kernel)``, the kernel mirrored."""
    inputs, per_group, *kernel = weights.shape
    grouped = weights.reshape(groups, inputs // groups, per_group, *kernel).swapaxes(1, 2)
    flat = grouped.reshape(groups * per_group, inputs // groups, *kernel)
    return np.flip(flat, axis=tuple(range(2, flat.ndim)))


def _geometry(
    node: Node, size: tuple[int, ...], kernel: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...]]:
    """Strides, dilations, and what is cropped of the full result per axis and end (negative where it grows)."""
    rank = len(kernel)
    strides, dilations = node.integers("strides") or (1,) * rank, node.integers("dilations") or (1,) * rank
    extra = node.integers("output_padding") or (0,) * rank
    flat = node.integers("pads") or (0,) * (2 * rank)
    if not len(strides) == len(dilations) == len(extra) == rank or len(flat) != 2 * rank:
        raise node.error(f"its strides, dilations, output_padding and pads do not fit a kernel of {rank} axes")
    if min(*strides, *dilations) < 1 or min(*extra, *flat) < 0:
        raise node.error("its strides and dilations must be positive, its pads and output_padding not negative")
    auto, wanted = node.text("auto_pad", "NOTSET"), node.integers("output_shape")
    if auto not in ("NOTSET", "", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise node.error(f"its auto_pad '{auto}' is none of NOTSET, VALID, SAME_UPPER, SAME_LOWER")
    full = tuple(s * (n - 1) + d * (k - 1) + 1 for n, s, k, d in zip(size, strides, kernel, dilations, strict=True))
    if wanted is None and auto.startswith("SAME"):
        wanted = tuple(n * s for n, s in zip(size, strides, strict=True))
    if wanted is not None:
        return strides, dilations, _to_reach(node, full, extra, wanted[-rank:], auto)
    if auto == "VALID":
        flat = (0,) * (2 * rank)
    return strides, dilations, tuple((b, e - more) for b, e, more in zip(flat[:rank], flat[rank:], extra, strict=True))


def _to_reach(
    node: Node, full: tuple[int, ...], extra: tuple[int, ...], wanted: tuple[int, ...], auto: str
) -> tuple[tuple[int, int], ...]:
    """Pads that give the *wanted* output shape, as ONNX distributes them."""
    pads = []
    for n, more, out in zip(full, extra, wanted, strict=True):
        total = n + more - out
        if total < 0:
            raise node.unsupported(f"an output_shape of {list(wanted)}, larger than the full result {list(full)}")
        small, large = total // 2, total - total // 2
        begin, end = (small, large) if auto == "SAME_UPPER" else (large, small)
        pads.append((begin, end - more))
    return tuple(pads)
