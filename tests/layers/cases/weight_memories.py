"""Weights and thresholds in every memory that can be asked for."""

from dataclasses import replace

from layers.cases.activations import CASES as ACTIVATIONS
from layers.cases.mvau import CASES as MVAUS
from layers.cases.vvau import CASES as VVAUS

STYLES = ("distributed", "block", "ultra")
LAYERS = {
    "mvau": MVAUS["ternary_table"],
    "vvau": VVAUS["3x3_row"],
    "parallel": next(layer for name, layer in ACTIVATIONS.items() if name.endswith("parallel") and layer.groups > 1),
    "search": next(layer for name, layer in ACTIVATIONS.items() if name.endswith("search") and layer.groups > 1),
}

CASES = {f"{name}_{style}": replace(layer, ram_style=style) for name, layer in LAYERS.items() for style in STYLES}
