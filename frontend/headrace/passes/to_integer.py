"""Scaled-integer analysis: one abstract interpretation that turns a source graph into an integer graph.

Every tensor is either *scaled* (an integer tensor, and the recorded steps that read it as real numbers) or
*floating* (left to the host). Operators lower themselves (``SourceOp.lower``); this pass walks the graph, hands each
the annotations of its operands, and keeps the reasons for everything that could not become integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from headrace.errors import ModelError
from headrace.ir import Graph, Input, IntRange, Op, Output, Value
from headrace.ir.integer import Activation, Lookup, Reshape
from headrace.ir.ops import Codes, Elementwise, Quantizer, SourceOp, ToReal
from headrace.ir.ops.linear import dequantizing_steps
from headrace.ir.scaled import Abstract, Floating, Int, NotExact, Scaled
from headrace.passes.activation import (
    ENUMERABLE,
    ChannelFunction,
    ClampFunction,
    IntegerFunction,
    run_steps,
    tabulate,
)
from headrace.passes.partition import Partition, partition


@dataclass(frozen=True)
class Blocker:
    """Why a part of the model stays on the host."""

    node: str
    operator: str
    reason: str

    def __str__(self) -> str:
        return f"node '{self.node}' ({self.operator}): {self.reason}"


@dataclass(frozen=True, eq=False)
class IntegerModel:
    """The integer form of a model.

    Attributes:
        graph: the whole of it, model inputs to model outputs, executable.
        annotations: what the analysis knows of each source tensor, by source node.
        blockers: what stays on the host although integers reached it, and why.
        disagreements: per node of *graph*, how many reachable integers float32 and exact real arithmetic map to
            different codes: the only inputs on which another executor may differ.
    """

    graph: Graph
    annotations: dict[Value, Abstract] = field(default_factory=dict)
    blockers: tuple[Blocker, ...] = ()

    @property
    def disagreements(self) -> dict[str, int]:
        """Count per activation node; see the class."""
        ops = ((node, self.graph.op(node)) for node in self.graph)
        return {node: op.disagreements for node, op in ops if isinstance(op, Activation | Lookup)}

    def partition(self) -> Partition:
        """Split into host head, hardware core and host tail.

        Raises:
            UnsupportedError: when that is impossible; lists every blocker.
        """
        return partition(self.graph, [str(b) for b in self.blockers])

    @property
    def head(self) -> Graph:
        """The host part before the hardware."""
        return self.partition().head

    @property
    def core(self) -> Graph:
        """The hardware part."""
        return self.partition().core

    @property
    def tail(self) -> Graph:
        """The host part after the hardware."""
        return self.partition().tail


def to_integer(source: Graph) -> IntegerModel:
    """Lower *source* to integers.

    Raises:
        ModelError: when an operator's parameters are invalid for the values that reach it.
    """
    analysis = _Analysis(source)
    for node in source:
        analysis.visit(node)
    return IntegerModel(analysis.target.live(), analysis.env, tuple(analysis.blockers))


class _Analysis:
    """The state of the walk; implements :class:`headrace.ir.scaled.Lowering`."""

    def __init__(self, source: Graph) -> None:
        self.source = source
        self.target = Graph(source.name, source.file)
        self.env: dict[Value, Abstract] = {}
        self.blockers: list[Blocker] = []
        self._node = ""
        self._public = {source.input_node(n): n for n in source.inputs}
        self._public |= {source.output_node(n): n for n in source.outputs}
        self._reals: dict[tuple[Value, tuple[int, ...]], Value] = {}

    # -- the walk -------------------------------------------------------------------------------------------

    def visit(self, node: str) -> None:
        """Lower one source node and record the annotations of its outputs."""
        self._node = node
        op = self.source.op(node)
        operands = [self.env[v] for v in self.source.sources(node)]
        if isinstance(op, Input):
            self.env[Value(node)] = self._input(node, op)
            return
        if isinstance(op, Output):
            self._output(node, op, operands[0])
            return
        if not isinstance(op, SourceOp):
            raise ModelError(f"{type(op).__name__} is not an operator of the source graph", node=f"'{node}'")
        try:
            results = op.lower(self, *operands)
        except NotExact as reason:
            results = self.host(op, operands, str(reason))
        except ModelError as error:
            if error.node is not None:
                raise
            where = f"'{node}' ({type(op).__name__})"
            raise type(error)(error.message, node=where, file=self.source.file) from error
        for port, result in enumerate(results):
            self.env[Value(node, port)] = result

    def _input(self, node: str, op: Input) -> Abstract:
        value = self.target.input(self._public[node], op.type)
        if not isinstance(op.type.element, IntRange):
            return Floating(value, op.type.shape)
        r = op.type.element
        one = np.ones((1,) * len(op.type.shape))
        bound = np.ones(one.shape, np.int64)
        return Scaled(value, op.type.shape, bound * r.lo, bound * r.hi, one, np.zeros_like(one), (), r.bipolar)

    def _output(self, node: str, op: Output, x: Abstract) -> None:
        integer = op.dtype is not None and np.dtype(op.dtype).kind in "iu"
        value = x.value if integer and isinstance(x, Scaled) and not x.steps else self._real(x)
        self.target.output(self._public[node], value, op.dtype)

    # -- the Lowering protocol ------------------------------------------------------------------------------

    def emit(self, op: Op, *inputs: Value) -> Value:
        """Add an integer operator, named after the node being lowered."""
        return self.target.add(op, inputs, self._node)

    def host(self, op: Op, inputs: Sequence[Abstract], why: str | None = None) -> tuple[Abstract, ...]:
        """Leave *op* to the host."""
        kind = type(op).__name__
        name = getattr(op, "operator", kind)
        cause = next((x.cause for x in inputs if isinstance(x, Floating) and x.cause), None)
        if any(isinstance(x, Scaled) for x in inputs):
            reason = why or f"{name} is not supported in hardware"
            blocker = Blocker(self._node, name, reason)
            self.blockers.append(blocker)
            cause = cause or str(blocker)
        value = self.target.add(op, [self._real(x) for x in inputs], self._node)
        return tuple(
            Floating(Value(value.node, port), type_.shape, cause)
            for port, type_ in enumerate(self.target.types(value.node))
        )

    def step(self, x: Scaled, op: Elementwise) -> Scaled:
        """Record an elementwise operation."""
        if np.broadcast_shapes(x.shape, op.parameter_shape()) != x.shape:
            raise NotExact(f"its constant of shape {list(op.parameter_shape())} would enlarge frames {list(x.shape)}")
        ends = op.linear()
        after = replace(x, steps=(*x.steps, op))
        if x.scale is None or x.bias is None:
            return after
        if ends is not None:
            a, b = ends
            return replace(after, scale=np.asarray(x.scale * a), bias=np.asarray(x.bias * a + b))
        clamp = op.clamp(x.scale, x.bias)
        if clamp is None:
            return replace(after, scale=None, bias=None, clamp=None)
        return replace(after, clamp=clamp if x.clamp is None else x.clamp.then(clamp))

    def integers(self, x: Scaled) -> Scaled:
        """*x* with known scale and bias and its clips done."""
        if x.scale is None or x.bias is None:
            names = " and ".join(type(step).__name__ for step in x.steps if step.linear() is None)
            raise NotExact(f"its input left the integer grid in {names or 'a function'}; put a quantizer between them")
        if x.clamp is None:
            return x
        shape = np.broadcast_shapes((1,) * len(x.shape), x.clamp.lo.shape, x.clamp.hi.shape)
        f = ClampFunction(shape, *_bounds_over(x, shape), x.clamp)
        result, lo, hi = self._emit_function(x, f, f"{x.value.node}_clip")
        steps = dequantizing_steps(x.scale, x.bias)
        return Scaled(result, x.shape, lo, hi, x.scale, x.bias, steps, x.bipolar and result == x.value)

    def on_grid(self, x: Scaled) -> Scaled:
        """As :meth:`integers`; refused where the steps of the result give other real values than those of *x*."""
        if x.clamp is not None and x.scale is not None:
            shape = np.broadcast_shapes((1,) * len(x.shape), x.scale.shape, *(s.parameter_shape() for s in x.steps))
            lo, hi = _bounds_over(x, shape)
            count = int((hi - lo).max()) + 1
            if count * int(np.prod(shape)) > ENUMERABLE:
                raise NotExact("its input is clipped and ranges too wide to be compared value by value; quantize it")
            q = np.minimum(lo + np.arange(count).reshape(-1, *(1,) * len(shape)), hi)
            after = dequantizing_steps(x.scale, np.zeros(()) if x.bias is None else x.bias)
            if not np.array_equal(run_steps(x.steps, q), run_steps(after, x.clamp(q))):
                raise NotExact("its input is clipped where float32 has left the integer grid; put a quantizer there")
        return self.integers(x)

    def enter(self, x: Floating, quantizer: Quantizer) -> Scaled:
        """Quantize on the host: where the hardware begins."""
        if x.cause is not None:
            self.blockers.append(
                Blocker(self._node, type(quantizer).__name__, f"it quantizes what only the host can compute: {x.cause}")
            )
        value = self.target.add(Codes(quantizer), [x.value], self._node)
        shape = self.target.type(value).shape
        levels = quantizer.levels
        bound = np.ones((1,) * len(shape), np.int64)
        lo, hi = bound * levels.lo, bound * levels.hi
        return self._quantized(value, shape, lo, hi, quantizer, levels.bipolar)

    def quantize(self, x: Scaled, quantizer: Quantizer) -> Scaled:
        """An exact integer function of the integers of *x*."""
        shape = np.broadcast_shapes(x.shape, quantizer.parameter_shape())
        if shape != x.shape:
            raise NotExact(f"its parameters of shape {list(quantizer.parameter_shape())} would enlarge {list(x.shape)}")
        shapes = (quantizer.parameter_shape(), *(s.parameter_shape() for s in x.steps))
        own = np.broadcast_shapes((1,) * len(x.shape), *shapes)
        levels = quantizer.levels
        f = IntegerFunction(
            own,
            *_bounds_over(x, own),
            x.steps,
            quantizer.codes,
            quantizer.exact_codes,
            quantizer.rising(),
            levels.bipolar,
        )
        value, lo, hi = self._emit_function(x, f, self._node)
        range_ = self.target.type(value).int_range
        return self._quantized(value, x.shape, lo, hi, quantizer, range_.bipolar)

    # -- pieces ---------------------------------------------------------------------------------------------

    def _quantized(
        self, value: Value, shape: tuple[int, ...], lo: Int, hi: Int, quantizer: Quantizer, bipolar: bool
    ) -> Scaled:
        rank = len(shape)
        scale, bias = (a.reshape((1,) * (rank - a.ndim) + a.shape) for a in (quantizer.scale, quantizer.bias))
        return Scaled(value, shape, lo, hi, scale, bias, dequantizing_steps(scale, bias), bipolar)

    def _emit_function(self, x: Scaled, f: ChannelFunction, name: str) -> tuple[Value, Int, Int]:
        """Emit *f* of the integers of *x* as node *name*; returns the result and its bounds."""
        table = tabulate(f)
        if table.identity and not f.bipolar and not table.op.disagreements:
            return x.value, table.lo, table.hi
        if sum(n > 1 for n in f.shape) > 1:  # parameters vary along several axes: every element is a channel
            return self._flat(x, table.op, f.shape, name), table.lo, table.hi
        return self.target.add(table.op, (x.value,), name), table.lo, table.hi

    def _flat(self, x: Scaled, op: Activation | Lookup, shape: tuple[int, ...], name: str) -> Value:
        """An activation whose parameters vary along several axes, applied to the flattened frame."""
        size = int(np.prod(x.shape))
        index = np.broadcast_to(np.arange(int(np.prod(shape))).reshape(shape), x.shape).reshape(-1)
        spread: Activation | Lookup
        if isinstance(op, Activation):
            rows = op.thresholds[index]
            spread = Activation(rows, op.base[index], op.step[index], op.output, 0, op.disagreements)
        else:
            spread = Lookup(op.table[index], op.lo, op.output, 0, op.disagreements)
        wide = self.target.add(Reshape((size,)), (x.value,), f"{name}_flat")
        return self.target.add(Reshape(x.shape), (self.target.add(spread, (wide,), name),), f"{name}_shaped")

    def _real(self, x: Abstract) -> Value:
        """*x* as a real tensor on the host."""
        if isinstance(x, Floating):
            return x.value
        key = (x.value, tuple(id(step) for step in x.steps))
        if key not in self._reals:
            op = ToReal(x.steps, x.scale, x.bias, x.clamp)
            self._reals[key] = self.target.add(op, [x.value], f"{x.value.node}_real")
        return self._reals[key]


def _bounds_over(x: Scaled, shape: tuple[int, ...]) -> tuple[Int, Int]:
    """Reachable integers of *x* per index of *shape*: the extremes along the axes that *shape* does not resolve."""
    lo, hi = np.broadcast_to(x.lo, x.shape), np.broadcast_to(x.hi, x.shape)
    gone = tuple(axis for axis, n in enumerate(shape) if n == 1)
    return lo.min(axis=gone, keepdims=True), hi.max(axis=gone, keepdims=True)
