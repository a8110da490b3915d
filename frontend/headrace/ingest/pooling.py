"""Import rules of pooling."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.ingest.linear import window
from headrace.ingest.operands import Node, Operand
from headrace.ingest.rules import imports
from headrace.ir.ops import AveragePool, MaxPool


def _ceil_pads(
    node: Node,
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: tuple[tuple[int, int], ...],
) -> tuple[tuple[int, int], ...]:
    """Pads with what ceil_mode adds at the end: as much as one more window needs, if it starts inside the image."""
    if not node.integer("ceil_mode", 0):
        return pads
    result = []
    for n, k, s, d, (begin, end) in zip(size, kernel, strides, dilations, pads, strict=True):
        reach = d * (k - 1) + 1
        windows = -(-(n + begin + end - reach) // s) + 1
        if (windows - 1) * s >= n + begin:  # the last window would start in the padding after the image
            windows -= 1
        result.append((begin, max(end, (windows - 1) * s + reach - n - begin)))
    return tuple(result)


def _window(
    node: Node,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...]]:
    x = node.value(0)
    kernel = node.integers("kernel_shape")
    size = node.shape(x)[1:]
    if kernel is None or len(kernel) not in (1, 2) or len(kernel) != len(size):
        raise node.unsupported(
            f"a pool of frames {list(node.shape(x))} with kernel {kernel}; 1-D and 2-D are supported"
        )
    strides, dilations, pads = window(node, size, kernel)
    return kernel, strides, dilations, _ceil_pads(node, size, kernel, strides, dilations, pads)


@imports("MaxPool", ignores=("storage_order",))  # of the second output
def max_pool(node: Node) -> Sequence[Operand]:
    """Largest value of each window."""
    return [node.add(MaxPool(*_window(node)), node.value(0))]


@imports("AveragePool")
def average_pool(node: Node) -> Sequence[Operand]:
    """Mean of each window."""
    include = bool(node.integer("count_include_pad", 0))
    kernel, strides, dilations, pads = _window(node)
    own = window(node, node.shape(node.value(0))[1:], kernel)[2]
    beyond = tuple((begin - b, end - e) for (begin, end), (b, e) in zip(pads, own, strict=True))
    return [node.add(AveragePool(kernel, strides, dilations, pads, include, beyond), node.value(0))]


@imports("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: Node) -> Sequence[Operand]:
    """One window that is the whole image."""
    x = node.value(0)
    size = node.shape(x)[1:]
    if len(size) not in (1, 2):
        raise node.unsupported(f"a global pool of frames {list(node.shape(x))}; 1-D and 2-D are supported")
    ones, none = (1,) * len(size), ((0, 0),) * len(size)
    kind = MaxPool if node.proto.op_type == "GlobalMaxPool" else AveragePool
    return [node.add(kind(size, ones, ones, none), x)]
