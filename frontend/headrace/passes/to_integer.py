"""Scaled-integer analysis: one abstract interpretation that turns a source graph into an integer graph.

Every tensor is either *scaled* (an integer tensor, and the recorded steps that read it as real numbers) or
*floating* (left to the host). Operators lower themselves (``SourceOp.lower``); this pass walks the graph, hands each
the annotations of its operands, and keeps the reasons for everything that could not become integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from headrace.errors import ModelError
from headrace.ir import Graph, Input, IntRange, Op, Output, Value
from headrace.ir.integer import Activation, Lookup, Reshape
from headrace.ir.op import Array
from headrace.ir.ops import Codes, Elementwise, Mul, Quantizer, SourceOp, ToReal
from headrace.ir.real import single
from headrace.ir.scaled import Abstract, Floating, Int, NotExact, Scaled
from headrace.passes.activation import IntegerFunction, tabulate
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
    return IntegerModel(analysis.target, analysis.env, tuple(analysis.blockers))


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
        scale, bias = x.scale, x.bias
        if ends is None or scale is None or bias is None:
            scale, bias = None, None
        else:
            a, b = ends
            scale, bias = np.asarray(scale * a), np.asarray(bias * a + b)
        return Scaled(x.value, x.shape, x.lo, x.hi, scale, bias, (*x.steps, op), x.bipolar)

    def on_grid(self, x: Scaled) -> Scaled:
        """*x* with known scale and bias; nonlinear steps are tabulated where their values stay on the grid."""
        if x.scale is not None and x.bias is not None:
            return x
        last = max((k for k, step in enumerate(x.steps) if step.linear() is None), default=-1)
        if last < 0:
            raise NotExact("its input is on no integer grid")
        scale = _scale_before(x.steps)
        if scale is None:
            raise NotExact(
                "its input passed an offset and a nonlinear function without a quantizer; quantize it before"
            )
        rank = len(x.shape)
        scale = scale.reshape((1,) * (rank - scale.ndim) + scale.shape)

        def rounded(real: Array) -> Int:
            q: Int = np.rint(real / scale).astype(np.int64)
            return q

        def codes(real: Array) -> Int:
            q = rounded(real)
            if not np.array_equal(single(single(q) * single(scale)), single(real)):
                raise NotExact("its input leaves the integer grid in a nonlinear function; quantize it before")
            return q

        bent = replace(x, steps=x.steps[: last + 1])
        value, lo, hi = self._function(bent, codes, rounded, True, scale.shape)
        steps = (Mul(scale),) if np.any(single(scale) != 1) else ()
        result = Scaled(value, x.shape, lo, hi, scale, np.zeros_like(scale), steps)
        for step in x.steps[last + 1 :]:
            result = self.step(result, step)
        return result

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
        value, lo, hi = self._function(
            x,
            quantizer.codes,
            quantizer.exact_codes,
            quantizer.rising(),
            quantizer.parameter_shape(),
            bipolar=quantizer.levels.bipolar,
        )
        range_ = self.target.type(value).int_range
        return self._quantized(value, x.shape, lo, hi, quantizer, range_.bipolar)

    # -- pieces ---------------------------------------------------------------------------------------------

    def _quantized(
        self, value: Value, shape: tuple[int, ...], lo: Int, hi: Int, quantizer: Quantizer, bipolar: bool
    ) -> Scaled:
        rank = len(shape)
        scale, bias = (a.reshape((1,) * (rank - a.ndim) + a.shape) for a in (quantizer.scale, quantizer.bias))
        steps = (Mul(scale),) if np.any(single(scale) != 1) else ()
        return Scaled(value, shape, lo, hi, scale, bias, steps, bipolar)

    def _function(
        self,
        x: Scaled,
        codes: Callable[[Array], Int],
        exact_codes: Callable[[Array], Int],
        rising: bool,
        own_shape: tuple[int, ...],
        bipolar: bool = False,
    ) -> tuple[Value, Int, Int]:
        """Emit the integer function of *x*'s steps and *codes*; returns the result and its bounds."""
        shapes = [own_shape, *(s.parameter_shape() for s in x.steps)]
        rank = len(x.shape)
        shape = np.broadcast_shapes((1,) * rank, *shapes)
        flat = sum(n > 1 for n in shape) > 1  # parameters vary along several axes: every element is a channel
        lo, hi = _bounds_over(x, shape)
        f = IntegerFunction(x.steps, codes, exact_codes, rising, shape, lo, hi, bipolar)
        table = tabulate(f)
        if table.identity and not bipolar:
            return x.value, table.lo, table.hi
        source = x.value
        if flat:
            return self._flat(x, table.op, shape, table.lo, table.hi)
        return self.emit(table.op, source), table.lo, table.hi

    def _flat(
        self, x: Scaled, op: Activation | Lookup, shape: tuple[int, ...], lo: Int, hi: Int
    ) -> tuple[Value, Int, Int]:
        """An activation whose parameters vary along several axes, applied to the flattened frame."""
        size = int(np.prod(x.shape))
        index = np.broadcast_to(np.arange(int(np.prod(shape))).reshape(shape), x.shape).reshape(-1)
        spread: Activation | Lookup
        if isinstance(op, Activation):
            rows = op.thresholds[index]
            spread = Activation(rows, op.base[index], op.step[index], op.output, 0, op.disagreements)
        else:
            spread = Lookup(op.table[index], op.lo, op.output, 0, op.disagreements)
        wide = self.emit(Reshape((size,)), x.value)
        result = self.emit(Reshape(x.shape), self.emit(spread, wide))
        return result, lo, hi

    def _real(self, x: Abstract) -> Value:
        """*x* as a real tensor on the host."""
        if isinstance(x, Floating):
            return x.value
        key = (x.value, tuple(id(step) for step in x.steps))
        if key not in self._reals:
            op = ToReal(x.steps, x.scale, x.bias)
            self._reals[key] = self.target.add(op, [x.value], f"{x.value.node}_real")
        return self._reals[key]


def _scale_before(steps: Sequence[Elementwise]) -> Array | None:
    """Product of the scales before the first nonlinear step; None when an offset is added there."""
    scale: Array = np.ones(())
    for step in steps:
        ends = step.linear()
        if ends is None:
            return scale
        a, b = ends
        if np.any(b != 0):
            return None
        scale = np.asarray(scale * a)
    return scale


def _bounds_over(x: Scaled, shape: tuple[int, ...]) -> tuple[Int, Int]:
    """Reachable integers of *x* per index of *shape*: the extremes along the axes that *shape* does not resolve."""
    lo, hi = np.broadcast_to(x.lo, x.shape), np.broadcast_to(x.hi, x.shape)
    gone = tuple(axis for axis, n in enumerate(shape) if n == 1)
    return lo.min(axis=gone, keepdims=True), hi.max(axis=gone, keepdims=True)
