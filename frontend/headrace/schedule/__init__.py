"""Scheduling: folding to a rate, width converters, FIFO depths, expected performance."""

from headrace.schedule.fifos import fifo_depths, insert_fifos
from headrace.schedule.folding_file import Applied, apply_folding, folding_json, read_folding, write_folding
from headrace.schedule.performance import LayerPerformance, Performance, performance
from headrace.schedule.scheduling import FoldingSettings, schedule
from headrace.schedule.solver import default_target, solve_folding, target_cycles
from headrace.schedule.widths import insert_width_converters

__all__ = [
    "Applied",
    "FoldingSettings",
    "LayerPerformance",
    "Performance",
    "apply_folding",
    "default_target",
    "fifo_depths",
    "folding_json",
    "insert_fifos",
    "insert_width_converters",
    "performance",
    "read_folding",
    "schedule",
    "solve_folding",
    "target_cycles",
    "write_folding",
]
