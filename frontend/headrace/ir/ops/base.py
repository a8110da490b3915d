"""Base of the model's operators: real tensors in, real tensors out, and a rule that lowers them to integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from headrace.ir.op import Array, Op
from headrace.ir.real import Real, as_real
from headrace.ir.scaled import Abstract, Lowering


@dataclass(frozen=True, eq=False)
class SourceOp(Op):
    """An operator of the source graph, with its canonical semantics."""

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        """The outputs in canonical arithmetic: the definition of what hardware must equal."""
        raise NotImplementedError(type(self).__name__)

    def lower(self, ctx: Lowering, *inputs: Abstract) -> tuple[Abstract, ...]:
        """This operator in the integer graph; by default the host keeps it.

        Raises:
            NotExact: when there is no exact integer form; the caller then leaves it to the host.
        """
        return ctx.host(self, inputs)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        return cast("tuple[Array, ...]", self.evaluate(*(as_real(x) for x in inputs)))
