"""Base of every operator: a frozen dataclass with a type rule and an execution."""

from __future__ import annotations

from dataclasses import Field, dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ir.types import TensorType

Array = NDArray[Any]

QUIET = {"quiet": True}
"""Metadata of a field of an operator that is not shown, nor saved, while it has its default."""


@dataclass(frozen=True, eq=False)
class Op:
    """One operator. Parameters are typed fields; connectivity lives in the :class:`~headrace.ir.graph.Graph`.

    Arrays are passed with the batch axis first: ``(frames, *type.shape)``.
    """

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Types of the outputs, given those of the inputs.

        Raises:
            ModelError: when the inputs do not fit the operator.
        """
        raise NotImplementedError(type(self).__name__)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        """The outputs for a batch of inputs; exact on integers."""
        raise NotImplementedError(type(self).__name__)

    def __str__(self) -> str:
        shown = ", ".join(_show(getattr(self, f.name), f.name) for f in told_fields(self))
        return f"{type(self).__name__}({shown})"


def told_fields(value: Any) -> list[Field[Any]]:
    """The fields of a dataclass, without those that :data:`QUIET` hides."""
    return [f for f in fields(value) if f.metadata != QUIET or getattr(value, f.name) != f.default]


def _show(value: object, name: str) -> str:
    return f"{name}={_brief(value)}"


def _brief(value: object) -> str:
    """Arrays by type and shape, whatever they are inside of."""
    if isinstance(value, np.ndarray):
        return f"<{value.dtype}{list(value.shape)}>"
    if is_dataclass(value) and not isinstance(value, type) and type(value).__str__ is object.__str__:
        parts = (getattr(value, f.name) for f in fields(value))
        return f"{type(value).__name__}({', '.join(_brief(part) for part in parts)})"
    return str(value)
