"""The driver that goes to a board: a Python file that stands alone, and the description of the streams for it."""

from __future__ import annotations

import json
import math

from headrace.build.design import Design
from headrace.build.dma import beat_bytes
from headrace.build.output import MANIFEST
from headrace.build.runtime import FOLDER as WEIGHTS
from headrace.build.state import BuildState
from headrace.build.vendor import part_of
from headrace.codegen.control import MAP_HEADER, MAP_JSON, address_map
from headrace.errors import counted
from headrace.passes.hardware_design import Port
from headrace.resources import hls_templates

IO_FILE = "io.json"


def write_driver(state: BuildState, folder: str) -> str:
    """Write the driver to *folder* below the output; returns what was written in a few words."""
    source = hls_templates() / "driver" / "driver.py"
    state.write(f"{folder}/driver.py", source.read_text(encoding="utf-8"))
    table = stream_table(state.design, part_of(state.design.config))
    state.write(f"{folder}/{IO_FILE}", json.dumps(table, indent=1) + "\n")
    files = state.design.plan.files
    data = address_map(files)
    if data is None:
        return f"{folder}/driver.py, for PYNQ"
    written = state.design.runtime_weights() if data["layers"] else {}
    for entry in written.values():
        state.write(f"{folder}/{WEIGHTS}/{entry.file}", entry.text)
    for layer in data["layers"]:
        layer["file"] = written[layer["layer"]].file
    state.write(f"{folder}/{MAP_JSON}", json.dumps(data, indent=1) + "\n")
    state.write(f"{folder}/{MAP_HEADER}", files[MAP_HEADER])
    return f"{folder}/driver.py, for PYNQ; {counted(len(written), 'layer')} with {WEIGHTS}"


def stream_table(design: Design, part: str | None = None) -> dict[str, object]:
    """What the driver must know of every stream at the ends of the design, in the order of their DMAs.

    Args:
        design: with its RTL.
        part: ordering code of the device whose DMAs bring words in beats; None where they come byte by byte.
    """
    manifest = json.loads(design.plan.files[MANIFEST])
    ends = {"inputs": design.hardware.inputs, "outputs": design.hardware.outputs}
    return {
        "name": design.name,
        **{
            end: [_stream(p, w, part) for p, w in zip(ports, manifest[end], strict=True)] for end, ports in ends.items()
        },
    }


def _stream(port: Port, words: dict[str, int | str], part: str | None) -> dict[str, object]:
    natural = port.layout.is_row_major
    word_bytes = math.ceil(int(words["tdata_bits"]) / 8)
    return {
        "name": port.name,
        "port": words["port"],
        "shape": list(port.layout.shape),
        "order": None if natural else port.layout.order.tolist(),
        "bits": words["bits"],
        "encoding": words["encoding"],
        "elements_per_word": words["elements_per_word"],
        "word_bytes": word_bytes,
        "beat_bytes": 1 if part is None else beat_bytes(word_bytes, part),
    }
