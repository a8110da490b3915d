"""Synthesis of generated SystemVerilog with open tools: what a layer really costs, and how fast it can be clocked.

found = synthesise(units_of(hardware, "net"), FAMILIES["xc7"])
found.total.lut
"""

from headrace.synth.families import FAMILIES, Family
from headrace.synth.flow import Settings, synthesise
from headrace.synth.results import Synthesis, UnitResult, Utilisation
from headrace.synth.units import Unit, unit_of_layer, units_of

__all__ = [
    "FAMILIES",
    "Family",
    "Settings",
    "Synthesis",
    "Unit",
    "UnitResult",
    "Utilisation",
    "synthesise",
    "unit_of_layer",
    "units_of",
]
