"""The intermediate representation: typed dataflow graphs that can be run."""

from headrace.ir.graph import Graph, Input, Output, Value
from headrace.ir.op import Array, Op
from headrace.ir.types import Element, FloatType, IntRange, Shape, TensorType

__all__ = [
    "Array",
    "Element",
    "FloatType",
    "Graph",
    "Input",
    "IntRange",
    "Op",
    "Output",
    "Shape",
    "TensorType",
    "Value",
]
