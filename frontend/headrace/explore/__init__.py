"""Design-space exploration: many builds of some models, evaluated side by side, on one machine or on a cluster."""

from headrace.explore.exploration import Exploration, explore
from headrace.explore.pareto import Direction, pareto_front
from headrace.explore.point import Point, Result, evaluate
from headrace.explore.runners import DaskRunner, LocalRunner, Runner
from headrace.explore.sweep import Sweep, read_sweep

__all__ = [
    "DaskRunner",
    "Direction",
    "Exploration",
    "LocalRunner",
    "Point",
    "Result",
    "Runner",
    "Sweep",
    "evaluate",
    "explore",
    "pareto_front",
    "read_sweep",
]
