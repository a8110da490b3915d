"""The dataflow graph: operators as nodes of a networkx graph, tensors as edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import numpy as np

from headrace.errors import InputError, ModelError, did_you_mean
from headrace.ir.op import Array, Op
from headrace.ir.real import Real
from headrace.ir.types import TensorType, check_frame


class Value(NamedTuple):
    """A tensor: output ``port`` of node ``node``."""

    node: str
    port: int = 0


@dataclass(frozen=True, eq=False)
class Input(Op):
    """A graph input of a given type."""

    type: TensorType

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return (self.type,)


@dataclass(frozen=True, eq=False)
class Output(Op):
    """A graph output: hands on its one input, as a plain array of ``dtype`` where one is given."""

    dtype: str | None = None

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return inputs

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        if self.dtype is None:
            small = isinstance(x, np.ndarray) and x.dtype.kind == "i" and x.dtype.itemsize < 4
            return (x.astype(np.int32) if small else x,)  # a caller who adds some up expects no overflow
        if not isinstance(x, Real):
            return (x.astype(self.dtype),)
        exact = x.grid is not None and np.all(x.grid.scale == 1) and not np.any(x.grid.bias)
        if x.grid is not None and exact and np.dtype(self.dtype).kind in "iu":
            return (x.grid.q.astype(self.dtype),)  # float32 does not hold every integer
        return (x.value.astype(self.dtype),)


class Graph:
    """A directed acyclic graph of operators.

    ``nx`` is a ``networkx.MultiDiGraph`` whose nodes are unique names with the attributes ``op`` (an
    :class:`Op`) and ``types`` (a tuple of output :class:`TensorType`), and whose edges carry ``source`` and
    ``target`` (port numbers) and ``type``. Passes build new graphs; nodes are never changed in place.

    Attributes:
        name: what the graph is called.
        file: where it was read from, for messages.
        constant_outputs: graph outputs that depend on no input, whole arrays without a batch axis: an exporter writes
            the scale of the last quantizer as such.
    """

    def __init__(self, name: str = "graph", file: str | None = None) -> None:
        self.name = name
        self.file = file
        self.nx: nx.MultiDiGraph[str] = nx.MultiDiGraph()
        self._inputs: dict[str, str] = {}  # public name -> node
        self._outputs: dict[str, str] = {}
        self._numbers: dict[str, int] = {}  # by name, the suffix where the search for a new one starts
        self.constant_outputs: dict[str, Array] = {}
        self._turns: tuple[tuple[str, tuple[Value, ...], tuple[str, ...]], ...] | None = None  # in which nodes are run

    # -- building -------------------------------------------------------------------------------------------

    def add(self, op: Op, inputs: Sequence[Value] = (), name: str = "", public: str | None = None) -> Value:
        """Append *op* reading *inputs*; returns its first output.

        The node is called *name*, or *name* with a number when that is taken; a graph input or output is called
        *public* outside, or *name* too.

        Raises:
            ModelError: when the operator's type rule refuses the inputs, or frames would be too large; names the node.
        """
        node = self.unique_name(name or type(op).__name__)
        try:
            types = op.infer(*(self.type(v) for v in inputs))
            for type_ in types:
                check_frame(type_.shape)
        except ModelError as error:
            if error.node is None:
                where = f"'{node}' ({type(op).__name__})"
                raise type(error)(error.message, node=where, file=self.file) from error
            raise
        self._turns = None
        self.nx.add_node(node, op=op, types=types)
        for target, value in enumerate(inputs):
            self.nx.add_edge(value.node, node, key=target, source=value.port, target=target, type=self.type(value))
        if isinstance(op, Input):
            self._inputs[self._new_port(public or name or node, self._inputs)] = node
        if isinstance(op, Output):
            self._outputs[self._new_port(public or name or node, self._outputs)] = node
        return Value(node, 0)

    @staticmethod
    def _new_port(name: str, taken: Mapping[str, str]) -> str:
        if name in taken:
            raise ModelError(f"two graph inputs or two graph outputs are called '{name}'")
        return name

    def input(self, name: str, type_: TensorType) -> Value:
        """Add a graph input; its node is called *name* too, unless another node has that name."""
        return self.add(Input(type_), (), name)

    def output(self, name: str, value: Value, dtype: str | None = None) -> Value:
        """Declare *value* a graph output called *name*, handed out as *dtype* (or as it is)."""
        return self.add(Output(dtype), (value,), name)

    def unique_name(self, name: str) -> str:
        """*name*, or *name* with the smallest suffix that makes it new in this graph."""
        if name not in self.nx:
            return name
        number = self._numbers.get(name, 1)
        while f"{name}_{number}" in self.nx:
            number += 1
        self._numbers[name] = number
        return f"{name}_{number}"

    def live(self) -> Graph:
        """A copy without the nodes that no graph output depends on; graph inputs stay."""
        needed = {*self._inputs.values(), *self._outputs.values()}
        for node in self._outputs.values():
            needed |= nx.ancestors(self.nx, node)
        copy = Graph(self.name, self.file)
        copy.nx = self.nx.copy()
        copy.nx.remove_nodes_from([node for node in self.nx if node not in needed])
        copy._inputs, copy._outputs = dict(self._inputs), dict(self._outputs)
        copy.constant_outputs = dict(self.constant_outputs)
        return copy

    # -- reading --------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the graph inputs in declaration order; see :meth:`input_node` for their nodes."""
        return tuple(self._inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the graph outputs that are computed, in declaration order; see :meth:`output_node`."""
        return tuple(self._outputs)

    def input_node(self, name: str) -> str:
        """Node of the graph input called *name*: the same, unless the model has another node of that name."""
        return self._inputs[name]

    def output_node(self, name: str) -> str:
        """Node of the graph output called *name*."""
        return self._outputs[name]

    def op(self, node: str) -> Op:
        """Operator of *node*."""
        op: Op = self.nx.nodes[node]["op"]
        return op

    def types(self, node: str) -> tuple[TensorType, ...]:
        """Types of all outputs of *node*."""
        types: tuple[TensorType, ...] = self.nx.nodes[node]["types"]
        return types

    def type(self, value: Value) -> TensorType:
        """Type of one tensor."""
        return self.types(value.node)[value.port]

    def sources(self, node: str) -> tuple[Value, ...]:
        """The tensors that *node* reads, by input port."""
        edges = sorted(self.nx.in_edges(node, data=True), key=lambda e: int(e[2]["target"]))
        return tuple(Value(u, data["source"]) for u, _, data in edges)

    def consumers(self, value: Value) -> tuple[tuple[str, int], ...]:
        """``(node, input port)`` of every reader of *value*, in a stable order."""
        edges = self.nx.out_edges(value.node, data=True)
        return tuple((v, int(data["target"])) for _, v, data in edges if data["source"] == value.port)

    def __iter__(self) -> Iterator[str]:
        """Node names in topological order, insertion order among equals."""
        order = {node: k for k, node in enumerate(self.nx.nodes)}
        return iter(list(nx.lexicographical_topological_sort(self.nx, key=lambda n: order[n])))

    def __len__(self) -> int:
        return int(self.nx.number_of_nodes())

    def __contains__(self, node: object) -> bool:
        return node in self.nx

    def __str__(self) -> str:
        lines = [f"graph {self.name}:"]
        for node in self:
            args = ", ".join(v.node if v.port == 0 else f"{v.node}.{v.port}" for v in self.sources(node))
            result = ", ".join(str(t) for t in self.types(node))
            lines.append(f"  {node} = {self.op(node)} <- [{args}] : {result}")
        return "\n".join(lines)

    # -- files ----------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the graph to a file; see :mod:`headrace.ir.saving`.

        Raises:
            InputError: when the file cannot be written.
        """
        from headrace.ir.saving import save_graph

        save_graph(self, path)

    @staticmethod
    def load(path: str | Path) -> Graph:
        """Read a graph that :meth:`save` wrote.

        Raises:
            ModelError: when *path* holds none; names the file, and the node that does not fit.
        """
        from headrace.ir.saving import load_graph

        return load_graph(path)

    # -- running --------------------------------------------------------------------------------------------

    def run(
        self, feeds: Mapping[str, Array], observe: Callable[[str, tuple[Array, ...]], None] | None = None
    ) -> dict[str, Array]:
        """Execute on a batch.

        Args:
            feeds: one array ``(frames, *shape)`` per graph input.
            observe: called with each node's name and outputs, in order.

        Returns:
            one array per graph output, by its public name, those of :attr:`constant_outputs` among them.

        Raises:
            InputError: when an input is missing.
            ModelError: when an operator cannot be executed on these values; names the node.
        """
        found = self.values(feeds, self._outputs.values(), observe)
        return {name: found[node] for name, node in self._outputs.items()} | self.constant_outputs

    def values(
        self,
        feeds: Mapping[str, Array],
        nodes: Iterable[str],
        observe: Callable[[str, tuple[Array, ...]], None] | None = None,
    ) -> dict[str, Array]:
        """Execute on a batch and return the first output of each of *nodes*, by node name.

        Raises:
            InputError: when an input is missing, or there is no such node.
            ModelError: when an operator cannot be executed on these values; names the node.
        """
        missing = [name for name in self._inputs if name not in feeds]
        if missing:
            raise InputError(f"no array for graph input '{missing[0]}'; expected {sorted(self._inputs)}")
        wanted = set(nodes)
        for node in wanted:
            if node not in self.nx:
                raise InputError(f"no node '{node}' to keep{did_you_mean(node, self.nx)}")
        fed = {node: feeds[name] for name, node in self._inputs.items()}
        live: dict[str, tuple[Array, ...]] = {}
        results: dict[str, Array] = {}
        if self._turns is None:
            self._turns = self._order()
        for node, sources, read in self._turns:
            if node in fed:
                live[node] = (fed[node],)
            else:
                live[node] = self._execute(node, [live[v.node][v.port] for v in sources])
            if observe is not None:
                observe(node, live[node])
            if node in wanted:
                results[node] = live[node][0]
            for done in read:  # free what nobody reads any more: batches are large
                del live[done]
        return results

    def _order(self) -> tuple[tuple[str, tuple[Value, ...], tuple[str, ...]], ...]:
        """The nodes in topological order, each with what it reads and the nodes that nobody reads after it."""
        turns = [(node, self.sources(node)) for node in self]
        last = {name: node for node, sources in turns for name in (node, *(v.node for v in sources))}
        read: dict[str, list[str]] = {}
        for name, node in last.items():
            read.setdefault(node, []).append(name)
        return tuple((node, sources, tuple(read.get(node, ()))) for node, sources in turns)

    def _execute(self, node: str, inputs: Sequence[Array]) -> tuple[Array, ...]:
        op = self.op(node)
        try:
            with np.errstate(all="ignore"):  # infinities are values of float32; NaN is refused where it is quantized
                return op.execute(*inputs)
        except ModelError as error:
            if error.node is not None:
                raise
            raise type(error)(error.message, node=f"'{node}' ({type(op).__name__})", file=self.file) from error
        except MemoryError as error:
            message = "there is not enough memory to compute it for this batch; run fewer frames at once"
            raise ModelError(message, node=f"'{node}' ({type(op).__name__})", file=self.file) from error
