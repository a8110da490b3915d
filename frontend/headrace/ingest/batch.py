"""Constants that are computed from the batch size: fine where they only say that the batch comes first, else refused.

A symbolic batch has no value, yet exporters write ``x.view(x.size(0), -1)`` as arithmetic on shapes. Such subgraphs are
folded twice, for two batch sizes: what differs depends on the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from headrace.errors import ModelError
from headrace.ingest.constants import fold
from headrace.ingest.operands import Node
from headrace.ir.grid import Constant
from headrace.ir.op import Array

ANOTHER = 7919
"""A batch size that nothing else in a model is likely to be."""

_SHAPES = frozenset({"Reshape", "Expand", "Resize", "Upsample", "Tile"})
"""Operators that may read a shape whose first element, and no other, is the batch size."""


@dataclass
class BatchConstants:
    """Values that constants would have for :data:`ANOTHER` batch size, by tensor; only those that differ."""

    other: dict[str, Array] = field(default_factory=dict)

    def shape_of(self, node: Node, full: Array, selected: slice) -> None:
        """Note the outputs of a Shape operator, whose first element is the batch."""
        changed = np.concatenate([[ANOTHER], full[1:]])
        if not np.array_equal(full[selected], changed[selected]):
            self.other[node.proto.output[0]] = changed[selected]

    def folded(self, node: Node, results: Sequence[Constant]) -> None:
        """Fold *node* for the other batch size, where an operand depends on it."""
        if not any(name in self.other for name in node.proto.input):
            return
        operands = [
            Constant(self.other[name]) if name in self.other else x if isinstance(x, Constant) else None
            for name, x in zip(node.proto.input, node.inputs, strict=True)
        ]
        again = fold(replace(node, inputs=tuple(operands)), operands)
        for name, one, two in zip(node.proto.output, results, again, strict=False):
            if not np.array_equal(one.value, two.value):
                self.other[name] = two.value

    def check(self, node: Node) -> None:
        """Refuse a node that computes with the batch size.

        Raises:
            ModelError: names the operand.
        """
        for position, (name, x) in enumerate(zip(node.proto.input, node.inputs, strict=True)):
            if name not in self.other or not isinstance(x, Constant):
                continue
            one, two = x.value.reshape(-1), self.other[name].reshape(-1)
            first_only = one.size == two.size and np.array_equal(one[1:], two[1:])
            if node.proto.op_type not in _SHAPES or position == 0 or not first_only:
                raise self._refused(node, position)

    def check_output(self, name: str, file: str | None) -> None:
        """Refuse a constant graph output that is computed from the batch size.

        Raises:
            ModelError: names the output.
        """
        if name in self.other:
            raise ModelError(
                f"graph output '{name}' is computed from the batch size, which is symbolic; leave it out of the model",
                file=file,
            )

    @staticmethod
    def _refused(node: Node, position: int) -> ModelError:
        return node.unsupported(
            f"its input {position} is computed from the batch size, which is symbolic; frames must not depend on it"
        )
