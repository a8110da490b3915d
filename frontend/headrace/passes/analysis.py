"""The walk of the scaled-integer analysis: the state that operators lower themselves into."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from headrace.errors import ModelError, UnsupportedError
from headrace.ir import Graph, Input, IntRange, Op, Output, Shape, Value
from headrace.ir.integer import Activation, IntAdd, IntClip, Lookup, Reshape
from headrace.ir.ops import AddTensors, Codes, Elementwise, Mul, Quantizer, SourceOp, ToReal
from headrace.ir.ops.blocks import WeightedSum
from headrace.ir.ops.linear import dequantizing_steps
from headrace.ir.scaled import Abstract, Exact, Floating, Int, Joined, NotExact, Scaled, Writable
from headrace.passes.activation import (
    ENUMERABLE,
    ChannelFunction,
    ClampFunction,
    IntegerFunction,
    bounds_over,
    run_steps,
    tabulate,
)
from headrace.passes.blocker import Blocker
from headrace.passes.fixed_point import WIDEST, fixed_point, is_plain, rounded, unit_scale
from headrace.passes.joins import Combination, combine, tabulate_values
from headrace.passes.joint_function import JointFunction, OneSource, parameter_shape
from headrace.passes.segments import in_segments, walk
from headrace.passes.writable import any_thresholds

FEW_LEVELS = 256
"""Up to this many integers, a clip becomes thresholds."""


class Analysis:
    """The state of the walk; implements :class:`headrace.ir.scaled.Lowering`."""

    def __init__(self, source: Graph, asked: Mapping[str, Writable] | None = None) -> None:
        """*asked*: by node of the integer graph, what is to be replaceable at run time."""
        self.source = source
        self.asked = asked or {}
        self.target = Graph(source.name, source.file)
        self.target.constant_outputs = dict(source.constant_outputs)
        self.env: dict[Value, Abstract] = {}
        self.blockers: list[Blocker] = []
        self._node = ""
        self._public = {source.input_node(n): n for n in source.inputs}
        self._public |= {source.output_node(n): n for n in source.outputs}
        self._reals: dict[tuple[Value, tuple[int, ...]], Value] = {}
        self._settled: dict[tuple[int, str], tuple[Abstract, Scaled]] = {}
        self._joins: dict[int, str] = {}  # source node by the id of its operator

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
        except (NotExact, UnsupportedError) as reason:
            results = self.host(op, operands, str(reason))
        except ModelError as error:
            if error.node is not None:
                raise
            where = f"'{node}' ({type(op).__name__})"
            raise type(error)(error.message, node=where, file=self.source.file) from error
        except (MemoryError, RecursionError) as error:
            message = "there is not enough memory to analyse it, or too much is joined without a quantizer"
            raise ModelError(message, node=f"'{node}' ({type(op).__name__})", file=self.source.file) from error
        for port, result in enumerate(results):
            self.env[Value(node, port)] = result
            if isinstance(result, Joined):
                self._joins.setdefault(id(result.op), node)

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

    def emit(self, op: Op, *inputs: Value, name: str = "") -> Value:
        """Add an integer operator called *name*, or named after the node being lowered."""
        return self.target.add(op, inputs, name or self._node)

    def writable(self, name: str = "") -> Writable | None:
        """What was asked for the node that :meth:`emit` adds next; *name* is as there."""
        return self.asked.get(self.target.unique_name(name or self._node))

    def host(self, op: Op, inputs: Sequence[Abstract], why: str | None = None) -> tuple[Abstract, ...]:
        """Leave *op* to the host."""
        kind = type(op).__name__
        name = getattr(op, "operator", kind)
        cause = next((x.cause for x in inputs if isinstance(x, Floating) and x.cause), None)
        if not all(isinstance(x, Floating) for x in inputs):
            reason = why or f"{name} is not supported in hardware; as the last operators of the model the host runs it"
            blocker = Blocker(self._node, name, reason)
            self.blockers.append(blocker)
            cause = cause or blocker.where
        value = self.target.add(op, [self._real(x) for x in inputs], self._node)
        return tuple(
            Floating(Value(value.node, port), type_.shape, cause)
            for port, type_ in enumerate(self.target.types(value.node))
        )

    def shape(self, value: Value) -> Shape:
        """Frame shape of an integer tensor."""
        return self.target.type(value).shape

    def step(self, x: Exact, op: Elementwise) -> Exact:
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

    def integers(self, x: Scaled | Joined) -> Scaled:
        """*x* with known scale and bias and its clips done."""
        if x.scale is None or x.bias is None:
            names = [step.title for step in x.steps if step.linear() is None]
            if isinstance(x, Joined) and not (isinstance(x.op, AddTensors) and names):
                names.insert(0, f"{x.op} of two tensors")
            where = " and ".join(names) or "an operator before it"
            raise NotExact(f"its input left the integer grid in {where}; put a quantizer between them")
        if isinstance(x, Joined):
            return self._once("sum", x, self._sum)
        if x.clamp is None:
            return x
        result, lo, hi = self._clip(x)
        steps = dequantizing_steps(x.scale, x.bias)
        return Scaled(result, x.shape, lo, hi, x.scale, x.bias, steps, x.bipolar and result == x.value)

    def on_grid(self, x: Scaled) -> Scaled:
        """As :meth:`integers`; refused where the steps of the result give other real values than those of *x*."""
        if x.clamp is not None and x.scale is not None:
            shape = np.broadcast_shapes((1,) * len(x.shape), x.scale.shape, *(s.parameter_shape() for s in x.steps))
            lo, hi = bounds_over(x, shape)
            count = int((hi - lo).max()) + 1
            if count * int(np.prod(shape)) > ENUMERABLE:
                raise NotExact("its input is clipped and ranges too wide to be compared value by value; quantize it")
            q = np.minimum(lo + np.arange(count).reshape(-1, *(1,) * len(shape)), hi)
            after = dequantizing_steps(x.scale, np.zeros(()) if x.bias is None else x.bias)
            if not np.array_equal(run_steps(x.steps, q), run_steps(after, x.clamp(q))):
                raise NotExact("its input is clipped where float32 has left the integer grid; put a quantizer there")
        return self.integers(x)

    def tensor(self, x: Scaled | Joined) -> Scaled:
        """*x* as one integer tensor."""
        return x if isinstance(x, Scaled) else self._once("tensor", x, self._tensor)

    def fixed(self, x: Scaled | Joined) -> Scaled:
        """Integers that are the float32 values of *x*, times one power of two."""
        return self._once("fixed", x, self._fixed)

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

    def quantize(self, x: Scaled | Joined, quantizer: Quantizer) -> Scaled:
        """An exact integer function of the integers of *x*."""
        shape = np.broadcast_shapes(x.shape, quantizer.parameter_shape())
        if shape != x.shape:
            raise NotExact(f"its parameters of shape {list(quantizer.parameter_shape())} would enlarge {list(x.shape)}")
        shapes = (quantizer.parameter_shape(), *(s.parameter_shape() for s in x.steps))
        own = np.broadcast_shapes((1,) * len(x.shape), *shapes)
        if isinstance(x, Joined):
            try:
                function = JointFunction.of(x, np.broadcast_shapes(own, parameter_shape(x)), quantizer)
                found = self._joint(function, quantizer.levels)
                if found is None:
                    return self.quantize(self.tensor(x), quantizer)
            except NotExact as reason:
                return self.enter(self._left_to_host(x, str(reason)), quantizer)
            value, lo, hi = found
        else:
            value, lo, hi = self._emit_function(x, IntegerFunction.of(x, own, quantizer), self._node, quantizer.levels)
        return self._quantized(value, x.shape, lo, hi, quantizer, self.target.type(value).int_range.bipolar)

    # -- pieces ---------------------------------------------------------------------------------------------

    def _quantized(
        self, value: Value, shape: tuple[int, ...], lo: Int, hi: Int, quantizer: Quantizer, bipolar: bool
    ) -> Scaled:
        rank = len(shape)
        scale, bias = (a.reshape((1,) * (rank - a.ndim) + a.shape) for a in (quantizer.scale, quantizer.bias))
        return Scaled(value, shape, lo, hi, scale, bias, dequantizing_steps(scale, bias), bipolar)

    def _emit_function(
        self, x: Scaled, f: ChannelFunction, name: str, levels: IntRange | None = None
    ) -> tuple[Value, Int, Int]:
        """Emit *f* of the integers of *x* as node *name*; returns the result and its bounds.

        *levels* are those that may come out once others than *f* are written at run time.
        """
        asked = self.writable(name)
        ops: Sequence[Activation | Lookup]
        try:
            table = tabulate(f)
        except NotExact as reason:
            try:
                ops, lo, hi = walk(f)
            except NotExact:
                raise reason from None
        else:
            if asked is None and table.identity and not f.bipolar and not table.op.disagreements:
                return x.value, table.lo, table.hi
            segments = in_segments(table.op, int(f.hi.max())) if isinstance(table.op, Lookup) else None
            ops, lo, hi = segments or (table.op,), table.lo, table.hi
        if asked is not None:
            op, lo, hi = any_thresholds(asked, ops, levels, f.shape)
            ops = (op,)
        if sum(n > 1 for n in f.shape) > 1:  # parameters vary along several axes: every element is a channel
            return self._flat(x, ops, f.shape, name), lo, hi
        value = x.value
        for op in ops[:-1]:
            value = self.emit(op, value, name=f"{name}_segment")
        return self.emit(ops[-1], value, name=name), lo, hi

    def _flat(self, x: Scaled, ops: Sequence[Activation | Lookup], shape: tuple[int, ...], name: str) -> Value:
        """Activations whose parameters vary along several axes, applied to the flattened frame."""
        size = int(np.prod(x.shape))
        index = np.broadcast_to(np.arange(int(np.prod(shape))).reshape(shape), x.shape).reshape(-1)
        value = self.emit(Reshape((size,)), x.value, name=f"{name}_flat")
        for op in ops:
            if isinstance(op, Activation):
                rows, base, step = op.thresholds[index], op.base[index], op.step[index]
                value = self.emit(replace(op, thresholds=rows, base=base, step=step, axis=0), value, name=name)
            else:
                value = self.emit(replace(op, table=op.table[index], axis=0), value, name=name)
        return self.emit(Reshape(x.shape), value, name=f"{name}_shaped")

    def _clip(self, x: Scaled) -> tuple[Value, Int, Int]:
        """Emit the clips that *x* has recorded."""
        assert x.clamp is not None
        shape = np.broadcast_shapes((1,) * len(x.shape), x.clamp.lo.shape, x.clamp.hi.shape)
        lo, hi = bounds_over(x, shape)
        low, high = x.clamp(lo), x.clamp(hi)
        long = [axis for axis, n in enumerate(shape) if n > 1]
        if np.all(low == lo) and np.all(high == hi):
            return x.value, lo, hi
        if len(long) > 1 or int((high - low).max()) < FEW_LEVELS:
            return self._emit_function(x, ClampFunction(shape, lo, hi, x.clamp), f"{x.value.node}_clip")
        ends = (x.clamp.lo, x.clamp.hi)
        bounds = [np.clip(np.broadcast_to(b, shape).reshape(-1), low.min(), high.max()) for b in ends]
        op = IntClip(bounds[0], bounds[1], IntRange(int(low.min()), int(high.max())), long[0] if long else 0)
        return self.emit(op, x.value, name=f"{x.value.node}_clip"), low, high

    # -- joins ----------------------------------------------------------------------------------------------

    def _once(self, kind: str, x: Exact, make: Callable[[Exact], Scaled]) -> Scaled:
        """*make* of *x*, or what it made before: readers of one tensor share its integers."""
        key = (id(x), kind)
        if key not in self._settled:
            self._settled[key] = (x, make(x))  # keeps x alive, and with it its id
        return self._settled[key][1]

    def _sum(self, x: Joined) -> Scaled:
        """The integers of a sum on the common grid of its branches."""
        assert x.factors is not None
        assert x.scale is not None
        assert x.bias is not None
        total = self._add(self.integers(x.left), self.integers(x.right), x.factors, self._name(x))
        steps = () if x.clamp is not None else dequantizing_steps(x.scale, x.bias)
        return self.integers(replace(total, scale=x.scale, bias=x.bias, clamp=x.clamp, steps=steps))

    def _name(self, x: Joined) -> str:
        """The source node that joins."""
        return self._joins.get(id(x.op), self._node)

    def _add(self, left: Scaled, right: Scaled, factors: tuple[int, int], name: str) -> Scaled:
        """The integers ``factors[0] * left + factors[1] * right``, without scale or steps."""
        n, m = factors
        a, b = (sorted_ends(n, left), sorted_ends(m, right))
        reach = max(float(np.abs(end).max()) for end in (*a, *b))
        if reach >= 2.0**61:
            raise NotExact("its branches are too far apart in magnitude for integers of 62 bits")
        value = self.emit(IntAdd(factors), left.value, right.value, name=name)
        return Scaled(value, left.shape, a[0] + b[0], a[1] + b[1], None, None)

    def _tensor(self, x: Joined) -> Scaled:
        """A join as one integer tensor, with steps that give its float32 values; its grid is none of the model's."""
        if isinstance(x.op, WeightedSum):
            total = self._add(self.integers(x.left), self.integers(x.right), x.op.factors, self._name(x))
            return replace(total, scale=x.scale, bias=x.bias, steps=x.steps, clamp=x.clamp)
        several = len({leaf.value for leaf in x.leaves}) > 1
        if isinstance(x.op, AddTensors) and (several or (is_plain(x.left) and is_plain(x.right))):
            left, right = self.fixed(x.left), self.fixed(x.right)
            exponents = [int(np.log2(side.affine[0].flat[0])) for side in (left, right)]
            low = min(exponents)
            if max(exponents) - low > WIDEST:
                raise NotExact("its branches are too far apart in magnitude for integers of 62 bits")
            total = self._add(left, right, (2 ** (exponents[0] - low), 2 ** (exponents[1] - low)), self._name(x))
        else:
            f = JointFunction(replace(x, steps=()), np.broadcast_shapes((1,) * len(x.shape), parameter_shape(x)))
            combination, low = tabulate_values(f)
            value = self._emit_combination(f, combination, f"{self._name(x)}_table")
            total = Scaled(value, x.shape, combination.lo, combination.hi, None, None)
        return replace(total, steps=(Mul(unit_scale(low, len(x.shape))), *x.steps))

    def _fixed(self, x: Scaled | Joined) -> Scaled:
        tensor = self.tensor(x)
        varying = np.broadcast_shapes((1,) * len(x.shape), *(step.parameter_shape() for step in tensor.steps))
        flat = sum(n > 1 for n in varying) > 1  # parameters vary along several axes: every element is a channel
        if flat:
            size, stem = (int(np.prod(x.shape)),), tensor.value.node
            tensor = tensor.map(
                lambda a: a.reshape(1, -1), self.emit(Reshape(size), tensor.value, name=f"{stem}_flat"), size
            )
        part = fixed_point(tensor)
        if isinstance(x, Joined):  # a sum of float32 numbers may have more bits than one
            part = rounded(part)
        value = tensor.value
        for op in part.ops:
            value = self.emit(op, value, name=f"{tensor.value.node}_float32")
        lo, hi = part.lo, part.hi
        if flat:
            value = self.emit(Reshape(x.shape), value, name=f"{value.node}_shaped")
            lo, hi = (np.broadcast_to(end, tensor.shape).reshape(x.shape) for end in (lo, hi))
        scale = unit_scale(part.exponent, len(x.shape))
        steps = dequantizing_steps(scale, np.zeros(()))
        return Scaled(value, x.shape, lo, hi, scale, np.zeros_like(scale), steps)

    def _joint(self, f: JointFunction, levels: IntRange) -> tuple[Value, Int, Int] | None:
        """Emit a function of several tensors; None when no combination of moderate size gives it.

        *levels* are as of :meth:`_emit_function`.
        """
        if len(f.sources) == 1:
            leaf = f.x.leaves[0]
            try:
                return self._emit_function(leaf, OneSource(f.shape, *bounds_over(leaf, f.shape), f), self._node, levels)
            except NotExact:
                return None
        found = combine(f)
        if found is None:
            return None
        asked = self.writable()
        if asked is not None:
            ops = (found.op,) if found.then is None else (found.op, found.then)
            op, lo, hi = any_thresholds(asked, ops, levels, found.lo.shape)
            found = replace(found, op=op, lo=lo, hi=hi)
        return self._emit_combination(f, found, self._node), found.lo, found.hi

    def _emit_combination(self, f: JointFunction, found: Combination, name: str) -> Value:
        """Emit a combination of several tensors; the last operator is called *name*."""
        join = self._name(f.x)
        total, factor = f.sources[0], found.factors[0]
        for k, value in enumerate(f.sources):
            if k in found.tables:
                value = self.emit(found.tables[k], value, name=f"{join}_branch")
            if k == 0:
                total = value
            else:
                total, factor = self.emit(IntAdd((factor, found.factors[k])), total, value, name=join), 1
        if found.then is None:
            return self.emit(found.op, total, name=name)
        return self.emit(found.then, self.emit(found.op, total, name=f"{name}_segment"), name=name)

    # -- the host -------------------------------------------------------------------------------------------

    def _real(self, x: Abstract) -> Value:
        """*x* as a real tensor on the host."""
        if isinstance(x, Floating):
            return x.value
        if isinstance(x, Joined):
            return self._real_join(x)
        key = (x.value, tuple(id(step) for step in x.steps))
        if key not in self._reals:
            op = ToReal(x.steps, x.scale, x.bias, x.clamp)
            self._reals[key] = self.target.add(op, [x.value], f"{x.value.node}_real")
        return self._reals[key]

    def _left_to_host(self, x: Joined, reason: str) -> Floating:
        """A join that only the host can carry out."""
        blocker = Blocker(self._name(x), type(x.op).__name__, reason)
        self.blockers.append(blocker)
        return Floating(self._real_join(x), x.shape, blocker.where)

    def _real_join(self, x: Joined) -> Value:
        """A join on the host and the steps after it; only the steps where its integers are its values."""
        if isinstance(x.op, WeightedSum) or is_plain(replace(x, steps=())):
            return self._real(self.tensor(x))
        value = self.target.add(x.op, [self._real(x.left), self._real(x.right)], self._name(x))
        for step in x.steps:
            value = self.target.add(step, [value], self._node)
        return value


def sorted_ends(n: int, x: Scaled) -> tuple[Int, Int]:
    """Bounds of ``n * x``."""
    if abs(n) * float(max(abs(int(x.lo.min())), abs(int(x.hi.max())))) >= 2.0**62:
        raise NotExact("its branches are too far apart in magnitude for integers of 62 bits")
    a, b = n * x.lo.astype(np.int64), n * x.hi.astype(np.int64)
    return np.minimum(a, b), np.maximum(a, b)
