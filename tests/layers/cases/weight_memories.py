"""Weights, thresholds and tables in every memory that can be asked for."""

from dataclasses import replace

from layers.cases.activations import CASES as ACTIVATIONS
from layers.cases.mvau import CASES as MVAUS
from layers.cases.runtime import CASES as WRITABLE
from layers.cases.vvau import CASES as VVAUS

STYLES = ("distributed", "block", "ultra")
LAYERS = {
    "mvau": MVAUS["ternary_table"],
    "mvau_writable": WRITABLE["mvau"],
    "vvau": VVAUS["3x3_row"],
    "vvau_writable": WRITABLE["vvau"],
    "parallel": ACTIVATIONS["bases_parallel"],
    "search": ACTIVATIONS["folded_search"],
    "search_to_a_memory": ACTIVATIONS["line_wide_search"],
    "line": ACTIVATIONS["line_folded_line"],
    "table": ACTIVATIONS["folded_table"],
    "lookup": ACTIVATIONS["lookup_folded"],
}

CASES = {f"{name}_{style}": replace(layer, ram_style=style) for name, layer in LAYERS.items() for style in STYLES}
