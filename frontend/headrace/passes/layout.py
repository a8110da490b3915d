"""Where the elements of a tensor are in its stream: data movement as bookkeeping.

A tensor of the integer graph has a *semantic* shape, the model's. Its stream has a *physical* frame, channels last, and
an order: which semantic element travels at which position. Reshapes and transposes only change the order; whoever reads
the stream reads it as it comes (a matrix product permutes the rows of its weights, an activation its channels).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headrace.errors import InputError
from headrace.ir import Array, Shape

Order = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Layout:
    """Stream order of a tensor.

    Attributes:
        shape: semantic frame shape, without the batch axis.
        frame: physical frame shape, channels last; as many elements as *shape*.
        axes: the order as a permutation of the semantic axes, slowest first, or None when it is not one.
        explicit: the order as semantic flat indices by stream position, given only when *axes* is None.
    """

    shape: Shape
    frame: Shape
    axes: tuple[int, ...] | None = None
    explicit: Order | None = None

    def __post_init__(self) -> None:
        if math.prod(self.shape) != math.prod(self.frame) or not self.frame:
            raise ValueError(f"a frame {list(self.frame)} does not carry a tensor {list(self.shape)}")
        if (self.axes is None) == (self.explicit is None):
            raise ValueError("a layout has either axes or an explicit order")

    @staticmethod
    def by_axes(shape: Shape, axes: tuple[int, ...]) -> Layout:
        """The tensor with its axes permuted to *axes*, which is also its frame."""
        return Layout(shape, tuple(shape[a] for a in axes) or (1,), axes)

    @staticmethod
    def row_major(shape: Shape) -> Layout:
        """The tensor as it is: the last axis travels fastest."""
        return Layout.by_axes(shape, tuple(range(len(shape))))

    @staticmethod
    def channels_last(shape: Shape, channels: Order | None = None) -> Layout:
        """An image ``(C, *size)`` pixel by pixel, its channels in the order *channels* (default: ascending)."""
        plain = Layout.by_axes(shape, (*range(1, len(shape)), 0))
        if channels is None or bool(np.array_equal(channels, np.arange(shape[0]))):
            return plain
        order = np.asarray(plain.order).reshape(-1, shape[0])[:, channels]
        return Layout.by_order(shape, plain.frame, order.ravel())

    @staticmethod
    def by_order(shape: Shape, frame: Shape, order: Order) -> Layout:
        """The tensor in any order of its elements; kept as axes where it is a plain permutation of them."""
        natural = tuple(range(len(shape)))
        for axes in dict.fromkeys((natural, (*natural[1:], *natural[:1]))):
            if np.array_equal(_axes_order(shape, axes), order):
                return Layout(shape, frame, axes)
        return Layout(shape, frame, None, order)

    @property
    def size(self) -> int:
        """Elements of one frame."""
        return math.prod(self.shape)

    @cached_property
    def order(self) -> Order:
        """Semantic flat index by stream position, ``(size,)``."""
        if self.axes is None:
            assert self.explicit is not None
            return self.explicit
        return _axes_order(self.shape, self.axes)

    @cached_property
    def significant_axes(self) -> tuple[int, ...] | None:
        """``axes`` without those of size one, which move no element."""
        if self.axes is None:
            return None
        return tuple(a for a in self.axes if self.shape[a] > 1)

    @property
    def is_row_major(self) -> bool:
        """Whether the stream carries the elements in the tensor's own order."""
        return self.follows(tuple(range(len(self.shape))))

    def follows(self, axes: tuple[int, ...]) -> bool:
        """Whether the order is the permutation *axes* of the semantic axes."""
        if self.significant_axes is not None:
            return self.significant_axes == tuple(a for a in axes if self.shape[a] > 1)
        return bool(np.array_equal(self.order, _axes_order(self.shape, axes)))

    def same_order(self, other: Layout) -> bool:
        """Whether both carry element k of the tensor at the same position (the shapes must be equal)."""
        if self.significant_axes is not None and self.significant_axes == other.significant_axes:
            return True
        return bool(np.array_equal(self.order, other.order))

    def reframed(self, frame: Shape) -> Layout:
        """The same stream, seen as frames of another shape."""
        return self if frame == self.frame else replace(self, frame=frame)

    def transposed(self, perm: tuple[int, ...]) -> Layout:
        """Of the tensor whose axis ``k`` is this one's axis ``perm[k]``, in the same stream."""
        shape = tuple(self.shape[p] for p in perm)
        if self.axes is not None:
            return Layout(shape, self.frame, tuple(perm.index(a) for a in self.axes))
        new_index = np.empty(self.size, np.int64)
        new_index[_axes_order(self.shape, perm)] = np.arange(self.size)
        return Layout.by_order(shape, self.frame, new_index[self.order])

    def reshaped(self, shape: Shape) -> Layout:
        """Of the tensor with its elements in the same order in another *shape*, in the same stream."""
        if self.is_row_major:
            return Layout(shape, self.frame, tuple(range(len(shape))))
        old = [a for a, n in enumerate(self.shape) if n > 1]
        new = [a for a, n in enumerate(shape) if n > 1]
        if self.significant_axes is not None and [self.shape[a] for a in old] == [shape[a] for a in new]:
            renumbered = dict(zip(old, new, strict=True))
            units = tuple(a for a in range(len(shape)) if a not in new)
            return Layout(shape, self.frame, (*units, *(renumbered[a] for a in self.significant_axes)))
        return Layout.by_order(shape, self.frame, self.order)

    def pack(self, values: Array) -> Array:
        """A batch ``(frames, *shape)`` in stream order, ``(frames, *frame)``.

        Raises:
            InputError: when the frames have another shape.
        """
        if values.shape[1:] != self.shape:
            raise InputError(f"frames of shape {list(values.shape[1:])} where {list(self.shape)} is expected")
        frames = values.shape[0]
        if self.axes is not None:
            values = values.transpose(0, *(1 + a for a in self.axes))
            return np.ascontiguousarray(values).reshape(frames, *self.frame)
        return np.ascontiguousarray(values.reshape(frames, -1)[:, self.order]).reshape(frames, *self.frame)

    def unpack(self, stream: Array) -> Array:
        """The inverse of :meth:`pack`: from ``(frames, ...)`` in stream order to ``(frames, *shape)``."""
        frames = stream.shape[0]
        result = np.empty((frames, self.size), stream.dtype)
        result[:, self.order] = stream.reshape(frames, -1)
        return result.reshape(frames, *self.shape)

    def __str__(self) -> str:
        how = f"axes {list(self.axes)}" if self.axes is not None else "an order of its own"
        return f"{list(self.shape)} as {list(self.frame)}, {how}"


def _axes_order(shape: Shape, axes: tuple[int, ...]) -> Order:
    index: Order = np.arange(math.prod(shape), dtype=np.int64)
    return index.reshape(shape).transpose(axes).ravel()
