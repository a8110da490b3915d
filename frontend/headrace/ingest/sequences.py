"""Import rules of sequences of tensors, which exist in the file alone: their length and their elements are known.

``torch.chunk`` and ``torch.split`` are exported so, and whatever a scripted model does with lists of tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx

from headrace.ingest.constants import fold
from headrace.ingest.operands import Node, Operand, Tensors, frame_axis
from headrace.ingest.rules import ONNX, find_rule, imports
from headrace.ir.grid import Constant

MOST_TENSORS = 4096
"""Tensors of one sequence."""

_ATTRIBUTES = 11
"""The last operator set in which sizes and axes are attributes."""


def _applied(
    node: Node, operator: str, operands: Sequence[Operand], outputs: int = 1, **attributes: int | list[int]
) -> Sequence[Operand]:
    """The results of another operator, in the place of *node*."""
    reads, makes = [f"x{k}" for k in range(len(operands))], [f"y{k}" for k in range(outputs)]
    proto = onnx.helper.make_node(operator, reads, makes, node.name)
    proto.attribute.extend(onnx.helper.make_attribute(*attribute) for attribute in attributes.items())
    inner = replace(node, proto=proto, inputs=tuple(operands), sequences={}, opset=_ATTRIBUTES, seen=set())
    constants = [x for x in operands if isinstance(x, Constant)]
    if len(constants) == len(operands):
        return fold(inner, constants)
    rule = find_rule(ONNX, operator)
    assert rule is not None
    return [x for x in rule(inner) if not isinstance(x, Tensors)]


def _checked(node: Node, count: int) -> int:
    """*count*, when a sequence may be as long.

    Raises:
        UnsupportedError: when it may not.
    """
    if count > MOST_TENSORS:
        raise node.unsupported(f"a sequence of {count:,} tensors; up to {MOST_TENSORS:,} are supported")
    return count


def _position(node: Node, number: int, count: int, default: int, last: int) -> int:
    """The place up to *last* that a constant input, or *default* without it, names among *count*, from either end."""
    given = int(node.one_number(number, "position")) if node.has(number) else default
    if not -count <= given <= last:
        raise node.error(f"position {given} of a sequence of {count} tensors")
    return given if given >= 0 else given + count


@imports("SplitToSequence", sequences=True)
def split_to_sequence(node: Node) -> Sequence[Tensors]:
    """Parts along an axis: of constant sizes, of one size each but for the last, or single elements.

    With sizes, ONNX ignores *keepdims*, yet torch's exporter writes ``unbind`` with size 1 and without the axis, and
    ONNX Runtime computes it so.
    """
    x, axis = node.operand(0), node.integer("axis", 0)
    keep = bool(node.integer("keepdims", 1))
    if isinstance(x, Constant):
        size = x.value.shape[node.axes([axis], x.value.ndim)[0]]
    else:
        size = node.shape(x)[frame_axis(node, axis, len(node.shape(x)))]
    given = node.constant(1, "split sizes") if node.has(1) else np.array(1)
    if given.ndim == 0:
        each = int(given)
        if each < 1:
            raise node.error(f"its split size must be positive, not {each}")
        count = _checked(node, -(-size // each))
        parts = [min(each, size - k * each) for k in range(count)]
    else:
        _checked(node, given.size)
        parts = [int(n) for n in given.reshape(-1)]
    items = list(_applied(node, "Split", [x], len(parts), axis=axis, split=parts))
    if not keep and set(parts) == {1}:
        items = [y for item in items for y in _applied(node, "Squeeze", [item], axes=[axis])]
    return [Tensors(tuple(items))]


@imports("SequenceConstruct", "SequenceEmpty", sequences=True, ignores=("dtype",))
def sequence_construct(node: Node) -> Sequence[Tensors]:
    """The operands, as they are."""
    return [Tensors(tuple(node.operand(k) for k in range(len(node.inputs))))]


@imports("SequenceInsert", sequences=True)
def sequence_insert(node: Node) -> Sequence[Tensors]:
    """One tensor more, at the end without a position."""
    items = node.tensors(0)
    _checked(node, len(items) + 1)
    at = _position(node, 2, len(items), len(items), last=len(items))
    return [Tensors((*items[:at], node.operand(1), *items[at:]))]


@imports("SequenceErase", sequences=True)
def sequence_erase(node: Node) -> Sequence[Tensors]:
    """One tensor less, the last without a position."""
    items = node.tensors(0)
    at = _position(node, 1, len(items), -1, last=len(items) - 1)
    return [Tensors((*items[:at], *items[at + 1 :]))]


@imports("SequenceAt", sequences=True)
def sequence_at(node: Node) -> Sequence[Operand]:
    """The element at a constant position."""
    items = node.tensors(0)
    return [items[_position(node, 1, len(items), 0, last=len(items) - 1)]]


@imports("SequenceLength", sequences=True)
def sequence_length(node: Node) -> Sequence[Operand]:
    """A constant."""
    return [Constant(np.array(len(node.tensors(0)), np.int64))]


@imports("ConcatFromSequence", sequences=True)
def concat_from_sequence(node: Node) -> Sequence[Operand]:
    """Concat of all, along an axis that they have or along a new one."""
    items, axis = list(node.tensors(0)), node.integer("axis", 0)
    if not items:
        raise node.error("it joins a sequence without tensors")
    if node.integer("new_axis", 0):
        items = [y for item in items for y in _applied(node, "Unsqueeze", [item], axes=[axis])]
    return _applied(node, "Concat", items, axis=axis)
