"""What is synthesised at a time: the module of one layer with its memories, or what connects the layers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.codegen.control import PORT
from headrace.codegen.design import ADAPTERS, CONTROL_LIBRARY, Plan
from headrace.codegen.render import render_library, render_module
from headrace.codegen.top import Top, assemble
from headrace.layers.base import Layer
from headrace.layers.parameter import WORD, address_bits
from headrace.passes.hardware_design import HardwareDesign

TOP = "(top)"
"""Name of the unit that connects the layers."""

MODULE = "unit"
"""What a unit's module is called while it is synthesised, so that equal layers have equal texts."""


@dataclass(frozen=True)
class Unit:
    """Something to synthesise alone.

    Attributes:
        name: of the layer's node, or :data:`TOP`.
        kind: of the layer.
        sources: text of every SystemVerilog file by file name; the top module is called :data:`MODULE`.
        memories: text of every memory file by file name.
        boxes: names of the modules in ``sources`` that are empty: they stand for other units.
        inputs, outputs: width of every port by name, clock and reset aside.
    """

    name: str
    kind: str
    sources: Mapping[str, str]
    memories: Mapping[str, str] = field(default_factory=dict)
    boxes: tuple[str, ...] = ()
    inputs: Mapping[str, int] = field(default_factory=dict)
    outputs: Mapping[str, int] = field(default_factory=dict)


def unit_of_layer(layer: Layer, name: str = "layer") -> Unit:
    """A layer by itself.

    Raises:
        UnsupportedError: when the layer has no RTL.
    """
    rtl = layer.rtl()
    text, memories = render_module(rtl, MODULE, MODULE)
    sources = {f"{module}.sv": source for module, source in map(render_library, sorted(set(rtl.library)))}
    ports = _ports(layer)
    return Unit(name, layer.kind, {**sources, f"{MODULE}.sv": text}, memories, (), *ports)


def units_of(design: HardwareDesign, name: str, plan: Plan) -> list[Unit]:
    """Every layer of a scheduled *design*, in topological order, and last what connects them.

    Args:
        design: as it was generated.
        name: of the design.
        plan: its files.
    """
    top = assemble(design, name)
    units = [unit_of_layer(instance.layer, instance.node) for instance in top.instances]
    return [*units, _top_unit(top, plan)]


def _top_unit(top: Top, plan: Plan) -> Unit:
    shared = (*ADAPTERS, *(CONTROL_LIBRARY if top.control is not None else ()))
    modules = sorted(template.removesuffix(".sv.j2") for template in shared)
    modules += [top.control.module] if top.control is not None else []
    sources = {f"{name}.sv": plan.files[f"rtl/{name}.sv"] for name in modules}
    boxes = {instance.module: _box(instance.module, instance.layer) for instance in top.instances}
    text = re.sub(rf"\bmodule {top.module}\b", f"module {MODULE}", plan.files[f"rtl/{top.module}.sv"])
    inputs = {f"{b.port}_tdata": 8 * b.bytes for b in top.inputs}
    inputs |= {f"{b.port}_{s}": 1 for b in top.inputs for s in ("tvalid", "tlast")}
    inputs |= {f"{b.port}_tready": 1 for b in top.outputs}
    outputs = {f"{b.port}_tdata": 8 * b.bytes for b in top.outputs}
    outputs |= {f"{b.port}_{s}": 1 for b in top.outputs for s in ("tvalid", "tlast")}
    outputs |= {f"{b.port}_tready": 1 for b in top.inputs}
    for signal in top.control.axi_signals if top.control is not None else ():
        (outputs if signal.output else inputs)[f"{PORT}_{signal.name}"] = signal.bits
    sources |= {f"{name}.sv": box for name, box in boxes.items()}
    return Unit(TOP, "", {**sources, f"{MODULE}.sv": text}, {}, tuple(boxes), inputs, outputs)


def _box(module: str, layer: Layer) -> str:
    """A layer's module without its inside."""
    inputs, outputs = _ports(layer)
    ports = ["input ap_clk", "input ap_rst_n"]
    ports += [f"input [{width - 1}:0] {name}" for name, width in inputs.items()]
    ports += [f"output [{width - 1}:0] {name}" for name, width in outputs.items()]
    return f"(* blackbox *)\nmodule {module} (\n  " + ",\n  ".join(ports) + "\n);\nendmodule\n"


def _ports(layer: Layer) -> tuple[dict[str, int], dict[str, int]]:
    inputs: dict[str, int] = {}
    outputs: dict[str, int] = {}
    for k, stream in enumerate(layer.inputs):
        inputs |= {f"in{k}_tdata": stream.word_bits, f"in{k}_tvalid": 1}
        outputs[f"in{k}_tready"] = 1
    for k, stream in enumerate(layer.outputs):
        outputs |= {f"out{k}_tdata": stream.word_bits, f"out{k}_tvalid": 1}
        inputs[f"out{k}_tready"] = 1
    if layer.parameters:
        inputs |= {"cfg_access": 1, "cfg_restore": 1, "cfg_write": 1}
        inputs |= {"cfg_address": address_bits(layer.parameters), "cfg_wdata": WORD}
        outputs["cfg_rdata"] = WORD
    return inputs, outputs
