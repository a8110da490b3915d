"""What an import rule sees of one ONNX node: typed attributes, operands, and a way to add operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from headrace.errors import ModelError, UnsupportedError
from headrace.ir import Graph, Op, Shape, TensorType, Value
from headrace.ir.grid import Constant
from headrace.ir.op import Array
from headrace.ir.types import check_frame

Operand = Constant | Value


@dataclass(frozen=True, eq=False)
class Tensors:
    """A sequence of tensors, as a value of the file."""

    items: tuple[Operand, ...]


MOST_INDICES = 2**20
"""Elements of an axis along which a rule lists indices."""

Rule = Callable[["Node"], Sequence[Operand | Tensors]]


@dataclass(frozen=True, eq=False)
class Node:
    """One ONNX node during import.

    Attributes:
        proto: the node itself.
        name: its name in the graph that is being built.
        inputs: operands by position; None where an optional input is left out or a sequence of tensors.
        sequences: inputs that are sequences of tensors, by position.
        graph: the source graph being built.
        opset: version of the node's operator set.
        batch: declared batch size of the model (1 when symbolic).
        producers: name of the node that makes each tensor.
        readers: names of all tensors that some node or graph output reads.
        seen: names of the attributes that have been asked for.
    """

    proto: onnx.NodeProto
    name: str
    inputs: tuple[Operand | None, ...]
    graph: Graph
    opset: int
    batch: int
    producers: dict[str, str]
    readers: frozenset[str]
    sequences: Mapping[int, Tensors] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def used(self, output: int) -> bool:
        """Whether anything reads an output."""
        return output < len(self.proto.output) and self.proto.output[output] in self.readers

    # -- attributes -----------------------------------------------------------------------------------------

    def attribute(self, name: str) -> Any:
        """Value of an attribute, or None when it is left out."""
        self.seen.add(name)
        for attribute in self.proto.attribute:
            if attribute.name == name:
                return onnx.helper.get_attribute_value(attribute)
        return None

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        value = self.attribute(name)
        if value is None:
            return default
        if not isinstance(value, int):
            raise self.error(f"attribute '{name}' must be an integer, not {value!r}")
        return value

    def number(self, name: str, default: float, infinite: bool = False) -> float:
        """A float attribute; the default is rounded to float32, as a written one is."""
        value = self.attribute(name)
        if value is None:
            return float(np.float32(default))
        if not isinstance(value, int | float) or np.isnan(value) or (np.isinf(value) and not infinite):
            raise self.error(f"attribute '{name}' must be a finite number, not {value!r}")
        return float(value)

    def integers(self, name: str) -> tuple[int, ...] | None:
        """A list-of-integers attribute, or None."""
        value = self.attribute(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(v, int) for v in value):
            raise self.error(f"attribute '{name}' must be a list of integers, not {value!r}")
        return tuple(value)

    def text(self, name: str, default: str) -> str:
        """A string attribute."""
        value = self.attribute(name)
        if value is None:
            return default
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    # -- operands -------------------------------------------------------------------------------------------

    def has(self, position: int) -> bool:
        """Whether the input is present."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def operand(self, position: int) -> Operand:
        """A required input."""
        if not self.has(position):
            raise self.error(f"input {position} is missing")
        found = self.inputs[position]
        assert found is not None
        return found

    def tensors(self, position: int) -> tuple[Operand, ...]:
        """A required input that is a sequence of tensors."""
        if position not in self.sequences:
            raise self.error(f"input {position} must be a sequence of tensors")
        return self.sequences[position].items

    def value(self, position: int) -> Value:
        """A required input that depends on the model's inputs."""
        operand = self.operand(position)
        if isinstance(operand, Constant):
            raise self.error(f"input {position} is a constant where a tensor that depends on the input is expected")
        return operand

    def constant(self, position: int, what: str) -> Array:
        """A required constant input.

        Raises:
            ModelError: when it is computed from the data at run time; names where it comes from.
        """
        operand = self.operand(position)
        if isinstance(operand, Value):
            source = self.producers.get(self.proto.input[position], operand.node)
            raise self.error(
                f"its {what} is not constant: it is computed from the data at run time by node '{source}'; "
                f"only a static {what} can become hardware"
            )
        return operand.value

    def one_number(self, position: int, what: str) -> float:
        """A required constant input that is one number, perhaps infinite.

        Raises:
            ModelError: when it is none, several, or NaN.
        """
        array = np.asarray(self.constant(position, what)).reshape(-1)
        if array.size != 1 or array.dtype.kind not in "fiub" or np.isnan(float(array[0])):
            raise self.error(f"its {what} must be one number, not {array[:8].tolist()}")
        return float(array[0])

    def finite(self, position: int, what: str) -> Array:
        """A required constant input without NaN and infinities."""
        array = np.asarray(self.constant(position, what))
        if not np.all(np.isfinite(array.astype(np.float64))):
            raise self.error(f"its {what} holds values that are not finite numbers")
        return array

    def shape(self, value: Value) -> Shape:
        """Frame shape of a tensor."""
        return self.graph.type(value).shape

    def indexable(self, shape: Shape) -> Shape:
        """*shape* of a result, for rules that list the indices along its axes before they add the operator.

        Raises:
            ModelError: when it is too large for that.
        """
        try:
            check_frame(shape)
        except ModelError as error:
            raise self.error(error.message) from error
        if max(shape, default=0) > MOST_INDICES:
            raise self.error(f"it makes an axis of {max(shape):,} elements; up to {MOST_INDICES:,} are supported")
        return shape

    def axes(self, given: Iterable[int], rank: int) -> tuple[int, ...]:
        """Axes of a tensor with *rank* axes (batch axis counted) from its start, each once.

        Raises:
            ModelError: when one is out of range or given twice.
        """
        found = tuple(given)
        result = tuple(a % rank for a in found)
        if not all(-rank <= a < rank for a in found) or len(set(result)) < len(result):
            raise self.error(f"its axes {list(found)} must be different ones of a tensor of rank {rank}")
        return result

    def frame_parameter(self, array: Array, shape: Shape, what: str) -> Array:
        """A constant as it broadcasts against frames of *shape*: same rank, batch axis dropped.

        Raises:
            ModelError: when the shapes do not broadcast or the constant varies over the batch.
        """
        full = np.asarray(array)
        if full.ndim > len(shape):
            extra = full.ndim - len(shape)
            if any(n != 1 for n in full.shape[:extra]):
                raise self.error(f"{what} of shape {list(full.shape)} does not fit frames of shape {list(shape)}")
            full = full.reshape(full.shape[extra:])
        full = full.reshape((1,) * (len(shape) - full.ndim) + full.shape)
        try:
            np.broadcast_shapes(full.shape, shape)
        except ValueError as error:
            raise self.error(
                f"{what} has shape {list(np.asarray(array).shape)}, which does not broadcast with frames of shape "
                f"{list(shape)}"
            ) from error
        return full

    # -- results --------------------------------------------------------------------------------------------

    def add(self, op: Op, *inputs: Value, suffix: str = "") -> Value:
        """Add an operator named after this node."""
        return self.graph.add(op, inputs, f"{self.name}_{suffix}" if suffix else self.name)

    def type(self, value: Value) -> TensorType:
        """Type of a tensor."""
        return self.graph.type(value)

    @property
    def where(self) -> str:
        """The node as errors name it."""
        return f"'{self.name}' ({self.proto.op_type})"

    def error(self, message: str) -> ModelError:
        """An error that names this node."""
        return ModelError(message, node=self.where, file=self.graph.file)

    def unsupported(self, message: str) -> UnsupportedError:
        """An error that names this node as beyond what is supported."""
        return UnsupportedError(message, node=self.where, file=self.graph.file)


def frame_axis(node: Node, axis: int, rank: int) -> int:
    """An ONNX axis of a tensor with *rank* frame axes, counted without the batch axis.

    Raises:
        ModelError: when it is out of range or the batch axis.
    """
    full = rank + 1
    if not -full <= axis < full:
        raise node.error(f"axis {axis} is out of range for a tensor of rank {full}")
    if axis % full == 0:
        raise node.unsupported("it works along the batch axis (axis 0), but frames are independent in hardware")
    return axis % full - 1
