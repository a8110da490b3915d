"""Scheduling: folding to a rate, width converters, FIFO depths, expected performance."""

from headrace.schedule.budget import Budget
from headrace.schedule.fifos import fifo_depths, insert_fifos
from headrace.schedule.folding import Extras, solve_folding, solve_within
from headrace.schedule.folding_defaults import setting_complaint, with_value
from headrace.schedule.folding_file import (
    Applied,
    apply_folding,
    asked_pixels,
    folding_json,
    read_folding,
    write_folding,
)
from headrace.schedule.folding_keys import Reading
from headrace.schedule.performance import LayerPerformance, Performance, performance
from headrace.schedule.pixel_budget import pixels_within
from headrace.schedule.scheduling import FoldingSettings, Goal, connect, fold_by_file, fold_for_rate, schedule
from headrace.schedule.solver import default_target, fastest_target, target_cycles
from headrace.schedule.widths import insert_width_converters
from headrace.schedule.writable import asked_writable

__all__ = [
    "Applied",
    "Budget",
    "Extras",
    "FoldingSettings",
    "Goal",
    "LayerPerformance",
    "Performance",
    "Reading",
    "apply_folding",
    "asked_pixels",
    "asked_writable",
    "connect",
    "default_target",
    "fastest_target",
    "fifo_depths",
    "fold_by_file",
    "fold_for_rate",
    "folding_json",
    "insert_fifos",
    "insert_width_converters",
    "performance",
    "pixels_within",
    "read_folding",
    "schedule",
    "setting_complaint",
    "solve_folding",
    "solve_within",
    "target_cycles",
    "with_value",
    "write_folding",
]
