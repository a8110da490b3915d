"""Products with constant matrices as graphs of shared adders.

:func:`solve` finds a graph and has it proved, :func:`prove` shows that a graph is right for every input,
:func:`pipeline` places registers.
Pure integers; knows nothing of layers or templates.
"""

from headrace.adder_graph.graph import Adder, AdderGraph, Operand, Rounding
from headrace.adder_graph.pipelining import Pipeline, pipeline
from headrace.adder_graph.proof import prove
from headrace.adder_graph.solving import solve

__all__ = ["Adder", "AdderGraph", "Operand", "Pipeline", "Rounding", "pipeline", "prove", "solve"]
