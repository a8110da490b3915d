"""What the analysis knows of a model, for ``headrace info``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.ir import Graph, Input, IntRange, Output, Value
from headrace.ir.op import Array
from headrace.ir.scaled import Abstract, Joined, Scaled
from headrace.passes.to_integer import IntegerModel

Numbers = float | list[Any] | None
"""One number, or nested lists of them, or nothing."""


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of the model: ``real = scale * q + offset`` with integers ``q`` of type ``element``.

    ``scale`` and ``offset`` are one number where all channels have the same, else a list of those of the channels (of
    lists, where they differ along several axes); None where unknown. A join that is part of the next activation has no
    integers of its own: ``element`` names those of its operands, *joined*.
    """

    name: str
    operator: str
    shape: tuple[int, ...]
    element: str
    scale: Numbers
    offset: Numbers


@dataclass(frozen=True)
class ModelInfo:
    """A model, tensor by tensor.

    Attributes:
        tensors: in the order of computation.
        blockers: why parts of the model stay on the host.
        disagreements: by activation, the accumulator values for which float32 and exact real arithmetic differ.
    """

    name: str
    file: str | None
    tensors: Sequence[TensorInfo]
    blockers: Sequence[str]
    disagreements: dict[str, int]


def describe(source: Graph, integer: IntegerModel) -> ModelInfo:
    """Collect what the analysis found."""
    tensors = []
    known_of: dict[Value, Abstract] = {**integer.joins, **integer.annotations}
    order = [Value(node, port) for node in source for port in range(len(source.types(node)))]
    for value, known in ((value, known_of[value]) for value in order if value in known_of):
        op = source.op(value.node)
        if not isinstance(op, Output):
            kind = "input" if isinstance(op, Input) else type(op).__name__
            tensors.append(_tensor(value.node, kind, known))
    blockers = [str(blocker) for blocker in integer.blockers]
    counts = {node: count for node, count in integer.disagreements.items() if count}
    return ModelInfo(source.name, source.file, tensors, blockers, counts)


def _tensor(name: str, operator: str, known: Abstract) -> TensorInfo:
    if isinstance(known, Joined):
        leaves = dict.fromkeys(str(_element(leaf)) for leaf in known.leaves)
        return TensorInfo(name, operator, known.shape, f"{', '.join(leaves)} joined", None, None)
    if not isinstance(known, Scaled):
        return TensorInfo(name, operator, known.shape, "FLOAT32", None, None)
    return TensorInfo(name, operator, known.shape, str(_element(known)), _numbers(known.scale), _numbers(known.bias))


def _element(known: Scaled) -> IntRange:
    return IntRange(int(known.lo.min()), int(known.hi.max()), known.bipolar)


def _numbers(values: Array | None) -> Numbers:
    if values is None:
        return None
    found: Numbers = np.squeeze(values).tolist() if np.ptp(values) else float(np.min(values))
    return found
